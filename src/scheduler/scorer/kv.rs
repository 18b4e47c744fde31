//! `max(0, 1 - kv / kv_ceiling)`: a replica at the ceiling is about to preempt, so it gets nothing.

use crate::scheduler::field::{Field, Scores};

pub(super) fn scores(field: &Field<'_>) -> Scores {
    field.score(|candidate| 1.0 - candidate.kv / field.thresholds.kv_ceiling)
}

#[cfg(test)]
mod tests {
    use crate::fleet::snapshot::Candidate;
    use crate::scheduler::fixture::{candidate, scored_by};
    use crate::scheduler::scorer::Scorer;

    #[test]
    fn full_replica_scores_zero() {
        for (kv, expected) in [(0.0, 1.0), (0.45, 0.5), (0.9, 0.0), (1.0, 0.0), (-1.0, 1.0), (f64::NAN, 0.0)] {
            let fleet = [Candidate { kv, ..candidate(0) }];
            assert_eq!(scored_by(Scorer::Kv, &Default::default(), &fleet), [expected], "{kv}");
        }
    }
}
