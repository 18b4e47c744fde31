//! The last minute second by second, for those who look at it live: what Prometheus works out of counters over time, ready
//! the moment the page is opened.

use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;

/// Seconds that are shown; the one that runs is not.
const SHOWN: u64 = 60;

/// Seconds that are kept: those shown, the one that runs, and one to spare for a reader at the turn of a second.
const KEPT: usize = SHOWN as usize + 2;

/// Times fall into steps of this factor, so a quantile is at most 8 % off.
const STEP: f64 = 1.15;

/// From 1 ms up to 1.15^95 ms, ten minutes.
const STEPS: usize = 96;

/// The last minute.
#[derive(Debug)]
pub struct Recent(Mutex<[Second; KEPT]>);

#[derive(Clone, Copy, Debug)]
struct Second {
    at: u64,
    ended: u32,
    trouble: u32,
    tokens: u64,
    first: Times,
}

/// How often which time was seen.
#[derive(Clone, Copy, Debug)]
struct Times([u32; STEPS]);

impl Default for Recent {
    fn default() -> Self {
        Self(Mutex::new([Second::new(u64::MAX); KEPT]))
    }
}

impl Recent {
    /// A request ended in this second of the process's clock.
    pub(super) fn ended(&self, now_s: u64, trouble: bool, first_token: Option<Duration>, tokens: u64) {
        let mut seconds = self.0.lock();
        let Some(second) = seconds.get_mut(slot(now_s)) else { return };
        if second.at != now_s {
            *second = Second::new(now_s);
        }
        second.ended += 1;
        second.trouble += u32::from(trouble);
        second.tokens += tokens;
        if let Some(time) = first_token {
            second.first.count(time);
        }
    }

    /// The seconds before `now_s`, the oldest first, and the first-token times over all of them.
    pub fn json(&self, now_s: u64) -> Value {
        let seconds = *self.0.lock();
        let mut all = Times([0; STEPS]);
        let from = now_s.saturating_sub(SHOWN);
        let shown: Vec<_> = (from..now_s)
            .map(|at| {
                let second = seconds.get(slot(at)).filter(|second| second.at == at).copied();
                let second = second.unwrap_or(Second::new(at));
                all.add(&second.first);
                json!({
                    "ended": second.ended,
                    "trouble": second.trouble,
                    "completion_tokens": second.tokens,
                    "first_token_p50_ms": second.first.quantile(0.5),
                    "first_token_p99_ms": second.first.quantile(0.99),
                })
            })
            .collect();
        json!({
            "seconds": shown,
            "first_token_p50_ms": all.quantile(0.5),
            "first_token_p99_ms": all.quantile(0.99),
        })
    }
}

fn slot(at: u64) -> usize {
    (at % KEPT as u64) as usize
}

impl Second {
    fn new(at: u64) -> Self {
        Self { at, ended: 0, trouble: 0, tokens: 0, first: Times([0; STEPS]) }
    }
}

impl Times {
    fn count(&mut self, time: Duration) {
        let step = (time.as_secs_f64() * 1e3).max(1.0).log(STEP).floor() as usize;
        if let Some(count) = self.0.get_mut(step.min(STEPS - 1)) {
            *count += 1;
        }
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, more)| *own += more);
    }

    /// The time that this share of those seen did not exceed, milliseconds: the middle of its step.
    fn quantile(&self, share: f64) -> Option<f64> {
        let seen: u32 = self.0.iter().sum();
        let rank = (f64::from(seen) * share).ceil().max(1.0) as u32;
        let mut below = 0;
        let step = self.0.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some((STEP.powf(step as f64 + 0.5) * 10.0).round() / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_eight_percent() {
        let recent = Recent::default();
        for ms in 1..=1000 {
            recent.ended(5, false, Some(Duration::from_millis(ms)), 1);
        }
        let json = recent.json(6);
        for (key, exact) in [("first_token_p50_ms", 500.0), ("first_token_p99_ms", 990.0)] {
            let told = json[key].as_f64().unwrap();
            assert!((told / exact - 1.0).abs() < 0.08, "{key}: {told}");
        }
        assert_eq!(json["seconds"].as_array().unwrap().last().unwrap()["ended"], 1000);
    }

    #[test]
    fn a_second_is_shown_once_it_is_over_and_for_a_minute() {
        let recent = Recent::default();
        recent.ended(100, true, None, 7);
        let ended = |now| -> Vec<u64> {
            let json = recent.json(now);
            json["seconds"].as_array().unwrap().iter().map(|second| second["ended"].as_u64().unwrap()).collect()
        };
        assert_eq!(ended(100).iter().sum::<u64>(), 0);
        assert_eq!(ended(101).last(), Some(&1));
        assert_eq!(ended(160).first(), Some(&1));
        assert_eq!(ended(161).iter().sum::<u64>(), 0);
        assert_eq!(recent.json(101)["first_token_p50_ms"], Value::Null);
    }

    #[test]
    fn a_slot_that_comes_round_again_starts_at_nought() {
        let recent = Recent::default();
        recent.ended(1, false, None, 0);
        recent.ended(1 + KEPT as u64, true, None, 0);
        let json = recent.json(2 + KEPT as u64);
        let last = json["seconds"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&last["ended"], &last["trouble"]), (&1.into(), &1.into()));
    }
}
