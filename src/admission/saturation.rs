//! How full a model's replicas are, and how many more requests they can take.

use crate::fleet::snapshot::{BreakerView, Candidate, Snapshot};
use crate::scheduler::profile::Thresholds;

/// The saturation of a model: the mean over its usable replicas of [`Candidate::saturation`], and what is queued already
/// as if it waited there (design.md, "Admission"). Below 1 there is room. Without a usable replica 0: whoever asks then
/// learns from the dispatch that there is none.
pub fn of(snapshot: &Snapshot, thresholds: &Thresholds, queued: usize) -> f64 {
    let usable = || snapshot.candidates.iter().filter(|candidate| is_usable(candidate));
    let count = usable().count() as f64;
    if count == 0.0 {
        return 0.0;
    }
    let load: f64 = usable().map(|candidate| candidate.saturation(thresholds)).sum();
    load / count + queued as f64 / (count * thresholds.target_waiting)
}

/// How many requests may enter before the saturation reaches 1, at most `most`.
pub fn room(snapshot: &Snapshot, thresholds: &Thresholds, most: usize) -> usize {
    (0..most).take_while(|entered| of(snapshot, thresholds, *entered) < 1.0).count()
}

/// Any replica that may get requests; if all are tripped they all may (see the filter breaker-open).
fn is_usable(candidate: &Candidate) -> bool {
    candidate.breaker != BreakerView::Tripped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fixture::candidate;

    fn snapshot(waiting: &[f64]) -> Snapshot {
        let candidates = waiting.iter().enumerate().map(|(at, &waiting)| Candidate { waiting, ..candidate(at) });
        Snapshot { candidates: candidates.collect() }
    }

    #[test]
    fn saturation_is_the_mean_and_what_is_queued_counts_as_waiting() {
        let thresholds = Thresholds::default();
        for (waiting, queued, expected) in
            [(vec![0.0, 0.0], 0, 0.0), (vec![4.0, 0.0], 0, 0.5), (vec![4.0, 4.0], 0, 1.0), (vec![0.0, 0.0], 8, 1.0)]
        {
            assert_eq!(of(&snapshot(&waiting), &thresholds, queued), expected, "{waiting:?} {queued}");
        }
    }

    #[test]
    fn the_room_is_what_brings_the_saturation_to_one() {
        let thresholds = Thresholds::default();
        for (waiting, expected) in [(vec![0.0, 0.0], 8), (vec![4.0, 0.0], 4), (vec![4.0, 9.0], 0), (vec![], 5)] {
            let most = if waiting.is_empty() { 5 } else { 100 };
            assert_eq!(room(&snapshot(&waiting), &thresholds, most), expected, "{waiting:?}");
        }
    }

    #[test]
    fn tripped_replicas_have_no_room() {
        let mut snapshot = snapshot(&[0.0, 0.0]);
        snapshot.candidates[0].breaker = BreakerView::Tripped;
        assert_eq!(room(&snapshot, &Thresholds::default(), 100), 4);
    }
}
