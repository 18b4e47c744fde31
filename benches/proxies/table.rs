//! The results as markdown: medians over the rounds, and each balancer's share of bare Pingora's rate.

use super::wrk::{Case, Run};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// One measurement.
struct Cell {
    rate: f64,
    p50: f64,
    p99: f64,
    /// CPU seconds for 10,000 requests.
    cpu: f64,
    /// At one connection.
    p50_alone: f64,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Table {
    order: Vec<&'static str>,
    cells: BTreeMap<(Case, &'static str), Vec<Cell>>,
    idle: BTreeMap<&'static str, f64>,
    loaded: BTreeMap<&'static str, f64>,
}

const REFERENCE: &str = "bare Pingora";

impl Table {
    pub(crate) fn idle(&mut self, name: &'static str, rss: f64) {
        self.order.push(name);
        self.idle.insert(name, rss);
    }

    pub(crate) fn loaded(&mut self, name: &'static str, rss: f64) {
        self.loaded.insert(name, rss);
    }

    pub(crate) fn add(&mut self, name: &'static str, case: Case, busy: &Run, cpu: f64, alone: Duration) {
        let cell = Cell {
            rate: busy.rate,
            p50: busy.p50.as_secs_f64(),
            p99: busy.p99.as_secs_f64(),
            cpu: cpu / busy.requests * 1e4,
            p50_alone: alone.as_secs_f64(),
        };
        self.cells.entry((case, name)).or_default().push(cell);
    }

    fn median(&self, case: Case, name: &'static str, of: impl Fn(&Cell) -> f64) -> f64 {
        let mut values: Vec<f64> = self.cells[&(case, name)].iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    pub(crate) fn markdown(&self, rounds: usize, seconds: u32, connections: u32) -> String {
        let mut text = format!("{connections} connections, {rounds} rounds of {seconds} s each, medians.\n");
        for case in Case::ALL {
            write!(text, "\n### {}\n", case.title()).unwrap();
            text += "| | req/s | of bare | p50 ms | p99 ms | CPU s / 10,000 | of bare | p50 at 1 connection, ms | of bare |\n";
            text += "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
            for name in &self.order {
                text += &self.row(case, name);
            }
        }
        text += "\n### Memory, MiB (VmRSS)\n| | idle | after the run |\n| --- | ---: | ---: |\n";
        for name in self.order.iter().filter(|name| **name != "direct") {
            writeln!(text, "| {name} | {:.1} | {:.1} |", self.idle[name], self.loaded[name]).unwrap();
        }
        text
    }

    fn row(&self, case: Case, name: &'static str) -> String {
        let ratio = |of: fn(&Cell) -> f64| self.median(case, name, of) / self.median(case, REFERENCE, of);
        let ms = |of: fn(&Cell) -> f64| self.median(case, name, of) * 1e3;
        format!(
            "| {name} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.3} | {:.2} |\n",
            self.median(case, name, |cell| cell.rate),
            ratio(|cell| cell.rate),
            ms(|cell| cell.p50),
            ms(|cell| cell.p99),
            self.median(case, name, |cell| cell.cpu),
            ratio(|cell| cell.cpu),
            ms(|cell| cell.p50_alone),
            ratio(|cell| cell.p50_alone),
        )
    }
}
