//! Samples by `exp(total / temperature)`: two candidates whose totals differ by the temperature are e : 1.

use crate::scheduler::field::Scores;
use rand::{Rng, RngExt};

pub(super) fn pick(temperature: f64, totals: &[f64], rng: &mut impl Rng) -> Option<usize> {
    // Relative to the greatest, no exponential overflows and the greatest counts 1.
    let greatest = totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let chances: Scores = totals.iter().map(|total| ((total - greatest) / temperature).exp()).collect();
    let mut left = rng.random::<f64>() * chances.iter().sum::<f64>();
    for (at, chance) in chances.iter().enumerate() {
        left -= chance;
        if left < 0.0 {
            return Some(at);
        }
    }
    // Only rounding gets here.
    totals.len().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use crate::scheduler::fixture::picks;
    use crate::scheduler::picker::Picker;

    #[test]
    fn one_temperature_of_difference_is_a_factor_of_e() {
        for temperature in [0.2, 1.0] {
            let counts = picks(Picker::Softmax(temperature), &[3.0, 3.0 + temperature], 20_000);
            let ratio = f64::from(counts[1]) / f64::from(counts[0]);
            assert!((ratio / std::f64::consts::E - 1.0).abs() < 0.05, "{counts:?} at {temperature}");
        }
    }

    #[test]
    fn a_tiny_temperature_takes_the_best_and_a_huge_one_anyone() {
        assert_eq!(picks(Picker::Softmax(1e-300), &[0.0, 7.0, 6.9], 500), [0, 500, 0]);
        let even = picks(Picker::Softmax(1e300), &[0.0, 7.0, 6.9], 3000);
        assert!(even.iter().all(|count| (900..1100).contains(count)), "{even:?}");
    }
}
