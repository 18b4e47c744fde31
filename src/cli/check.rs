//! `pointsman check`: is this configuration right? Tells all its errors at once; starts nothing.

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
}

impl CheckArgs {
    /// Ends with 0 when the file is right, else with 1. Errors and warnings go to standard error.
    pub fn run(self) -> ExitCode {
        match read(&self.config) {
            Ok(Checked { config, warnings }) => {
                warnings.iter().for_each(|warning| tell(std::io::stderr(), &format!("warning: {warning}")));
                tell(std::io::stdout(), &format!("ok: {}", summary(&config)));
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
