//! Random life against the residency table: requests, results, losses, restarts, changes of the fleet. After each step the
//! invariants hold; in the end everybody is answered, nothing leaks, and the table comes to rest.
//!
//! `POINTSMAN_MODEL_OPS` sets the number of steps (60,000 unless set), `POINTSMAN_MODEL_SEED` runs one seed only.

use crate::world::World;
use pointsman::residency::state::State;
use pointsman::residency::{AdapterId, Lease, ReplicaId, plan};
use std::collections::HashMap;
use std::time::Duration;

const STEPS_PER_SEED: u64 = 2_000;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

impl World {
    fn slots(&self) -> HashMap<ReplicaId, usize> {
        self.replicas.iter().map(|id| (*id, self.table.slots_in_use(*id))).collect()
    }

    fn states(&self) -> Vec<(ReplicaId, AdapterId, State)> {
        let pairs = self.replicas.iter().flat_map(|r| self.adapters.iter().map(move |a| (*r, *a)));
        pairs.filter_map(|(r, a)| Some((r, a, self.table.state(a, r)?))).collect()
    }

    /// One step, then all that must be true after it.
    fn checked_step(&mut self) {
        let (slots, states, pinned) = (self.slots(), self.states(), self.pinned.clone());
        let adopted = self.table.counters().adopted;
        self.step();
        assert_eq!(self.table.violation(), None);
        if self.table.counters().adopted == adopted {
            self.check_slots(&slots);
        }
        self.check_leases();
        self.check_truth();
        for (replica, adapter, before) in states {
            let still = self.pinned.contains(&adapter) && pinned.contains(&adapter);
            let kept = still && !self.banned.contains(&adapter) && before == State::Resident;
            let leaves = matches!(self.table.state(adapter, replica), Some(State::Draining | State::Evicting { .. }));
            let retired = !self.adapters.contains(&adapter);
            assert!(!kept || retired || !leaves, "pinned {adapter:?} leaves {replica:?}");
        }
    }

    fn check_slots(&self, before: &HashMap<ReplicaId, usize>) {
        for id in &self.replicas {
            let most = self.limit.max(before.get(id).copied().unwrap_or(0));
            assert!(self.table.slots_in_use(*id) <= most, "{id:?} uses more than {most} slots");
        }
    }

    /// The table counts exactly the leases that are out, for every stay that goes on. So none is evicted under a lease.
    fn check_leases(&self) {
        for (replica, adapter, state) in self.states() {
            let held = self.leases.iter().map(Lease::holding);
            let held = held.filter(|h| (h.replica, h.adapter) == (replica, adapter) && self.table.is_live(*h)).count();
            assert_eq!(self.table.leases(adapter, replica) as usize, held, "{adapter:?} on {replica:?}, {state:?}");
        }
    }

    /// Whatever an engine holds by our order takes a slot in the table.
    fn check_truth(&self) {
        for (replica, engine) in &self.engines {
            for adapter in engine.loaded.difference(&engine.unknown) {
                let state = self.table.state(*adapter, *replica);
                assert!(state.is_none_or(State::occupies), "{replica:?} holds {adapter:?}, table says {state:?}");
            }
        }
    }

    /// No more requests, no more accidents: everybody is answered and the table comes to rest.
    fn calm_down(&mut self) {
        for id in self.replicas.clone() {
            self.table.resume(id, self.now);
        }
        for id in std::mem::take(&mut self.pinned) {
            self.table.unpin(id, self.now);
        }
        for _ in 0..2_000 {
            self.now += Duration::from_millis(500);
            self.table.tick(self.now);
            self.replicas.clone().into_iter().for_each(|id| self.observe_one(id, Duration::from_millis(1)));
            self.collect();
            self.pump();
            while !self.orders.is_empty() {
                self.answer(0, true);
            }
            self.collect();
            while let Some(lease) = self.leases.pop() {
                self.table.release(lease, self.now);
            }
            self.collect();
            assert_eq!(self.table.violation(), None);
        }
        assert_eq!((self.tickets.len(), self.table.waiting()), (0, 0), "somebody was never answered");
        assert!(self.leases.is_empty());
        self.check_leases();
        assert!(plan(&self.table, self.now).is_empty(), "the table does not come to rest");
        assert!(self.slots().values().all(|slots| *slots <= self.limit), "{:?} of {}", self.slots(), self.limit);
    }
}

fn run(seed: u64, steps: u64) {
    let mut world = World::new(seed);
    (0..steps).for_each(|_| world.checked_step());
    world.calm_down();
}

#[test]
fn invariants_hold_through_random_life() {
    let steps = setting("POINTSMAN_MODEL_OPS").unwrap_or(60_000);
    let seeds = match setting("POINTSMAN_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..steps.div_ceil(STEPS_PER_SEED),
    };
    for seed in seeds {
        let result = std::panic::catch_unwind(|| run(seed, STEPS_PER_SEED));
        assert!(result.is_ok(), "failed with POINTSMAN_MODEL_SEED={seed}");
    }
}
