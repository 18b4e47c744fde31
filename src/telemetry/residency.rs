//! The metrics of residency: read from the ledgers when somebody asks.

use crate::fleet::Fleet;
use crate::residency::overview::STATES;
use prometheus::{CounterVec, GaugeVec, IntCounterVec, Opts, Registry, Result};

/// What is shown of the ledgers.
#[derive(Debug)]
pub(super) struct Residency {
    slots: GaugeVec,
    slots_in_use: GaugeVec,
    copies: GaugeVec,
    waiting: GaugeVec,
    events: IntCounterVec,
    load_seconds: CounterVec,
}

impl Residency {
    pub(super) fn register(registry: &Registry) -> Result<Self> {
        let gauge = |name: &str, help: &str, labels: &[&str]| -> Result<GaugeVec> {
            let metric = GaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let events = IntCounterVec::new(
            Opts::new(
                "pointsman_residency_events_total",
                "What happened to copies of adapters: load_started, load_ok, load_failed, evicted, adopted, lost, \
                 quarantined.",
            ),
            &["model", "event"],
        )?;
        registry.register(Box::new(events.clone()))?;
        let load_seconds = CounterVec::new(
            Opts::new("pointsman_residency_load_seconds_total", "Time that successful loads took together."),
            &["model"],
        )?;
        registry.register(Box::new(load_seconds.clone()))?;
        Ok(Self {
            slots: gauge("pointsman_residency_slots", "Slots for adapters.", &["model", "replica"])?,
            slots_in_use: gauge("pointsman_residency_slots_in_use", "Slots that are taken.", &["model", "replica"])?,
            copies: gauge("pointsman_residency_adapters", "Adapters by state.", &["model", "replica", "state"])?,
            waiting: gauge("pointsman_residency_waiting", "Requests that wait for an adapter now.", &["model"])?,
            events,
            load_seconds,
        })
    }

    pub(super) fn read(&self, fleet: &Fleet) {
        for gauge in [&self.slots, &self.slots_in_use, &self.copies, &self.waiting] {
            gauge.reset();
        }
        for model in fleet.models() {
            let Some(on_demand) = &model.on_demand else { continue };
            let (name, overview) = (&*model.name, on_demand.ledger.overview());
            self.waiting.with_label_values(&[name]).set(overview.waiting as f64);
            for replica in &overview.replicas {
                let labels = [name, &*replica.name];
                self.slots.with_label_values(&labels).set(overview.slots as f64);
                self.slots_in_use.with_label_values(&labels).set(replica.slots_in_use as f64);
                for state in STATES {
                    let count = replica.cells.iter().filter(|cell| cell.state == state).count();
                    self.copies.with_label_values(&[name, &replica.name, state]).set(count as f64);
                }
            }
            let counters = on_demand.ledger.counters();
            let load_seconds = self.load_seconds.with_label_values(&[name]);
            load_seconds.inc_by((counters.load_micros as f64 / 1e6 - load_seconds.get()).max(0.0));
            for (event, count) in [
                ("load_started", counters.loads_started),
                ("load_ok", counters.loads_ok),
                ("load_failed", counters.loads_failed),
                ("evicted", counters.evictions),
                ("adopted", counters.adopted),
                ("lost", counters.lost),
                ("quarantined", counters.quarantines),
            ] {
                let counter = self.events.with_label_values(&[name, event]);
                counter.inc_by(count.saturating_sub(counter.get()));
            }
        }
    }
}
