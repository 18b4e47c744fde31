//! The last few times of something, for their median: a number that one slow request does not move.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Times kept.
const KEPT: usize = 32;

/// A window over the last times. Lock-free: a lost race costs one of them.
#[derive(Debug, Default)]
pub(super) struct LastTimes {
    /// Seconds as the bits of an `f32`; 0 while nothing was kept there.
    seconds: [AtomicU32; KEPT],
    next: AtomicUsize,
}

impl LastTimes {
    /// Keep one more.
    pub(super) fn add(&self, time: Duration) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % KEPT;
        if let Some(slot) = self.seconds.get(at) {
            slot.store(time.as_secs_f32().max(f32::MIN_POSITIVE).to_bits(), Ordering::Relaxed);
        }
    }

    /// The median of those kept.
    pub(super) fn median(&self) -> Option<Duration> {
        let mut times: Vec<_> = (self.seconds.iter())
            .map(|slot| f32::from_bits(slot.load(Ordering::Relaxed)))
            .filter(|seconds| *seconds > 0.0)
            .collect();
        times.sort_by(f32::total_cmp);
        times.get(times.len() / 2).map(|seconds| Duration::from_secs_f32(*seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_last_and_ignores_an_outlier() {
        let times = LastTimes::default();
        assert_eq!(times.median(), None);
        (0..100).for_each(|_| times.add(Duration::from_secs(9)));
        (0..KEPT - 1).for_each(|_| times.add(Duration::from_millis(20)));
        let median = times.median().unwrap().as_secs_f64();
        assert!((median - 0.02).abs() < 1e-6, "{median}");
    }
}
