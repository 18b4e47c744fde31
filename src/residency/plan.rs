//! What to order from the engines: loads and unloads that the table has decided on, and housekeeping.
//!
//! [`plan`] is a pure function of table and time; [`Table::start`] notes its orders as sent. On a table at rest a second
//! plan is empty: `plan(start(plan(x))) == []`. Housekeeping never makes anybody wait: it takes free slots that nobody
//! waits for, and idle copies.
//!
//! - above the limit (copies found on the engine, limit lowered): the longest unused idle copies go;
//! - a further copy of an adapter that has been idle for long goes, the last one stays;
//! - a pinned adapter that is nowhere is loaded, if need be in the place of an idle copy;
//! - where the policy says so, wanted adapters that are nowhere are loaded into free slots.

use super::replica::{Holding, Replica};
use super::state::{Event, State, Step};
use super::table::Table;
use super::{AdapterId, ReplicaId};
use std::cmp::Reverse;
use std::time::Duration;

/// An order to an engine. The shell sends it without waiting for others and reports its result with the same holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Load the adapter there; then [`Table::load_done`].
    Load(Holding),
    /// Unload the adapter there; then [`Table::unload_done`].
    Unload(Holding),
}

/// The orders to be sent at `now`.
pub fn plan(table: &Table, now: Duration) -> Vec<Action> {
    let mut draft =
        Draft { table, now, actions: table.due(now), rooms: table.usable().map(|r| room(table, r)).collect() };
    draft.shrink_to_limit();
    draft.drop_surplus();
    draft.keep_pinned();
    draft.prewarm();
    draft.actions
}

impl Table {
    /// Notes that these orders, just planned, are on their way.
    pub fn start(&mut self, actions: &[Action], now: Duration) {
        for action in actions {
            match *action {
                Action::Load(holding) => self.start_load(holding, now),
                Action::Unload(holding) => self.start_unload(holding, now),
            }
        }
    }

    fn start_load(&mut self, holding: Holding, now: Duration) {
        let Some(state) = self.stay(holding).map(|cell| cell.state) else { return };
        if state.is_startable(now) {
            self.shift(holding.replica, holding.adapter, Event::Load(now), now);
        }
        if let Some(State::Loading(Step::Due(_))) = self.state(holding.adapter, holding.replica) {
            self.counters.loads_started += 1;
            self.shift(holding.replica, holding.adapter, Event::Sent, now);
        }
    }

    fn start_unload(&mut self, holding: Holding, now: Duration) {
        if self.stay(holding).is_some_and(|cell| cell.is_idle()) {
            self.shift(holding.replica, holding.adapter, Event::Evict(now), now);
        }
        let state = self.stay(holding).map(|cell| cell.state);
        if let Some(State::Evicting { step: Step::Due(_), .. }) = state {
            self.counters.evictions += 1;
            self.shift(holding.replica, holding.adapter, Event::Sent, now);
        }
    }

    /// Orders that were decided on and are due.
    fn due(&self, now: Duration) -> Vec<Action> {
        let cells = self.replicas.iter().flat_map(|(replica, row)| {
            self.adapters.iter().map(move |(adapter, _)| (replica, adapter, row.state(adapter)))
        });
        cells
            .filter_map(|(replica, adapter, state)| match state {
                State::Loading(Step::Due(at)) if at <= now => Some(Action::Load(self.holding(replica, adapter)?)),
                State::Evicting { step: Step::Due(at), .. } if at <= now => {
                    Some(Action::Unload(self.holding(replica, adapter)?))
                }
                _ => None,
            })
            .collect()
    }
}

/// A plan in the making.
struct Draft<'a> {
    table: &'a Table,
    now: Duration,
    actions: Vec<Action>,
    /// The usable replicas, as they will be when this plan is done.
    rooms: Vec<Room>,
}

/// What a plan leaves of a replica's slots.
struct Room {
    replica: ReplicaId,
    /// Slots that are free now.
    free: usize,
    /// Slots that are free or will be when all that leaves has left; negative above the limit.
    open: isize,
}

fn room(table: &Table, (replica, row): (ReplicaId, &Replica)) -> Room {
    let open = table.limit as isize - row.claimed as isize;
    Room { replica, free: table.limit.saturating_sub(row.occupied), open }
}

impl Draft<'_> {
    fn shrink_to_limit(&mut self) {
        for (replica, row) in self.table.replicas.iter() {
            let surplus = row.claimed.saturating_sub(self.table.limit);
            let mut idle = self.idle(row);
            idle.sort_by_key(|adapter| row.cell(*adapter).map(|cell| cell.used_at));
            idle.truncate(surplus);
            self.unload(idle.into_iter().map(|adapter| (replica, adapter)));
        }
    }

    /// Of each adapter all but the last used copy, where idle for long.
    fn drop_surplus(&mut self) {
        let long = self.table.policy.surplus_after;
        for (adapter, _) in self.table.adapters.iter().filter(|(_, entry)| !entry.pinned) {
            let copies = self.table.usable().filter_map(|(replica, row)| Some((replica, row.cell(adapter)?)));
            let mut copies: Vec<_> = copies.filter(|(_, cell)| cell.state == State::Resident).collect();
            copies.sort_by_key(|(_, cell)| Reverse((cell.leases > 0, cell.used_at)));
            let surplus = copies.iter().skip(1);
            let old = surplus.filter(|(_, cell)| cell.is_idle() && self.now.saturating_sub(cell.used_at) >= long);
            let old: Vec<_> = old.map(|(replica, _)| (*replica, adapter)).collect();
            self.unload(old);
        }
    }

    fn keep_pinned(&mut self) {
        let pinned = self.table.adapters.iter().filter(|(_, entry)| entry.pinned && entry.banned(self.now).is_none());
        let missing: Vec<_> = pinned.map(|(id, _)| id).filter(|id| !self.is_anywhere(*id)).collect();
        for adapter in missing {
            if !self.load(adapter) {
                self.make_way(adapter);
            }
        }
    }

    /// Sends an idle copy away for a pinned adapter, unless a slot is about to be free.
    fn make_way(&mut self, adapter: AdapterId) {
        let fit: Vec<_> = self.rooms.iter().filter(|room| self.is_startable(room.replica, adapter)).collect();
        if fit.iter().any(|room| room.open > 0) {
            return;
        }
        let full = fit.iter().filter(|room| room.open == 0).map(|room| room.replica);
        let victim = full.filter_map(|replica| Some((replica, self.victim(replica)?))).next();
        self.unload(victim);
    }

    fn victim(&self, replica: ReplicaId) -> Option<AdapterId> {
        let going: Vec<_> = self
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Unload(holding) if holding.replica == replica => Some(holding.adapter),
                _ => None,
            })
            .collect();
        self.table.victim(self.table.replicas.get(replica)?, self.now, &going)
    }

    fn is_startable(&self, replica: ReplicaId, adapter: AdapterId) -> bool {
        self.table.cell(replica, adapter).is_some_and(|cell| cell.state.is_startable(self.now))
    }

    fn prewarm(&mut self) {
        let (Some(least), true) = (self.table.policy.prewarm_rate, self.table.queue.is_empty()) else { return };
        let rated = self.table.adapters.iter().filter(|(_, entry)| entry.banned(self.now).is_none());
        let mut wanted: Vec<_> = rated.map(|(id, entry)| (entry.rate.per_second(self.now), id)).collect();
        wanted.retain(|(rate, id)| *rate >= least && !self.is_anywhere(*id));
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, adapter) in wanted {
            self.load(adapter);
        }
    }

    /// Will some usable replica hold the adapter after this plan?
    fn is_anywhere(&self, adapter: AdapterId) -> bool {
        self.rooms.iter().any(|room| {
            let Some(holding) = self.table.holding(room.replica, adapter) else { return false };
            let claims = self.table.cell(room.replica, adapter).is_some_and(|cell| cell.state.claims());
            let is_ordered = |action| self.actions.contains(&action);
            is_ordered(Action::Load(holding)) || claims && !is_ordered(Action::Unload(holding))
        })
    }

    /// Loads the adapter where most slots are free. Says whether there is such a place.
    fn load(&mut self, adapter: AdapterId) -> bool {
        let fit = self.rooms.iter().filter(|room| room.free > 0 && self.is_startable(room.replica, adapter));
        let Some(replica) = fit.max_by_key(|room| room.free).map(|room| room.replica) else { return false };
        for room in self.rooms.iter_mut().filter(|room| room.replica == replica) {
            room.free -= 1;
            room.open -= 1;
        }
        self.actions.extend(self.table.holding(replica, adapter).map(Action::Load));
        true
    }

    fn unload(&mut self, copies: impl IntoIterator<Item = (ReplicaId, AdapterId)>) {
        for (replica, adapter) in copies {
            let Some(action) = self.table.holding(replica, adapter).map(Action::Unload) else { continue };
            if self.actions.contains(&action) {
                continue;
            }
            self.actions.push(action);
            self.rooms.iter_mut().filter(|room| room.replica == replica).for_each(|room| room.open += 1);
        }
    }

    fn idle(&self, row: &Replica) -> Vec<AdapterId> {
        let idle = self
            .table
            .adapters
            .iter()
            .filter(|(id, entry)| !entry.pinned && row.cell(*id).is_some_and(|cell| cell.is_idle()));
        idle.map(|(id, _)| id).collect()
    }
}
