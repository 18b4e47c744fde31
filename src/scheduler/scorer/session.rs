//! 1 for the replica that the session should use, 0 for the others.
//!
//! That replica is the remembered one, else the session's rendezvous home, as long as its load is within the bound; the walk
//! goes down the rendezvous ranks until one is (consistent hashing with bounded loads, Mirrokni, Thorup and Zadimoghaddam
//! 2016). The remembered one comes first because after a move the cache is there.

use crate::fleet::snapshot::Candidate;
use crate::scheduler::field::{Field, Scores};
use crate::scheduler::load::{load, share};
use crate::scheduler::rendezvous::rank;

pub(super) fn scores(field: &Field<'_>) -> Scores {
    (0..field.kept.len()).map(|at| if field.home == Some(at) { 1.0 } else { 0.0 }).collect()
}

/// Position of the replica that the request's session should use; `None` without a session.
pub(crate) fn home(field: &Field<'_>) -> Option<usize> {
    let session = field.request.session?;
    let bound = Bound::over(field);
    let remembered = field
        .kept
        .iter()
        .position(|candidate| Some(candidate.identity) == session.remembered && bound.admits(candidate));
    remembered
        .or_else(|| highest(session.key, field, |candidate| bound.admits(candidate)))
        .or_else(|| highest(session.key, field, |_| true))
}

/// The first that meets the rule when the key's ranks are walked downwards, which is the highest of those that meet it.
fn highest(key: u64, field: &Field<'_>, rule: impl Fn(&Candidate) -> bool) -> Option<usize> {
    let ranks = field.kept.iter().enumerate().filter(|(_, candidate)| rule(candidate));
    let ranks = ranks.map(|(at, candidate)| (at, rank(key, candidate)));
    ranks.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(at, _)| at)
}

/// The load above which a session leaves: `ceil(factor * mean load) + 1`, where the mean is shared out by weight.
///
/// Rounded up because loads are whole: with few requests about, a bound below 1 would move every session whose replica does
/// anything. One more because the session's own last request may still be counted: clients send the next message on the
/// last byte of the answer, the lease and the read-outs end a little later.
struct Bound {
    per_weight: f64,
}

impl Bound {
    fn over(field: &Field<'_>) -> Self {
        let (mut loads, mut weights) = (0.0, 0.0);
        for candidate in field.kept {
            loads += load(candidate);
            weights += share(candidate.weight);
        }
        Self { per_weight: field.thresholds.session_load_factor * loads / weights }
    }

    fn admits(&self, candidate: &Candidate) -> bool {
        load(candidate) <= (self.per_weight * share(candidate.weight)).ceil() + 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fixture::{candidate, field, fleet};
    use crate::scheduler::request::{Request, Session};

    fn home_of(key: u64, remembered: Option<usize>, fleet: &[Candidate]) -> usize {
        let remembered = remembered.map(|at| fleet[at].identity);
        let request = Request { session: Some(Session { key, remembered }), ..Default::default() };
        field(&request, fleet, |field| home(&field)).unwrap()
    }

    fn with_loads(loads: &[f64]) -> Vec<Candidate> {
        loads.iter().enumerate().map(|(at, &in_flight)| Candidate { in_flight, ..candidate(at) }).collect()
    }

    #[test]
    fn no_session_has_no_home() {
        assert_eq!(field(&Request::default(), &fleet(3), |field| home(&field)), None);
    }

    #[test]
    fn sessions_spread_over_an_idle_fleet() {
        let fleet = fleet(8);
        let mut counts = [0; 8];
        (0..8000).for_each(|key| counts[home_of(key, None, &fleet)] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_remembered_replica_is_kept_up_to_the_bound() {
        for (loads, stays) in [
            (vec![0.0, 0.0, 0.0], true),
            (vec![1.0, 0.0, 0.0], true),  // the session's own request
            (vec![2.0, 0.0, 0.0], true),  // ceil(1.25 * 2 / 3) + 1 = 2
            (vec![4.0, 0.0, 0.0], false), // ceil(1.25 * 4 / 3) + 1 = 3
            (vec![26.0, 20.0, 20.0], true),
            (vec![40.0, 20.0, 20.0], false), // ceil(1.25 * 80 / 3) + 1 = 35
        ] {
            let fleet = with_loads(&loads);
            let kept = (0..100).filter(|key| home_of(*key, Some(0), &fleet) == 0).count();
            assert_eq!(kept, if stays { 100 } else { 0 }, "{loads:?}");
        }
    }

    #[test]
    fn an_engine_that_waits_is_loaded_though_we_sent_nothing() {
        let mut fleet = fleet(3);
        fleet[0].waiting = 50.0;
        assert_ne!(home_of(1, Some(0), &fleet), 0);
    }

    #[test]
    fn a_heavier_replica_may_carry_more() {
        let mut fleet = with_loads(&[20.0, 10.0]);
        fleet[0].weight = 2.0;
        assert_eq!(home_of(1, Some(0), &fleet), 0);
    }

    #[test]
    fn a_forgotten_replica_falls_back_to_the_hash() {
        let fleet = fleet(5);
        let request = Request { session: Some(Session { key: 9, remembered: Some(u64::MAX) }), ..Default::default() };
        assert_eq!(field(&request, &fleet, |field| home(&field)), Some(home_of(9, None, &fleet)));
    }
}
