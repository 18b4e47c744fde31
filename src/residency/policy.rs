//! The numbers behind the table's choices. A value, so that the simulator can compare several.

use std::time::Duration;

/// Which idle adapter goes when another needs its slot. An adapter with a further copy elsewhere always goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The one whose last use is longest ago.
    Lru,
    /// The one whose expected reload cost is least: request rate times load time.
    CostAware,
}

/// How the table decides. Times "in loads" are multiples of the model's mean load time, so that one value fits engines
/// that load in 30 ms and in 5 s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// The victim among idle adapters.
    pub eviction: Eviction,
    /// A copy's turn, in loads: having been there for so long, it may be closed for another adapter that waits, although
    /// it is in use. With 8, at most 1/9 of a slot's time goes into loading. Infinite: busy copies are never closed.
    pub turn_loads: f64,
    /// How long a copy that has not had its turn must have been idle before it may go, in loads. 0: it may go at once.
    pub rest_loads: f64,
    /// How long an adapter waits for an idle slot before a busy copy is closed for it, in loads.
    pub patience_loads: f64,
    /// The load time assumed before the first load is measured.
    pub expected_load: Duration,
    /// What a change of adapters costs at least, whatever the load takes: a busy copy must drain, a batch must form anew.
    /// Turn, rest and patience count in loads of at least this.
    pub least_load: Duration,
    /// How long all holders must have been full before a further copy is loaded.
    pub spread_after: Duration,
    /// How long a further copy must have been idle before it is unloaded though nobody needs its slot.
    pub surplus_after: Duration,
    /// Requests per second from which an adapter that is nowhere is loaded into a free slot unasked; `None`: never.
    pub prewarm_rate: Option<f64>,
    /// Between two tries of an unload.
    pub unload_retry: Duration,
    /// The first quarantine of an adapter; doubles.
    pub quarantine_first: Duration,
    /// The longest quarantine.
    pub quarantine_cap: Duration,
}

impl Default for Policy {
    /// The values are guesses where no source is given; `tests/residency/storm.rs` shows the effect of the first three.
    fn default() -> Self {
        Self {
            eviction: Eviction::Lru,
            turn_loads: 8.0,
            rest_loads: 0.0,
            patience_loads: 1.0,
            expected_load: Duration::from_millis(500),
            least_load: Duration::from_millis(100),
            // A second holder is wanted within 2 s of sustained saturation, load included.
            spread_after: Duration::from_millis(500),
            surplus_after: Duration::from_secs(60),
            prewarm_rate: None,
            unload_retry: Duration::from_secs(1),
            quarantine_first: Duration::from_secs(60),
            quarantine_cap: Duration::from_secs(3600),
        }
    }
}

impl Policy {
    /// Plain LRU: an idle copy may go at once, a busy one never. What others do, for comparison.
    pub fn plain_lru() -> Self {
        Self { turn_loads: f64::INFINITY, rest_loads: 0.0, ..Self::default() }
    }
}

/// `time * factor`; a factor that is infinite or too large gives the longest time there is.
pub(super) fn scaled(time: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}
