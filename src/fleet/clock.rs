//! Milliseconds since this process first asked: small enough for the atomics, monotonic, and passed as an argument to
//! everything that decides.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Milliseconds since the process's epoch. At least 1, so that 0 can mean "never" in an atomic.
pub fn now_ms() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    to_ms(EPOCH.get_or_init(Instant::now).elapsed()) + 1
}

/// A duration in whole milliseconds; beyond 584 million years it saturates.
pub fn to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The same clock as a duration, for what counts in durations.
pub fn now() -> Duration {
    Duration::from_millis(now_ms())
}
