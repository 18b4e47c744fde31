//! The position of the greatest value, ties broken at random, so that equals share the work.

use rand::{Rng, RngExt};

/// The position of the greatest of `values`, each of several equal ones with the same chance; `None` without values.
/// NaN counts as the smallest value.
pub(crate) fn best(values: impl IntoIterator<Item = f64>, rng: &mut impl Rng) -> Option<usize> {
    let mut best = None;
    let mut greatest = f64::NEG_INFINITY;
    let mut ties = 1_u32;
    for (at, value) in values.into_iter().enumerate() {
        let value = if value.is_nan() { f64::NEG_INFINITY } else { value };
        if best.is_none() || value > greatest {
            (best, greatest, ties) = (Some(at), value, 1);
        } else if value == greatest {
            // The k-th of equals replaces with chance 1/k: then each is held with the same chance (reservoir sampling).
            ties += 1;
            if rng.random_range(0..ties) == 0 {
                best = Some(at);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::StdRng};

    #[test]
    fn greatest_wins_and_nan_loses() {
        let mut rng = StdRng::seed_from_u64(1);
        assert_eq!(best([], &mut rng), None);
        assert_eq!(best([f64::NAN], &mut rng), Some(0));
        assert_eq!(best([f64::NAN, 0.0, f64::INFINITY, 1.0], &mut rng), Some(2));
    }

    #[test]
    fn equals_share_evenly() {
        let mut rng = StdRng::seed_from_u64(2);
        let mut counts = [0_u32; 4];
        for _ in 0..9000 {
            counts[best([1.0, 0.0, 1.0, 1.0], &mut rng).unwrap()] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!([counts[0], counts[2], counts[3]].iter().all(|count| (2800..3200).contains(count)), "{counts:?}");
    }
}
