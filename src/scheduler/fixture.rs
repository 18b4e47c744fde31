//! What the scheduler's tests share: healthy idle candidates, and one-line ways to run each part.

use super::filter::Filter;
use super::picker::Picker;
use super::scorer::Scorer;
use super::{Decision, Field, Kept, Profile, Rejection, Request, profile::Thresholds, schedule};
use crate::fleet::snapshot::{AdapterView, BreakerView, Candidate, Snapshot};
use rand::{SeedableRng, rngs::StdRng};

/// A healthy, idle replica with one free slot.
pub(crate) fn candidate(member: usize) -> Candidate {
    Candidate {
        member,
        identity: 1000 + member as u64,
        priority: 0,
        weight: 1.0,
        share: 1.0,
        waiting: 0.0,
        running: 0.0,
        in_flight: 0.0,
        kv: 0.0,
        breaker: BreakerView::Healthy,
        adapter: AdapterView::Absent,
        free_slots: 1,
        prefix_blocks: 0,
        tried: false,
    }
}

pub(crate) fn fleet(count: usize) -> Vec<Candidate> {
    (0..count).map(candidate).collect()
}

pub(crate) fn snapshot(candidates: &[Candidate]) -> Snapshot {
    Snapshot { candidates: candidates.iter().copied().collect() }
}

pub(crate) fn profile(name: &str) -> Profile {
    Profile::builtin().into_iter().find(|profile| &*profile.name == name).unwrap()
}

/// Runs `test` on a field of all candidates, in which affinity names nobody.
pub(crate) fn field<T>(request: &Request, candidates: &[Candidate], test: impl FnOnce(Field<'_>) -> T) -> T {
    let kept: Kept<'_> = candidates.iter().collect();
    test(Field { request, thresholds: &Thresholds::default(), kept: &kept, home: None, favourite: None })
}

/// The members that a filter keeps.
pub(crate) fn kept_by(filter: Filter, request: &Request, candidates: &[Candidate]) -> Vec<usize> {
    let mut kept: Kept<'_> = candidates.iter().collect();
    filter.apply(request, &Thresholds::default(), &mut kept, &mut |_| ());
    kept.iter().map(|candidate| candidate.member).collect()
}

pub(crate) fn scored_by(scorer: Scorer, request: &Request, candidates: &[Candidate]) -> Vec<f64> {
    field(request, candidates, |field| scorer.scores(&field).to_vec())
}

/// How often each candidate of these totals is picked in so many rounds, from a fixed seed.
pub(crate) fn picks(picker: Picker, totals: &[f64], rounds: u32) -> Vec<u32> {
    let mut rng = StdRng::seed_from_u64(7);
    let mut counts = vec![0; totals.len()];
    field(&Request::default(), &fleet(totals.len()), |field| {
        (0..rounds).for_each(|_| counts[picker.pick(&field, totals, &mut rng).unwrap()] += 1);
    });
    counts
}

pub(crate) fn decide_with(
    seed: u64,
    profile: &Profile,
    request: &Request,
    fleet: &[Candidate],
) -> Result<Decision, Rejection> {
    schedule(request, &snapshot(fleet), profile, &Thresholds::default(), &mut StdRng::seed_from_u64(seed))
}
