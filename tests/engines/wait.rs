//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// How often a condition is looked at.
const PERIOD: Duration = Duration::from_millis(20);

/// Wait until `found` gives something; panics after `limit`, naming what was waited for.
pub async fn until<T>(what: &str, limit: Duration, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found().await {
            return found;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(PERIOD).await;
    }
}
