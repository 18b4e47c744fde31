//! What every filter, scorer and picker must hold to, whatever the numbers in the snapshot.

use super::filter::Filter;
use super::fixture::{candidate, decide_with, field, snapshot};
use super::picker::Picker;
use super::scorer::Scorer;
use super::{Field, Kept, Profile, Request, Session, profile::Thresholds, schedule};
use crate::fleet::snapshot::{AdapterView, BreakerView, Candidate};
use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};

fn filters() -> Vec<Filter> {
    Filter::NAMES.iter().map(|name| Filter::from_name(name).unwrap()).collect()
}

fn scorers() -> Vec<Scorer> {
    Scorer::NAMES.iter().map(|name| Scorer::from_name(name).unwrap()).collect()
}

fn pickers() -> Vec<Picker> {
    Picker::NAMES.iter().map(|name| Picker::from_name(name).unwrap()).collect()
}

/// Any number that a broken read-out may hold.
fn wild() -> BoxedStrategy<f64> {
    prop_oneof![
        4 => 0.0..100.0,
        1 => prop::num::f64::ANY,
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, f64::MAX, f64::MIN_POSITIVE]),
    ]
    .boxed()
}

/// Counts and shares as a sound engine gives them; whole counts keep sums exact in any order.
fn sane() -> BoxedStrategy<f64> {
    (0_u8..20).prop_map(f64::from).boxed()
}

fn candidates(number: BoxedStrategy<f64>) -> impl Strategy<Value = Vec<Candidate>> {
    let n = || number.clone();
    let breaker = prop::sample::select(vec![BreakerView::Healthy, BreakerView::Tripped, BreakerView::Probing]);
    let adapter = prop::sample::select(vec![
        AdapterView::Absent,
        AdapterView::Loading,
        AdapterView::Resident,
        AdapterView::Failed,
    ]);
    let one = (n(), n(), n(), n(), n(), breaker, adapter, 0_usize..3, 0_u32..12, any::<bool>(), 0_u32..3);
    let one =
        one.prop_map(|(weight, waiting, running, in_flight, kv, breaker, adapter, slots, blocks, tried, priority)| {
            let load = Candidate { weight, waiting, running, in_flight, kv: kv / 20.0, ..candidate(0) };
            Candidate { breaker, adapter, free_slots: slots, prefix_blocks: blocks, tried, priority, ..load }
        });
    prop::collection::vec(one, 1..20).prop_map(|mut fleet| {
        for (member, one) in fleet.iter_mut().enumerate() {
            *one = Candidate { member, identity: candidate(member).identity, ..*one };
        }
        fleet
    })
}

prop_compose! {
    fn requests()(adapter: bool, key: Option<u64>, last in prop::option::of(0_usize..20), affinity_key: Option<u64>,
                  prefix_blocks in 0_u32..12, prompt_tokens in 0_u32..5000, turn: u64) -> Request {
        let session = key.map(|key| Session { key, remembered: last.map(|member| candidate(member).identity) });
        Request { on_demand_adapter: adapter, session, affinity_key, prefix_blocks, prompt_tokens, turn }
    }
}

/// A field with the affinities of a profile that values both.
fn with_affinity<T>(request: &Request, fleet: &[Candidate], test: impl FnOnce(Field<'_>) -> T) -> T {
    let kept: Kept<'_> = fleet.iter().collect();
    let profile = Profile::builtin().into_iter().next().unwrap();
    test(Field::new(request, &Thresholds::default(), &kept, &profile, &mut StdRng::seed_from_u64(1)))
}

proptest! {
    #[test]
    fn filters_keep_someone_and_the_order(fleet in candidates(wild()), request in requests()) {
        for filter in filters() {
            let mut kept: Kept<'_> = fleet.iter().collect();
            let mut dropped = 0;
            filter.apply(&request, &Thresholds::default(), &mut kept, &mut |_| dropped += 1);
            prop_assert!(!kept.is_empty(), "{filter}");
            prop_assert!(kept.is_sorted_by_key(|candidate| candidate.member), "{filter}");
            prop_assert_eq!(kept.len() + dropped, fleet.len(), "{}", filter);
            let once = kept.len();
            filter.apply(&request, &Thresholds::default(), &mut kept, &mut |_| ());
            prop_assert_eq!(once, kept.len(), "{} twice", filter);
        }
    }

    #[test]
    fn scores_are_parallel_and_in_range(fleet in candidates(wild()), request in requests()) {
        for scorer in scorers() {
            let scores = with_affinity(&request, &fleet, |field| scorer.scores(&field));
            prop_assert_eq!(scores.len(), fleet.len(), "{}", scorer);
            prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scorer}: {scores:?}");
        }
    }

    #[test]
    fn scores_follow_their_candidates(fleet in candidates(sane()), request in requests(), seed: u64) {
        let mut shuffled = fleet.clone();
        shuffled.shuffle(&mut StdRng::seed_from_u64(seed));
        for scorer in scorers() {
            let before = with_affinity(&request, &fleet, |field| scorer.scores(&field));
            let after = with_affinity(&request, &shuffled, |field| scorer.scores(&field));
            for (candidate, score) in shuffled.iter().zip(after) {
                prop_assert_eq!(score, before[candidate.member], "{}, seed {}", scorer, seed);
            }
        }
    }

    #[test]
    fn pickers_pick_someone(fleet in candidates(wild()), request in requests(), seed: u64,
                            totals in prop::collection::vec(wild(), 20)) {
        let mut rng = StdRng::seed_from_u64(seed);
        for picker in pickers() {
            let picked = with_affinity(&request, &fleet, |field| picker.pick(&field, &totals[..fleet.len()], &mut rng));
            prop_assert!(picked.is_some_and(|at| at < fleet.len()), "{picker}, seed {seed}: {picked:?}");
        }
    }

    #[test]
    fn deterministic_pickers_follow_their_candidates(fleet in candidates(sane()), key: u64, seed: u64) {
        // Distinct totals and loads leave nothing to chance.
        let fleet: Vec<_> = fleet.iter().map(|one| Candidate {
            in_flight: 100.0 + one.member as f64, waiting: 0.0, running: 0.0, weight: 1.0, ..*one
        }).collect();
        let mut shuffled = fleet.clone();
        shuffled.shuffle(&mut StdRng::seed_from_u64(seed));
        let request = Request { affinity_key: Some(key), ..Request::default() };
        for picker in [Picker::MaxScore, Picker::TwoChoice, Picker::LeastRequest] {
            let pick = |fleet: &[Candidate]| {
                let totals: Vec<_> = fleet.iter().map(|one| (one.member as f64 * 7.0) % 20.0).collect();
                field(&request, fleet, |field| picker.pick(&field, &totals, &mut StdRng::seed_from_u64(seed)))
                    .map(|at| fleet[at].identity)
            };
            prop_assert_eq!(pick(&fleet), pick(&shuffled), "{}, seed {}", picker, seed);
        }
    }

    #[test]
    fn every_profile_decides_whatever_the_numbers(fleet in candidates(wild()), request in requests(), seed: u64,
                                                  waiting in wild(), inflight in wild(), kv in wild(), factor in wild()) {
        let thresholds = Thresholds {
            target_waiting: waiting, target_inflight: inflight, kv_ceiling: kv, session_load_factor: factor,
        };
        let able = fleet.iter().any(|one| !request.on_demand_adapter || one.adapter != AdapterView::Failed);
        for profile in Profile::builtin() {
            let mut rng = StdRng::seed_from_u64(seed);
            let decision = schedule(&request, &snapshot(&fleet), &profile, &thresholds, &mut rng);
            prop_assert_eq!(decision.is_ok(), able, "{}", profile.name);
            if let Ok(decision) = decision {
                prop_assert_eq!(fleet[decision.index].member, decision.member);
                prop_assert!((1..=fleet.len()).contains(&decision.candidates_left));
            }
            prop_assert_eq!(decision, decide_again(seed, &profile, &request, &fleet, &thresholds), "same seed");
        }
    }
}

fn decide_again(
    seed: u64,
    profile: &Profile,
    request: &Request,
    fleet: &[Candidate],
    thresholds: &Thresholds,
) -> Result<super::Decision, super::Rejection> {
    schedule(request, &snapshot(fleet), profile, thresholds, &mut StdRng::seed_from_u64(seed))
}

#[test]
fn random_pickers_give_each_candidate_the_same_share_in_any_order() {
    let totals = [0.2, 0.9, 0.4, 0.6];
    let reversed: Vec<_> = totals.iter().rev().copied().collect();
    for picker in [Picker::P2c, Picker::Softmax(0.2)] {
        let forth = super::fixture::picks(picker, &totals, 20_000);
        let back = super::fixture::picks(picker, &reversed, 20_000);
        for (one, other) in forth.iter().zip(back.iter().rev()) {
            assert!(one.abs_diff(*other) < 500, "{picker}: {forth:?} {back:?}");
        }
    }
}

#[test]
fn round_robin_serves_all_alike() {
    let mut counts = [0; 5];
    for turn in 0..50 {
        let request = Request { turn, ..Request::default() };
        counts[decide_with(turn, &super::fixture::profile("debug"), &request, &super::fixture::fleet(5))
            .unwrap()
            .index] += 1;
    }
    assert_eq!(counts, [10; 5]);
}

#[test]
fn names_and_parts_belong_together() {
    let written = [
        filters().iter().map(ToString::to_string).collect::<Vec<_>>(),
        scorers().iter().map(ToString::to_string).collect(),
        pickers().iter().map(ToString::to_string).collect(),
    ];
    assert_eq!(written[0], Filter::NAMES);
    assert_eq!(written[1], Scorer::NAMES.iter().map(|name| name.replace("load", "load(30)")).collect::<Vec<_>>());
    assert_eq!(
        written[2],
        Picker::NAMES.iter().map(|name| name.replace("softmax", "softmax(0.2)")).collect::<Vec<_>>()
    );
    assert_eq!(Scorer::from_name("load(12.5)"), Some(Scorer::Load(12.5)));
    assert_eq!(Scorer::from_name(&Scorer::Load(12.5).to_string()), Some(Scorer::Load(12.5)));
    assert_eq!(Picker::from_name(&Picker::Softmax(1e-9).to_string()), Some(Picker::Softmax(1e-9)));
}

#[test]
fn nonsense_names_and_numbers_are_refused() {
    for text in
        ["", "Queue", "queue(1)", "load(0)", "load(-1)", "load(nan)", "load(inf)", "load()", "load(1", "load(1)x"]
    {
        assert_eq!(Scorer::from_name(text), None, "{text}");
    }
    for text in ["", "p2c()", "p2c(2)", "softmax(0)", "softmax(-0.2)", "softmax(x)", "random"] {
        assert_eq!(Picker::from_name(text), None, "{text}");
    }
    for text in ["", "breaker_open", "breaker-open(1)"] {
        assert_eq!(Filter::from_name(text), None, "{text}");
    }
}
