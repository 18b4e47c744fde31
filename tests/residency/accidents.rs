//! Failures, losses, restarts, and changes of the fleet.

use crate::house::{house, is_load, ticket};
use pointsman::fleet::snapshot::AdapterView;
use pointsman::residency::state::State;
use pointsman::residency::{Acquired, Action, Holding, Listing, LoadFailure, Policy, Reach, Reason};
use std::num::NonZeroUsize;
use std::time::Duration;

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
    assert_eq!((seen.distinct_leased, seen.leased, seen.free_slots), (2, true, 0));
    assert_eq!(house.table.idle_slots(house.replicas[0], house.now), 1);
}

#[test]
fn a_promised_adapter_that_is_found_on_the_engine_answers_its_waiters() {
    let mut house = house(1, 1, 2);
    house.use_once(0, 0);
    let _cold = ticket(house.ask(1, 0, Reach::One));
    house.later(1);
    house.observe(0, &[0, 1], 1.0);
    assert_eq!(house.ready().len(), 1);
}

#[test]
fn who_waited_for_a_load_that_a_restart_cut_short_comes_before_those_who_wait_for_a_slot() {
    let mut house = house(1, 1, 2);
    house.observe(0, &[], 1.0);
    let _cold = ticket(house.ask(0, 0, Reach::One));
    house.orders();
    let _behind = ticket(house.ask(1, 0, Reach::One));
    house.later(1);
    house.observe(0, &[], 2.0);
    assert!(house.state(0, 0).is_coming() && !house.state(1, 0).is_coming());
}

#[test]
fn a_lowered_limit_takes_back_what_was_promised_above_it() {
    let mut house = house(1, 2, 3);
    let _busy = house.hold(0, 0);
    house.use_once(1, 0);
    let _cold = ticket(house.ask(2, 0, Reach::One));
    assert_eq!(house.state(2, 0), State::Promised);
    house.table.set_limit(NonZeroUsize::MIN, house.now);
    assert_eq!((house.state(2, 0), house.table.waiting()), (State::Absent, 1));
    house.answer(Ok(()));
    assert_eq!(house.table.slots_in_use(house.replicas[0]), 1);
}
