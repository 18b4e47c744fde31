//! Counts of one life of a stand-in, for assertions.

use super::engine_core::Core;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Counts since the start, and what is so at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Requests of any path, over all lives.
    pub received: u64,
    /// Requests whose client left, or that were cut, before their end, over all lives.
    pub aborted: u64,
    /// Requests that hold a seat now.
    pub running: usize,
    /// Requests that wait for a seat now, for whatever reason.
    pub waiting: usize,
    /// Most seats held at once.
    pub peak: usize,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Requests by the adapter that answered them; those to the base model are not here.
    pub by_adapter: BTreeMap<String, u64>,
    /// Adapter loads, those of the start included.
    pub loads: u64,
    /// Adapter unloads.
    pub unloads: u64,
    /// Most adapters registered at once.
    pub most_registered: usize,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: u64,
}

impl Core {
    pub(super) fn stats(&self) -> Stats {
        let gauges = self.seats.gauges();
        let (loads, unloads) = self.adapters.moves();
        let by_adapter = self.counters.by_adapter.lock();
        Stats {
            received: self.journal.received(),
            aborted: self.journal.aborted(),
            running: gauges.running,
            waiting: gauges.capacity + gauges.deferred,
            peak: gauges.peak,
            generated_tokens: self.counters.generated_tokens.load(Ordering::Relaxed),
            by_adapter: by_adapter.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
            loads,
            unloads,
            most_registered: self.adapters.most_registered(),
            connections: self.counters.connections.load(Ordering::Relaxed),
            open_connections: self.counters.open_connections.load(Ordering::Relaxed),
        }
    }
}
