//! Every metric: name, labels and help. Labels come from the configuration and from enums, never from a client.

use super::Record;
use super::residency::Residency;
use crate::admission::Class;
use crate::fleet::Fleet;
use crate::fleet::clock::now_ms;
use crate::fleet::reload::Outcome as Reload;
use crate::fleet::snapshot::BreakerView;
use prometheus::{
    Encoder, Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, Result, TextEncoder,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Upper bounds of the time buckets, seconds: from a cached short prompt to a long generation on a CPU.
const SECONDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The registered metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    duration: HistogramVec,
    first_token: HistogramVec,
    retries: IntCounterVec,
    tokens: IntCounterVec,
    reloads: IntCounterVec,
    reload_success: Gauge,
    in_flight: GaugeVec,
    waiting: GaugeVec,
    running: GaugeVec,
    kv: GaugeVec,
    usable: GaugeVec,
    readout_age: GaugeVec,
    failures: IntCounterVec,
    connections: Gauge,
    queue_wait: HistogramVec,
    queue_depth: GaugeVec,
    queue_bytes: GaugeVec,
    adapter_requests: IntCounterVec,
    adapter_wait: HistogramVec,
    residency: Residency,
}

impl Metrics {
    /// All of them, at zero.
    ///
    /// # Errors
    /// Two metrics of one name, which is a fault of ours.
    pub fn new() -> Result<Self> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec> {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let seconds = |name: &str, help: &str| -> Result<HistogramVec> {
            let metric = HistogramVec::new(HistogramOpts::new(name, help).buckets(SECONDS.to_vec()), &["model"])?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let model_gauge = |name: &str, help: &str, labels: &[&str]| -> Result<GaugeVec> {
            let metric = GaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let gauge = |name: &str, help: &str| model_gauge(name, help, &["model", "pool", "replica"]);
        let connections = Gauge::new("pointsman_connections", "Client connections open now.")?;
        registry.register(Box::new(connections.clone()))?;
        let reload_success =
            Gauge::new("pointsman_reload_success_timestamp_seconds", "When a reload last took a good file.")?;
        registry.register(Box::new(reload_success.clone()))?;
        Ok(Self {
            requests: counter("pointsman_requests_total", "Requests that ended.", &["model", "endpoint", "outcome"])?,
            duration: seconds("pointsman_request_duration_seconds", "From the header read to the last byte sent.")?,
            first_token: seconds("pointsman_time_to_first_token_seconds", "From the request sent to the first token.")?,
            retries: counter("pointsman_retries_total", "Tries on another replica.", &["model"])?,
            reloads: counter("pointsman_reloads_total", "Reloads of the configuration.", &["outcome"])?,
            reload_success,
            tokens: counter("pointsman_tokens_total", "Tokens that engines told of.", &["model", "kind"])?,
            in_flight: gauge("pointsman_replica_in_flight", "Requests picked for the replica and not ended.")?,
            waiting: gauge("pointsman_replica_waiting", "Requests waiting in the engine at the last read-out.")?,
            running: gauge("pointsman_replica_running", "Requests running in the engine at the last read-out.")?,
            kv: gauge("pointsman_replica_kv_usage", "Share of the KV cache in use at the last read-out, 0 to 1.")?,
            usable: gauge("pointsman_replica_usable", "1 while the replica may get requests, 0 while it is tripped.")?,
            failures: counter(
                "pointsman_failures_total",
                "Requests that Pointsman answered with an error of its own.",
                &["model", "code"],
            )?,
            connections,
            queue_wait: seconds("pointsman_queue_wait_seconds", "Waited to be let in.")?,
            queue_depth: model_gauge(
                "pointsman_queue_depth",
                "Requests that wait to be let in.",
                &["model", "priority"],
            )?,
            queue_bytes: model_gauge(
                "pointsman_queue_bytes",
                "Bodies of the requests that wait to be let in.",
                &["model"],
            )?,
            adapter_requests: counter(
                "pointsman_adapter_requests_total",
                "Requests for on-demand adapters, by how they came to it: resident, waited, cold, no_slot.",
                &["model", "adapter", "use"],
            )?,
            adapter_wait: seconds("pointsman_adapter_wait_seconds", "Waited for an on-demand adapter.")?,
            residency: Residency::register(&registry)?,
            readout_age: gauge("pointsman_replica_readout_age_seconds", "Age of the last read-out.")?,
            registry,
        })
    }

    /// Count a reload.
    pub fn count_reload(&self, outcome: Reload) {
        self.reloads.with_label_values(&[outcome.as_str()]).inc();
        if outcome != Reload::Refused
            && let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH)
        {
            self.reload_success.set(now.as_secs_f64());
        }
    }

    pub(super) fn record(&self, record: &Record<'_>) {
        let model = [record.model];
        self.requests.with_label_values(&[record.model, record.endpoint, record.outcome.as_str()]).inc();
        self.duration.with_label_values(&model).observe(record.duration.as_secs_f64());
        if let Some(code) = record.code {
            self.failures.with_label_values(&[record.model, code]).inc();
        }
        if !record.model.is_empty() {
            self.queue_wait.with_label_values(&model).observe(record.queue_wait.as_secs_f64());
        }
        if let Some(first_token) = record.first_token {
            self.first_token.with_label_values(&model).observe(first_token.as_secs_f64());
        }
        if record.retries > 0 {
            self.retries.with_label_values(&model).inc_by(record.retries.into());
        }
        if let (Some(adapter), Some(adapter_use)) = (record.adapter, record.adapter_use) {
            self.adapter_requests.with_label_values(&[record.model, adapter, adapter_use]).inc();
            self.adapter_wait.with_label_values(&model).observe(record.adapter_wait.as_secs_f64());
        }
        for (kind, count) in [("prompt", record.usage.prompt), ("completion", record.usage.completion)] {
            if let Some(count) = count {
                self.tokens.with_label_values(&[record.model, kind]).inc_by(count);
            }
        }
    }

    /// The text of all metrics, with the replicas as they are now.
    ///
    /// # Errors
    /// A metric that cannot be written as text.
    pub fn text(&self, fleet: &Fleet, connections: usize) -> Result<Vec<u8>> {
        self.connections.set(connections as f64);
        self.read_fleet(fleet);
        self.residency.read(fleet);
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }

    fn read_fleet(&self, fleet: &Fleet) {
        let now = now_ms();
        for gauge in [
            &self.in_flight,
            &self.waiting,
            &self.running,
            &self.kv,
            &self.usable,
            &self.readout_age,
            &self.queue_depth,
            &self.queue_bytes,
        ] {
            gauge.reset();
        }
        for model in fleet.models() {
            let (classes, bytes) = model.room.occupancy();
            for (class, count) in Class::ALL.into_iter().zip(classes) {
                self.queue_depth.with_label_values(&[&*model.name, class.as_str()]).set(count as f64);
            }
            self.queue_bytes.with_label_values(&[&*model.name]).set(bytes as f64);
        }
        for (model, member) in fleet.members() {
            let labels = [&*model.name, &*member.pool, &*member.replica.name];
            let replica = &member.replica;
            self.in_flight.with_label_values(&labels).set(replica.in_flight().into());
            let usable = replica.breaker_view(now) != BreakerView::Tripped;
            self.usable.with_label_values(&labels).set(f64::from(u8::from(usable)));
            if let Some((readout, age)) = replica.last_readout(now) {
                self.waiting.with_label_values(&labels).set(readout.waiting);
                self.running.with_label_values(&labels).set(readout.running);
                self.kv.with_label_values(&labels).set(readout.kv);
                self.readout_age.with_label_values(&labels).set(age.as_secs_f64());
            }
        }
    }
}
