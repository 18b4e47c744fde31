//! `make bench`: Pointsman beside a bare Pingora proxy, nginx, HAProxy and no proxy at all, in one run on one machine.
//!
//! The balancer has core 0 for itself; wrk and the backend share core 1. Each case is run with all of them in turn, several
//! rounds, the order turned by one each round; the table shows medians. Prints markdown, ready for benches/RESULTS.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench may panic and prints its result"
)]

mod backend;
mod balancer;
mod bare;
mod table;
mod wrk;

use balancer::Balancer;
use std::time::Duration;
use table::Table;
use wrk::Case;

/// What runs in a process of its own, named by the first argument.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("backend") => backend::run(&arguments[1..]),
        Some("bare") => bare::run(&arguments[1..]),
        // `cargo test --benches` and `cargo bench` without a wish of ours: nothing to do.
        Some("run") => run(&Settings::from_environment()),
        _ => eprintln!("run `make bench`"),
    }
}

/// How long and how often.
struct Settings {
    rounds: usize,
    seconds: u32,
    connections: u32,
}

impl Settings {
    fn from_environment() -> Self {
        let number = |name: &str, default| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
        Self { rounds: number("ROUNDS", 3) as usize, seconds: number("SECONDS_EACH", 3), connections: 32 }
    }
}

fn run(settings: &Settings) {
    let backend = backend::start();
    let mut balancers = balancer::all(&backend);
    let mut table = Table::default();
    for balancer in &balancers {
        table.idle(balancer.name, balancer.rss());
    }
    for case in Case::ALL {
        for round in 0..settings.rounds {
            balancers.rotate_left(round.min(1));
            for balancer in &balancers {
                measure(&mut table, balancer, case, settings);
            }
        }
    }
    for balancer in &balancers {
        table.loaded(balancer.name, balancer.rss());
    }
    println!("{}", table.markdown(settings.rounds, settings.seconds, settings.connections));
}

fn measure(table: &mut Table, balancer: &Balancer, case: Case, settings: &Settings) {
    let before = balancer.cpu();
    let busy = case.run(&balancer.address, settings.connections, Duration::from_secs(settings.seconds.into()));
    let cpu = balancer.cpu() - before;
    let alone = case.run(&balancer.address, 1, Duration::from_secs(1));
    eprintln!("{:<14} {:<3} {:>9.0} req/s, p50 {:?}", balancer.name, case.name(), busy.rate, busy.p50);
    table.add(balancer.name, case, &busy, cpu, alone.p50);
}
