//! Power of two choices: two distinct candidates, the better total wins, a tie goes to the first.
//!
//! The replica that affinity names is the first of the two: with n replicas plain p2c would draw it only 2/n of the time. It
//! then loses only to a better total.

use crate::scheduler::field::Field;
use rand::{Rng, RngExt};

pub(super) fn pick(field: &Field<'_>, totals: &[f64], rng: &mut impl Rng) -> Option<usize> {
    let count = totals.len();
    if count < 2 {
        return count.checked_sub(1);
    }
    let first = field.named().unwrap_or_else(|| rng.random_range(0..count));
    let other = rng.random_range(0..count - 1);
    // Skipping over the first makes the other distinct and uniform among the rest.
    let second = if other < first { other } else { other + 1 };
    Some(if totals.get(second) > totals.get(first) { second } else { first })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fixture::{field, fleet, picks};
    use crate::scheduler::picker::Picker;
    use rand::{SeedableRng, rngs::StdRng};

    #[test]
    fn the_worst_of_several_is_never_picked_and_better_ones_more_often() {
        let counts = picks(Picker::P2c, &[0.1, 0.9, 0.5, 0.7], 6000);
        // Of the 6 pairs the best wins 3, the second 2, the third 1, the worst none.
        for (count, expected) in counts.iter().zip([0_u32, 3000, 1000, 2000]) {
            assert!(count.abs_diff(expected) <= expected / 10, "{counts:?}");
        }
    }

    #[test]
    fn the_named_replica_loses_only_to_a_better_total() {
        let mut rng = StdRng::seed_from_u64(4);
        let fleet = fleet(3);
        field(&Default::default(), &fleet, |mut field| {
            field.home = Some(2);
            for _ in 0..200 {
                assert_eq!(pick(&field, &[1.0, 0.5, 1.0], &mut rng), Some(2));
            }
            let lost = (0..1000).filter(|_| pick(&field, &[1.1, 0.5, 1.0], &mut rng) == Some(0)).count();
            assert!((400..600).contains(&lost), "{lost}");
        });
    }
}
