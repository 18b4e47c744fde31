//! How long one decision takes, by profile and number of replicas. Target: at most 1 us at 8 replicas.

#![allow(missing_docs, clippy::indexing_slicing)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pointsman::fleet::snapshot::{AdapterView, BreakerView, Candidate, Snapshot};
use pointsman::scheduler::profile::Thresholds;
use pointsman::scheduler::trace::Explanation;
use pointsman::scheduler::{Profile, Request, Session, schedule, schedule_traced};
use pointsman::telemetry::Outcome;
use pointsman::telemetry::decision::{Asked, End, Try, Why};
use pointsman::telemetry::decisions::Decisions;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A busy fleet: some hold the adapter, loads differ, nobody is full.
fn snapshot(replicas: usize, rng: &mut SmallRng) -> Snapshot {
    let candidate = |member: usize| Candidate {
        member,
        identity: rng.random(),
        priority: 0,
        weight: 1.0,
        share: 1.0,
        waiting: f64::from(rng.random_range(0_u8..3)),
        running: f64::from(rng.random_range(0_u8..16)),
        in_flight: f64::from(rng.random_range(0_u8..20)),
        kv: rng.random_range(0.0..0.8),
        breaker: BreakerView::Healthy,
        adapter: if member.is_multiple_of(2) { AdapterView::Resident } else { AdapterView::Absent },
        free_slots: 1,
        prefix_blocks: rng.random_range(0..8),
        tried: false,
    };
    Snapshot { candidates: (0..replicas).map(candidate).collect() }
}

fn decision(criterion: &mut Criterion) {
    let thresholds = Thresholds::default();
    for (load, on_demand_adapter) in [("adapter", true), ("base", false)] {
        for profile in Profile::builtin() {
            let mut group = criterion.benchmark_group(format!("{}/{load}", profile.name));
            for replicas in [1, 3, 8, 32, 128] {
                let mut rng = SmallRng::seed_from_u64(1);
                let snapshot = snapshot(replicas, &mut rng);
                let request = Request { on_demand_adapter, prefix_blocks: 8, prompt_tokens: 500, ..Request::default() };
                let mut key = 0;
                group.bench_function(BenchmarkId::from_parameter(replicas), |bencher| {
                    bencher.iter(|| {
                        key += 1;
                        let request =
                            Request { session: Some(Session { key, remembered: None }), turn: key, ..request };
                        schedule(black_box(&request), black_box(&snapshot), &profile, &thresholds, &mut rng)
                    });
                });
            }
            group.finish();
        }
    }
}

/// What it costs to keep a decision for the operator: its line alone, and all that it weighed.
fn recording(criterion: &mut Criterion) {
    let asked = || Asked {
        at: SystemTime::now(),
        request_id: "5f0c6a1e-0000-4000-8000-000000000000".into(),
        model: "qwen".into(),
        adapter: Some("sql".into()),
        session: Some(7),
        profile: "chat".into(),
        queue_wait: Duration::ZERO,
    };
    let end = End {
        outcome: Outcome::Answered,
        status: 200,
        code: None,
        first_token: None,
        duration: Duration::ZERO,
        tokens: None,
    };
    let (thresholds, profile) = (Thresholds::default(), Profile::builtin().swap_remove(0));
    let mut group = criterion.benchmark_group("recording");
    let names: Vec<Arc<str>> = (0..8).map(|number| format!("127.0.0.1:800{number}").into()).collect();
    for (name, traced) in [("line", false), ("line, trace and 8 replicas' decision", true)] {
        let mut rng = SmallRng::seed_from_u64(1);
        let (ring, snapshot) = (Decisions::default(), snapshot(8, &mut rng));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let number = ring.open(asked());
                let why = traced.then(|| {
                    let (mut told, request) = (Explanation::default(), Request::default());
                    let decision = schedule_traced(&request, &snapshot, &profile, &thresholds, &mut rng, &mut told);
                    black_box(decision).ok();
                    Why::of(&snapshot.candidates, &told, |member| names[member].clone())
                });
                ring.decided(number, Try { why, candidates: 8, left: 4, ..Try::default() });
                ring.placed(number, |made| made.replica = Some(names[3].clone()));
                ring.ended(number, end);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decision, recording);
criterion_main!(benches);
