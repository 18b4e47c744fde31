//! How much an adapter is wanted: its request rate, what a load of it costs, and how long its holders have been full.
//!
//! Pure arithmetic on times given by the caller.
//!
//! - rate: `r <- r * 2^(-dt/h) + ln 2 / h` at each request, which tends to the true rate for a steady stream; `h` is
//!   [`HALF_LIFE`].
//! - load time: `t <- t + (x - t) / 4` at each load.

use std::time::Duration;

/// Half-life of the request rate. Guess: long enough to see a rate of one request a minute, short enough to forget a
/// flash crowd in minutes. To be tuned in the simulator.
pub const HALF_LIFE: Duration = Duration::from_secs(60);
/// Weight of the newest load in the mean load time. Guess: TCP's smoothed round trip uses 1/8 for far more samples.
const LOAD_GAIN: f64 = 0.25;

/// An exponentially fading request rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    per_second: f64,
    at: Duration,
}

impl Rate {
    /// One request at `now`.
    pub fn note(&mut self, now: Duration) {
        self.per_second = self.per_second(now) + std::f64::consts::LN_2 / HALF_LIFE.as_secs_f64();
        self.at = now;
    }

    /// Requests per second as of `now`.
    pub fn per_second(&self, now: Duration) -> f64 {
        let halvings = now.saturating_sub(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.per_second * (-halvings).exp2()
    }
}

/// The mean time of recent loads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadTime(Option<Duration>);

impl LoadTime {
    /// A load took this long.
    pub fn note(&mut self, took: Duration) {
        let mean = self.0.unwrap_or(took).as_secs_f64();
        self.0 = Duration::try_from_secs_f64(mean + (took.as_secs_f64() - mean) * LOAD_GAIN).ok();
    }

    /// The mean, or `otherwise` before the first load.
    pub fn mean_or(&self, otherwise: Duration) -> Duration {
        self.0.unwrap_or(otherwise)
    }
}

/// For how long requests have been finding all holders of an adapter full.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure(Option<Span>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    since: Duration,
    last: Duration,
}

/// Without a request for so long, what was known about full holders is out of date. Guess: the read-out's age limit.
const STALE: Duration = Duration::from_secs(2);

impl Pressure {
    /// A request found all holders full; says how long this has lasted without a break.
    pub fn press(&mut self, now: Duration) -> Duration {
        let fresh = self.0.filter(|span| now.saturating_sub(span.last) <= STALE);
        let since = fresh.map_or(now, |span| span.since);
        self.0 = Some(Span { since, last: now });
        now.saturating_sub(since)
    }

    /// A request found a holder with room.
    pub fn relieve(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    #[test]
    fn a_steady_stream_shows_its_rate_and_fades_by_half() {
        let mut rate = Rate::default();
        (0..6_000).for_each(|i| rate.note(seconds(f64::from(i) * 0.1)));
        let now = seconds(599.9);
        assert!((rate.per_second(now) - 10.0).abs() < 0.1, "{}", rate.per_second(now));
        let later = rate.per_second(now + HALF_LIFE) / rate.per_second(now);
        assert!((later - 0.5).abs() < 1e-9, "{later}");
    }

    #[test]
    fn load_time_starts_at_the_first_load_and_follows() {
        let mut time = LoadTime::default();
        assert_eq!(time.mean_or(seconds(9.0)), seconds(9.0));
        time.note(seconds(1.0));
        time.note(seconds(2.0));
        assert_eq!(time.mean_or(seconds(9.0)), seconds(1.25));
    }

    #[test]
    fn pressure_counts_from_its_start_and_ends_with_relief_or_silence() {
        let mut pressure = Pressure::default();
        assert_eq!(pressure.press(seconds(1.0)), seconds(0.0));
        assert_eq!(pressure.press(seconds(2.5)), seconds(1.5));
        assert_eq!(pressure.press(seconds(5.0)), seconds(0.0), "silence");
        pressure.relieve();
        assert_eq!(pressure.press(seconds(5.5)), seconds(0.0), "relief");
    }
}
