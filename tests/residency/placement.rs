//! Who gets which slot, and who waits for what.

use crate::house::{house, ticket};
use pointsman::fleet::snapshot::AdapterView;
use pointsman::residency::state::State;
use pointsman::residency::{Acquired, Action, Holding, Reach};
use std::time::Duration;

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
fn of_two_pinned_adapters_that_are_missing_one_takes_the_free_slot_and_for_the_other_an_idle_one_goes() {
    let mut house = house(1, 2, 3);
    house.use_once(2, 0);
    house.table.pin(house.adapters[0]);
    house.table.pin(house.adapters[1]);
    let orders = house.orders();
    assert!(matches!(orders[..], [Action::Load(_), Action::Unload(_)]), "{orders:?}");
    assert!(house.orders().is_empty());
}

#[test]
fn a_second_further_copy_is_not_begun_while_the_first_is_coming() {
    let mut house = house(3, 1, 1);
    let _lease = house.hold(0, 0);
    let _full = house.ask(0, 1, Reach::Spread);
    house.later(1);
    assert!(matches!(house.ask(0, 1, Reach::Spread), Acquired::Started { .. }));
    assert!(matches!(house.ask(0, 2, Reach::Spread), Acquired::Ready(_)));
    assert_eq!(house.state(0, 2), State::Absent);
}

#[test]
fn a_copy_that_is_not_the_only_one_goes_before_one_used_less_recently() {
    let mut house = house(2, 2, 3);
    house.use_once(1, 0);
    house.use_once(0, 1);
    house.use_once(0, 0);
    let _cold = house.ask(2, 0, Reach::Apart);
    let orders = house.orders();
    assert!(
        matches!(orders[..], [Action::Unload(Holding { adapter, .. })] if adapter == house.adapters[0]),
        "{orders:?}"
    );
}
