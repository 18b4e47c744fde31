//! Replicas and adapters come, go, rest and fall under suspicion; limits change.
//!
//! Nobody who waits is forgotten by any of it: the wait goes on elsewhere or ends with the reason.

use super::acquire::Outcome;
use super::failure::{Reason, Refusal, doubled};
use super::policy::Policy;
use super::replica::Replica;
use super::state::{Event, State, Step};
use super::table::{Adapter, Quarantine, Table};
use super::{AdapterId, ReplicaId};
use std::num::NonZeroUsize;
use std::time::Duration;

impl Table {
    /// A replica joins, with nothing known to be on it.
    pub fn add_replica(&mut self, now: Duration) -> ReplicaId {
        let id = self.replicas.insert(Replica::new(self.adapters.places()));
        self.settle(now);
        id
    }

    /// A replica leaves. Leases on it need no release; one that comes late is ignored.
    pub fn remove_replica(&mut self, replica: ReplicaId, now: Duration) {
        for adapter in self.adapter_ids() {
            self.requeue(replica, adapter, now);
        }
        self.replicas.remove(replica);
        self.settle(now);
    }

    /// A replica rests (its breaker tripped, or it drains): it gets no new copies. Copies and loads on it stay.
    pub fn suspend(&mut self, replica: ReplicaId, now: Duration) {
        if let Some(row) = self.replicas.get_mut(replica) {
            row.suspended = true;
        }
        self.withdraw(replica, now);
        self.settle(now);
    }

    /// A suspended replica is back.
    pub fn resume(&mut self, replica: ReplicaId, now: Duration) {
        if let Some(row) = self.replicas.get_mut(replica) {
            row.suspended = false;
        }
        self.settle(now);
    }

    /// An adapter is configured. New weights of a known name are a new adapter here; retire the old one.
    pub fn add_adapter(&mut self) -> AdapterId {
        let id = self.adapters.insert(Adapter::default());
        let places = self.adapters.places();
        self.replicas.values_mut().for_each(|row| row.grow(places));
        id
    }

    /// An adapter is no longer configured: no new requests, running ones go on, then its copies go, then it is forgotten.
    pub fn retire(&mut self, adapter: AdapterId, now: Duration) {
        if let Some(entry) = self.adapters.get_mut(adapter) {
            entry.retired = true;
        }
        self.expel(adapter, Refusal { reason: Reason::Retired, retry_at: None }, now);
    }

    /// From now on the adapter is never a victim, and at least one copy is kept.
    pub fn pin(&mut self, adapter: AdapterId) {
        if let Some(entry) = self.adapters.get_mut(adapter) {
            entry.pinned = true;
        }
    }

    /// Ends [`Table::pin`].
    pub fn unpin(&mut self, adapter: AdapterId, now: Duration) {
        if let Some(entry) = self.adapters.get_mut(adapter) {
            entry.pinned = false;
        }
        self.settle(now);
    }

    /// A request with this adapter seems to have killed a replica: nobody gets it for a while, on any replica. Doubles
    /// each time; a quiet spell as long as the longest quarantine makes it as new.
    pub fn quarantine(&mut self, adapter: AdapterId, now: Duration) {
        let Policy { quarantine_first: first, quarantine_cap: cap, .. } = self.policy;
        let Some(entry) = self.adapters.get_mut(adapter) else { return };
        let recent = entry.quarantine.filter(|quarantine| now.saturating_sub(quarantine.until) < cap);
        let strikes = recent.map_or(1, |quarantine| quarantine.strikes.saturating_add(1));
        let until = now + doubled(first, strikes, cap);
        entry.quarantine = Some(Quarantine { strikes, until });
        self.counters.quarantines += 1;
        self.expel(adapter, Refusal { reason: Reason::Quarantined, retry_at: Some(until) }, now);
    }

    /// An operator wants the adapter to be there: begins a load unless it is there or coming. Says whether it is now.
    pub fn load(&mut self, adapter: AdapterId, now: Duration) -> bool {
        let startable = self.refusal(adapter, now).is_none();
        startable && (self.best_holder(adapter).is_some() || self.begin_anywhere(adapter, now).is_some())
    }

    /// An operator wants the adapter gone, pinned or not: its copies take no new requests and go when the running ones
    /// have ended. Says how many there were. A later request loads it again.
    pub fn unload(&mut self, adapter: AdapterId, now: Duration) -> usize {
        let mut copies = 0;
        for row in self.replicas.values_mut().filter(|row| row.state(adapter) == State::Resident) {
            row.shift(adapter, Event::Drain, now);
            copies += 1;
        }
        self.settle(now);
        copies
    }

    /// Lifts a quarantine before its time, and forgets what failed.
    pub fn forgive(&mut self, adapter: AdapterId, now: Duration) {
        if let Some(entry) = self.adapters.get_mut(adapter) {
            entry.quarantine = None;
        }
        for replica in self.replica_ids() {
            if let Some(State::Failed(_)) = self.state(adapter, replica) {
                self.shift(replica, adapter, Event::Forgive, now);
            }
        }
        self.settle(now);
    }

    /// Sets the slots of each replica. Below what is there now, idle copies go first and nothing is begun meanwhile.
    pub fn set_limit(&mut self, limit: NonZeroUsize, now: Duration) {
        self.limit = limit.get();
        for replica in self.replica_ids() {
            if self.replicas.get(replica).is_some_and(|row| row.claimed > limit.get()) {
                self.withdraw(replica, now);
            }
        }
        self.settle(now);
    }

    /// Sets the policy.
    pub fn set_policy(&mut self, policy: Policy, now: Duration) {
        self.policy = policy;
        self.settle(now);
    }

    /// Time has passed: rests, turns, back-offs and quarantines may be over. To be called a few times in each load time.
    pub fn tick(&mut self, now: Duration) {
        self.settle(now);
    }

    /// Takes back every load on `replica` that was not yet sent.
    fn withdraw(&mut self, replica: ReplicaId, now: Duration) {
        for adapter in self.adapter_ids() {
            if let Some(State::Promised | State::Loading(Step::Due(_))) = self.state(adapter, replica) {
                self.shift(replica, adapter, Event::Withdraw, now);
                self.requeue(replica, adapter, now);
            }
        }
    }

    /// Ends all waits for the adapter; [`Table::settle`] closes its copies.
    fn expel(&mut self, adapter: AdapterId, refusal: Refusal, now: Duration) {
        self.refuse_queued(adapter, refusal);
        for replica in self.replica_ids() {
            let Some(cell) = self.replicas.get_mut(replica).and_then(|row| row.cell_mut(adapter)) else { continue };
            let (state, tickets) = (cell.state, std::mem::take(&mut cell.waiters));
            tickets.into_iter().for_each(|ticket| self.wake(ticket, Outcome::Refused(refusal)));
            if let State::Promised | State::Loading(Step::Due(_)) = state {
                self.shift(replica, adapter, Event::Withdraw, now);
            }
        }
        self.settle(now);
    }

    /// Forgets retired adapters that are nowhere.
    pub(super) fn forget_retired(&mut self) {
        if !self.adapters.iter().any(|(_, entry)| entry.retired) {
            return;
        }
        for adapter in self.adapter_ids() {
            let gone = self.replicas.iter().all(|(_, row)| !row.state(adapter).occupies());
            if gone && self.adapters.get(adapter).is_some_and(|entry| entry.retired) {
                self.adapters.remove(adapter);
                self.replicas.values_mut().for_each(|row| row.forget(adapter));
            }
        }
    }
}
