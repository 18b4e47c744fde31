//! The best total; ties at random, so that equals share the work.

use crate::scheduler::best::best;
use rand::Rng;

pub(super) fn pick(totals: &[f64], rng: &mut impl Rng) -> Option<usize> {
    best(totals.iter().copied(), rng)
}

#[cfg(test)]
mod tests {
    use crate::scheduler::fixture::picks;
    use crate::scheduler::picker::Picker;

    #[test]
    fn only_the_best_are_picked() {
        let counts = picks(Picker::MaxScore, &[0.1, 0.9, 0.9], 2000);
        assert_eq!(counts[0], 0);
        assert!((900..1100).contains(&counts[1]), "{counts:?}");
    }
}
