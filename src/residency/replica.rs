//! One replica's row of the table: a cell for each adapter, and the sums over them.
//!
//! [`Replica::shift`] is the only place where a cell's state changes; it keeps the sums right.

use super::arena::Key;
use super::state::{Event, State, next};
use super::{AdapterId, ReplicaId, Ticket};
use std::collections::VecDeque;
use std::time::Duration;

/// Marks keys of replicas.
#[derive(Clone, Copy, Debug)]
pub enum ReplicaMark {}

/// One adapter's stay on one replica, from the start of its load to its end. After the stay has ended it names nothing, so
/// that a late result or a late release of it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    /// Where.
    pub replica: ReplicaId,
    /// What.
    pub adapter: AdapterId,
    /// Which stay of this adapter on this replica.
    pub generation: u32,
}

/// One adapter on one replica.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) state: State,
    /// The current or next stay; see [`Holding`].
    pub(super) generation: u32,
    /// Requests that use the copy now. Above 0 only while `Resident` or `Draining`.
    pub(super) leases: u32,
    /// Requests that wait for the load. Some only while `Promised` or `Loading`.
    pub(super) waiters: Vec<Ticket>,
    /// Failed loads in a row.
    pub(super) strikes: u32,
    /// When the state last changed.
    pub(super) changed_at: Duration,
    /// When the copy arrived.
    pub(super) arrived_at: Duration,
    /// When a lease last began or ended.
    pub(super) used_at: Duration,
}

impl Cell {
    fn new() -> Self {
        Self {
            state: State::Absent,
            generation: 0,
            leases: 0,
            waiters: Vec::new(),
            strikes: 0,
            changed_at: Duration::ZERO,
            arrived_at: Duration::ZERO,
            used_at: Duration::ZERO,
        }
    }

    /// Resident and used by nobody.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Resident && self.leases == 0
    }
}

/// One replica.
#[derive(Debug)]
pub(super) struct Replica {
    /// By the adapter's place.
    cells: Vec<Cell>,
    /// Cells whose state takes a slot.
    pub(super) occupied: usize,
    /// Cells that are there to stay or coming.
    pub(super) claimed: usize,
    /// Distinct adapters with at least one lease.
    pub(super) distinct_leased: usize,
    /// Adapters in state `Promised`, the oldest promise first.
    pub(super) promised: VecDeque<AdapterId>,
    /// It gets no new copies, and its copies are not used for requests that are free to go elsewhere.
    pub(super) suspended: bool,
    /// When the engine process started, as last observed.
    pub(super) start_time: Option<f64>,
}

impl Replica {
    /// A replica with nothing on it, with cells for `places` adapters.
    pub(super) fn new(places: usize) -> Self {
        let mut replica = Self {
            cells: Vec::new(),
            occupied: 0,
            claimed: 0,
            distinct_leased: 0,
            promised: VecDeque::new(),
            suspended: false,
            start_time: None,
        };
        replica.grow(places);
        replica
    }

    /// Makes room for adapters at up to `places` places.
    pub(super) fn grow(&mut self, places: usize) {
        let cells = self.cells.len().max(places);
        self.cells.resize_with(cells, Cell::new);
    }

    /// Prepares the cell of a removed adapter for the next one at its place. Old generations stay used up.
    pub(super) fn forget(&mut self, adapter: AdapterId) {
        if let Some(cell) = self.cells.get_mut(adapter.index()) {
            debug_assert!(!cell.state.occupies() && cell.leases == 0 && cell.waiters.is_empty());
            *cell = Cell { generation: cell.generation.wrapping_add(1), ..Cell::new() };
        }
    }

    pub(super) fn cell(&self, adapter: AdapterId) -> Option<&Cell> {
        self.cells.get(adapter.index())
    }

    /// For changes of anything but the state and the lease count.
    pub(super) fn cell_mut(&mut self, adapter: AdapterId) -> Option<&mut Cell> {
        self.cells.get_mut(adapter.index())
    }

    /// The adapter's state here.
    pub(super) fn state(&self, adapter: AdapterId) -> State {
        self.cell(adapter).map_or(State::Absent, |cell| cell.state)
    }

    /// Lets `event` happen to the adapter. The caller has made sure that it can.
    pub(super) fn shift(&mut self, adapter: AdapterId, event: Event, now: Duration) {
        let Some(cell) = self.cells.get_mut(adapter.index()) else { return };
        let before = cell.state;
        let Some(after) = next(before, event) else {
            debug_assert!(false, "{event:?} cannot happen in {before:?}");
            return;
        };
        cell.state = after;
        cell.changed_at = now;
        if after == State::Resident && !matches!(event, Event::Recall) {
            (cell.arrived_at, cell.used_at, cell.strikes) = (now, now, 0);
        }
        if before.occupies() && !after.occupies() {
            cell.generation = cell.generation.wrapping_add(1);
            self.distinct_leased -= usize::from(cell.leases > 0);
            cell.leases = 0;
        }
        self.count(adapter, before, after);
    }

    fn count(&mut self, adapter: AdapterId, before: State, after: State) {
        self.occupied = self.occupied + usize::from(after.occupies()) - usize::from(before.occupies());
        self.claimed = self.claimed + usize::from(after.claims()) - usize::from(before.claims());
        match (before, after) {
            (State::Promised, State::Promised) => {}
            (State::Promised, _) => self.promised.retain(|promised| *promised != adapter),
            (_, State::Promised) => self.promised.push_back(adapter),
            _ => {}
        }
    }

    /// Counts one more request on a resident copy.
    pub(super) fn lease(&mut self, replica: ReplicaId, adapter: AdapterId, now: Duration) -> Option<Lease> {
        let cell = self.cells.get_mut(adapter.index())?;
        debug_assert_eq!(cell.state, State::Resident);
        self.distinct_leased += usize::from(cell.leases == 0);
        cell.leases += 1;
        cell.used_at = now;
        Some(Lease { holding: Holding { replica, adapter, generation: cell.generation } })
    }

    /// Counts one request less, unless the stay that it leased has ended. Says whether it was the copy's last.
    pub(super) fn unlease(&mut self, holding: Holding, now: Duration) -> bool {
        let Some(cell) = self.cells.get_mut(holding.adapter.index()) else { return false };
        if cell.generation != holding.generation || cell.leases == 0 {
            return false;
        }
        cell.leases -= 1;
        cell.used_at = now;
        let last = cell.leases == 0;
        self.distinct_leased -= usize::from(last);
        last
    }
}

/// The right to use a copy: while it is out, the copy is not evicted. End it with [`super::Table::release`] or
/// [`super::Table::lost`]; the shell ties that to a `Drop`.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is not released keeps its adapter for ever"]
pub struct Lease {
    holding: Holding,
}

impl Lease {
    /// What is leased, and where.
    pub fn holding(&self) -> Holding {
        self.holding
    }
}

/// Marks keys of adapters.
#[derive(Clone, Copy, Debug)]
pub enum AdapterMark {}

/// Marks keys of waiting requests.
#[derive(Clone, Copy, Debug)]
pub enum TicketMark {}

/// All keys of one kind are alike; see [`Key`].
pub(super) type Keys<M> = smallvec::SmallVec<[Key<M>; 16]>;
