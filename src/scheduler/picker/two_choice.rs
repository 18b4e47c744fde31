//! Two-choice affinity: of the two replicas that the request's key ranks first, the less loaded; a tie goes to the first.
//!
//! The key is the session's, else the adapter's or prefix's. The two are the top of one rendezvous ranking, so they are
//! always distinct, and the second takes over when the first leaves. Without a key two are drawn.

use crate::scheduler::field::Field;
use crate::scheduler::load::relative_load;
use crate::scheduler::rendezvous::rank;
use rand::Rng;

pub(super) fn pick(field: &Field<'_>, rng: &mut impl Rng) -> Option<usize> {
    let request = field.request;
    let key = request.session.map(|session| session.key).or(request.affinity_key);
    let (first, second) = top_two(key.unwrap_or_else(|| rng.next_u64()), field)?;
    let load = |at: usize| field.kept.get(at).map(|candidate| relative_load(candidate));
    Some(if load(second) < load(first) { second } else { first })
}

/// The two that `key` ranks highest; twice the same where there is only one.
fn top_two(key: u64, field: &Field<'_>) -> Option<(usize, usize)> {
    let mut ranks = field.kept.iter().enumerate().map(|(at, candidate)| (at, rank(key, candidate)));
    let mut first = ranks.next()?;
    let mut second = (first.0, f64::NEG_INFINITY);
    for next in ranks {
        if next.1 > first.1 {
            (first, second) = (next, first);
        } else if next.1 > second.1 {
            second = next;
        }
    }
    Some((first.0, second.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fixture::{field, fleet};
    use crate::scheduler::request::Request;
    use rand::{SeedableRng, rngs::StdRng};

    #[test]
    fn a_key_stays_on_its_two_replicas_and_avoids_the_busier() {
        let mut rng = StdRng::seed_from_u64(6);
        for key in 0..200 {
            let request = Request { affinity_key: Some(key), ..Default::default() };
            let mut fleet = fleet(8);
            let first = field(&request, &fleet, |field| pick(&field, &mut rng)).unwrap();
            fleet[first].in_flight = 1.0;
            let second = field(&request, &fleet, |field| pick(&field, &mut rng)).unwrap();
            assert_ne!(first, second, "key {key}");
            fleet[second].in_flight = 1.0;
            assert_eq!(field(&request, &fleet, |field| pick(&field, &mut rng)), Some(first), "key {key}");
        }
    }
}
