//! How long one decision takes, by profile and number of replicas. Target: at most 1 us at 8 replicas.

#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pointsman::fleet::snapshot::{AdapterView, BreakerView, Candidate, Snapshot};
use pointsman::scheduler::profile::Thresholds;
use pointsman::scheduler::{Profile, Request, Session, schedule};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::hint::black_box;

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

criterion_group!(benches, decision);
criterion_main!(benches);
