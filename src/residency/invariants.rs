//! What is true of every table between two calls. For the tests and the simulator, which check it after each step.

use super::acquire::{Place, Waiter};
use super::replica::{Cell, Replica};
use super::state::State;
use super::table::Table;
use super::{AdapterId, ReplicaId, Ticket};

impl Table {
    /// The first broken invariant, in words; `None` when all hold.
    pub fn violation(&self) -> Option<String> {
        let rows = self.replicas.iter().find_map(|(id, row)| self.row_violation(id, row));
        rows.or_else(|| self.queue_violation()).or_else(|| self.waiter_violation())
    }

    fn row_violation(&self, id: ReplicaId, row: &Replica) -> Option<String> {
        let cells = || self.adapters.iter().filter_map(|(adapter, _)| Some((adapter, row.cell(adapter)?)));
        let count = |wanted: &dyn Fn(&Cell) -> bool| cells().filter(|(_, cell)| wanted(cell)).count();
        let promised = count(&|cell| cell.state == State::Promised);
        let leaving = count(&|cell| matches!(cell.state, State::Draining | State::Evicting { .. }));
        let sums = [
            ("slots in use", row.occupied, count(&|cell| cell.state.occupies())),
            ("slots claimed", row.claimed, count(&|cell| cell.state.claims())),
            ("adapters in use", row.distinct_leased, count(&|cell| cell.leases > 0)),
            ("promises", row.promised.len(), promised),
        ];
        for (what, kept, counted) in sums {
            if kept != counted {
                return Some(format!("{what} on {id:?}: {kept} kept, {counted} counted"));
            }
        }
        if promised > 0 && row.occupied < self.limit {
            return Some(format!("a free slot on {id:?} was not handed over"));
        }
        if row.claimed <= self.limit && promised > leaving {
            return Some(format!("{promised} promises on {id:?}, {leaving} copies on their way out"));
        }
        cells().find_map(|(adapter, cell)| cell_violation(adapter, cell).map(|what| format!("{what} on {id:?}")))
    }

    fn queue_violation(&self) -> Option<String> {
        let waits = self.adapters.iter().filter(|(_, entry)| !entry.queued.is_empty()).count();
        let listed =
            self.queue.iter().filter(|id| self.adapters.get(**id).is_some_and(|e| !e.queued.is_empty())).count();
        let right = waits == listed && listed == self.queue.len();
        (!right).then(|| format!("{waits} adapters wait for a slot, {:?} are queued", self.queue))
    }

    /// Every wait is noted in exactly the place where its end will be seen.
    fn waiter_violation(&self) -> Option<String> {
        let lost = self.waiters.iter().find(|(ticket, waiter)| !self.is_noted(*ticket, waiter));
        let queued: usize = self.adapters.iter().map(|(_, entry)| entry.queued.len()).sum();
        let rows = self.replicas.iter().flat_map(|(_, row)| self.adapters.iter().filter_map(|(id, _)| row.cell(id)));
        let noted = queued + rows.map(|cell| cell.waiters.len()).sum::<usize>();
        match lost {
            Some((ticket, waiter)) => Some(format!("{ticket:?} waits unseen: {waiter:?}")),
            None if noted != self.waiting() => Some(format!("{noted} waits noted, {} exist", self.waiting())),
            None => None,
        }
    }

    fn is_noted(&self, ticket: Ticket, waiter: &Waiter) -> bool {
        match waiter.place {
            Place::Slot => self.adapters.get(waiter.adapter).is_some_and(|entry| entry.queued.contains(&ticket)),
            Place::Load(replica) => {
                self.cell(replica, waiter.adapter).is_some_and(|cell| cell.waiters.contains(&ticket))
            }
        }
    }
}

fn cell_violation(adapter: AdapterId, cell: &Cell) -> Option<String> {
    if cell.leases > 0 && !matches!(cell.state, State::Resident | State::Draining) {
        return Some(format!("{} leases of {adapter:?}, {:?}", cell.leases, cell.state));
    }
    if cell.leases == 0 && cell.state == State::Draining {
        return Some(format!("{adapter:?} is drained but does not go"));
    }
    if !cell.waiters.is_empty() && !cell.state.is_coming() {
        return Some(format!("{} requests wait for {adapter:?}, {:?}", cell.waiters.len(), cell.state));
    }
    None
}
