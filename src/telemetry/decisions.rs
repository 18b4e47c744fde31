//! The last requests with their decisions: a ring that each request writes its own line of.
//!
//! A line is opened before the first decision and filled in as the request goes on, so that what waits or runs is seen too.
//! Every slot has a lock of its own and requests have a slot each: nobody waits for anybody but a reader. Everything that a
//! decision weighed is kept only of each [`SAMPLE`]th request, and of all while somebody looks.

use super::decision::{Asked, End, Entry, Try};
use crate::fleet::clock::now_ms;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests kept.
pub const KEPT: usize = 512;

/// One of so many requests is traced while nobody looks.
pub const SAMPLE: u64 = 16;

/// Somebody who has asked will ask again within so long, milliseconds.
const LOOKS_FOR_MS: u64 = 15_000;

/// The ring.
#[derive(Debug)]
pub struct Decisions {
    slots: Box<[Mutex<Option<Entry>>]>,
    next: AtomicU64,
    watched_until: AtomicU64,
}

/// Which lines are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Of this model only.
    pub model: Option<&'a str>,
    /// At most so many, the newest first.
    pub limit: usize,
}

impl Default for Decisions {
    fn default() -> Self {
        Self {
            slots: (0..KEPT).map(|_| Mutex::new(None)).collect(),
            next: AtomicU64::new(0),
            watched_until: AtomicU64::new(0),
        }
    }
}

impl Decisions {
    /// Opens a request's line; gives its number.
    pub fn open(&self, asked: Asked) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(slot) = self.slot(number) {
            *slot.lock() = Some(Entry { number, asked, tries: Default::default(), end: None });
        }
        number
    }

    /// Is all to be kept that the decisions of this request weigh?
    pub fn traces(&self, number: u64) -> bool {
        number.is_multiple_of(SAMPLE) || now_ms() < self.watched_until.load(Ordering::Relaxed)
    }

    /// The scheduler has decided.
    pub fn decided(&self, number: u64, made: Try) {
        self.write(number, |entry| entry.tries.push(made));
    }

    /// The last decision led somewhere: fill it in.
    pub fn placed(&self, number: u64, fill: impl FnOnce(&mut Try)) {
        self.write(number, |entry| {
            if let Some(last) = entry.tries.last_mut() {
                fill(last);
            }
        });
    }

    /// The request has ended.
    pub fn ended(&self, number: u64, end: End) {
        self.write(number, |entry| entry.end = Some(end));
    }

    /// One line as JSON, while it is still kept.
    pub fn line(&self, number: u64) -> Option<Value> {
        self.copy(number, |_| true).as_ref().map(Entry::json)
    }

    /// The last lines as JSON. Whoever reads them is taken to look for a while: all decisions are traced until then.
    pub fn lines(&self, wanted: Wanted<'_>) -> Vec<Value> {
        self.watched_until.store(now_ms() + LOOKS_FOR_MS, Ordering::Relaxed);
        self.select(wanted.limit, |entry| wanted.model.is_none_or(|model| *entry.asked.model == *model))
    }

    /// The last requests that did not end with an answer, the newest first.
    pub fn failures(&self, limit: usize) -> Vec<Value> {
        self.select(limit, |entry| entry.end.is_some_and(|end| end.outcome.is_trouble()))
    }

    fn select(&self, limit: usize, wanted: impl Fn(&Entry) -> bool) -> Vec<Value> {
        let next = self.next.load(Ordering::Relaxed);
        let numbers = (next.saturating_sub(self.slots.len() as u64)..next).rev();
        numbers.filter_map(|number| self.copy(number, &wanted)).take(limit).map(|entry| entry.json()).collect()
    }

    /// A copy, so that no request waits while a reader makes JSON of its line.
    fn copy(&self, number: u64, wanted: impl Fn(&Entry) -> bool) -> Option<Entry> {
        self.slot(number)?.lock().as_ref().filter(|entry| entry.number == number && wanted(entry)).cloned()
    }

    /// A request that outlived its line writes nowhere.
    fn write(&self, number: u64, change: impl FnOnce(&mut Entry)) {
        if let Some(slot) = self.slot(number)
            && let Some(entry) = slot.lock().as_mut().filter(|entry| entry.number == number)
        {
            change(entry);
        }
    }

    fn slot(&self, number: u64) -> Option<&Mutex<Option<Entry>>> {
        self.slots.get(usize::try_from(number).ok()? % self.slots.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn asked(number: usize) -> Asked {
        Asked {
            at: SystemTime::now(),
            request_id: format!("id-{number}").into(),
            model: if number.is_multiple_of(2) { "even" } else { "odd" }.into(),
            adapter: None,
            session: Some(7),
            profile: "chat".into(),
            queue_wait: Duration::ZERO,
        }
    }

    const ALL: Wanted<'_> = Wanted { model: None, limit: usize::MAX };

    #[test]
    fn the_ring_keeps_the_last_and_a_line_that_was_overwritten_takes_nothing_more() {
        let ring = Decisions::default();
        let first = ring.open(asked(0));
        (1..=KEPT).for_each(|number| {
            ring.open(asked(number));
        });
        ring.decided(first, Try { candidates: 99, ..Try::default() });
        let lines = ring.lines(ALL);
        assert_eq!(lines.len(), KEPT);
        assert_eq!(lines[0]["request_id"], format!("id-{KEPT}"));
        assert_eq!(lines[KEPT - 1]["request_id"], "id-1");
        assert!(lines.iter().all(|line| line["tries"].as_array().unwrap().is_empty()));
        assert_eq!(ring.line(first), None);
        assert_eq!(ring.lines(Wanted { model: Some("odd"), limit: 3 }).len(), 3);
        assert!(ring.lines(Wanted { model: Some("odd"), ..ALL }).iter().all(|line| line["model"] == "odd"));
    }

    #[test]
    fn all_is_traced_while_somebody_looks_and_a_sample_else() {
        let ring = Decisions::default();
        let traced = |ring: &Decisions| (0..160).filter(|number| ring.traces(*number)).count();
        assert_eq!(traced(&ring), 10);
        ring.lines(ALL);
        assert_eq!(traced(&ring), 160);
    }
}
