//! `pointsman simulate`: compare ways of choosing replicas and keeping adapters, in virtual time.

use crate::simulator::engine::Speed;
use crate::simulator::{Options, Policy, Report, Workload, report, simulate};
use clap::Args;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

/// Simulate workloads over engines with LoRA adapters: loads, first tokens, throughput of Pointsman and of plainer ways.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// zipf-S, uniform, flash-crowd, diurnal or session-local; all of them when left out.
    #[arg(long, value_parser = workload)]
    workload: Vec<Workload>,
    /// round-robin, least-request, plain-affinity or pointsman; all of them when left out.
    #[arg(long, value_parser = policy)]
    policy: Vec<Policy>,
    /// Engines.
    #[arg(long, default_value_t = 4)]
    replicas: usize,
    /// Adapters that each engine may hold (max_loaded_adapters).
    #[arg(long, default_value = "4")]
    slots: NonZeroUsize,
    /// Adapters asked for.
    #[arg(long, default_value_t = 32)]
    adapters: usize,
    /// Requests in all.
    #[arg(long, default_value_t = 5_000)]
    requests: usize,
    /// Requests a second.
    #[arg(long, default_value_t = 8.0)]
    rate: f64,
    /// Requests that an engine runs at once.
    #[arg(long, default_value_t = 16)]
    seats: usize,
    /// Distinct adapters that an engine runs at once.
    #[arg(long, default_value_t = 4)]
    max_loras: usize,
    /// Milliseconds that one adapter load takes.
    #[arg(long, default_value_t = 1_000)]
    load_ms: u64,
    /// Prompt tokens a second of each request.
    #[arg(long, default_value_t = 4_000.0)]
    prefill: f64,
    /// Answer tokens a second of each request.
    #[arg(long, default_value_t = 40.0)]
    decode: f64,
    /// Equal seeds give equal results.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object a run instead of the table.
    #[arg(long)]
    json: bool,
}

fn workload(name: &str) -> Result<Workload, String> {
    Workload::named(name).ok_or_else(|| "zipf-S, uniform, flash-crowd, diurnal or session-local".to_owned())
}

fn policy(name: &str) -> Result<Policy, String> {
    Policy::named(name).ok_or_else(|| "round-robin, least-request, plain-affinity or pointsman".to_owned())
}

impl SimulateArgs {
    /// Run them all and print.
    #[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to its user")]
    pub fn run(self) -> ExitCode {
        match self.reports() {
            Ok(reports) if self.json => {
                for report in reports {
                    println!("{}", serde_json::json!(report));
                }
                ExitCode::SUCCESS
            }
            Ok(reports) => {
                print!("{}", report::table(&reports));
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn reports(&self) -> Result<Vec<Report>, String> {
        let positive = [("rate", self.rate), ("prefill", self.prefill), ("decode", self.decode)];
        if let Some((name, _)) = positive.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            return Err(format!("--{name} must be above 0"));
        }
        let counts = [("adapters", self.adapters), ("seats", self.seats), ("max-loras", self.max_loras)];
        if let Some((name, _)) = counts.iter().find(|(_, value)| *value == 0) {
            return Err(format!("--{name} must be above 0"));
        }
        let all = |chosen: &[Workload]| if chosen.is_empty() { Workload::ALL.to_vec() } else { chosen.to_vec() };
        let policies = if self.policy.is_empty() { Policy::ALL.to_vec() } else { self.policy.clone() };
        let runs = all(&self.workload).into_iter().flat_map(|w| policies.iter().map(move |policy| (w, *policy)));
        let options = self.options();
        runs.map(|(workload, policy)| simulate(&options, workload, policy).map_err(|e| e.to_string())).collect()
    }

    fn options(&self) -> Options {
        Options {
            replicas: self.replicas,
            slots: self.slots,
            adapters: self.adapters,
            requests: self.requests,
            rate: self.rate,
            seed: self.seed,
            speed: Speed {
                seats: self.seats,
                max_loras: self.max_loras,
                prefill: self.prefill,
                decode: self.decode,
                load: Duration::from_millis(self.load_ms),
                ..Speed::default()
            },
        }
    }
}
