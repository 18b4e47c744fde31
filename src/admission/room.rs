//! The waiting room of one model as requests meet it: enter, wait, leave. Kept over reloads.
//!
//! The common case, room in the fleet and nobody waiting, costs one snapshot and an atomic load. Whoever finds no room
//! waits for [`Room::pump`] to let him in. A [`Permit`] counts from the admission until the request is counted on a
//! replica, so that a burst does not enter on one snapshot. A wait that is dropped leaves at once.

use super::queue::{Arrival, Entered, Limits, Place, Queue};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// Weight of a new sample in the drain rate.
const RATE_ALPHA: f64 = 0.1;
/// Bounds of a `Retry-After`, seconds.
const RETRY_AFTER: (f64, f64) = (1.0, 60.0);

/// One model's waiting room.
#[derive(Debug)]
pub struct Room {
    waiting: AtomicUsize,
    /// Admitted and not yet counted on a replica.
    entering: AtomicUsize,
    door: Mutex<Door>,
    arrived: Notify,
}

#[derive(Debug)]
struct Door {
    queue: Queue,
    answers: HashMap<Place, oneshot::Sender<Verdict>>,
    drain: Drain,
}

/// How fast requests go in, smoothed.
#[derive(Debug, Default)]
struct Drain {
    per_second: f64,
    last: Duration,
}

impl Drain {
    fn note(&mut self, admitted: usize, now: Duration) {
        let passed = now.saturating_sub(self.last).as_secs_f64();
        if passed > 0.0 {
            self.last = now;
            self.per_second += RATE_ALPHA * (admitted as f64 / passed - self.per_second);
        }
    }
}

/// How a wait ended.
#[derive(Debug)]
enum Verdict {
    In,
    /// A more urgent request took the place.
    Displaced,
    TooLate,
}

/// Why a request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The room was full, or became so for it.
    Full,
    /// Its deadline passed.
    TooLate,
}

/// What [`Room::enter`] answers.
#[derive(Debug)]
#[must_use]
pub enum Entry {
    /// Go on.
    In(Permit),
    /// Wait.
    Wait(Wait),
    /// No.
    Full,
}

/// An admitted request that no replica counts yet; ends by `Drop`.
#[derive(Debug)]
pub struct Permit(Arc<Room>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.entering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request that waits; leaves by `Drop`.
#[derive(Debug)]
pub struct Wait {
    room: Arc<Room>,
    place: Place,
    answer: oneshot::Receiver<Verdict>,
}

impl Wait {
    /// Wait to the end.
    ///
    /// # Errors
    /// The room became full for it, or its deadline passed.
    pub async fn end(mut self) -> Result<Permit, Refused> {
        match (&mut self.answer).await {
            Ok(Verdict::In) => Ok(Permit(self.room.clone())),
            Ok(Verdict::Displaced) => Err(Refused::Full),
            Ok(Verdict::TooLate) | Err(_) => Err(Refused::TooLate),
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut door = self.room.door.lock();
        if door.queue.remove(self.place) {
            door.answers.remove(&self.place);
            self.room.waiting.store(door.queue.len(), Ordering::Relaxed);
        } else if let Ok(Verdict::In) = self.answer.try_recv() {
            // It was let in and nobody heard it: the permit that it never became.
            self.room.entering.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Room {
    /// An empty room.
    pub fn new(limits: Limits) -> Self {
        let door = Door { queue: Queue::new(limits), answers: HashMap::new(), drain: Drain::default() };
        Self {
            waiting: AtomicUsize::new(0),
            entering: AtomicUsize::new(0),
            door: Mutex::new(door),
            arrived: Notify::new(),
        }
    }

    /// Set the limits; who waits already may stay.
    pub fn set_limits(&self, limits: Limits) {
        self.door.lock().queue.set_limits(limits);
    }

    /// A request comes. `has_room` says whether the fleet has room beside that many that are entering.
    pub fn enter(self: &Arc<Self>, arrival: Arrival, has_room: impl FnOnce(usize) -> bool) -> Entry {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            // Counted first: of two that come at once, the second sees the first.
            let before = self.entering.fetch_add(1, Ordering::Relaxed);
            let permit = Permit(self.clone());
            if has_room(before) {
                return Entry::In(permit);
            }
        }
        let mut door = self.door.lock();
        let Entered::Waits { place, displaced } = door.queue.enter(arrival) else { return Entry::Full };
        if let Some(answer) = displaced.and_then(|place| door.answers.remove(&place)) {
            let _ = answer.send(Verdict::Displaced);
        }
        let (sender, answer) = oneshot::channel();
        door.answers.insert(place, sender);
        self.waiting.store(door.queue.len(), Ordering::Relaxed);
        drop(door);
        self.arrived.notify_one();
        Entry::Wait(Wait { room: self.clone(), place, answer })
    }

    /// Ends when somebody may be waiting.
    pub async fn occupied(&self) {
        while self.waiting() == 0 {
            self.arrived.notified().await;
        }
    }

    /// Let in as many as the fleet has room for, and send those away whose time is up. `room(entering, most)` says how
    /// many more can enter beside those that are entering, `most` at most.
    pub fn pump(&self, now: Duration, room: impl FnOnce(usize, usize) -> usize) {
        let mut door = self.door.lock();
        for late in door.queue.expire(now) {
            if let Some(answer) = door.answers.remove(&late) {
                let _ = answer.send(Verdict::TooLate);
            }
        }
        let most = room(self.entering.load(Ordering::Relaxed), door.queue.len());
        let mut admitted = 0;
        while admitted < most
            && let Some(place) = door.queue.admit()
        {
            self.entering.fetch_add(1, Ordering::Relaxed);
            let heard = door.answers.remove(&place).is_some_and(|answer| answer.send(Verdict::In).is_ok());
            if heard {
                admitted += 1;
            } else {
                self.entering.fetch_sub(1, Ordering::Relaxed);
            }
        }
        door.drain.note(admitted, now);
        self.waiting.store(door.queue.len(), Ordering::Relaxed);
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Requests of each class that wait, and their bodies together in bytes.
    pub fn occupancy(&self) -> ([usize; 3], usize) {
        let door = self.door.lock();
        (super::Class::ALL.map(|class| door.queue.len_of(class)), door.queue.bytes())
    }

    /// When the ones who wait now will probably have gone in, whole seconds: a measured rate, not a promise.
    pub fn retry_after(&self) -> u32 {
        let door = self.door.lock();
        let seconds = (door.queue.len() as f64 + 1.0) / door.drain.per_second.max(f64::MIN_POSITIVE);
        seconds.ceil().clamp(RETRY_AFTER.0, RETRY_AFTER.1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::priority::{Asker, Class};
    use super::*;

    fn room() -> Arc<Room> {
        Arc::new(Room::new(Limits { count: 2, bytes: 1_000 }))
    }

    fn arrival(class: Class) -> Arrival {
        let asker = Asker { tenant: 0, class, weight: 1.0 };
        Arrival { asker, tokens: 1, bytes: 10, deadline: Duration::from_secs(10) }
    }

    fn wait(room: &Arc<Room>, class: Class) -> Wait {
        match room.enter(arrival(class), |_| false) {
            Entry::Wait(wait) => wait,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn those_who_enter_at_once_see_each_other() {
        let room = room();
        let first = room.enter(arrival(Class::Default), |entering| entering < 1);
        assert!(matches!(first, Entry::In(_)));
        assert!(matches!(room.enter(arrival(Class::Default), |entering| entering < 1), Entry::Wait(_)));
        drop(first);
        assert_eq!(room.entering.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn who_waits_is_let_in_or_displaced_or_too_late() {
        let room = room();
        let (first, second) = (wait(&room, Class::Default), wait(&room, Class::Batch));
        assert!(matches!(room.enter(arrival(Class::Batch), |_| true), Entry::Full), "nobody passes those who wait");
        let third = wait(&room, Class::Interactive);
        assert_eq!(second.end().await.unwrap_err(), Refused::Full);
        room.pump(Duration::from_secs(1), |_, _| 1);
        assert!(third.end().await.is_ok());
        room.pump(Duration::from_secs(10), |_, _| 0);
        assert_eq!(first.end().await.unwrap_err(), Refused::TooLate);
        assert_eq!((room.waiting(), room.entering.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_wait_that_is_dropped_leaves_nothing_behind() {
        let room = room();
        let (first, second) = (wait(&room, Class::Default), wait(&room, Class::Default));
        drop(second);
        assert_eq!(room.waiting(), 1);
        room.pump(Duration::from_secs(1), |_, most| most);
        drop(first);
        assert_eq!((room.waiting(), room.entering.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn retry_after_follows_the_drain() {
        let room = Arc::new(Room::new(Limits { count: 1_000, bytes: 1_000_000 }));
        let patient = Arrival { deadline: Duration::from_secs(1_000), ..arrival(Class::Default) };
        let _waits: Vec<_> = (0..240).map(|_| room.enter(patient, |_| false)).collect();
        for second in 1..=100 {
            room.pump(Duration::from_secs(second), |_, _| 2);
        }
        // 40 wait still, and 2 go in each second.
        assert!((18..=24).contains(&room.retry_after()), "{}", room.retry_after());
    }
}
