//! The candidate with the fewest requests for its weight; ties at random.

use crate::scheduler::best::best;
use crate::scheduler::field::Field;
use crate::scheduler::load::relative_load;
use rand::Rng;

pub(super) fn pick(field: &Field<'_>, rng: &mut impl Rng) -> Option<usize> {
    best(field.kept.iter().map(|candidate| -relative_load(candidate)), rng)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::snapshot::Candidate;
    use crate::scheduler::fixture::{candidate, field};
    use rand::{SeedableRng, rngs::StdRng};

    #[test]
    fn weight_excuses_load() {
        let mut rng = StdRng::seed_from_u64(5);
        for (fleet, expected) in [([(3.0, 1.0), (2.0, 1.0), (4.0, 1.0)], 1), ([(3.0, 2.0), (2.0, 1.0), (4.0, 3.0)], 2)]
        {
            let candidates: Vec<_> = (fleet.iter().enumerate())
                .map(|(at, &(in_flight, weight))| Candidate { in_flight, weight, ..candidate(at) })
                .collect();
            let picked = field(&Default::default(), &candidates, |field| pick(&field, &mut rng));
            assert_eq!(picked, Some(expected), "{fleet:?}");
        }
    }
}
