//! Where a copy goes, who goes for it, and who gets a slot that becomes free.
//!
//! The invariant behind all of it, per replica and with `limit` slots: `occupied <= limit`, where `Loading`, `Resident`,
//! `Draining` and `Evicting` occupy; and `claimed <= limit`, where `Promised`, `Loading` and `Resident` claim. A new copy
//! needs `claimed < limit`: it is loaded at once if also `occupied < limit`, else promised the next slot vacated. Only
//! copies found on an engine, or a lowered limit, lead above the limit; nothing is begun until it is back.
//!
//! Thrash is what happens when more adapters are wanted than there are slots and each request evicts what the next one
//! needs. Three rules hold it off: requests for one adapter wait together and are answered by one load; a copy that has
//! come gets its turn, that is, it may go before only if it is idle for a while; and a busy copy that has had its turn is
//! closed for the adapter that has waited longest.

use super::acquire::{Outcome, Place, Woken};
use super::failure::Refusal;
use super::policy::Eviction;
use super::replica::{Holding, Keys, Replica, ReplicaMark};
use super::state::{Event, State, Step};
use super::table::Table;
use super::{AdapterId, ReplicaId, Ticket};
use std::time::Duration;

/// What the queue may hope for at this moment.
#[derive(Clone, Copy)]
struct Chance {
    /// Some usable replica has room for a copy, or an idle copy that may go.
    room: bool,
    /// Some busy copy may be closed.
    turn: bool,
}

impl Table {
    /// Brings the table to rest after any change: drained copies go, freed slots are handed over, the queue is served,
    /// retired adapters without a copy are forgotten.
    pub(super) fn settle(&mut self, now: Duration) {
        for replica in self.replica_ids() {
            self.close_banned(replica, now);
            self.hand_over(replica, now);
        }
        self.serve(now);
        self.forget_retired();
    }

    /// Copies of banned adapters are closed, closed copies without a lease go.
    fn close_banned(&mut self, replica: ReplicaId, now: Duration) {
        let Some(row) = self.replicas.get_mut(replica) else { return };
        for (adapter, entry) in self.adapters.iter() {
            if row.state(adapter) == State::Resident && entry.banned(now).is_some() {
                row.shift(adapter, Event::Drain, now);
            }
            if row.cell(adapter).is_some_and(|cell| cell.state == State::Draining && cell.leases == 0) {
                row.shift(adapter, Event::Evict(now), now);
            }
        }
    }

    /// Free slots go to those they are promised to.
    fn hand_over(&mut self, replica: ReplicaId, now: Duration) {
        let limit = self.limit;
        let Some(row) = self.replicas.get_mut(replica) else { return };
        while row.occupied < limit
            && let Some(heir) = row.promised.front().copied()
        {
            row.shift(heir, Event::Load(now), now);
        }
    }

    /// Gives slots to the adapters that wait for one, in their order. One that cannot use a slot holds up nobody.
    pub(super) fn serve(&mut self, now: Duration) {
        if self.queue.is_empty() {
            return;
        }
        let queue: Vec<AdapterId> = self.queue.iter().copied().collect();
        let mut chance = self.chance(now);
        for adapter in queue {
            if let Some(refusal) = self.refusal(adapter, now) {
                self.refuse_queued(adapter, refusal);
            } else if let Some(replica) = self.slot_for(adapter, chance, now) {
                let tickets = self.unqueue(adapter);
                self.seat(tickets, replica, adapter, now);
                chance = self.chance(now);
            }
        }
    }

    fn slot_for(&mut self, adapter: AdapterId, chance: Chance, now: Duration) -> Option<ReplicaId> {
        self.best_holder(adapter)
            .or_else(|| chance.room.then(|| self.begin_anywhere(adapter, now)).flatten())
            .or_else(|| chance.turn.then(|| self.begin_by_turn(adapter, now)).flatten())
    }

    /// Looked up once for the whole queue: a long queue before full replicas must not cost a search for each adapter.
    fn chance(&self, now: Duration) -> Chance {
        let has_room =
            |row: &Replica| row.claimed < self.limit || self.adapters.iter().any(|(id, _)| self.may_go(row, id, now));
        let has_turn = |row: &Replica| self.adapters.iter().any(|(id, _)| self.may_close(row, id, now));
        Chance { room: self.usable().any(|(_, row)| has_room(row)), turn: self.usable().any(|(_, row)| has_turn(row)) }
    }

    /// The usable replica that holds the adapter and is used least; one where it is still coming only if need be.
    pub(super) fn best_holder(&self, adapter: AdapterId) -> Option<ReplicaId> {
        let holders = self.usable().filter_map(|(id, row)| Some((id, row.cell(adapter)?)));
        holders
            .filter(|(_, cell)| cell.state.claims())
            .min_by_key(|(_, cell)| (cell.state.is_coming(), cell.leases))
            .map(|(id, _)| id)
    }

    /// Is the adapter on its way to some usable replica?
    pub(super) fn is_coming(&self, adapter: AdapterId) -> bool {
        self.usable().any(|(_, row)| row.state(adapter).is_coming())
    }

    /// Begins a copy on the usable replica with the most room.
    pub(super) fn begin_anywhere(&mut self, adapter: AdapterId, now: Duration) -> Option<ReplicaId> {
        let mut order: Keys<ReplicaMark> = self.usable().map(|(id, _)| id).collect();
        order.sort_by_key(|id| self.replicas.get(*id).map(|row| (row.occupied, row.claimed)));
        order.into_iter().find(|replica| self.begin(*replica, adapter, now))
    }

    /// Begins a copy of `adapter` on `replica`, if a slot can be had there now. Says whether.
    pub(super) fn begin(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) -> bool {
        let Some(row) = self.replicas.get_mut(replica).filter(|row| !row.suspended) else { return false };
        let open = row.claimed < self.limit;
        match row.state(adapter) {
            State::Draining | State::Evicting { step: Step::Due(_), after: None } if open => {
                row.shift(adapter, Event::Recall, now);
                true
            }
            state if !state.is_startable(now) => false,
            _ if open => self.enter(replica, adapter, now),
            _ => self.evict_for(replica, now) && self.enter(replica, adapter, now),
        }
    }

    fn enter(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) -> bool {
        let Some(row) = self.replicas.get_mut(replica) else { return false };
        debug_assert!(row.claimed < self.limit);
        let event = if row.occupied < self.limit { Event::Load(now) } else { Event::Promise };
        row.shift(adapter, event, now);
        true
    }

    /// Sends the best victim away, if that makes room for one more copy.
    fn evict_for(&mut self, replica: ReplicaId, now: Duration) -> bool {
        let Some(row) = self.replicas.get(replica) else { return false };
        // Above the limit one victim does not help; `plan` brings the replica back first.
        let Some(victim) = self.victim(row, now, &[]).filter(|_| row.claimed == self.limit) else { return false };
        let Some(row) = self.replicas.get_mut(replica) else { return false };
        row.shift(victim, Event::Evict(now), now);
        true
    }

    /// The idle adapter to go first, but for those `spared`: a copy that is not the only one, then by policy.
    pub(super) fn victim(&self, row: &Replica, now: Duration, spared: &[AdapterId]) -> Option<AdapterId> {
        let ids = self.adapters.iter().map(|(id, _)| id).filter(|id| !spared.contains(id));
        let candidates = ids.filter(|id| self.may_go(row, *id, now));
        let worth = |id: &AdapterId| (self.copies(*id) < 2, self.worth(row, *id, now));
        candidates.min_by(|a, b| {
            let ((only_a, worth_a), (only_b, worth_b)) = (worth(a), worth(b));
            only_a.cmp(&only_b).then(worth_a.total_cmp(&worth_b))
        })
    }

    /// What is given up with a copy, by policy.
    fn worth(&self, row: &Replica, adapter: AdapterId, now: Duration) -> f64 {
        match (self.policy.eviction, self.adapters.get(adapter)) {
            (Eviction::CostAware, Some(entry)) => {
                entry.rate.per_second(now) * entry.load_time.mean_or(self.mean_load()).as_secs_f64()
            }
            _ => row.cell(adapter).map_or(0.0, |cell| cell.used_at.as_secs_f64()),
        }
    }

    /// Usable replicas with a resident copy.
    pub(super) fn copies(&self, adapter: AdapterId) -> usize {
        self.usable().filter(|(_, row)| row.state(adapter) == State::Resident).count()
    }

    /// May this copy go for another adapter now? It must be idle and unpinned, and have had its turn or a rest.
    pub(super) fn may_go(&self, row: &Replica, adapter: AdapterId, now: Duration) -> bool {
        let (Some(cell), Some(entry)) = (row.cell(adapter), self.adapters.get(adapter)) else { return false };
        let rested = now.saturating_sub(cell.used_at) >= self.loads(self.policy.rest_loads);
        cell.is_idle() && !entry.pinned && (rested || self.had_turn(cell.arrived_at, now))
    }

    fn had_turn(&self, arrived_at: Duration, now: Duration) -> bool {
        now.saturating_sub(arrived_at) >= self.loads(self.policy.turn_loads)
    }

    /// May this copy be closed for another adapter now? It must be busy and unpinned, and have had its turn.
    fn may_close(&self, row: &Replica, adapter: AdapterId, now: Duration) -> bool {
        let (Some(cell), Some(entry)) = (row.cell(adapter), self.adapters.get(adapter)) else { return false };
        let busy = cell.state == State::Resident && cell.leases > 0;
        busy && !entry.pinned && self.had_turn(cell.arrived_at, now)
    }

    /// Closes a busy copy that has had its turn for an adapter that has waited long enough.
    fn begin_by_turn(&mut self, adapter: AdapterId, now: Duration) -> Option<ReplicaId> {
        let since = self.adapters.get(adapter)?.queued_since;
        if now.saturating_sub(since) < self.loads(self.policy.patience_loads) {
            return None;
        }
        let Holding { replica, adapter: closed, .. } = self.next_turn(adapter, now)?;
        self.replicas.get_mut(replica)?.shift(closed, Event::Drain, now);
        self.begin(replica, adapter, now).then_some(replica)
    }

    /// The busy copy to be closed for `wanted`: the one with the fewest leases (it is free soonest), then the oldest.
    fn next_turn(&self, wanted: AdapterId, now: Duration) -> Option<Holding> {
        let open = self.usable().filter(|(_, row)| row.state(wanted).is_startable(now) && row.claimed == self.limit);
        let copies = open.flat_map(|(replica, row)| {
            self.adapters.iter().filter_map(move |(id, _)| {
                let cell = row.cell(id).filter(|_| self.may_close(row, id, now))?;
                Some((cell.leases, cell.arrived_at, replica, id))
            })
        });
        let (_, _, replica, adapter) = copies.min_by_key(|(leases, arrived_at, ..)| (*leases, *arrived_at))?;
        self.holding(replica, adapter)
    }

    /// Adds waiting requests to those of an adapter that is in the queue.
    pub(super) fn enqueue(&mut self, adapter: AdapterId, tickets: impl IntoIterator<Item = Ticket>, now: Duration) {
        let Some(entry) = self.adapters.get_mut(adapter) else { return };
        if entry.queued.is_empty() {
            entry.queued_since = now;
        }
        entry.queued.extend(tickets);
    }

    /// Takes the waiting requests of a load that will not be; they go to the head of the queue, for they have waited.
    pub(super) fn requeue(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) {
        let Some(cell) = self.replicas.get_mut(replica).and_then(|row| row.cell_mut(adapter)) else { return };
        let tickets = std::mem::take(&mut cell.waiters);
        if tickets.is_empty() {
            return;
        }
        for ticket in &tickets {
            self.put(*ticket, Place::Slot);
        }
        self.queue.retain(|queued| *queued != adapter);
        self.queue.push_front(adapter);
        self.enqueue(adapter, tickets, now);
    }

    fn unqueue(&mut self, adapter: AdapterId) -> Vec<Ticket> {
        self.queue.retain(|queued| *queued != adapter);
        self.adapters.get_mut(adapter).map(|entry| std::mem::take(&mut entry.queued)).unwrap_or_default()
    }

    /// Lets waiting requests share a copy: at once if it is there, else when it comes.
    pub(super) fn seat(&mut self, tickets: Vec<Ticket>, replica: ReplicaId, adapter: AdapterId, now: Duration) {
        for ticket in tickets {
            if let Some(lease) = self.lease(replica, adapter, now) {
                self.wake(ticket, Outcome::Ready(lease));
                continue;
            }
            self.put(ticket, Place::Load(replica));
            if let Some(cell) = self.replicas.get_mut(replica).and_then(|row| row.cell_mut(adapter)) {
                cell.waiters.push(ticket);
            }
        }
    }

    fn put(&mut self, ticket: Ticket, place: Place) {
        if let Some(waiter) = self.waiters.get_mut(ticket) {
            waiter.place = place;
        }
    }

    pub(super) fn refuse_queued(&mut self, adapter: AdapterId, refusal: Refusal) {
        for ticket in self.unqueue(adapter) {
            self.wake(ticket, Outcome::Refused(refusal));
        }
    }

    pub(super) fn wake(&mut self, ticket: Ticket, outcome: Outcome) {
        let waiter = self.waiters.remove(ticket);
        debug_assert!(waiter.is_some(), "a wait ends once");
        self.woken.push(Woken { ticket, outcome });
    }
}
