//! `(matched - least matched) / blocks of the request`, where that difference is at least 2.
//!
//! What every candidate has cached does not tell them apart. And one block more is not enough: the first block, a chat
//! template or a common system prompt, is the same in all requests of real traces, so the first replica that served anything
//! would match every request and draw all the traffic.

use crate::scheduler::best::best;
use crate::scheduler::field::{Field, Scores};
use crate::scheduler::load::relative_load;
use rand::Rng;

/// Fewest blocks beyond the common ones that count as a match; see above.
const LEAST_MATCH: u32 = 2;

pub(super) fn scores(field: &Field<'_>) -> Scores {
    let common = field.kept.iter().map(|candidate| candidate.prefix_blocks).min().unwrap_or(0);
    let blocks = f64::from(field.request.prefix_blocks);
    field.score(|candidate| match candidate.prefix_blocks - common {
        matched if matched < LEAST_MATCH => 0.0,
        matched => f64::from(matched) / blocks,
    })
}

/// Position of the replica with the longest match, the less loaded of several; `None` when nobody matches.
pub(crate) fn favourite(field: &Field<'_>, rng: &mut impl Rng) -> Option<usize> {
    if field.request.prefix_blocks < LEAST_MATCH {
        return None;
    }
    let scores = scores(field);
    let longest = scores.iter().copied().fold(0.0, f64::max);
    let loads = field
        .kept
        .iter()
        .zip(&scores)
        .map(|(candidate, score)| if *score < longest { f64::NEG_INFINITY } else { -relative_load(candidate) });
    best(loads, rng).filter(|_| longest > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::snapshot::Candidate;
    use crate::scheduler::fixture::{candidate, field, scored_by};
    use crate::scheduler::request::Request;
    use crate::scheduler::scorer::Scorer;
    use rand::{SeedableRng, rngs::StdRng};

    fn fleet(blocks: &[u32]) -> Vec<Candidate> {
        blocks.iter().enumerate().map(|(at, &prefix_blocks)| Candidate { prefix_blocks, ..candidate(at) }).collect()
    }

    #[test]
    fn only_what_others_lack_counts() {
        let request = Request { prefix_blocks: 10, ..Default::default() };
        for (blocks, expected) in [
            ([0, 0, 0], [0.0, 0.0, 0.0]),
            ([1, 0, 0], [0.0, 0.0, 0.0]),
            ([2, 0, 0], [0.2, 0.0, 0.0]),
            ([6, 1, 3], [0.5, 0.0, 0.2]),
            ([10, 10, 10], [0.0, 0.0, 0.0]),
            ([99, 0, 0], [1.0, 0.0, 0.0]),
        ] {
            assert_eq!(scored_by(Scorer::Prefix, &request, &fleet(&blocks))[..], expected, "{blocks:?}");
        }
    }

    #[test]
    fn the_less_loaded_of_equal_matches_is_the_favourite() {
        let mut rng = StdRng::seed_from_u64(3);
        let request = Request { prefix_blocks: 10, ..Default::default() };
        let mut fleet = fleet(&[5, 5, 0]);
        fleet[0].in_flight = 1.0;
        assert_eq!(field(&request, &fleet, |field| favourite(&field, &mut rng)), Some(1));
        assert_eq!(field(&Request::default(), &fleet, |field| favourite(&field, &mut rng)), None);
    }
}
