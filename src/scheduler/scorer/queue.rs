//! `target_waiting / (target_waiting + waiting)`.

use super::falling;
use crate::scheduler::field::{Field, Scores};
use crate::scheduler::load::amount;

pub(super) fn scores(field: &Field<'_>) -> Scores {
    field.score(|candidate| falling(field.thresholds.target_waiting, amount(candidate.waiting)))
}

#[cfg(test)]
mod tests {
    use crate::fleet::snapshot::Candidate;
    use crate::scheduler::fixture::{candidate, scored_by};
    use crate::scheduler::scorer::Scorer;

    #[test]
    fn one_half_at_the_target() {
        for (waiting, expected) in
            [(0.0, 1.0), (4.0, 0.5), (12.0, 0.25), (-3.0, 1.0), (f64::INFINITY, 0.0), (f64::NAN, 0.0)]
        {
            let fleet = [Candidate { waiting, ..candidate(0) }];
            assert_eq!(scored_by(Scorer::Queue, &Default::default(), &fleet), [expected], "{waiting}");
        }
    }
}
