//! The background service that breaks off calls over their limits, and takes out replicas that hang.
//!
//! When does a replica hang? An engine whose core is stuck goes on answering its health check and its metrics (seen of
//! vLLM). So: it has calls, none of them got a byte, and nothing in its read-outs moved, all for `health.stall_timeout`.
//! It is let in again when something moves, or when it answers a request for one token that is sent to see.

use super::call::Broken;
use super::clock::{now_ms, to_ms};
use super::model::LiveFleet;
use super::{Fleet, Replica};
use crate::engine::client::Client;
use async_trait::async_trait;
use futures_util::future::join_all;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between two looks. A limit is kept within so much.
const LOOK: Duration = Duration::from_millis(100);

/// Between two tries to revive a hanging replica.
const TRY: Duration = Duration::from_secs(1);

/// Watches the calls of all replicas.
pub struct Watchdog {
    fleet: LiveFleet,
    engines: Client,
}

impl Watchdog {
    /// Over this fleet, and over replicas that a reload takes out of it while their last calls run.
    pub fn new(fleet: LiveFleet, engines: Client) -> Self {
        Self { fleet, engines }
    }

    async fn watch(&self) {
        let mut replicas: Vec<Weak<Replica>> = Vec::new();
        let mut seen: Weak<Fleet> = Weak::new();
        loop {
            let fleet = self.fleet.load_full();
            if !std::ptr::eq(seen.as_ptr(), Arc::as_ptr(&fleet)) {
                replicas.retain(|replica| replica.strong_count() > 0);
                let known = |replica: &Arc<Replica>| replicas.iter().any(|old| old.as_ptr() == Arc::as_ptr(replica));
                let new: Vec<_> = fleet.members().map(|(_, member)| &member.replica).filter(|r| !known(r)).collect();
                replicas.extend(new.into_iter().map(Arc::downgrade));
                seen = Arc::downgrade(&fleet);
            }
            for replica in replicas.iter().filter_map(Weak::upgrade) {
                look_at(&replica, fleet.config.health.stall_timeout, now_ms());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ask each hanging replica for a token, time and again.
    async fn revive(&self) {
        loop {
            tokio::time::sleep(TRY).await;
            let fleet = self.fleet.load_full();
            let hanging = fleet.members().filter(|(_, member)| member.replica.is_stalled());
            let tries = hanging.map(|(model, member)| async move {
                if member.replica.engine.generates(&self.engines, &member.replica.name, &model.name).await.is_ok() {
                    member.replica.progressed(now_ms());
                }
            });
            join_all(tries).await;
        }
    }
}

#[async_trait]
impl BackgroundService for Watchdog {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.watch() => {}
            () = self.revive() => {}
            _ = shutdown.changed() => {}
        }
    }
}

fn look_at(replica: &Replica, stall_timeout: Duration, now_ms: u64) {
    let calls = replica.calls.running();
    let hangs = !calls.is_empty() && replica.idle_ms(now_ms) > to_ms(stall_timeout);
    if hangs && replica.set_stalled() {
        tracing::warn!(replica = %replica.name, calls = calls.len(), "the replica hangs: taken out");
    }
    for call in calls {
        let reason = if hangs { Some(Broken::Stalled) } else { call.overdue(now_ms) };
        if let Some(reason) = reason {
            call.break_off(reason);
        }
    }
}
