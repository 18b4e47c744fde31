//! Who generates now and who waits: `max_running` seats, at most `max_loras` distinct adapters in them, a KV cache of
//! `kv_tokens`. First come, first served, except that a request whose adapter does not fit is passed over (deferred).
//!
//! When does a request leave? When its [`Seat`] is dropped, whether it had its turn or still waited.

use super::clock;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// An adapter's name, shared.
pub(super) type Name = Arc<str>;

/// The limits of an engine's scheduler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_running: usize,
    pub(super) max_loras: usize,
    pub(super) kv_tokens: u64,
}

/// What the gauges tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauges {
    pub(super) running: usize,
    pub(super) capacity: usize,
    pub(super) deferred: usize,
    pub(super) peak: usize,
    pub(super) kv: f64,
}

#[derive(Debug)]
pub(super) struct Seats {
    limits: Limits,
    /// Tokens in the KV cache.
    held: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    running: HashMap<u64, Option<Name>>,
    waiting: VecDeque<Waiter>,
    /// Adapters in use, in the order in which they came, with their seats.
    adapters: Vec<(Name, usize)>,
    peak: usize,
    /// Every set of running adapters ever seen, joined by commas, with the time it last came about.
    history: Vec<(String, f64)>,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    adapter: Option<Name>,
    tokens: u64,
    deferred: bool,
    turn: oneshot::Sender<()>,
}

impl Seats {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let mut state = State::default();
        state.note_adapters();
        Arc::new(Self { limits, held: AtomicU64::new(0), state: Mutex::new(state) })
    }

    /// Wait for a seat. Dropping the future leaves the queue.
    pub(super) async fn take(self: &Arc<Self>, adapter: Option<Name>, prompt_tokens: u64) -> Seat {
        let (mut seat, turn) = self.enter(adapter, prompt_tokens);
        if let Some(turn) = turn {
            // An error would mean that the queue is gone, and nobody is left to wait for.
            let _ = turn.await;
        }
        seat.hold(prompt_tokens);
        seat
    }

    fn enter(self: &Arc<Self>, adapter: Option<Name>, tokens: u64) -> (Seat, Option<oneshot::Receiver<()>>) {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let (turn, receiver) = oneshot::channel();
        state.waiting.push_back(Waiter { id, adapter, tokens, deferred: false, turn });
        self.admit(&mut state);
        let seated = state.running.contains_key(&id);
        (Seat { seats: Arc::clone(self), id, held: 0 }, (!seated).then_some(receiver))
    }

    /// Seat everyone who can be seated.
    fn admit(&self, state: &mut State) {
        let mut at = 0;
        while state.running.len() < self.limits.max_running {
            let Some(waiter) = state.waiting.get(at) else { break };
            if !self.adapter_fits(state, waiter.adapter.as_ref()) {
                if let Some(waiter) = state.waiting.get_mut(at) {
                    waiter.deferred = true;
                }
                at += 1;
            } else if self.tokens_fit(state, waiter.tokens) {
                state.seat(at);
            } else {
                break;
            }
        }
        debug_assert!(state.running.len() <= self.limits.max_running);
    }

    fn adapter_fits(&self, state: &State, adapter: Option<&Name>) -> bool {
        adapter.is_none_or(|adapter| {
            state.adapters.len() < self.limits.max_loras || state.adapters.iter().any(|(known, _)| known == adapter)
        })
    }

    /// A request that no other keeps waiting is let in however long it is.
    fn tokens_fit(&self, state: &State, tokens: u64) -> bool {
        state.running.is_empty() || self.held.load(Ordering::Relaxed) + tokens <= self.limits.kv_tokens
    }

    fn leave(&self, id: u64) {
        let mut state = self.state.lock();
        match state.running.remove(&id) {
            Some(adapter) => state.release(adapter),
            None => state.waiting.retain(|waiter| waiter.id != id),
        }
        self.admit(&mut state);
    }

    pub(super) fn gauges(&self) -> Gauges {
        let state = self.state.lock();
        let deferred = state.waiting.iter().filter(|waiter| waiter.deferred).count();
        #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
        let kv = self.held.load(Ordering::Relaxed) as f64 / self.limits.kv_tokens.max(1) as f64;
        Gauges {
            running: state.running.len(),
            capacity: state.waiting.len() - deferred,
            deferred,
            peak: state.peak,
            kv: kv.min(1.0),
        }
    }

    /// Every set of running adapters seen, with the time (seconds since the epoch) it last came about.
    pub(super) fn adapter_history(&self) -> Vec<(String, f64)> {
        self.state.lock().history.clone()
    }
}

impl State {
    fn seat(&mut self, at: usize) {
        let Some(waiter) = self.waiting.remove(at) else { return };
        if let Some(adapter) = &waiter.adapter {
            self.use_adapter(adapter);
        }
        self.running.insert(waiter.id, waiter.adapter);
        self.peak = self.peak.max(self.running.len());
        // The receiver is gone when the seat was free at once or its owner has just left; the seat's drop sees to that.
        let _ = waiter.turn.send(());
    }

    fn use_adapter(&mut self, adapter: &Name) {
        match self.adapters.iter_mut().find(|(known, _)| known == adapter) {
            Some((_, seats)) => *seats += 1,
            None => {
                self.adapters.push((Arc::clone(adapter), 1));
                self.note_adapters();
            }
        }
    }

    fn release(&mut self, adapter: Option<Name>) {
        let Some(adapter) = adapter else { return };
        let before = self.adapters.len();
        self.adapters.retain_mut(|(known, seats)| {
            *seats -= usize::from(*known == adapter);
            *seats > 0
        });
        if self.adapters.len() != before {
            self.note_adapters();
        }
    }

    fn note_adapters(&mut self) {
        let names: Vec<&str> = self.adapters.iter().map(|(name, _)| &**name).collect();
        let (label, latest) = (names.join(","), self.history.iter().map(|(_, time)| *time).fold(0.0, f64::max));
        // Readers take the series with the largest value as the present one: never two alike.
        let time = clock::unix_seconds().max(latest + 1e-6);
        match self.history.iter_mut().find(|(known, _)| *known == label) {
            Some((_, last)) => *last = time,
            None => self.history.push((label, time)),
        }
    }
}

/// A place in the queue or a seat, given back by `Drop`.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    id: u64,
    held: u64,
}

impl Seat {
    /// Hold so many more tokens in the KV cache.
    pub(super) fn hold(&mut self, tokens: u64) {
        self.held += tokens;
        self.seats.held.fetch_add(tokens, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.held.fetch_sub(self.held, Ordering::Relaxed);
        self.seats.leave(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(max_running: usize, max_loras: usize) -> Arc<Seats> {
        Seats::new(Limits { max_running, max_loras, kv_tokens: 1_000 })
    }

    fn name(text: &str) -> Option<Name> {
        Some(Name::from(text))
    }

    #[test]
    fn twelve_streams_over_six_adapters_split_as_recorded() {
        let seats = seats(4, 2);
        let _all: Vec<_> = (0..12).map(|n| seats.enter(name(&format!("lora-{}", n % 6)), 1)).collect();
        let gauges = seats.gauges();
        assert_eq!((gauges.running, gauges.capacity, gauges.deferred), (4, 4, 4));
    }

    #[test]
    fn a_seat_that_leaves_wakes_the_next() {
        let seats = seats(1, 1);
        let (first, _) = seats.enter(None, 1);
        let (_second, turn) = seats.enter(None, 1);
        drop(first);
        assert!(turn.expect("the second waits").try_recv().is_ok());
    }

    #[test]
    fn a_waiter_that_leaves_after_its_turn_came_frees_the_seat() {
        let seats = seats(1, 1);
        let (first, _) = seats.enter(None, 1);
        let second = seats.enter(None, 1);
        drop(first);
        drop(second);
        assert_eq!(seats.gauges().running, 0);
    }

    #[test]
    fn the_newest_adapter_series_is_the_present_one() {
        let seats = seats(4, 2);
        let held = seats.enter(name("sql"), 1);
        let newest = |seats: &Seats| {
            let mut all = seats.adapter_history();
            all.sort_by(|a, b| a.1.total_cmp(&b.1));
            all.pop().map(|(label, _)| label)
        };
        assert_eq!(newest(&seats).as_deref(), Some("sql"));
        drop(held);
        assert_eq!(newest(&seats).as_deref(), Some(""));
    }

    #[tokio::test]
    async fn a_full_cache_keeps_the_next_one_waiting() {
        let seats = seats(4, 2);
        let first = seats.take(None, 900).await;
        let (_second, turn) = seats.enter(None, 200);
        assert!(turn.is_some() && seats.gauges().capacity == 1);
        drop(first);
        assert_eq!(seats.gauges().running, 1);
    }
}
