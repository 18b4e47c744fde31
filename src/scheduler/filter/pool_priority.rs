//! Keeps the first pool, by priority, in which some replica's saturation is below 1; if there is none, everything.

use super::{Kept, narrow};
use crate::fleet::snapshot::Candidate;
use crate::scheduler::profile::Thresholds;

pub(super) fn apply<'a>(thresholds: &Thresholds, kept: &mut Kept<'a>, dropped: &mut impl FnMut(&'a Candidate)) {
    let room = kept.iter().filter(|candidate| candidate.saturation(thresholds) < 1.0);
    if let Some(first) = room.map(|candidate| candidate.priority).min() {
        narrow(kept, |candidate| candidate.priority == first, dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::filter::Filter;
    use crate::scheduler::fixture::{candidate, kept_by};

    #[test]
    fn the_first_pool_with_room_is_kept_whole() {
        for (name, fleet, expected) in [
            ("room in both", vec![(1, 0.0, 0.0), (0, 0.0, 0.0)], vec![1]),
            ("full ones of the pool stay", vec![(0, 4.0, 0.0), (0, 3.9, 0.0), (1, 0.0, 0.0)], vec![0, 1]),
            ("first pool waits", vec![(0, 4.0, 0.0), (1, 0.0, 0.0)], vec![1]),
            ("first pool's cache is full", vec![(0, 0.0, 0.9), (2, 0.0, 0.0), (1, 0.0, 0.0)], vec![2]),
            ("no room", vec![(0, 4.0, 0.0), (1, 0.0, 1.0)], vec![0, 1]),
        ] {
            let candidates: Vec<_> = (fleet.iter().enumerate())
                .map(|(at, &(priority, waiting, kv))| Candidate { priority, waiting, kv, ..candidate(at) })
                .collect();
            assert_eq!(kept_by(Filter::PoolPriority, &Default::default(), &candidates), expected, "{name}");
        }
    }
}
