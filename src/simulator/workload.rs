//! Who asks for which adapter and when: seeded arrivals.
//!
//! There is no public trace of language-model requests with real adapters, so popularity is synthesised. Lengths follow
//! the Azure conversation trace of 2023 (Patel et al., "Splitwise", ISCA 2024) in their means: about 1,000 tokens of prompt
//! and 200 of answer, here exponentially distributed.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

/// Mean length of a prompt, tokens.
const PROMPT: f64 = 1_000.0;
/// Mean length of an answer, tokens.
const ANSWER: f64 = 200.0;
/// Turns of a session, geometrically distributed; this is the mean.
const TURNS: f64 = 5.0;

/// How popular each adapter is, and how that changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// The k-th most popular of n is asked for in proportion to 1 / k^s.
    Zipf(f64),
    /// All are equally popular.
    Uniform,
    /// Zipf 1.0, but in the middle third of the time half of all requests are for one unpopular adapter.
    FlashCrowd,
    /// Zipf 1.0 whose ranks wander once around during the run.
    Diurnal,
    /// Zipf 1.0 over sessions: their turns stay with one adapter and one session key.
    SessionLocal,
}

impl Workload {
    /// Those of the table.
    pub const ALL: [Self; 7] = [
        Self::Zipf(0.8),
        Self::Zipf(1.0),
        Self::Zipf(1.2),
        Self::Uniform,
        Self::FlashCrowd,
        Self::Diurnal,
        Self::SessionLocal,
    ];

    /// Its name on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Zipf(exponent) => format!("zipf-{exponent:.1}"),
            Self::Uniform => "uniform".to_owned(),
            Self::FlashCrowd => "flash-crowd".to_owned(),
            Self::Diurnal => "diurnal".to_owned(),
            Self::SessionLocal => "session-local".to_owned(),
        }
    }

    /// The workload of this name; Zipf takes any exponent.
    pub fn named(name: &str) -> Option<Self> {
        let zipf = || Some(Self::Zipf(name.strip_prefix("zipf-")?.parse().ok().filter(|exponent| *exponent >= 0.0)?));
        Self::ALL.into_iter().find(|workload| workload.name() == name).or_else(zipf)
    }

    /// Is some adapter much more popular than others?
    pub fn is_skewed(self) -> bool {
        self != Self::Uniform
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// Since the start.
    pub at: Duration,
    /// Position of the adapter.
    pub adapter: usize,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens of its answer, at least 1.
    pub answer: u32,
    /// Its conversation, if it has one.
    pub session: Option<u64>,
}

/// `count` requests at `rate` a second (a Poisson process) for `adapters` adapters.
pub fn arrivals(workload: Workload, count: usize, rate: f64, adapters: usize, seed: u64) -> Vec<Arrival> {
    let mut random = StdRng::seed_from_u64(seed);
    let exponent = match workload {
        Workload::Zipf(exponent) => exponent,
        Workload::Uniform => 0.0,
        _ => 1.0,
    };
    let ranks = Ranks::new(adapters, exponent);
    let mut sessions: Vec<(u64, usize)> = Vec::new();
    let mut at = 0.0;
    (0..count)
        .map(|number| {
            at += exponential(&mut random, 1.0 / rate);
            let progress = number as f64 / count as f64;
            let rank = ranks.draw(&mut random);
            let (adapter, session) = match workload {
                Workload::FlashCrowd if (1.0 / 3.0..2.0 / 3.0).contains(&progress) && random.random_bool(0.5) => {
                    (adapters - 1, None)
                }
                Workload::Diurnal => ((rank + (progress * adapters as f64) as usize) % adapters, None),
                Workload::SessionLocal => {
                    let (session, adapter) = turn(&mut sessions, &mut random, rank);
                    (adapter, Some(session))
                }
                _ => (rank, None),
            };
            let mut length = |mean: f64| (exponential(&mut random, mean).ceil() as u32).max(1);
            let (prompt, answer) = (length(PROMPT), length(ANSWER));
            Arrival { at: Duration::from_secs_f64(at), adapter, prompt, answer, session }
        })
        .collect()
}

/// A further turn of a session under way, or the first one of a new one.
fn turn(sessions: &mut Vec<(u64, usize)>, random: &mut StdRng, rank: usize) -> (u64, usize) {
    if !sessions.is_empty() && random.random_bool(1.0 - 1.0 / TURNS) {
        let at = random.random_range(0..sessions.len());
        if let Some(session) = sessions.get(at).copied() {
            return session;
        }
    }
    let session = (random.random(), rank);
    // So many conversations are alive at once; the oldest ends.
    if sessions.len() >= 64 {
        sessions.remove(0);
    }
    sessions.push(session);
    session
}

fn exponential(random: &mut StdRng, mean: f64) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

/// Ranks by Zipf's law.
struct Ranks(Vec<f64>);

impl Ranks {
    fn new(count: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        Self(
            (1..=count)
                .map(|rank| {
                    sum += (rank as f64).powf(-exponent);
                    sum
                })
                .collect(),
        )
    }

    fn draw(&self, random: &mut StdRng) -> usize {
        let point = random.random::<f64>() * self.0.last().copied().unwrap_or(0.0);
        self.0.partition_point(|sum| *sum < point).min(self.0.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_arrivals_and_zipf_is_skewed() {
        let of = |seed| arrivals(Workload::Zipf(1.0), 20_000, 10.0, 10, seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let first = of(1).iter().filter(|arrival| arrival.adapter == 0).count() as f64 / 20_000.0;
        // 1 / (1 + 1/2 + ... + 1/10).
        assert!((first - 0.341).abs() < 0.02, "{first}");
        let seconds = of(1).last().map_or(0.0, |last| last.at.as_secs_f64());
        assert!((seconds - 2_000.0).abs() < 100.0, "{seconds}");
    }

    #[test]
    fn every_workload_is_found_by_its_name() {
        for workload in Workload::ALL {
            assert_eq!(Workload::named(&workload.name()), Some(workload));
        }
        assert_eq!(Workload::named("zipf-0.95"), Some(Workload::Zipf(0.95)));
        assert_eq!(Workload::named("zipf--1"), None);
    }
}
