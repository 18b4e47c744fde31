//! `weight / greatest weight` of the candidates.

use crate::scheduler::field::{Field, Scores};
use crate::scheduler::load::share;

pub(super) fn scores(field: &Field<'_>) -> Scores {
    let greatest = field.kept.iter().map(|candidate| share(candidate.weight)).fold(0.0, f64::max);
    field.score(|candidate| share(candidate.weight) / greatest)
}

#[cfg(test)]
mod tests {
    use crate::fleet::snapshot::Candidate;
    use crate::scheduler::fixture::{candidate, scored_by};
    use crate::scheduler::scorer::Scorer;

    #[test]
    fn relative_to_the_greatest() {
        for (weights, expected) in [([1.0, 2.0], [0.5, 1.0]), ([3.0, 3.0], [1.0, 1.0]), ([f64::NAN, -1.0], [0.0, 0.0])]
        {
            let fleet: Vec<_> =
                weights.iter().enumerate().map(|(at, &weight)| Candidate { weight, ..candidate(at) }).collect();
            assert_eq!(scored_by(Scorer::Weight, &Default::default(), &fleet)[..], expected, "{weights:?}");
        }
    }
}
