//! The residency table, one behaviour a test.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // A test file: it may.

use pointsman::fleet::snapshot::AdapterView;
use pointsman::residency::state::State;
use pointsman::residency::{
    Acquired, Action, AdapterId, Holding, Lease, Listing, LoadFailure, Outcome, Pick, Policy, Reach, Reason, ReplicaId,
    Table, Ticket, plan,
};
use std::num::NonZeroUsize;
use std::time::Duration;

/// A table with its engines; engines answer when told to.
struct House {
    table: Table,
    replicas: Vec<ReplicaId>,
    adapters: Vec<AdapterId>,
    now: Duration,
}

fn house(replicas: usize, slots: usize, adapters: usize) -> House {
    let mut table = Table::new(Policy::default(), NonZeroUsize::new(slots).unwrap());
    let now = Duration::from_secs(100);
    let replicas = (0..replicas).map(|_| table.add_replica(now)).collect();
    let adapters = (0..adapters).map(|_| table.add_adapter()).collect();
    House { table, replicas, adapters, now }
}

impl House {
    fn ask(&mut self, adapter: usize, replica: usize, reach: Reach) -> Acquired {
        let pick = Pick { replica: self.replicas[replica], reach };
        self.table.acquire(self.adapters[adapter], pick, self.now)
    }

    /// Sends what is due.
    fn orders(&mut self) -> Vec<Action> {
        let actions = plan(&self.table, self.now);
        self.table.start(&actions, self.now);
        actions
    }

    fn answer(&mut self, result: Result<(), LoadFailure>) {
        for action in self.orders() {
            match action {
                Action::Load(holding) => self.table.load_done(holding, result, self.now),
                Action::Unload(holding) => self.table.unload_done(holding, Ok(()), self.now),
            }
        }
    }

    /// Asks, and lets the engines answer until the adapter is there.
    fn hold(&mut self, adapter: usize, replica: usize) -> Lease {
        let acquired = self.ask(adapter, replica, Reach::Apart);
        if let Acquired::Ready(lease) = acquired {
            return lease;
        }
        self.answer(Ok(()));
        self.answer(Ok(()));
        self.ready().pop().unwrap()
    }

    fn use_once(&mut self, adapter: usize, replica: usize) {
        let lease = self.hold(adapter, replica);
        self.later(1);
        self.table.release(lease, self.now);
    }

    fn ready(&mut self) -> Vec<Lease> {
        let woken = self.table.drain_woken().into_iter().map(|woken| woken.outcome);
        woken.map(|outcome| if let Outcome::Ready(lease) = outcome { lease } else { panic!("{outcome:?}") }).collect()
    }

    fn refused(&mut self) -> Vec<Reason> {
        let woken = self.table.drain_woken().into_iter().map(|woken| woken.outcome);
        woken
            .map(|outcome| if let Outcome::Refused(why) = outcome { why.reason } else { panic!("{outcome:?}") })
            .collect()
    }

    fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.table.tick(self.now);
    }

    fn state(&self, adapter: usize, replica: usize) -> State {
        self.table.state(self.adapters[adapter], self.replicas[replica]).unwrap()
    }

    fn observe(&mut self, replica: usize, adapters: &[usize], start_time: f64) {
        let adapters: Vec<_> = adapters.iter().map(|adapter| self.adapters[*adapter]).collect();
        let asked_at = self.now;
        self.now += Duration::from_millis(5);
        let listing = Listing { adapters: &adapters, start_time: Some(start_time), asked_at };
        self.table.observe(self.replicas[replica], listing, self.now);
    }
}

fn is_load(action: &Action) -> bool {
    matches!(action, Action::Load(_))
}

fn ticket(acquired: Acquired) -> Ticket {
    match acquired {
        Acquired::AwaitLoad { ticket, .. } | Acquired::Started { ticket, .. } | Acquired::AwaitSlot(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_requests_for_a_cold_adapter_cause_one_load_wherever_they_are_sent() {
    let mut house = house(3, 2, 1);
    assert!(matches!(house.ask(0, 0, Reach::One), Acquired::Started { .. }));
    for i in 0..30 {
        let reach = if i % 2 == 0 { Reach::One } else { Reach::Spread };
        assert!(matches!(house.ask(0, i % 3, reach), Acquired::AwaitLoad { .. }));
    }
    house.answer(Ok(()));
    assert_eq!((house.ready().len(), house.table.counters().loads_started), (31, 1));
}

#[test]
fn the_least_recently_used_idle_adapter_goes_and_its_slot_is_handed_over() {
    let mut house = house(1, 2, 3);
    house.use_once(0, 0);
    house.use_once(1, 0);
    house.use_once(0, 0);
    assert!(matches!(house.ask(2, 0, Reach::One), Acquired::Started { .. }));
    let seen = house.table.view(house.adapters[2], house.replicas[0], house.now).unwrap();
    assert_eq!((seen.adapter, seen.free_slots), (AdapterView::Loading, 0));
    let unload = house.orders();
    assert!(
        matches!(unload[..], [Action::Unload(Holding { adapter, .. })] if adapter == house.adapters[1]),
        "{unload:?}"
    );
    let Action::Unload(holding) = unload[0] else { panic!() };
    house.table.unload_done(holding, Ok(()), house.now);
    assert!(house.state(2, 0).is_coming() && house.state(2, 0).occupies());
    assert_eq!(house.table.slots_in_use(house.replicas[0]), 2);
}

#[test]
fn an_adapter_in_use_is_waited_for_and_the_next_idle_slot_is_the_waiters() {
    let mut house = house(1, 1, 2);
    let lease = house.hold(0, 0);
    assert!(matches!(house.ask(1, 0, Reach::One), Acquired::AwaitSlot(_)));
    assert!(house.orders().is_empty());
    house.table.release(lease, house.now);
    house.answer(Ok(()));
    house.answer(Ok(()));
    assert_eq!(house.ready().len(), 1);
}

#[test]
fn a_cold_adapter_uses_an_idle_slot_elsewhere_rather_than_wait_at_the_pick() {
    let mut house = house(2, 1, 3);
    let _busy = house.hold(0, 0);
    house.use_once(1, 1);
    let acquired = house.ask(2, 0, Reach::One);
    assert!(matches!(acquired, Acquired::Started { replica, .. } if replica == house.replicas[1]), "{acquired:?}");
}

#[test]
fn a_busy_copy_gives_way_after_its_turn() {
    let mut house = house(1, 1, 2);
    let first = house.hold(0, 0);
    let _waiting = ticket(house.ask(1, 0, Reach::One));
    house.later(30);
    assert_eq!(house.state(0, 0), State::Draining);
    assert!(matches!(house.ask(0, 0, Reach::One), Acquired::AwaitSlot(_)), "a closed copy takes no new lease");
    house.table.release(first, house.now);
    house.answer(Ok(()));
    house.answer(Ok(()));
    assert_eq!(house.ready().pop().unwrap().holding().adapter, house.adapters[1]);
}

#[test]
fn slots_are_given_first_come_first_served_and_one_load_answers_all_who_wait() {
    let mut house = house(1, 1, 3);
    let lease = house.hold(0, 0);
    for adapter in [1, 2, 1, 2, 1] {
        assert!(matches!(house.ask(adapter, 0, Reach::One), Acquired::AwaitSlot(_)));
    }
    house.table.release(lease, house.now);
    house.answer(Ok(()));
    house.answer(Ok(()));
    let served = house.ready();
    assert!(served.iter().all(|lease| lease.holding().adapter == house.adapters[1]));
    assert_eq!(served.len(), 3);
}

#[test]
fn who_gives_up_leaves_nothing_behind() {
    let mut house = house(1, 1, 2);
    let lease = house.hold(0, 0);
    let waiting = ticket(house.ask(1, 0, Reach::One));
    house.table.give_up(waiting, house.now);
    house.table.release(lease, house.now);
    assert!(house.orders().is_empty(), "nobody wants the slot any more");
    let promised = ticket(house.ask(1, 0, Reach::One));
    house.table.give_up(promised, house.now);
    assert_eq!((house.state(1, 0), house.table.waiting()), (State::Absent, 0));
    assert_eq!(house.table.violation(), None);
}

#[test]
fn a_holder_that_stays_full_gets_company_but_not_while_others_wait_for_slots() {
    let mut house = house(2, 1, 2);
    let _lease = house.hold(0, 0);
    let at =
        |acquired: Acquired| if let Acquired::Ready(lease) = acquired { lease.holding().replica } else { panic!() };
    assert_eq!(at(house.ask(0, 1, Reach::Spread)), house.replicas[0], "not yet");
    house.later(1);
    assert!(
        matches!(house.ask(0, 1, Reach::Spread), Acquired::Started { replica, .. } if replica == house.replicas[1])
    );

    let mut crowded = self::house(2, 1, 3);
    let _lease = crowded.hold(0, 0);
    let _other = crowded.hold(1, 1);
    let _waiting = ticket(crowded.ask(2, 1, Reach::One));
    let _first = crowded.ask(0, 1, Reach::Spread);
    crowded.now += Duration::from_millis(600);
    assert_eq!(at(crowded.ask(0, 1, Reach::Spread)), crowded.replicas[0]);
}

#[test]
fn a_further_copy_goes_when_it_has_been_idle_for_long_and_the_last_one_stays() {
    let mut house = house(2, 2, 1);
    house.use_once(0, 0);
    house.use_once(0, 1);
    house.later(58);
    assert!(house.orders().is_empty());
    house.later(3_600);
    house.answer(Ok(()));
    assert_eq!((house.state(0, 0), house.state(0, 1)), (State::Absent, State::Resident));
    house.later(3_600);
    assert!(house.orders().is_empty());
}

#[test]
fn a_failed_load_moves_its_waiters_on_and_ends_them_when_it_failed_everywhere() {
    let mut house = house(2, 1, 1);
    let _a = house.ask(0, 0, Reach::One);
    let _b = house.ask(0, 0, Reach::One);
    house.answer(Err(LoadFailure::NotFound));
    assert!(house.refused().is_empty() && house.state(0, 1).is_coming());
    house.answer(Err(LoadFailure::NotFound));
    assert_eq!(house.refused(), [Reason::Failed(LoadFailure::NotFound); 2]);
    assert!(matches!(house.ask(0, 0, Reach::One), Acquired::Refused(_)));
    let seen = house.table.view(house.adapters[0], house.replicas[0], house.now).unwrap();
    assert_eq!((seen.adapter, seen.free_slots), (AdapterView::Failed, 1));
    house.later(11);
    assert!(matches!(house.ask(0, 0, Reach::One), Acquired::Started { .. }), "the back-off is over");
}

#[test]
fn a_load_that_timed_out_keeps_its_slot_until_an_unload_made_sure() {
    let mut house = house(1, 1, 2);
    let _cold = house.ask(0, 0, Reach::One);
    house.answer(Err(LoadFailure::TimedOut));
    assert_eq!(house.table.slots_in_use(house.replicas[0]), 1);
    assert!(matches!(house.ask(1, 0, Reach::One), Acquired::Started { .. }));
    assert!(!house.orders().iter().any(is_load), "the slot may be in use");
}

#[test]
fn a_broken_adapter_costs_others_nothing() {
    let mut house = house(1, 2, 2);
    for _ in 0..50 {
        let _broken = house.ask(0, 0, Reach::One);
        house.answer(Err(LoadFailure::Unfit));
        house.table.drain_woken();
        let lease = house.hold(1, 0);
        house.table.release(lease, house.now);
        house.later(1);
    }
    let counters = house.table.counters();
    assert!(counters.loads_failed <= 4, "{counters:?}");
    assert_eq!((counters.loads_ok, counters.evictions, counters.hits_resident), (1, 0, 49));
}

#[test]
fn an_adapter_that_killed_a_replica_is_refused_everywhere_for_longer_each_time() {
    let mut house = house(2, 2, 1);
    house.use_once(0, 0);
    let id = house.adapters[0];
    for seconds in [60, 120] {
        house.table.quarantine(id, house.now);
        house.answer(Ok(()));
        assert_eq!(house.state(0, 0), State::Absent, "its copies go");
        house.later(seconds - 1);
        assert!(matches!(house.ask(0, 1, Reach::Apart), Acquired::Refused(why) if why.reason == Reason::Quarantined));
        house.later(1);
        house.use_once(0, 1);
    }
}

#[test]
fn a_lost_adapter_is_reloaded_once_for_all_who_missed_it() {
    let mut house = house(1, 1, 1);
    let leases: Vec<_> = (0..5).map(|_| house.hold(0, 0)).collect();
    for lease in leases {
        house.table.lost(lease, house.now);
        let _again = ticket(house.ask(0, 0, Reach::One));
    }
    house.answer(Ok(()));
    assert_eq!((house.ready().len(), house.table.counters().loads_started), (5, 2));
    assert_eq!((house.table.counters().lost, house.table.leases(house.adapters[0], house.replicas[0])), (1, 5));
}

#[test]
fn what_an_engine_has_is_adopted_what_it_has_not_is_lost_and_a_surplus_goes() {
    let mut house = house(1, 2, 4);
    house.use_once(3, 0);
    house.later(1);
    house.observe(0, &[0, 1, 2], 1.0);
    assert_eq!([0, 1, 2].map(|adapter| house.state(adapter, 0)), [State::Resident; 3]);
    assert_eq!(house.state(3, 0), State::Absent);
    assert!(!matches!(house.ask(3, 0, Reach::One), Acquired::Started { .. }), "never a load above the limit");
    house.answer(Ok(()));
    assert!(house.table.slots_in_use(house.replicas[0]) <= 2);
    assert_eq!((house.table.counters().adopted, house.table.counters().lost), (3, 1));
}

#[test]
fn a_list_older_than_a_load_does_not_lose_the_adapter() {
    let mut house = house(1, 2, 1);
    let asked_at = house.now;
    house.now += Duration::from_millis(10);
    house.use_once(0, 0);
    let listing = Listing { adapters: &[], start_time: Some(1.0), asked_at };
    house.table.observe(house.replicas[0], listing, house.now);
    assert_eq!(house.state(0, 0), State::Resident);
}

#[test]
fn after_a_restart_everything_is_gone_and_a_load_under_way_is_retried_once_at_once() {
    let mut house = house(1, 2, 2);
    house.observe(0, &[], 1.0);
    house.use_once(0, 0);
    let _cold = house.ask(1, 0, Reach::One);
    let old = house.orders();
    house.later(1);
    house.observe(0, &[], 2.0);
    assert_eq!(house.state(0, 0), State::Absent);
    let again = house.orders();
    assert!(again.len() == 1 && again.iter().all(is_load), "{again:?}");
    for action in old.into_iter().filter(is_load) {
        let (Action::Load(holding) | Action::Unload(holding)) = action;
        house.table.load_done(holding, Err(LoadFailure::Unreachable), house.now);
    }
    assert!(house.state(1, 0).is_coming(), "a late result of the old load changes nothing");
    house.later(1);
    house.observe(0, &[], 3.0);
    assert_eq!(house.refused(), [Reason::Failed(LoadFailure::Restarted)]);
}

#[test]
fn pinned_adapters_are_loaded_at_start_and_never_go() {
    let mut house = house(2, 1, 4);
    house.table.pin(house.adapters[0]);
    house.answer(Ok(()));
    let home = usize::from(house.state(0, 0) != State::Resident);
    for adapter in [1, 2, 3, 1, 2, 3] {
        let _cold = house.ask(adapter, home, Reach::One);
        house.answer(Ok(()));
        house.answer(Ok(()));
        house.ready().into_iter().for_each(|lease| house.table.release(lease, house.now));
        house.later(60);
        assert_eq!(house.state(0, home), State::Resident);
    }
    assert_eq!(house.table.counters().loads_ok, 7);
}

#[test]
fn a_retired_adapter_serves_its_leases_then_goes_for_good() {
    let mut house = house(1, 1, 1);
    let lease = house.hold(0, 0);
    house.table.retire(house.adapters[0], house.now);
    assert!(matches!(house.ask(0, 0, Reach::One), Acquired::Refused(why) if why.reason == Reason::Retired));
    assert_eq!(house.state(0, 0), State::Draining);
    house.table.release(lease, house.now);
    house.answer(Ok(()));
    assert_eq!(house.table.state(house.adapters[0], house.replicas[0]), None);
    let next = house.table.add_adapter();
    assert_eq!((next.index(), next == house.adapters[0]), (house.adapters[0].index(), false));
}

#[test]
fn results_and_leases_of_a_removed_replica_change_nothing() {
    let mut house = house(2, 1, 2);
    let lease = house.hold(0, 0);
    let _cold = ticket(house.ask(1, 1, Reach::One));
    let orders = house.orders();
    house.table.remove_replica(house.replicas[1], house.now);
    let heir = house.table.add_replica(house.now);
    for action in orders {
        let (Action::Load(holding) | Action::Unload(holding)) = action;
        house.table.load_done(holding, Ok(()), house.now);
    }
    assert!(house.table.state(house.adapters[1], heir).is_some_and(State::is_coming), "the wait went on elsewhere");
    house.table.remove_replica(house.replicas[0], house.now);
    house.table.release(lease, house.now);
    assert_eq!(house.table.violation(), None);
}

#[test]
fn a_popular_adapter_is_loaded_into_a_free_slot_unasked_where_the_policy_says_so() {
    let mut house = house(1, 2, 2);
    house.table.set_policy(Policy { prewarm_rate: Some(0.02), ..Policy::default() }, house.now);
    (0..3).for_each(|_| house.use_once(0, 0));
    house.use_once(1, 0);
    house.later(1);
    house.observe(0, &[], 1.0);
    let orders = house.orders();
    assert!(
        matches!(orders[..], [Action::Load(Holding { adapter, .. })] if adapter == house.adapters[0]),
        "{orders:?}"
    );
}

#[test]
fn the_view_counts_distinct_adapters_in_use() {
    let mut house = house(1, 3, 3);
    let _leases = [house.hold(0, 0), house.hold(0, 0), house.hold(1, 0)];
    house.use_once(2, 0);
    let seen = house.table.view(house.adapters[0], house.replicas[0], house.now).unwrap();
    assert_eq!((seen.distinct_leased, seen.leased, seen.free_slots, seen.idle_slots), (2, true, 0, 1));
}
