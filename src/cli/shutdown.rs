//! How the process ends: SIGTERM and SIGQUIT let running requests finish, SIGINT does not wait.
//!
//! While it drains the process still answers whoever comes, and closes each connection with its answer; `/readyz` says no
//! at once, so that whatever stands in front goes elsewhere.

use crate::fleet::draining::Draining;
use crate::fleet::model::LiveFleet;
use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use std::future::pending;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

/// Between two looks at what is still in flight.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for a signal, then for what is in flight.
pub(super) struct Signals {
    pub(super) fleet: LiveFleet,
    pub(super) draining: Draining,
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    async fn recv(&self) -> ShutdownSignal {
        tokio::select! {
            () = received(SignalKind::terminate()) => self.drain().await,
            () = received(SignalKind::quit()) => self.drain().await,
            () = received(SignalKind::interrupt()) => {}
        }
        ShutdownSignal::FastShutdown
    }
}

impl Signals {
    /// Wait until nothing is in flight, `server.drain_timeout` at most, or until SIGINT.
    async fn drain(&self) {
        self.draining.start();
        let limit = self.fleet.load().config.server.drain_timeout;
        tracing::info!(requests = self.draining.requests(), ?limit, "draining");
        let deadline = Instant::now() + limit;
        let emptied = async {
            while self.draining.requests() > 0 && Instant::now() < deadline {
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = emptied => {}
            () = received(SignalKind::interrupt()) => {}
        }
        tracing::info!(requests = self.draining.requests(), "ending");
    }
}

/// Ends when the signal comes; never, if it cannot be waited for.
async fn received(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signal) => _ = signal.recv().await,
        Err(error) => {
            tracing::error!(%error, "cannot wait for a signal");
            pending().await
        }
    }
}
