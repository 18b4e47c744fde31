//! `target_inflight / (target_inflight + in_flight)`.

use super::falling;
use crate::scheduler::field::{Field, Scores};
use crate::scheduler::load::amount;

pub(super) fn scores(field: &Field<'_>) -> Scores {
    field.score(|candidate| falling(field.thresholds.target_inflight, amount(candidate.in_flight)))
}

#[cfg(test)]
mod tests {
    use crate::fleet::snapshot::Candidate;
    use crate::scheduler::fixture::{candidate, scored_by};
    use crate::scheduler::scorer::Scorer;

    #[test]
    fn one_half_at_the_target() {
        for (in_flight, expected) in [(0.0, 1.0), (8.0, 0.5), (24.0, 0.25), (-1.0, 1.0), (f64::NAN, 0.0)] {
            let fleet = [Candidate { in_flight, ..candidate(0) }];
            assert_eq!(scored_by(Scorer::Inflight, &Default::default(), &fleet), [expected], "{in_flight}");
        }
    }
}
