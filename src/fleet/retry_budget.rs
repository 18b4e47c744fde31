//! How many retries are allowed: a share of recent requests, so that retries never multiply an outage.
//!
//! A token bucket in milli-retries. Each first try adds `share`, each retry takes one; the bucket is capped, so a quiet
//! hour does not save up a storm. The reserve lets a nearly idle proxy retry at all.

use std::sync::atomic::{AtomicI64, Ordering};

/// Retries that are always in a fresh bucket: what one replica had in flight when it died must find another. Guess: engines
/// run some hundred requests at once.
const RESERVE: i64 = 256;
/// The bucket's size in retries. Guess: two such deaths in a row; beyond them the share decides.
const CAPACITY: i64 = 512;
const UNIT: i64 = 1000;

/// The retry budget of one model.
#[derive(Debug)]
pub struct RetryBudget {
    deposit: i64,
    balance: AtomicI64,
}

impl RetryBudget {
    /// `share`: retries allowed for each request, 0 to 1; 0 forbids retries altogether.
    pub fn new(share: f64) -> Self {
        let deposit = (share.clamp(0.0, 1.0) * UNIT as f64).round() as i64;
        Self { deposit, balance: AtomicI64::new(if deposit == 0 { 0 } else { RESERVE * UNIT }) }
    }

    /// A request entered.
    pub fn deposit(&self) {
        if self.balance.load(Ordering::Relaxed) < CAPACITY * UNIT {
            self.balance.fetch_add(self.deposit, Ordering::Relaxed);
        }
    }

    /// Take one retry out, if there is one.
    pub fn withdraw(&self) -> bool {
        let take = |balance: i64| (balance >= UNIT).then_some(balance - UNIT);
        self.balance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(budget: &RetryBudget) -> usize {
        std::iter::repeat_with(|| budget.withdraw()).take_while(|ok| *ok).count()
    }

    #[test]
    fn retries_are_a_share_of_requests() {
        let budget = RetryBudget::new(0.2);
        drain(&budget);
        for _ in 0..50 {
            budget.deposit();
        }
        assert_eq!(drain(&budget), 10);
    }

    #[test]
    fn a_quiet_hour_does_not_save_up_a_storm() {
        let budget = RetryBudget::new(1.0);
        for _ in 0..100_000 {
            budget.deposit();
        }
        assert_eq!(drain(&budget), CAPACITY as usize);
    }

    #[test]
    fn a_share_of_zero_forbids_retries() {
        let budget = RetryBudget::new(0.0);
        budget.deposit();
        assert!(!budget.withdraw());
    }
}
