//! A random world around the table: engines, orders under way, leases, tickets; accidents of all kinds.

use pointsman::residency::state::State;
use pointsman::residency::{
    Acquired, Action, AdapterId, Eviction, Holding, Lease, Listing, LoadFailure, Outcome, Pick, Policy, Reach,
    ReplicaId, Table, Ticket, UnloadFailure, plan,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::time::Duration;

/// An engine as it really is.
#[derive(Default)]
pub(crate) struct Engine {
    pub(crate) loaded: HashSet<AdapterId>,
    /// Loaded without the table's knowledge; the next listing will tell.
    pub(crate) unknown: HashSet<AdapterId>,
    pub(crate) started: u32,
}

pub(crate) struct Order {
    pub(crate) action: Action,
    /// The process it was sent to.
    pub(crate) started: u32,
}

pub(crate) struct World {
    pub(crate) rng: StdRng,
    pub(crate) now: Duration,
    pub(crate) table: Table,
    pub(crate) limit: usize,
    pub(crate) engines: HashMap<ReplicaId, Engine>,
    pub(crate) replicas: Vec<ReplicaId>,
    pub(crate) adapters: Vec<AdapterId>,
    pub(crate) pinned: HashSet<AdapterId>,
    pub(crate) banned: HashSet<AdapterId>,
    pub(crate) broken: HashSet<AdapterId>,
    pub(crate) orders: Vec<Order>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) tickets: HashSet<Ticket>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let limit = rng.random_range(1..=3);
        let mut policy = if rng.random_bool(0.3) { Policy::plain_lru() } else { Policy::default() };
        if rng.random_bool(0.3) {
            (policy.eviction, policy.prewarm_rate) = (Eviction::CostAware, Some(0.05));
        }
        let mut world = Self {
            now: Duration::from_secs(1),
            table: Table::new(policy, NonZeroUsize::new(limit).unwrap()),
            limit,
            engines: HashMap::new(),
            replicas: Vec::new(),
            adapters: Vec::new(),
            pinned: HashSet::new(),
            banned: HashSet::new(),
            broken: HashSet::new(),
            orders: Vec::new(),
            leases: Vec::new(),
            tickets: HashSet::new(),
            rng,
        };
        (0..world.rng.random_range(1..=3)).for_each(|_| world.add_replica());
        (0..world.rng.random_range(2..=7)).for_each(|_| world.add_adapter());
        world
    }

    fn add_replica(&mut self) {
        let id = self.table.add_replica(self.now);
        self.replicas.push(id);
        self.engines.insert(id, Engine::default());
    }

    fn add_adapter(&mut self) {
        let id = self.table.add_adapter();
        self.adapters.push(id);
        if self.rng.random_bool(0.15) {
            self.broken.insert(id);
        }
    }

    fn replica(&mut self) -> ReplicaId {
        *self.replicas.choose(&mut self.rng).unwrap()
    }

    fn adapter(&mut self) -> AdapterId {
        *self.adapters.choose(&mut self.rng).unwrap()
    }

    pub(crate) fn step(&mut self) {
        self.now += Duration::from_millis(self.rng.random_range(0..60));
        match self.rng.random_range(0..1000) {
            0..330 => self.request(),
            330..560 => self.complete(),
            560..800 => self.answer_order(),
            800..850 => self.give_up(),
            850..880 => self.table.tick(self.now),
            880..920 => self.observe(),
            920..935 => self.unload_behind_our_back(),
            935..945 => self.load_behind_our_back(),
            945..953 => self.restart(),
            953..958 => self.quarantine(),
            958..978 => self.change_fleet(),
            978..988 => self.change_adapters(),
            988..994 => self.change_limit(),
            _ => self.now += Duration::from_secs(self.rng.random_range(0..90)),
        }
        self.collect();
        if self.rng.random_bool(0.8) {
            self.pump();
        }
    }

    fn request(&mut self) {
        let (adapter, replica) = (self.adapter(), self.replica());
        let reach = *[Reach::One, Reach::Spread, Reach::Apart].choose(&mut self.rng).unwrap();
        match self.table.acquire(adapter, Pick { replica, reach }, self.now) {
            Acquired::Ready(lease) => self.leases.push(lease),
            Acquired::AwaitLoad { ticket, replica } | Acquired::Started { ticket, replica } => {
                assert!(self.table.state(adapter, replica).unwrap().is_coming());
                assert!(self.tickets.insert(ticket));
            }
            Acquired::AwaitSlot(ticket) => assert!(self.tickets.insert(ticket)),
            Acquired::Refused(_) => {}
        }
    }

    fn complete(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.leases.len());
        let lease = self.leases.swap_remove(index);
        let Holding { replica, adapter, .. } = lease.holding();
        let gone = self.engines.get(&replica).is_some_and(|engine| !engine.loaded.contains(&adapter));
        if gone && self.rng.random_bool(0.5) {
            self.table.lost(lease, self.now);
        } else {
            self.table.release(lease, self.now);
        }
    }

    fn give_up(&mut self) {
        let mut tickets: Vec<_> = self.tickets.iter().copied().collect();
        tickets.sort_by_key(|ticket| ticket.index());
        if let Some(ticket) = tickets.choose(&mut self.rng) {
            self.tickets.remove(ticket);
            self.table.give_up(*ticket, self.now);
        }
    }

    fn answer_order(&mut self) {
        if self.orders.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.orders.len());
        let smooth = self.rng.random_bool(0.8);
        self.answer(index, smooth);
    }

    pub(crate) fn answer(&mut self, index: usize, smooth: bool) {
        let Order { action, started } = self.orders.swap_remove(index);
        match action {
            Action::Load(holding) => self.answer_load(holding, started, smooth),
            Action::Unload(holding) => self.answer_unload(holding, started, smooth),
        }
    }

    fn answer_load(&mut self, holding: Holding, started: u32, smooth: bool) {
        let broken = self.broken.contains(&holding.adapter);
        let failure = if broken { LoadFailure::NotFound } else { self.failure() };
        let reached = self.engines.get_mut(&holding.replica).filter(|engine| engine.started == started);
        let result = match reached {
            None => Err(LoadFailure::Unreachable),
            Some(_) if !smooth || broken => Err(failure),
            Some(_) => Ok(()),
        };
        // Of a load whose answer never came, the engine may have made a success.
        let loaded = result.is_ok() || failure.is_uncertain() && !broken && self.rng.random_bool(0.5);
        if let Some(engine) =
            self.engines.get_mut(&holding.replica).filter(|engine| engine.started == started && loaded)
        {
            engine.loaded.insert(holding.adapter);
            if !self.table.is_live(holding) {
                engine.unknown.insert(holding.adapter);
            }
        }
        self.table.load_done(holding, result, self.now);
    }

    fn failure(&mut self) -> LoadFailure {
        use LoadFailure::{NotFound, Rejected, TimedOut, Unfit, Unreachable};
        *[NotFound, Unfit, Rejected, Unreachable, TimedOut].choose(&mut self.rng).unwrap()
    }

    fn answer_unload(&mut self, holding: Holding, started: u32, smooth: bool) {
        let reached = self.engines.get_mut(&holding.replica).filter(|engine| engine.started == started);
        match reached {
            Some(engine) if smooth => {
                if self.table.is_live(holding) {
                    engine.loaded.remove(&holding.adapter);
                    engine.unknown.remove(&holding.adapter);
                }
                self.table.unload_done(holding, Ok(()), self.now);
            }
            _ => self.table.unload_done(holding, Err(UnloadFailure), self.now),
        }
    }

    fn observe(&mut self) {
        let replica = self.replica();
        let late = Duration::from_millis(self.rng.random_range(0..100));
        self.observe_one(replica, late);
    }

    pub(crate) fn observe_one(&mut self, replica: ReplicaId, late: Duration) {
        let engine = self.engines.get_mut(&replica).unwrap();
        let adapters: Vec<_> = engine.loaded.iter().copied().collect();
        let start_time = Some(f64::from(engine.started));
        let asked_at = self.now;
        self.now += late;
        self.table.observe(replica, Listing { adapters: &adapters, start_time, asked_at }, self.now);
        let table = &self.table;
        // A load under way may fail still, whatever is there already.
        let known = |state: State| state.occupies() && !state.is_coming();
        engine.unknown.retain(|id| !table.state(*id, replica).is_some_and(known));
    }

    fn unload_behind_our_back(&mut self) {
        let (replica, adapter) = (self.replica(), self.adapter());
        self.engines.get_mut(&replica).unwrap().loaded.remove(&adapter);
    }

    fn load_behind_our_back(&mut self) {
        let (replica, adapter) = (self.replica(), self.adapter());
        let engine = self.engines.get_mut(&replica).unwrap();
        engine.loaded.insert(adapter);
        engine.unknown.insert(adapter);
    }

    fn restart(&mut self) {
        let replica = self.replica();
        let engine = self.engines.get_mut(&replica).unwrap();
        *engine = Engine { started: engine.started + 1, ..Engine::default() };
    }

    fn quarantine(&mut self) {
        let adapter = self.adapter();
        if self.rng.random_bool(0.7) {
            self.banned.insert(adapter);
            self.table.quarantine(adapter, self.now);
        } else {
            self.banned.remove(&adapter);
            self.table.forgive(adapter, self.now);
        }
    }

    fn change_fleet(&mut self) {
        let replica = self.replica();
        match self.rng.random_range(0..8) {
            0 if self.replicas.len() < 4 => self.add_replica(),
            1 if self.replicas.len() > 1 => {
                self.replicas.retain(|id| *id != replica);
                self.engines.remove(&replica);
                self.table.remove_replica(replica, self.now);
            }
            2 | 3 => self.table.suspend(replica, self.now),
            _ => self.table.resume(replica, self.now),
        }
    }

    fn change_adapters(&mut self) {
        let adapter = self.adapter();
        match self.rng.random_range(0..4) {
            0 if self.adapters.len() < 9 => self.add_adapter(),
            1 if self.adapters.len() > 2 => {
                self.adapters.retain(|id| *id != adapter);
                self.pinned.remove(&adapter);
                self.table.retire(adapter, self.now);
            }
            2 if self.pinned.is_empty() => {
                self.pinned.insert(adapter);
                self.table.pin(adapter);
            }
            _ => {
                self.pinned.remove(&adapter);
                self.table.unpin(adapter, self.now);
            }
        }
    }

    fn change_limit(&mut self) {
        self.limit = self.rng.random_range(1..=4);
        self.table.set_limit(NonZeroUsize::new(self.limit).unwrap(), self.now);
    }

    /// Fetches the answers; each wait ends once.
    pub(crate) fn collect(&mut self) {
        for woken in self.table.drain_woken() {
            let waited = self.tickets.remove(&woken.ticket);
            assert!(waited, "{:?} was answered and does not wait", woken.ticket);
            if let Outcome::Ready(lease) = woken.outcome {
                self.leases.push(lease);
            }
        }
    }

    /// Sends what is due. A plan that was started is done: the next one is empty.
    pub(crate) fn pump(&mut self) {
        let actions = plan(&self.table, self.now);
        self.table.start(&actions, self.now);
        let again = plan(&self.table, self.now);
        assert!(again.is_empty(), "{actions:?}, then {again:?}");
        for action in actions {
            let (Action::Load(holding) | Action::Unload(holding)) = action;
            self.check_single_flight(holding);
            let started = self.engines[&holding.replica].started;
            self.orders.push(Order { action, started });
        }
    }

    fn check_single_flight(&self, holding: Holding) {
        for Order { action: Action::Load(other) | Action::Unload(other), .. } in &self.orders {
            let same_place = (other.replica, other.adapter) == (holding.replica, holding.adapter);
            assert!(!same_place || !self.table.is_live(*other), "two orders at once for {holding:?}");
        }
    }
}
