//! Hot reload: read, check, diff and swap, on SIGHUP, on a change of the file and when the operator asks.
//!
//! A file that cannot be used changes nothing. One reload runs at a time; signals that come meanwhile become one. What a
//! reload carries over is [`Fleet::new`]'s to say.

use super::Fleet;
use super::model::{LiveFleet, rebuild};
use crate::config::checked::Config;
use crate::config::diff::{self, Changes};
use crate::config::{Checked, ConfigErrors};
use crate::telemetry::Telemetry;
use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{SignalKind, signal};

/// Between two looks at the file; a change is taken once two looks saw the same. A guess: longer than an editor writes.
const LOOK: Duration = Duration::from_millis(250);

/// How a reload ended; a label in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The new configuration is in force.
    Applied,
    /// The file says what is in force already.
    Unchanged,
    /// The file cannot be used; the old configuration stays.
    Refused,
}

impl Outcome {
    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
        }
    }
}

/// What one reload did, or would do.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// When, wall clock.
    pub at: SystemTime,
    /// What it changed; empty when refused.
    pub changes: Changes,
    /// `file:line:column: path: message`, one each.
    pub errors: Vec<String>,
}

/// The state that `/status` shows.
#[derive(Clone, Debug)]
pub struct State {
    /// Configurations taken so far; the one of the start is 1.
    pub generation: u64,
    /// The last reload, if there was one.
    pub last: Option<Report>,
    /// Settings in the file in force that wait for a restart.
    pub restart: Vec<String>,
}

/// Reloads the configuration file.
pub struct Reloader {
    file: Option<PathBuf>,
    fleet: LiveFleet,
    telemetry: Arc<Telemetry>,
    started: Arc<Config>,
    state: Mutex<State>,
}

impl Reloader {
    /// Of this file into this fleet. Without a file every reload is refused.
    pub fn new(file: Option<PathBuf>, fleet: LiveFleet, telemetry: Arc<Telemetry>) -> Self {
        let started = fleet.load().config.clone();
        let state = Mutex::new(State { generation: 1, last: None, restart: Vec::new() });
        Self { file, fleet, telemetry, started, state }
    }

    /// The state now.
    pub fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// What a reload would do; changes nothing.
    pub fn dry_run(&self) -> Report {
        self.read().map_or_else(refused, |checked| self.compare(&checked.config))
    }

    /// Reload now. A second caller waits for the first.
    pub fn reload(&self) -> Report {
        let mut state = self.state.lock();
        let report = match self.read() {
            Ok(checked) => self.take(checked, &mut state),
            Err(errors) => refused(errors),
        };
        log(&report);
        self.telemetry.metrics.count_reload(report.outcome);
        state.last = Some(report.clone());
        report
    }

    fn read(&self) -> Result<Checked, ConfigErrors> {
        match &self.file {
            Some(file) => Checked::load(file),
            None => Checked::parse("", "(started without a file)"),
        }
    }

    fn compare(&self, new: &Config) -> Report {
        let running = self.fleet.load().config.clone();
        let changes = Changes { applied: diff::applied(&running, new), restart: diff::restart(&self.started, new) };
        let outcome = if *running == *new { Outcome::Unchanged } else { Outcome::Applied };
        Report { outcome, at: SystemTime::now(), changes, errors: Vec::new() }
    }

    fn take(&self, Checked { config, warnings }: Checked, state: &mut State) -> Report {
        let report = self.compare(&config);
        if report.outcome == Outcome::Applied {
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            let config = Arc::new(config);
            rebuild(&self.fleet, |current| Fleet::new(config, Some(current)));
            state.generation += 1;
            state.restart.clone_from(&report.changes.restart);
        }
        report
    }
}

fn refused(errors: ConfigErrors) -> Report {
    let errors = errors.findings().iter().map(ToString::to_string).collect();
    Report { outcome: Outcome::Refused, at: SystemTime::now(), changes: Changes::default(), errors }
}

fn log(report: &Report) {
    match report.outcome {
        Outcome::Refused => {
            report.errors.iter().for_each(|error| tracing::error!("{error}"));
            tracing::error!("reload refused: the old configuration stays");
        }
        Outcome::Unchanged => tracing::info!("reload: nothing changed"),
        Outcome::Applied => {
            report.changes.applied.iter().for_each(|change| tracing::info!("reload: {change}"));
            report.changes.restart.iter().for_each(|change| tracing::warn!("reload: needs a restart: {change}"));
            tracing::info!("reload applied");
        }
    }
}

/// The background service: SIGHUP and changes of the file.
pub struct Triggers(pub Arc<Reloader>);

#[async_trait]
impl BackgroundService for Triggers {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.on_signal() => {}
            () = self.on_change() => {}
            _ = shutdown.changed() => {}
        }
    }
}

impl Triggers {
    async fn on_signal(&self) {
        match signal(SignalKind::hangup()) {
            Ok(mut hangups) => {
                while hangups.recv().await.is_some() {
                    self.0.reload();
                }
            }
            Err(error) => tracing::error!(%error, "cannot wait for SIGHUP"),
        }
        std::future::pending().await
    }

    /// Follows links, so that a renamed file and a swapped link are changes as well. A missing file is one in the midst of
    /// being replaced.
    async fn on_change(&self) {
        let Some(file) = &self.0.file else { return std::future::pending().await };
        let mut taken = stamp(file);
        let mut last = taken;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = stamp(file);
            if now.is_some() && now == last && now != taken {
                taken = now;
                self.0.reload();
            }
            last = now;
        }
    }
}

/// Device, inode, change time (seconds, nanoseconds) and length.
type Stamp = (u64, u64, i64, i64, u64);

fn stamp(file: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(file).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec(), found.len()))
}
