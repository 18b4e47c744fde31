//! Policies judged by what they do to a fleet over time: seeded, in virtual time, with the seed in every message.

use super::fixture::{fleet, profile, snapshot};
use super::{Affinity, Profile, Request, Session, profile::Thresholds, schedule};
use crate::fleet::snapshot::{Candidate, Snapshot};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::HashSet;

const SEEDS: [u64; 3] = [1, 42, 20_261];

fn pick(profile: &Profile, request: &Request, snapshot: &Snapshot, rng: &mut StdRng) -> (usize, Affinity) {
    let decision = schedule(request, snapshot, profile, &Thresholds::default(), rng).unwrap();
    (decision.index, decision.affinity)
}

/// Picks so many requests on one read-out, counting each at its pick, and returns who got how many.
fn burst(profile: &Profile, fleet: &[Candidate], size: usize, seed: u64) -> Vec<f64> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut snapshot = snapshot(fleet);
    for _ in 0..size {
        let (index, _) = pick(profile, &Request::default(), &snapshot, &mut rng);
        // The fleet's effective waiting grows with the picks since the read-out, as in_flight does.
        snapshot.candidates[index].in_flight += 1.0;
        snapshot.candidates[index].waiting += 1.0;
    }
    snapshot.candidates.iter().map(|candidate| candidate.in_flight).collect()
}

#[test]
fn a_burst_does_not_herd_on_one_snapshot() {
    for (name, slack) in [("chat", 3.0), ("batch", 0.0), ("long-context", 5.0)] {
        for seed in SEEDS {
            let counts = burst(&profile(name), &fleet(8), 64, seed);
            let within = counts.iter().all(|count| (count - 8.0).abs() <= slack);
            assert!(within, "{name}, seed {seed}: {counts:?} is more than {slack} from 8");
        }
    }
}

#[test]
fn twice_the_weight_gets_about_twice_the_work_in_batch() {
    for seed in SEEDS {
        for size in [6, 12, 20] {
            let mut fleet = fleet(2);
            fleet[1].weight = 2.0;
            let counts = burst(&profile("batch"), &fleet, size, seed);
            let ratio = counts[1] / counts[0];
            assert!((1.4..=2.6).contains(&ratio), "seed {seed}: {counts:?}");
        }
    }
}

/// Share of the follow-up requests that stay on their session's replica, at about half a request a replica.
fn kept_share(replicas: usize, seed: u64) -> f64 {
    let mut rng = StdRng::seed_from_u64(seed);
    let chat = profile("chat");
    let mut snapshot = snapshot(&fleet(replicas));
    let mut sessions: Vec<Option<u64>> = vec![None; replicas * 6];
    let mut running: Vec<(u32, usize)> = Vec::new();
    let (mut kept, mut moved) = (0.0, 0.0);
    for now in 0..20_000_u32 {
        running.retain(|&(end, index)| {
            snapshot.candidates[index].in_flight -= if end <= now { 1.0 } else { 0.0 };
            end > now
        });
        if !rng.random_bool((replicas as f64 / 100.0).min(1.0)) {
            continue;
        }
        let key = rng.random_range(0..sessions.len());
        let session = Some(Session { key: key as u64, remembered: sessions[key] });
        let (index, affinity) = pick(&chat, &Request { session, ..Request::default() }, &snapshot, &mut rng);
        sessions[key] = Some(snapshot.candidates[index].identity);
        snapshot.candidates[index].in_flight += 1.0;
        // 50 steps on average, and one arrival in 100 steps for each replica.
        running.push((now + rng.random_range(1..100), index));
        kept += if affinity == Affinity::Kept { 1.0 } else { 0.0 };
        moved += if affinity == Affinity::Moved { 1.0 } else { 0.0 };
    }
    kept / (kept + moved)
}

#[test]
fn chat_keeps_sessions_under_light_load_at_any_fleet_size() {
    for replicas in [3, 8, 32] {
        for seed in SEEDS {
            let share = kept_share(replicas, seed);
            println!("chat, {replicas} replicas, seed {seed}: {:.1} % kept", share * 100.0);
            assert!(share >= 0.95, "{replicas} replicas, seed {seed}: {share}");
        }
    }
}

#[test]
fn a_session_spills_off_a_saturated_replica_and_stays_where_it_went() {
    for seed in SEEDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut snapshot = snapshot(&fleet(3));
        let mut ask = |snapshot: &Snapshot, remembered| {
            let request = Request { session: Some(Session { key: 5, remembered }), ..Request::default() };
            let (index, affinity) = pick(&profile("chat"), &request, snapshot, &mut rng);
            (index, affinity, Some(snapshot.candidates[index].identity))
        };
        let (home, _, remembered) = ask(&snapshot, None);
        snapshot.candidates[home].waiting = 40.0;
        let (refuge, affinity, remembered) = ask(&snapshot, remembered);
        assert_eq!((affinity, home == refuge), (Affinity::Moved, false), "seed {seed}");
        snapshot.candidates[home].waiting = 0.0;
        assert_eq!(ask(&snapshot, remembered).0, refuge, "seed {seed}: the cache is there now");
        assert_eq!(ask(&snapshot, None).0, home, "seed {seed}: forgotten, the session returns");
    }
}

/// Regression: in real traces all requests share their first block, and naive longest-prefix sent everything to the replica
/// that had it first.
#[test]
fn a_block_shared_by_all_does_not_draw_all_traffic_to_one_replica() {
    const REPLICAS: usize = 8;
    const FAMILIES: u32 = 64;
    for seed in SEEDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut snapshot = snapshot(&fleet(REPLICAS));
        let mut cached: Vec<HashSet<u32>> = vec![HashSet::new(); REPLICAS];
        let (mut counts, mut hits) = ([0.0; REPLICAS], 0.0);
        for _ in 0..4000 {
            // Block 0 is common to all; the other four are the family's.
            let family = rng.random_range(0..FAMILIES);
            for (candidate, families) in snapshot.candidates.iter_mut().zip(&cached) {
                let own = if families.contains(&family) { 4 } else { 0 };
                candidate.prefix_blocks = if families.is_empty() { 0 } else { 1 + own };
                candidate.in_flight = f64::from(rng.random_range(0_u8..3));
            }
            let request = Request { prefix_blocks: 5, ..Request::default() };
            let (index, _) = pick(&profile("chat"), &request, &snapshot, &mut rng);
            counts[index] += 1.0;
            hits += if cached[index].insert(family) { 0.0 } else { 1.0 };
        }
        let greatest = counts.iter().copied().fold(0.0, f64::max) / 4000.0;
        assert!(greatest < 2.0 / REPLICAS as f64, "seed {seed}: {counts:?}");
        assert!(hits / 4000.0 > 0.85, "seed {seed}: the prefix still counts, {hits} hits of 4000");
    }
}
