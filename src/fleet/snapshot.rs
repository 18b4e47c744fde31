//! The immutable view that one decision reads.
//!
//! Taken once per attempt from the replicas' atomics. Nothing in it changes afterwards, so a decision needs no lock and
//! can be replayed from it.

use crate::scheduler::profile::Thresholds;
use smallvec::SmallVec;

/// May a replica get requests?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerView {
    /// It may.
    Healthy,
    /// It failed recently and rests.
    Tripped,
    /// It rested and may get one request at a time.
    Probing,
}

/// Where the request's adapter stands on a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterView {
    /// Not there.
    Absent,
    /// Being loaded.
    Loading,
    /// Loaded.
    Resident,
    /// Not there and not to be loaded there now: its last load failed and backs off.
    Failed,
}

/// One replica as a decision sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Position of the replica in its model's list of members.
    pub member: usize,
    /// A stable hash of the replica's name: the same across reloads and restarts.
    pub identity: u64,
    /// Priority of its pool; 0 comes first.
    pub priority: u32,
    /// Its configured weight, above 0.
    pub weight: f64,
    /// Which share of its usual work it should get now, above 0, 1 in the common case: less while it is fresh.
    pub share: f64,
    /// Requests that wait in the engine, as of the last read-out, corrected by our own picks and completions since.
    pub waiting: f64,
    /// Requests that run in the engine, as of the last read-out; 0 when unknown.
    pub running: f64,
    /// Our own requests on it: picked and not ended.
    pub in_flight: f64,
    /// Share of its KV cache in use, 0 to 1; 0 when unknown.
    pub kv: f64,
    /// Its breaker.
    pub breaker: BreakerView,
    /// The state of the request's adapter there; `Absent` when the request has none.
    pub adapter: AdapterView,
    /// Adapter slots that hold nothing and are promised to nobody.
    pub free_slots: usize,
    /// Leading prefix blocks of the request that this replica has probably cached.
    pub prefix_blocks: u32,
    /// This request was already tried there and failed.
    pub tried: bool,
}

impl Candidate {
    /// How full the replica is: `max(waiting / target_waiting, kv / kv_ceiling)`, 1.0 = full (design.md, "Admission").
    pub fn saturation(&self, thresholds: &Thresholds) -> f64 {
        (self.waiting / thresholds.target_waiting).max(self.kv / thresholds.kv_ceiling)
    }
}

impl Snapshot {
    /// A fresh replica looks fuller than it is, so that the others, warm as they are, get most of the work: its weight
    /// shrinks and up to nine tenths of a full queue are added. It never looks full for that. Where all are fresh there is
    /// nobody to take the work off them.
    pub fn start_slowly(&mut self, target_waiting: f64) {
        if self.candidates.iter().all(|candidate| candidate.share < 1.0 || candidate.breaker == BreakerView::Tripped) {
            return;
        }
        for candidate in self.candidates.iter_mut().filter(|candidate| candidate.share < 1.0) {
            candidate.weight *= candidate.share;
            candidate.waiting += (1.0 - candidate.share) * target_waiting;
        }
    }
}

/// All replicas of the request's model at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// In the order of the model's members.
    pub candidates: SmallVec<[Candidate; 16]>,
}
