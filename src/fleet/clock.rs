//! Milliseconds since this process first asked: small enough for the atomics, monotonic, and passed as an argument to
//! everything that decides.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Milliseconds since the process's epoch. At least 1, so that 0 can mean "never" in an atomic.
pub fn now_ms() -> u64 {
    to_ms(now()) + 1
}

/// A duration in whole milliseconds; beyond 584 million years it saturates.
pub fn to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The same clock at its full resolution, for what counts in durations.
pub fn now() -> Duration {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed()
}
