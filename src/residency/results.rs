//! What the engines answered to our orders, and what was found on them.
//!
//! Every result names the stay it belongs to ([`Holding`]); a result of a stay that has ended changes nothing.

use super::failure::{LoadFailure, Setback};
use super::state::{Event, State, Step};
use super::table::Table;
use super::{AdapterId, Holding, ReplicaId};
use std::time::Duration;

/// The engine did not confirm an unload. (That it does not know the adapter counts as success.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnloadFailure;

/// What an engine says it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Listing<'a> {
    /// The table's adapters on its list. Models and adapters that the table does not know are nobody's business.
    pub adapters: &'a [AdapterId],
    /// When the engine process started, seconds since the epoch; `None` when unknown.
    pub start_time: Option<f64>,
    /// When it was asked. Whatever changed in the table since then is newer than the list.
    pub asked_at: Duration,
}

impl Table {
    /// The result of a load order. That the engine has the adapter already is a success.
    pub fn load_done(&mut self, holding: Holding, result: Result<(), LoadFailure>, now: Duration) {
        let Some(cell) = self.stay(holding).filter(|cell| cell.state == State::Loading(Step::Sent)) else { return };
        match result {
            Ok(()) => {
                self.note_load_time(holding.adapter, now.saturating_sub(cell.changed_at));
                self.counters.loads_ok += 1;
                self.arrive(holding.replica, holding.adapter, Event::Loaded, now);
            }
            Err(kind) => self.fail(holding.replica, holding.adapter, kind, now),
        }
        self.settle(now);
    }

    /// The result of an unload order.
    pub fn unload_done(&mut self, holding: Holding, result: Result<(), UnloadFailure>, now: Duration) {
        let sent = |state| matches!(state, State::Evicting { step: Step::Sent, .. });
        if !self.stay(holding).is_some_and(|cell| sent(cell.state)) {
            return;
        }
        let retry_at = now + self.policy.unload_retry;
        let event = result.map_or(Event::UnloadFailed(retry_at), |()| Event::Unloaded);
        self.shift(holding.replica, holding.adapter, event, now);
        self.settle(now);
    }

    /// Reconciles the table with what an engine says it holds.
    pub fn observe(&mut self, replica: ReplicaId, listing: Listing<'_>, now: Duration) {
        let Some(row) = self.replicas.get_mut(replica) else { return };
        let before = listing.start_time.and_then(|started| row.start_time.replace(started));
        let restarted = before.is_some() && before != listing.start_time;
        for adapter in self.adapter_ids() {
            // At equal times the order of events is unknown; the next list will tell.
            let known_since = self.cell(replica, adapter).map(|cell| cell.changed_at);
            if known_since.is_none_or(|at| at > Duration::ZERO && at >= listing.asked_at) {
                continue;
            }
            if restarted {
                self.reset(replica, adapter, now);
            }
            if listing.adapters.contains(&adapter) {
                self.found(replica, adapter, now);
            } else {
                self.missed(replica, adapter, now);
            }
        }
        self.settle(now);
    }

    /// Applies a known change to a cell.
    pub(super) fn shift(&mut self, replica: ReplicaId, adapter: AdapterId, event: Event, now: Duration) {
        if let Some(row) = self.replicas.get_mut(replica) {
            row.shift(adapter, event, now);
        }
    }

    /// A copy is there now; those who wait for it there get it.
    fn arrive(&mut self, replica: ReplicaId, adapter: AdapterId, event: Event, now: Duration) {
        let Some(row) = self.replicas.get_mut(replica) else { return };
        row.shift(adapter, event, now);
        let tickets = row.cell_mut(adapter).map(|cell| std::mem::take(&mut cell.waiters)).unwrap_or_default();
        self.seat(tickets, replica, adapter, now);
    }

    /// A load failed; those who wait for it try elsewhere.
    fn fail(&mut self, replica: ReplicaId, adapter: AdapterId, kind: LoadFailure, now: Duration) {
        self.counters.loads_failed += 1;
        let Some(row) = self.replicas.get_mut(replica) else { return };
        let Some(cell) = row.cell_mut(adapter) else { return };
        cell.strikes = cell.strikes.saturating_add(1);
        let setback = Setback::new(kind, cell.strikes, now);
        row.shift(adapter, Event::Fault(setback, now), now);
        self.requeue(replica, adapter, now);
    }

    /// The engine is a new process: nothing of before is there, and what failed may succeed.
    fn reset(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) {
        match self.cell(replica, adapter).map(|cell| cell.state) {
            Some(State::Loading(Step::Sent)) => self.fail(replica, adapter, LoadFailure::Restarted, now),
            Some(State::Resident | State::Draining) => self.drop_copy(replica, adapter, now),
            Some(State::Evicting { .. }) => self.shift(replica, adapter, Event::Lose, now),
            // A load that seems to kill the engine must not be forgiven by the restart it caused.
            Some(State::Failed(setback)) if setback.kind != LoadFailure::Restarted => {
                self.shift(replica, adapter, Event::Forgive, now);
            }
            _ => {}
        }
    }

    fn found(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) {
        let state = self.cell(replica, adapter).map(|cell| cell.state);
        if let Some(State::Absent | State::Failed(_) | State::Promised) = state {
            self.counters.adopted += 1;
            self.arrive(replica, adapter, Event::Adopt, now);
        }
    }

    fn missed(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) {
        match self.cell(replica, adapter).map(|cell| cell.state) {
            Some(State::Resident | State::Draining) => self.drop_copy(replica, adapter, now),
            Some(State::Evicting { step: Step::Due(_), after: None }) => {
                self.shift(replica, adapter, Event::Unloaded, now);
            }
            _ => {}
        }
    }

    /// The stay has ended without us, if it had not ended before.
    pub(super) fn lose(&mut self, holding: Holding, now: Duration) {
        if self.stay(holding).is_some_and(|cell| matches!(cell.state, State::Resident | State::Draining)) {
            self.drop_copy(holding.replica, holding.adapter, now);
        }
    }

    fn drop_copy(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) {
        self.counters.lost += 1;
        self.shift(replica, adapter, Event::Lose, now);
    }

    fn note_load_time(&mut self, adapter: AdapterId, took: Duration) {
        self.load_time.note(took);
        self.counters.load_micros += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(entry) = self.adapters.get_mut(adapter) {
            entry.load_time.note(took);
        }
    }
}
