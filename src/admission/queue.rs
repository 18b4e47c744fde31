//! The waiting room as plain data: who waits, in which order they go in, who must go away.
//!
//! Pure: time is an argument. Classes are served in order, but of [`CLASS_TURNS`] requests that go in at least one comes
//! from a lower class, if one waits there: that is the bound on starvation. Within a class tenants share by deficit round
//! robin over estimated tokens (Shreedhar and Varghese, SIGCOMM 1995), weighted; within a tenant first come, first served,
//! so the requests of one session keep their order.

use super::priority::{Asker, Class};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Of so many requests that go in, at least one is of a lower class.
pub const CLASS_TURNS: u32 = 8;
/// What a tenant of weight 1 may send more with each turn, estimated tokens. Below the cost of a common request, so that the
/// turns are short.
const QUANTUM: f64 = 64.0;

/// Limits of one model's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests.
    pub count: usize,
    /// Their bodies together, bytes.
    pub bytes: usize,
}

/// One request at the door.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Who asks.
    pub asker: Asker,
    /// What it will cost, estimated tokens of prompt and answer; at least 1.
    pub tokens: u32,
    /// Its body, bytes.
    pub bytes: usize,
    /// It goes away then.
    pub deadline: Duration,
}

/// Names one waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It waits. If the room was full, a less urgent request had to go for it.
    Waits {
        /// Its place.
        place: Place,
        /// Who had to go.
        displaced: Option<Place>,
    },
    /// There is no room for it.
    Full,
}

#[derive(Debug)]
struct Waiting {
    place: Place,
    tokens: f64,
    bytes: usize,
    deadline: Duration,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    weight: f64,
    /// Tokens that it may still send in its turn.
    deficit: f64,
}

#[derive(Debug, Default)]
struct Lines {
    tenants: BTreeMap<u64, Line>,
    /// Tenants that wait, in the order of their turns.
    turns: VecDeque<u64>,
    /// Whose turn has begun: it has got its quantum.
    turn: Option<u64>,
}

/// Those who wait for one model.
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    classes: [Lines; 3],
    len: usize,
    bytes: usize,
    next: u64,
    /// Requests that went in since one of a lower class did although a higher one waited.
    since_lower: u32,
    /// Whose turn among the lower classes it is.
    lower_turn: usize,
}

impl Queue {
    /// An empty room.
    pub fn new(limits: Limits) -> Self {
        Self { limits, classes: Default::default(), len: 0, bytes: 0, next: 0, since_lower: 0, lower_turn: 0 }
    }

    /// Set the limits; who waits already may stay.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Their bodies together, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Requests of one class that wait.
    pub fn len_of(&self, class: Class) -> usize {
        self.classes.get(class as usize).map_or(0, Lines::len)
    }

    /// A request wants to wait.
    pub fn enter(&mut self, arrival: Arrival) -> Entered {
        let mut displaced = None;
        if !self.fits(arrival.bytes) {
            displaced = self.displace(arrival.asker.class, arrival.bytes);
            if displaced.is_none() {
                return Entered::Full;
            }
        }
        let place = Place(self.next);
        self.next += 1;
        self.len += 1;
        self.bytes += arrival.bytes;
        if let Some(lines) = self.classes.get_mut(arrival.asker.class as usize) {
            lines.push(arrival, place);
        }
        Entered::Waits { place, displaced }
    }

    fn fits(&self, bytes: usize) -> bool {
        self.len < self.limits.count && self.bytes.saturating_add(bytes) <= self.limits.bytes
    }

    /// The youngest request of the least urgent class below `class` goes, if that makes room for `bytes`.
    fn displace(&mut self, class: Class, bytes: usize) -> Option<Place> {
        let mut below = Class::ALL.into_iter().rev().take_while(|lower| *lower > class);
        let (place, freed) = below.find_map(|lower| self.classes.get(lower as usize)?.youngest())?;
        let fits = self.len <= self.limits.count && self.bytes - freed + bytes <= self.limits.bytes;
        (fits && self.remove(place)).then_some(place)
    }

    /// A waiting request goes away. Says whether it was there.
    pub fn remove(&mut self, place: Place) -> bool {
        let Some(gone) = self.classes.iter_mut().find_map(|lines| lines.remove(place)) else { return false };
        self.forget(&gone);
        true
    }

    /// Those whose time is up; they are out.
    pub fn expire(&mut self, now: Duration) -> Vec<Place> {
        let late = self.classes.iter().flat_map(|lines| lines.tenants.values()).flat_map(|line| &line.waiting);
        let late: Vec<_> = late.filter(|waiting| waiting.deadline <= now).map(|waiting| waiting.place).collect();
        for place in &late {
            self.remove(*place);
        }
        late
    }

    /// The next one to go in.
    pub fn admit(&mut self) -> Option<Place> {
        let class = self.next_class()?;
        let next = self.classes.get_mut(class)?.next()?;
        self.forget(&next);
        Some(next.place)
    }

    /// The most urgent class in which somebody waits; now and then one of the others, in turn.
    fn next_class(&mut self) -> Option<usize> {
        let waiting: SmallVec<[usize; 3]> = (0..self.classes.len()).filter(|class| !self.is_idle(*class)).collect();
        let (highest, lower) = waiting.split_first()?;
        if lower.is_empty() {
            self.since_lower = 0;
        } else if self.since_lower + 1 >= CLASS_TURNS {
            self.since_lower = 0;
            self.lower_turn = self.lower_turn.wrapping_add(1);
            return lower.get(self.lower_turn % lower.len()).copied();
        } else {
            self.since_lower += 1;
        }
        Some(*highest)
    }

    fn is_idle(&self, class: usize) -> bool {
        self.classes.get(class).is_none_or(|lines| lines.turns.is_empty())
    }

    fn forget(&mut self, gone: &Waiting) {
        self.len -= 1;
        self.bytes -= gone.bytes;
    }
}

impl Lines {
    fn len(&self) -> usize {
        self.tenants.values().map(|line| line.waiting.len()).sum()
    }

    fn push(&mut self, arrival: Arrival, place: Place) {
        let line = self.tenants.entry(arrival.asker.tenant).or_default();
        line.weight = arrival.asker.weight;
        if line.waiting.is_empty() {
            self.turns.push_back(arrival.asker.tenant);
        }
        let tokens = f64::from(arrival.tokens.max(1));
        line.waiting.push_back(Waiting { place, tokens, bytes: arrival.bytes, deadline: arrival.deadline });
    }

    fn youngest(&self) -> Option<(Place, usize)> {
        let last = self.tenants.values().filter_map(|line| line.waiting.back());
        last.max_by_key(|waiting| waiting.place).map(|waiting| (waiting.place, waiting.bytes))
    }

    fn remove(&mut self, place: Place) -> Option<Waiting> {
        let (tenant, at) = self.tenants.iter().find_map(|(tenant, line)| {
            Some((*tenant, line.waiting.iter().position(|waiting| waiting.place == place)?))
        })?;
        let gone = self.tenants.get_mut(&tenant)?.waiting.remove(at);
        self.leave_if_empty(tenant);
        gone
    }

    /// The next request by deficit round robin: at the start of its turn a tenant gets its quantum, and the turn lasts
    /// while what it may send covers its next request.
    fn next(&mut self) -> Option<Waiting> {
        loop {
            for _ in 0..self.turns.len() {
                let tenant = *self.turns.front()?;
                let line = self.tenants.get_mut(&tenant)?;
                if self.turn != Some(tenant) {
                    self.turn = Some(tenant);
                    line.deficit += QUANTUM * line.weight;
                }
                let cost = line.waiting.front()?.tokens;
                if line.deficit >= cost {
                    line.deficit -= cost;
                    let next = line.waiting.pop_front();
                    self.leave_if_empty(tenant);
                    return next;
                }
                self.turns.rotate_left(1);
                self.turn = None;
            }
            self.skip_idle_rounds();
        }
    }

    /// Rounds in which nobody could send are the same for all: take them at once.
    fn skip_idle_rounds(&mut self) {
        let rounds = |line: &Line| {
            let cost = line.waiting.front().map_or(0.0, |waiting| waiting.tokens);
            ((cost - line.deficit) / (QUANTUM * line.weight)).ceil() - 1.0
        };
        let idle = self.tenants.values().map(rounds).fold(f64::INFINITY, f64::min).max(0.0);
        if idle.is_finite() {
            self.tenants.values_mut().for_each(|line| line.deficit += idle * QUANTUM * line.weight);
        }
    }

    /// A tenant that does not wait keeps nothing: no credit for idle times, no memory.
    fn leave_if_empty(&mut self, tenant: u64) {
        if self.tenants.get(&tenant).is_some_and(|line| line.waiting.is_empty()) {
            self.tenants.remove(&tenant);
            self.turns.retain(|waiting| *waiting != tenant);
            self.turn = self.turn.filter(|turn| *turn != tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const FAR: Duration = Duration::from_secs(1_000_000);

    fn queue() -> Queue {
        Queue::new(Limits { count: 1_000, bytes: 1_000_000 })
    }

    fn arrival(tenant: u64, class: Class, tokens: u32) -> Arrival {
        Arrival { asker: Asker { tenant, class, weight: 1.0 }, tokens, bytes: 100, deadline: FAR }
    }

    fn enter(queue: &mut Queue, arrival: Arrival) -> Place {
        match queue.enter(arrival) {
            Entered::Waits { place, displaced: None } => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn urgent_requests_go_first_and_lower_classes_get_their_bounded_turn() {
        let mut queue = queue();
        let mut class_of = HashMap::new();
        for class in [Class::Batch, Class::Default, Class::Interactive] {
            for _ in 0..100 {
                class_of.insert(enter(&mut queue, arrival(1, class, 10)), class);
            }
        }
        let first: Vec<_> = (0..64).map(|_| class_of[&queue.admit().unwrap()]).collect();
        let count = |class| first.iter().filter(|admitted| **admitted == class).count();
        assert_eq!([count(Class::Interactive), count(Class::Default), count(Class::Batch)], [56, 4, 4]);
        assert_eq!(first[..7], [Class::Interactive; 7]);
    }

    #[test]
    fn a_tenant_that_sends_ten_times_as_much_gets_its_share_and_no_more() {
        let mut queue = queue();
        let mut tenant_of = HashMap::new();
        for at in 0..220 {
            let tenant = u64::from(at % 11 == 0);
            tenant_of.insert(enter(&mut queue, arrival(tenant, Class::Default, 300)), tenant);
        }
        let admitted: Vec<_> = (0..40).map(|_| tenant_of[&queue.admit().unwrap()]).collect();
        let modest = admitted.iter().filter(|tenant| **tenant == 1).count();
        assert!((18..=20).contains(&modest), "{modest} of 40");
    }

    #[test]
    fn fairness_is_by_tokens_and_weight() {
        let mut queue = queue();
        let mut cost_of = HashMap::new();
        for _ in 0..200 {
            cost_of.insert(enter(&mut queue, arrival(1, Class::Default, 4_000)), (1, 4_000));
            let light = Arrival {
                asker: Asker { weight: 2.0, ..arrival(2, Class::Default, 1).asker },
                ..arrival(2, Class::Default, 500)
            };
            cost_of.insert(enter(&mut queue, light), (2, 500));
        }
        let mut tokens = [0, 0, 0];
        for _ in 0..100 {
            let (tenant, cost) = cost_of[&queue.admit().unwrap()];
            tokens[tenant] += cost;
        }
        let ratio = f64::from(tokens[2]) / f64::from(tokens[1]);
        assert!((1.6..=2.4).contains(&ratio), "{tokens:?}");
    }

    #[test]
    fn one_tenant_is_served_in_the_order_of_arrival() {
        let mut queue = queue();
        let places: Vec<_> =
            [5_000, 1, 900, 70_000, 3].map(|tokens| enter(&mut queue, arrival(7, Class::Default, tokens))).into();
        assert_eq!(std::iter::from_fn(|| queue.admit()).collect::<Vec<_>>(), places);
    }

    #[test]
    fn a_full_room_lets_a_more_urgent_request_displace_the_youngest_of_the_least_urgent() {
        let mut queue = Queue::new(Limits { count: 2, bytes: 1_000 });
        enter(&mut queue, arrival(1, Class::Batch, 1));
        let young = enter(&mut queue, arrival(1, Class::Batch, 1));
        assert_eq!(queue.enter(arrival(1, Class::Batch, 1)), Entered::Full);
        let entered = queue.enter(arrival(1, Class::Interactive, 1));
        assert!(matches!(entered, Entered::Waits { displaced: Some(gone), .. } if gone == young), "{entered:?}");
        assert_eq!(queue.enter(Arrival { bytes: 2_000, ..arrival(1, Class::Interactive, 1) }), Entered::Full);
    }

    #[test]
    fn who_waits_too_long_is_out() {
        let mut queue = queue();
        let early = enter(&mut queue, Arrival { deadline: Duration::from_secs(1), ..arrival(1, Class::Default, 1) });
        let late = enter(&mut queue, arrival(1, Class::Default, 1));
        assert_eq!(queue.expire(Duration::from_secs(1)), [early]);
        assert_eq!((queue.admit(), queue.admit()), (Some(late), None));
    }

    proptest! {
        #[test]
        fn everybody_leaves_exactly_once_and_nothing_is_left(
            steps in prop::collection::vec((0_u8..4, 0_u64..4, 0_usize..3, 1_u32..5_000, 1_usize..500), 1..300)
        ) {
            let mut queue = Queue::new(Limits { count: 20, bytes: 5_000 });
            let mut inside: Vec<(Place, usize)> = Vec::new();
            let leave = |inside: &mut Vec<(Place, usize)>, place| {
                let at = inside.iter().position(|(known, _)| *known == place).expect("it was inside");
                inside.remove(at);
            };
            for (now, (kind, tenant, class, tokens, bytes)) in steps.into_iter().enumerate() {
                let now = Duration::from_secs(now as u64);
                match kind {
                    0 | 1 => {
                        let base = arrival(tenant, Class::ALL[class], tokens);
                        let deadline = now + Duration::from_secs(u64::from(tokens % 50));
                        if let Entered::Waits { place, displaced } = queue.enter(Arrival { bytes, deadline, ..base }) {
                            inside.push((place, bytes));
                            if let Some(gone) = displaced {
                                leave(&mut inside, gone);
                            }
                        }
                    }
                    2 => if let Some(place) = queue.admit() { leave(&mut inside, place) },
                    _ => for place in queue.expire(now) { leave(&mut inside, place) },
                }
                prop_assert_eq!(queue.len(), inside.len());
                prop_assert_eq!(queue.bytes(), inside.iter().map(|(_, bytes)| bytes).sum::<usize>());
                prop_assert!(queue.len() <= 20 && queue.bytes() <= 5_000);
            }
            while let Some(place) = queue.admit() {
                leave(&mut inside, place);
            }
            prop_assert!(inside.is_empty() && queue.bytes() == 0 && queue.is_empty());
            prop_assert!(queue.classes.iter().all(|lines| lines.tenants.is_empty() && lines.turns.is_empty()));
        }
    }
}
