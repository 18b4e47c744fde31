//! The residency table of one model: what it holds, and how others may look at it.

use super::acquire::{Waiter, Woken};
use super::arena::Arena;
use super::demand::{LoadTime, Pressure, Rate};
use super::failure::{Reason, Refusal};
use super::policy::{Policy, scaled};
use super::replica::{AdapterMark, Cell, Keys, Replica, ReplicaMark, TicketMark};
use super::state::State;
use super::{AdapterId, Holding, ReplicaId, Ticket};
use crate::fleet::snapshot::AdapterView;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::Duration;

/// One adapter, apart from its cells.
#[derive(Debug, Default)]
pub(super) struct Adapter {
    /// Never a victim; at least one copy is kept.
    pub(super) pinned: bool,
    /// No longer configured: it goes for good when its last copy has gone.
    pub(super) retired: bool,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) rate: Rate,
    pub(super) load_time: LoadTime,
    pub(super) pressure: Pressure,
    /// Requests that wait for a slot, the first one first.
    pub(super) queued: Vec<Ticket>,
    /// Since when some request has been waiting for a slot.
    pub(super) queued_since: Duration,
}

/// An adapter under suspicion, on all replicas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quarantine {
    pub(super) strikes: u32,
    pub(super) until: Duration,
}

impl Adapter {
    /// Why no request gets this adapter at `now`.
    pub(super) fn banned(&self, now: Duration) -> Option<Refusal> {
        if self.retired {
            return Some(Refusal { reason: Reason::Retired, retry_at: None });
        }
        let quarantine = self.quarantine.filter(|quarantine| quarantine.until > now)?;
        Some(Refusal { reason: Reason::Quarantined, retry_at: Some(quarantine.until) })
    }
}

/// What has happened since the table was made. Each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that found their adapter resident.
    pub hits_resident: u64,
    /// Requests that joined a load under way, or wait for a slot.
    pub hits_waited: u64,
    /// Requests that caused a load.
    pub hits_cold: u64,
    /// Requests refused at once.
    pub refused: u64,
    /// Load orders sent.
    pub loads_started: u64,
    /// Loads that succeeded.
    pub loads_ok: u64,
    /// Time that the successful loads took together, microseconds.
    pub load_micros: u64,
    /// Loads that failed.
    pub loads_failed: u64,
    /// Unload orders sent.
    pub evictions: u64,
    /// Copies found on an engine that the table did not know.
    pub adopted: u64,
    /// Copies that an engine no longer had.
    pub lost: u64,
    /// Adapters put under quarantine.
    pub quarantines: u64,
}

/// What a decision may know about one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The adapter's state there.
    pub adapter: AdapterView,
    /// Slots that hold nothing and are promised to nobody.
    pub free_slots: usize,
    /// Distinct adapters in use there. An engine runs at most its `max_loras` of them at once and defers the others.
    pub distinct_leased: usize,
    /// Is the request's adapter among those in use?
    pub leased: bool,
}

/// The residency table of one model.
#[derive(Debug)]
pub struct Table {
    pub(super) policy: Policy,
    /// Slots on each replica.
    pub(super) limit: usize,
    pub(super) replicas: Arena<ReplicaMark, Replica>,
    pub(super) adapters: Arena<AdapterMark, Adapter>,
    pub(super) waiters: Arena<TicketMark, Waiter>,
    /// Adapters that wait for a slot, first come first served.
    pub(super) queue: VecDeque<AdapterId>,
    /// Answers not yet fetched.
    pub(super) woken: Vec<Woken>,
    pub(super) load_time: LoadTime,
    pub(super) counters: Counters,
}

impl Table {
    /// An empty table; `limit` is the model's `max_loaded_adapters`.
    pub fn new(policy: Policy, limit: NonZeroUsize) -> Self {
        Self {
            policy,
            limit: limit.get(),
            replicas: Arena::default(),
            adapters: Arena::default(),
            waiters: Arena::default(),
            queue: VecDeque::new(),
            woken: Vec::new(),
            load_time: LoadTime::default(),
            counters: Counters::default(),
        }
    }

    /// What a decision about a request for `adapter` may know about `replica`, in constant time. `None` when either is gone.
    pub fn view(&self, adapter: AdapterId, replica: ReplicaId, now: Duration) -> Option<View> {
        let row = self.replicas.get(replica)?;
        self.adapters.get(adapter)?;
        let cell = row.cell(adapter)?;
        Some(View {
            adapter: seen(cell.state, now),
            free_slots: self.limit.saturating_sub(row.occupied),
            distinct_leased: row.distinct_leased,
            leased: cell.leases > 0,
        })
    }

    /// Slots of `replica` that hold an idle adapter which may go now. Looks at every adapter: ask only when no slot is free.
    pub fn idle_slots(&self, replica: ReplicaId, now: Duration) -> usize {
        let Some(row) = self.replicas.get(replica) else { return 0 };
        self.adapters.iter().filter(|(id, _)| self.may_go(row, *id, now)).count()
    }

    /// The state of `adapter` on `replica`, for status pages. `None` when either is gone.
    pub fn state(&self, adapter: AdapterId, replica: ReplicaId) -> Option<State> {
        self.adapters.get(adapter)?;
        Some(self.replicas.get(replica)?.state(adapter))
    }

    /// Slots on each replica.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Is this adapter known still? A retired one is until its last copy has gone.
    pub fn knows(&self, adapter: AdapterId) -> bool {
        self.adapters.get(adapter).is_some()
    }

    /// Slots of `replica` in use: adapters that are being loaded, are there, or are being unloaded.
    pub fn slots_in_use(&self, replica: ReplicaId) -> usize {
        self.replicas.get(replica).map_or(0, |row| row.occupied)
    }

    /// Requests that use `adapter` on `replica` now.
    pub fn leases(&self, adapter: AdapterId, replica: ReplicaId) -> u32 {
        self.cell(replica, adapter).map_or(0, |cell| cell.leases)
    }

    /// Is this stay going on? Not if the copy was unloaded, lost, or its replica or adapter removed.
    pub fn is_live(&self, holding: Holding) -> bool {
        self.stay(holding).is_some()
    }

    /// Requests that wait for an adapter.
    pub fn waiting(&self) -> usize {
        self.waiters.iter().count()
    }

    /// Requests per second for `adapter`, recent ones counting most.
    pub fn demand(&self, adapter: AdapterId, now: Duration) -> f64 {
        self.adapters.get(adapter).map_or(0.0, |adapter| adapter.rate.per_second(now))
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The answers of waiting requests since the last call. Fetch them after every call that changes the table: a lease
    /// in them is already counted.
    pub fn drain_woken(&mut self) -> Vec<Woken> {
        std::mem::take(&mut self.woken)
    }

    /// The mean time of a load, for this model.
    pub(super) fn mean_load(&self) -> Duration {
        self.load_time.mean_or(self.policy.expected_load)
    }

    /// The mean load time, or the least that counts, times `factor`.
    pub(super) fn loads(&self, factor: f64) -> Duration {
        scaled(self.mean_load().max(self.policy.least_load), factor)
    }

    pub(super) fn cell(&self, replica: ReplicaId, adapter: AdapterId) -> Option<&Cell> {
        self.adapters.get(adapter)?;
        self.replicas.get(replica)?.cell(adapter)
    }

    /// The cell of a stay that has not ended.
    pub(super) fn stay(&self, holding: Holding) -> Option<&Cell> {
        self.cell(holding.replica, holding.adapter).filter(|cell| cell.generation == holding.generation)
    }

    pub(super) fn holding(&self, replica: ReplicaId, adapter: AdapterId) -> Option<Holding> {
        Some(Holding { replica, adapter, generation: self.cell(replica, adapter)?.generation })
    }

    pub(super) fn replica_ids(&self) -> Keys<ReplicaMark> {
        self.replicas.iter().map(|(id, _)| id).collect()
    }

    pub(super) fn adapter_ids(&self) -> Keys<AdapterMark> {
        self.adapters.iter().map(|(id, _)| id).collect()
    }

    /// Replicas that may get new copies.
    pub(super) fn usable(&self) -> impl Iterator<Item = (ReplicaId, &Replica)> {
        self.replicas.iter().filter(|(_, row)| !row.suspended)
    }
}

/// How the scheduler sees a state.
fn seen(state: State, now: Duration) -> AdapterView {
    match state {
        State::Promised | State::Loading(_) => AdapterView::Loading,
        State::Resident => AdapterView::Resident,
        _ if state.setback(now).is_some() => AdapterView::Failed,
        _ => AdapterView::Absent,
    }
}
