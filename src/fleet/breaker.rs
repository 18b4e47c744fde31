//! May a replica get requests? `Healthy`, `Tripped` until a time, then `Probing`: one request at a time.
//!
//! The state lives in one atomic word so that a decision reads it without a lock; each transition is a pure function from
//! word to word, applied by compare-and-swap. Only what tells of the replica counts as a failure (refused, reset, timed
//! out, died, 5xx before the first byte); an answer that blames the client is a success here.

use super::snapshot::BreakerView;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest rest: doubling ends here.
pub const MAX_REST: Duration = Duration::from_secs(30);

/// How bad a failure is for the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Counts towards `trip_after`.
    Suspect,
    /// Trips at once: nobody listens there, or the engine says itself that it is dead.
    Dead,
}

/// When to trip and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Consecutive failures that trip. At least 1.
    pub trip_after: u32,
    /// The first rest; each further trip without a success between doubles it, up to [`MAX_REST`].
    pub trip_for: Duration,
}

/// The word's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// Consecutive failures since the last success, at most 255.
    failures: u8,
    /// Trips since the last success, at most 255.
    trips: u8,
    /// End of the rest in milliseconds of the process clock; 0 when healthy.
    until_ms: u64,
}

/// Bits of `until_ms`: 48, enough for 8,900 years.
const UNTIL_BITS: u32 = 48;

impl State {
    fn unpack(word: u64) -> Self {
        let byte = |shift: u32| u8::try_from((word >> shift) & 0xff).unwrap_or(u8::MAX);
        Self { failures: byte(UNTIL_BITS), trips: byte(UNTIL_BITS + 8), until_ms: word & ((1 << UNTIL_BITS) - 1) }
    }

    fn pack(self) -> u64 {
        u64::from(self.trips) << (UNTIL_BITS + 8)
            | u64::from(self.failures) << UNTIL_BITS
            | self.until_ms.min((1 << UNTIL_BITS) - 1)
    }

    fn view(self, now_ms: u64) -> BreakerView {
        match self.until_ms {
            0 => BreakerView::Healthy,
            until if now_ms < until => BreakerView::Tripped,
            _ => BreakerView::Probing,
        }
    }

    fn failed(self, severity: Severity, policy: &Policy, now_ms: u64) -> Self {
        let failures = self.failures.saturating_add(1);
        let trips = match self.view(now_ms) {
            BreakerView::Tripped => return Self { failures, ..self },
            BreakerView::Healthy if severity == Severity::Suspect && u32::from(failures) < policy.trip_after => {
                return Self { failures, ..self };
            }
            BreakerView::Healthy | BreakerView::Probing => self.trips.saturating_add(1),
        };
        let rest = policy.trip_for.saturating_mul(1 << u32::from(trips - 1).min(16)).min(MAX_REST);
        Self { failures, trips, until_ms: now_ms.saturating_add(super::clock::to_ms(rest).max(1)) }
    }

    /// The rest ends now: the next request probes.
    fn rested(self, now_ms: u64) -> Self {
        Self { until_ms: self.until_ms.min(now_ms), ..self }
    }
}

/// The breaker of one replica.
#[derive(Debug, Default)]
pub struct Breaker(AtomicU64);

impl Breaker {
    /// How a decision sees it at `now_ms`.
    pub fn view(&self, now_ms: u64) -> BreakerView {
        State::unpack(self.0.load(Ordering::Relaxed)).view(now_ms)
    }

    /// The replica did its part: the breaker closes.
    pub fn succeeded(&self) {
        // The common case must not dirty the cache line that all workers read.
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    /// The replica failed. Returns whether this failure tripped it.
    pub fn failed(&self, severity: Severity, policy: &Policy, now_ms: u64) -> bool {
        self.update(|state| state.failed(severity, policy, now_ms), now_ms)
    }

    /// A health probe reached the replica again: let the next request try it instead of waiting for the rest to end.
    pub fn end_rest(&self, now_ms: u64) {
        self.update(|state| state.rested(now_ms), now_ms);
    }

    /// Apply a transition; says whether it went into `Tripped`. Relaxed ordering: the word is the whole state and guards
    /// nothing else.
    fn update(&self, transition: impl Fn(State) -> State, now_ms: u64) -> bool {
        let apply = |word| Some(transition(State::unpack(word)).pack());
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, apply).unwrap_or_else(|word| word);
        State::unpack(before).view(now_ms) != BreakerView::Tripped
            && transition(State::unpack(before)).view(now_ms) == BreakerView::Tripped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy { trip_after: 3, trip_for: Duration::from_secs(1) };

    #[test]
    fn three_suspect_failures_in_a_row_trip() {
        let breaker = Breaker::default();
        assert!(!breaker.failed(Severity::Suspect, &POLICY, 10));
        assert!(!breaker.failed(Severity::Suspect, &POLICY, 10));
        assert!(breaker.failed(Severity::Suspect, &POLICY, 10));
        assert_eq!(breaker.view(1009), BreakerView::Tripped);
        assert_eq!(breaker.view(1010), BreakerView::Probing);
    }

    #[test]
    fn a_success_between_failures_starts_the_count_again() {
        let breaker = Breaker::default();
        breaker.failed(Severity::Suspect, &POLICY, 10);
        breaker.failed(Severity::Suspect, &POLICY, 10);
        breaker.succeeded();
        assert!(!breaker.failed(Severity::Suspect, &POLICY, 10));
        assert_eq!(breaker.view(10), BreakerView::Healthy);
    }

    #[test]
    fn a_dead_replica_trips_at_once() {
        let breaker = Breaker::default();
        assert!(breaker.failed(Severity::Dead, &POLICY, 10));
    }

    #[test]
    fn a_failed_probe_doubles_the_rest_up_to_the_limit() {
        let breaker = Breaker::default();
        let mut now = 1;
        let mut rests = Vec::new();
        for _ in 0..8 {
            breaker.failed(Severity::Dead, &POLICY, now);
            let start = now;
            while breaker.view(now) == BreakerView::Tripped {
                now += 500;
            }
            rests.push((now - start) / 1000);
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn failures_of_requests_sent_before_the_trip_do_not_lengthen_the_rest() {
        let breaker = Breaker::default();
        breaker.failed(Severity::Dead, &POLICY, 10);
        assert!(!breaker.failed(Severity::Dead, &POLICY, 20));
        assert_eq!(breaker.view(1010), BreakerView::Probing);
    }

    #[test]
    fn a_reached_probe_ends_the_rest_and_a_success_heals() {
        let breaker = Breaker::default();
        breaker.failed(Severity::Dead, &POLICY, 10);
        breaker.end_rest(50);
        assert_eq!(breaker.view(50), BreakerView::Probing);
        breaker.succeeded();
        assert_eq!(breaker.view(50), BreakerView::Healthy);
    }

    #[test]
    fn a_healthy_breaker_has_no_rest_to_end() {
        let breaker = Breaker::default();
        breaker.end_rest(50);
        assert_eq!(breaker.view(50), BreakerView::Healthy);
    }

    #[test]
    fn the_word_keeps_every_field() {
        let state = State { failures: 200, trips: 7, until_ms: (1 << 48) - 2 };
        assert_eq!(State::unpack(state.pack()), state);
    }
}
