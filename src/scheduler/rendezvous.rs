//! Rendezvous hashing: each key ranks all replicas, and ranks only those that leave or join anew.
//!
//! Highest random weight (Thaler and Ravishankar 1998) in its weighted form, `weight / -ln(u)`, by which a replica of twice
//! the weight comes first for twice as many keys.

use super::load::share;
use crate::fleet::snapshot::Candidate;

/// How high `key` ranks the candidate; the highest is the key's home.
pub(crate) fn rank(key: u64, candidate: &Candidate) -> f64 {
    // The key is mixed first: else (key 1, identity 2) and (key 2, identity 1) would get the same hash.
    let hash = mix(mix(key) ^ candidate.identity);
    // 53 bits are what an f64 holds; the half keeps u inside (0, 1), where the logarithm is finite and below 0.
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    share(candidate.weight) / -uniform.ln()
}

/// A bijective mixer of 64 bits: the finaliser of SplitMix64 (Steele, Lea and Flood 2014), constants from there.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fixture::{candidate, fleet};

    fn home(key: u64, candidates: &[Candidate]) -> u64 {
        candidates.iter().max_by(|a, b| rank(key, a).total_cmp(&rank(key, b))).unwrap().identity
    }

    #[test]
    fn keys_spread_by_weight() {
        let fleet = [candidate(0), Candidate { weight: 2.0, ..candidate(1) }];
        let heavy = (0..10_000).filter(|key| home(*key, &fleet) == fleet[1].identity).count();
        assert!((6500..6830).contains(&heavy), "{heavy} of 10000");
    }

    #[test]
    fn a_leaving_replica_moves_only_its_own_keys() {
        let all = fleet(8);
        for key in 0..2000 {
            let before = home(key, &all);
            let after = home(key, &all[1..]);
            assert!(before == after || before == all[0].identity, "key {key}");
        }
    }
}
