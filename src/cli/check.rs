//! `pointsman check`: is this configuration right? Tells all its errors at once; starts nothing.

use crate::config::diff;
use crate::config::{Checked, Config, ConfigErrors};
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check a configuration file and tell all its errors, each with line and column.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The file; `-` reads standard input.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Tell what changes from this file to the other.
    #[arg(long, value_name = "RUNNING")]
    diff: Option<PathBuf>,
}

impl CheckArgs {
    /// Ends with 0 when the file is right, else with 1. Errors and warnings go to standard error.
    pub fn run(self) -> ExitCode {
        let running = self.diff.as_deref().map(read).transpose();
        match running.and_then(|running| Ok((running, read(&self.config)?))) {
            Ok((running, Checked { config, warnings })) => {
                warnings.iter().for_each(|warning| tell(std::io::stderr(), &format!("warning: {warning}")));
                tell(std::io::stdout(), &format!("ok: {}", summary(&config)));
                if let Some(running) = running {
                    tell_changes(&running.config, &config);
                }
                ExitCode::SUCCESS
            }
            Err(errors) => {
                tell(std::io::stderr(), &errors.to_string());
                ExitCode::FAILURE
            }
        }
    }
}

fn read(path: &Path) -> Result<Checked, ConfigErrors> {
    if path == Path::new("-") { Checked::read(std::io::stdin().lock(), "<stdin>") } else { Checked::load(path) }
}

fn tell_changes(running: &Config, new: &Config) {
    let diff::Changes { applied, restart } = diff::changes(running, new);
    applied.iter().for_each(|line| tell(std::io::stdout(), line));
    restart.iter().for_each(|line| tell(std::io::stdout(), &format!("needs a restart: {line}")));
}

/// A closed pipe is no reason to fail: the exit code tells the same.
fn tell(mut out: impl Write, line: &str) {
    writeln!(out, "{line}").ok();
}

fn summary(config: &Config) -> String {
    let replicas = config.models.iter().flat_map(|model| &model.pools).map(|pool| pool.replicas.len()).sum();
    let adapters = config.models.iter().map(|model| model.adapters.len()).sum();
    let counts = [("model", config.models.len()), ("replica", replicas), ("adapter", adapters)];
    counts.map(|(noun, count)| format!("{count} {noun}{}", if count == 1 { "" } else { "s" })).join(", ")
}
