//! The background service that keeps the fleet's view of its replicas fresh: health probes, host names, read-outs.
//!
//! The set of replicas, its discovery and its health checks are pingora-load-balancing's; what they find goes into the
//! replicas' atomics, where a decision reads it without a lock.

use super::discovery::ConfiguredReplicas;
use super::model::LiveFleet;
use super::{Model, Replica, clock::now_ms};
use crate::engine::Engine;
use crate::engine::client::Client;
use crate::engine::llamacpp::adapter_id;
use async_trait::async_trait;
use pingora::lb::health_check::HealthCheck;
use pingora::lb::{Backend, Backends};
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Health probes between two resolutions of the host names.
const PROBES_PER_DISCOVERY: u32 = 10;

/// Between two read-outs of a replica at least, however many want one. An engine on a busy CPU takes milliseconds for one.
const SHORTEST_READOUT: Duration = Duration::from_millis(25);

/// Keeps the replicas' state fresh.
pub struct Watcher {
    fleet: LiveFleet,
    engines: Client,
}

impl Watcher {
    /// Over this fleet.
    pub fn new(fleet: LiveFleet, engines: Client) -> Self {
        Self { fleet, engines }
    }

    /// Watch one fleet until another takes its place.
    async fn watch(&self) {
        let fleet = self.fleet.load_full();
        let mut tasks = JoinSet::new();
        for model in fleet.models() {
            tasks.spawn(probe(model.clone(), self.engines.clone(), fleet.config.health.probe_interval));
            for member in &model.members {
                let interval = fleet.config.health.readout_interval;
                tasks.spawn(read_out(member.replica.clone(), self.engines.clone(), interval));
            }
        }
        while Arc::ptr_eq(&fleet, &self.fleet.load()) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[async_trait]
impl BackgroundService for Watcher {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        loop {
            tokio::select! {
                () = self.watch() => {}
                _ = shutdown.changed() => return,
            }
        }
    }
}

/// Probe the replicas of a model for ever.
async fn probe(model: Arc<Model>, engines: Client, interval: Duration) {
    let mut backends = Backends::new(ConfiguredReplicas::of(&model));
    backends.set_health_check(Box::new(EngineProbe { model, engines }));
    loop {
        if let Err(error) = backends.update(|_| {}).await {
            tracing::warn!(%error, "discovery failed");
        }
        for _ in 0..PROBES_PER_DISCOVERY {
            backends.run_health_check(true).await;
            tokio::time::sleep(interval).await;
        }
    }
}

struct EngineProbe {
    model: Arc<Model>,
    engines: Client,
}

#[async_trait]
impl HealthCheck for EngineProbe {
    async fn check(&self, target: &Backend) -> pingora::Result<()> {
        let Some(replica) = target.ext.get::<Arc<Replica>>() else { return Ok(()) };
        let alive = replica.engine.health(&self.engines, &replica.name).await;
        replica.set_reachable(alive.is_ok(), now_ms());
        if let Err(error) = alive {
            return pingora::Error::e_explain(pingora::ErrorType::Custom("unhealthy"), error.to_string());
        }
        if let Engine::LlamaCpp(server) = &replica.engine
            && let Ok(listed) = server.lora_adapters(&self.engines, &replica.name).await
        {
            let id = |path: &std::path::Path| adapter_id(&listed, &path.to_string_lossy());
            let known =
                self.model.adapters.iter().filter_map(|adapter| Some((adapter.name.clone(), id(&adapter.path)?)));
            replica.set_adapter_ids(known.collect());
        }
        Ok(())
    }

    async fn health_status_change(&self, target: &Backend, healthy: bool) {
        tracing::info!(replica = %target.addr, healthy, "health changed");
    }

    /// One probe decides: the engines answer /health at once or not at all.
    fn health_threshold(&self, _success: bool) -> usize {
        1
    }
}

/// Read a replica's metrics for ever.
async fn read_out(replica: Arc<Replica>, engines: Client, interval: Duration) {
    loop {
        let in_flight_then = replica.in_flight();
        match replica.engine.readout(&engines, &replica.name).await {
            Ok(readout) => replica.set_readout(&readout, in_flight_then, now_ms()),
            Err(error) => tracing::debug!(replica = %replica.name, %error, "no read-out"),
        }
        tokio::time::sleep(SHORTEST_READOUT.min(interval)).await;
        // ±10 %, so that the read-outs of many replicas do not come in step.
        let rest = interval.mul_f64(rand::random_range(0.9..1.1)).saturating_sub(SHORTEST_READOUT);
        let _ = tokio::time::timeout(rest, replica.readout_wanted()).await;
    }
}
