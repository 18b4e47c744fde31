//! From a file to a configuration.

use super::at::{At, shown};
use super::checked::{Config, Model};
use super::finding::{ConfigErrors, Finding, Place, Report};
use super::models::models;
use super::names::Names;
use super::profiles::Profiles;
use super::raw::{self, Node};
use super::section::suggest;
use super::settings::{admission, explain, health, log, retry, server, thresholds, timeouts};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest file, bytes. A guess: 10,000 replicas need about an eighth.
const MAX_FILE: usize = 4 << 20;

/// A configuration and what looks unwise in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The configuration.
    pub config: Config,
    /// Things that work but were probably not meant, in the file's order.
    pub warnings: Vec<Finding>,
}

impl Checked {
    /// Reads a file. Fails with all its errors, or with the one that made it unreadable.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::read(file, &name),
            Err(error) => Err(unreadable(&name, &error)),
        }
    }

    /// Reads UTF-8 from anywhere; `file` is its name in errors.
    pub fn read(source: impl Read, file: &str) -> Result<Self, ConfigErrors> {
        let mut bytes = Vec::new();
        let read = source.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(file, &error))?;
        if bytes.len() > MAX_FILE {
            return Err(refused(file, None, format!("is larger than {} MiB", MAX_FILE >> 20)));
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let place = place_after(bytes.get(..error.valid_up_to()).unwrap_or_default());
            refused(file, Some(place), "is not UTF-8".to_owned())
        })?;
        Self::parse(text, file)
    }

    /// Reads YAML text; `file` is its name in errors.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigErrors> {
        let report = Report::new(file);
        let config = raw::parse(text, &report).and_then(|root| read_root(&root, &report));
        report.conclude(config).map(|(config, warnings)| Self { config, warnings })
    }
}

impl Config {
    /// [`Checked::load`] without the warnings.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        Checked::load(path).map(|checked| checked.config)
    }

    /// [`Checked::parse`] without the warnings.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigErrors> {
        Checked::parse(text, file).map(|checked| checked.config)
    }
}

/// Reads the whole tree. `None` or a placeholder after an error was reported.
pub(crate) fn read_root(root: &Node, report: &Report) -> Option<Config> {
    let at = At { node: root, path: String::new(), report };
    let mut profiles = Profiles::builtin();
    let mut names = Names::default();
    at.section(|s| {
        let server = s.read("server", server).unwrap_or_default();
        let thresholds = s.read("scheduler", thresholds).unwrap_or_default();
        let timeouts = s.read("timeouts", timeouts).unwrap_or_default();
        let health = s.read("health", health).unwrap_or_default();
        let admission = s.read("admission", admission).unwrap_or_default();
        let retry = s.read("retry", retry).unwrap_or_default();
        let log = s.read("log", log).unwrap_or_default();
        let explain = s.read("explain", explain).unwrap_or_default();
        s.read("profiles", |at| profiles.read(at));
        let models = s.require("models", "at least one model", |at| models(at, &profiles, &mut names));
        let default_model = s.find("default_model");
        let models = models.unwrap_or_default();
        let default_model = default_model.and_then(|at| default_model_of(&at, &names, &models));
        let profiles = profiles.known;
        Config { server, thresholds, timeouts, health, admission, retry, log, explain, profiles, models, default_model }
    })
}

/// The name of the model that `default_model` means, by its name or an alias.
fn default_model_of(at: &At<'_>, names: &Names<'_>, models: &[Model]) -> Option<String> {
    let name = at.text()?;
    match names.model(name) {
        Some(model) => models.get(model).map(|model| model.name.clone()),
        None if names.incomplete || names.models().is_empty() => None,
        None => at.fail(format!("unknown model `{}`; {}", shown(name), suggest(name, &names.models()))),
    }
}

fn unreadable(file: &str, error: &std::io::Error) -> ConfigErrors {
    refused(file, None, format!("cannot be read: {error}"))
}

fn refused(file: &str, place: Option<Place>, message: String) -> ConfigErrors {
    ConfigErrors::from(Finding { file: file.to_owned(), place, path: String::new(), message })
}

/// The position after these bytes of whole characters.
fn place_after(bytes: &[u8]) -> Place {
    let line_start = memchr::memrchr(b'\n', bytes).map_or(0, |newline| newline + 1);
    let last_line = bytes.get(line_start..).unwrap_or_default();
    let line = 1 + memchr::memchr_iter(b'\n', bytes).count();
    Place { line, column: 1 + String::from_utf8_lossy(last_line).chars().count() }
}
