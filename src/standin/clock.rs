//! The wall clock, as the engines print it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch, with fractions; 0 if the clock is set before it.
pub(super) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Whole seconds since the epoch; 0 if the clock is set before it.
pub(super) fn unix_whole_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
