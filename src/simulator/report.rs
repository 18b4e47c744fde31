//! What came of a run, as numbers and as a table.

use super::policy::Policy;
use super::workload::Workload;
use crate::residency::Counters;
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// One answered request.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// From its arrival.
    pub first_token: Duration,
    /// Since the start.
    pub ended_at: Duration,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The workload's name.
    pub workload: String,
    /// The policy's name.
    pub policy: &'static str,
    /// Requests answered.
    pub answered: usize,
    /// Requests that got no adapter.
    pub refused: u64,
    /// Adapter loads for a thousand answers.
    pub loads_per_1000: f64,
    /// Adapter unloads.
    pub evictions: u64,
    /// Median time to the first token, seconds.
    pub first_token_p50: f64,
    /// 99th percentile of it, seconds.
    pub first_token_p99: f64,
    /// Answers a second, over the whole run.
    pub throughput: f64,
    /// Requests that found their adapter resident, waited for another's load or a slot, caused a load.
    pub hits: [u64; 3],
}

impl Report {
    /// From what was measured.
    pub(super) fn of(
        workload: Workload,
        policy: Policy,
        served: &[Served],
        counters: &[Counters],
        refused: u64,
    ) -> Self {
        let mut times: Vec<f64> = served.iter().map(|served| served.first_token.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let percentile = |share: f64| times.get((times.len() as f64 * share) as usize).or(times.last()).copied();
        let time = served.iter().map(|served| served.ended_at).max().unwrap_or_default().as_secs_f64();
        let answered = served.len();
        let sum = |of: fn(&Counters) -> u64| counters.iter().map(of).sum::<u64>();
        let per = |count: f64, of: f64| if of > 0.0 { count / of } else { 0.0 };
        Self {
            workload: workload.name(),
            policy: policy.name(),
            answered,
            refused,
            loads_per_1000: per(sum(|c| c.loads_started) as f64 * 1e3, answered as f64),
            evictions: sum(|c| c.evictions),
            first_token_p50: percentile(0.5).unwrap_or_default(),
            first_token_p99: percentile(0.99).unwrap_or_default(),
            throughput: per(answered as f64, time),
            hits: [sum(|c| c.hits_resident), sum(|c| c.hits_waited), sum(|c| c.hits_cold)],
        }
    }
}

/// The table of several runs, as markdown.
pub fn table(reports: &[Report]) -> String {
    let mut text = String::from(
        "| workload | policy | loads / 1,000 | first token p50 s | p99 s | answers / s | resident / waited / cold |\n\
         | --- | --- | ---: | ---: | ---: | ---: | --- |\n",
    );
    for report in reports {
        let [resident, waited, cold] = report.hits;
        let Report { workload, policy, loads_per_1000, first_token_p50, first_token_p99, throughput, .. } = report;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {workload} | {policy} | {loads_per_1000:.1} | {first_token_p50:.2} | {first_token_p99:.2} | \
             {throughput:.2} | {resident} / {waited} / {cold} |"
        );
    }
    text
}
