//! What a request does with the table: acquire its adapter, wait for it, give up, release it.
//!
//! When does a wait end? With a load of the adapter that succeeds anywhere, with the failure of it everywhere, with the
//! adapter's ban, or when the request gives up; whichever is first. A load that fails somewhere moves its waiters on.

use super::failure::{Reason, Refusal};
use super::replica::Lease;
use super::state::{Event, State};
use super::table::Table;
use super::{AdapterId, ReplicaId, Ticket};
use crate::fleet::snapshot::{AdapterView, BreakerView, Candidate};
use std::time::Duration;

/// How far a request may reach for its adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any holder will do; the adapter is loaded only if it is nowhere.
    One,
    /// The holders are full: a further copy is welcome, once this has lasted for [`super::Policy::spread_after`] and if
    /// no other adapter waits for a slot. Until then a holder has to do.
    Spread,
    /// The holders will not do, the request failed there: load on the picked replica.
    Apart,
}

impl Reach {
    /// How far a request may reach by what its decision saw: any holder will do, unless those in good order are all full
    /// (the scheduler would have picked one of them), or there are none in good order.
    pub fn of(candidates: &[Candidate], picked: AdapterView) -> Self {
        let holds = |view| matches!(view, AdapterView::Resident | AdapterView::Loading);
        let mut holders = candidates.iter().filter(|candidate| holds(candidate.adapter)).peekable();
        if holds(picked) || holders.peek().is_none() {
            Self::One
        } else if holders.any(|holder| !holder.tried && holder.breaker != BreakerView::Tripped) {
            Self::Spread
        } else {
            Self::Apart
        }
    }
}

/// The scheduler's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Where the request should go.
    pub replica: ReplicaId,
    /// Whether it may go elsewhere.
    pub reach: Reach,
}

/// The answer to [`Table::acquire`]. The replica in it may be another than the picked one.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Acquired {
    /// The adapter is there.
    Ready(Lease),
    /// A load that was already under way will answer; it cannot be evicted on arrival.
    AwaitLoad {
        /// The wait.
        ticket: Ticket,
        /// Where it is being loaded.
        replica: ReplicaId,
    },
    /// A load was begun for this request.
    Started {
        /// The wait.
        ticket: Ticket,
        /// Where it will be loaded.
        replica: ReplicaId,
    },
    /// No slot can be had anywhere now; the first that can is given to the adapter that has waited longest.
    AwaitSlot(Ticket),
    /// It cannot be had.
    Refused(Refusal),
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The adapter is there.
    Ready(Lease),
    /// It cannot be had.
    Refused(Refusal),
}

/// The end of one wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Woken {
    /// Whose.
    pub ticket: Ticket,
    /// How it ended.
    pub outcome: Outcome,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) adapter: AdapterId,
    pub(super) place: Place,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A slot.
    Slot,
    /// The load on this replica.
    Load(ReplicaId),
}

impl Table {
    /// A request wants `adapter`. To be called under the same lock as the decision that made `pick`.
    pub fn acquire(&mut self, adapter: AdapterId, pick: Pick, now: Duration) -> Acquired {
        if let Some(refusal) = self.refusal(adapter, now) {
            self.counters.refused += 1;
            return Acquired::Refused(refusal);
        }
        if let Some(entry) = self.adapters.get_mut(adapter) {
            entry.rate.note(now);
        }
        self.serve(now);
        if let Some(holder) = self.holder_for(adapter, pick, now) {
            return self.join(holder, adapter, now);
        }
        if let Some(replica) = self.begin_for(adapter, pick, now) {
            return self.lead(replica, adapter, now);
        }
        match self.best_holder(adapter).filter(|_| pick.reach != Reach::Apart) {
            Some(holder) => self.join(holder, adapter, now),
            None => self.await_slot(adapter, now),
        }
    }

    /// A request is done with its adapter.
    pub fn release(&mut self, lease: Lease, now: Duration) {
        let holding = lease.holding();
        if self.stay(holding).is_none() {
            return;
        }
        let Some(row) = self.replicas.get_mut(holding.replica) else { return };
        let last = row.unlease(holding, now);
        // The common case, a copy that stays and nobody who waits, ends here: no scan.
        if last && (row.state(holding.adapter) == State::Draining || !self.queue.is_empty()) {
            self.settle(now);
        }
    }

    /// The engine answered that it does not have the leased adapter. All requests that used this copy may acquire anew;
    /// the first one that does causes the one reload.
    pub fn lost(&mut self, lease: Lease, now: Duration) {
        self.lose(lease.holding(), now);
        self.settle(now);
    }

    /// A waiting request goes away. If its answer was on its way already, that answer must be dealt with as usual.
    pub fn give_up(&mut self, ticket: Ticket, now: Duration) {
        let Some(waiter) = self.waiters.remove(ticket) else { return };
        match waiter.place {
            Place::Slot => self.leave_queue(waiter.adapter, ticket),
            Place::Load(replica) => self.leave_load(replica, waiter.adapter, ticket, now),
        }
        self.settle(now);
    }

    /// Why no request gets `adapter` at `now`: it is gone, banned, or failed everywhere.
    pub(super) fn refusal(&self, adapter: AdapterId, now: Duration) -> Option<Refusal> {
        let Some(entry) = self.adapters.get(adapter) else {
            return Some(Refusal { reason: Reason::Retired, retry_at: None });
        };
        entry.banned(now).or_else(|| self.failed_everywhere(adapter, now))
    }

    fn failed_everywhere(&self, adapter: AdapterId, now: Duration) -> Option<Refusal> {
        let mut soonest = None;
        for (_, row) in self.replicas.iter() {
            let setback = row.state(adapter).setback(now)?;
            soonest = soonest.filter(|best: &super::Setback| best.until <= setback.until).or(Some(setback));
        }
        soonest.map(|setback| Refusal { reason: Reason::Failed(setback.kind), retry_at: Some(setback.until) })
    }

    /// The holder that serves this request, or `None` if a new copy is called for.
    fn holder_for(&mut self, adapter: AdapterId, pick: Pick, now: Duration) -> Option<ReplicaId> {
        let at_pick = self.cell(pick.replica, adapter).is_some_and(|cell| cell.state.claims());
        let best = self.best_holder(adapter);
        let quiet = self.queue.is_empty() && !self.is_coming(adapter);
        let entry = self.adapters.get_mut(adapter)?;
        if at_pick {
            entry.pressure.relieve();
            return Some(pick.replica);
        }
        match pick.reach {
            Reach::One => best,
            Reach::Apart => None,
            Reach::Spread => {
                let full_for = entry.pressure.press(now);
                best.filter(|_| !quiet || full_for < self.policy.spread_after)
            }
        }
    }

    /// Begins a copy on the picked replica; if it is the adapter's first, on any other just as well.
    fn begin_for(&mut self, adapter: AdapterId, pick: Pick, now: Duration) -> Option<ReplicaId> {
        if self.begin(pick.replica, adapter, now) {
            return Some(pick.replica);
        }
        if pick.reach == Reach::Apart || self.best_holder(adapter).is_some() {
            return None;
        }
        self.begin_anywhere(adapter, now)
    }

    /// Uses a copy that is there or coming.
    fn join(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) -> Acquired {
        if let Some(lease) = self.lease(replica, adapter, now) {
            self.counters.hits_resident += 1;
            return Acquired::Ready(lease);
        }
        self.counters.hits_waited += 1;
        Acquired::AwaitLoad { ticket: self.await_load(replica, adapter), replica }
    }

    /// Uses a copy that was begun for this request.
    fn lead(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) -> Acquired {
        // An eviction that was not sent yet was called back: nothing to wait for.
        if let Some(lease) = self.lease(replica, adapter, now) {
            self.counters.hits_resident += 1;
            return Acquired::Ready(lease);
        }
        self.counters.hits_cold += 1;
        Acquired::Started { ticket: self.await_load(replica, adapter), replica }
    }

    /// A lease on a resident copy.
    pub(super) fn lease(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) -> Option<Lease> {
        let row = self.replicas.get_mut(replica).filter(|row| row.state(adapter) == State::Resident)?;
        row.lease(replica, adapter, now)
    }

    fn await_load(&mut self, replica: ReplicaId, adapter: AdapterId) -> Ticket {
        let ticket = self.waiters.insert(Waiter { adapter, place: Place::Load(replica) });
        if let Some(cell) = self.replicas.get_mut(replica).and_then(|row| row.cell_mut(adapter)) {
            debug_assert!(cell.state.is_coming());
            cell.waiters.push(ticket);
        }
        ticket
    }

    fn await_slot(&mut self, adapter: AdapterId, now: Duration) -> Acquired {
        self.counters.hits_waited += 1;
        let ticket = self.waiters.insert(Waiter { adapter, place: Place::Slot });
        if !self.queue.contains(&adapter) {
            self.queue.push_back(adapter);
        }
        self.enqueue(adapter, [ticket], now);
        Acquired::AwaitSlot(ticket)
    }

    fn leave_queue(&mut self, adapter: AdapterId, ticket: Ticket) {
        let Some(entry) = self.adapters.get_mut(adapter) else { return };
        entry.queued.retain(|queued| *queued != ticket);
        if entry.queued.is_empty() {
            self.queue.retain(|queued| *queued != adapter);
        }
    }

    /// A promised slot that nobody waits for any more is given back. A load goes on: the engine has begun it.
    fn leave_load(&mut self, replica: ReplicaId, adapter: AdapterId, ticket: Ticket, now: Duration) {
        let Some(row) = self.replicas.get_mut(replica) else { return };
        let Some(cell) = row.cell_mut(adapter) else { return };
        cell.waiters.retain(|waiter| *waiter != ticket);
        if cell.waiters.is_empty() && cell.state == State::Promised {
            row.shift(adapter, Event::Withdraw, now);
        }
    }
}
