//! Why an adapter could not be loaded, and for how long not to try again.

use std::time::Duration;

/// What came of a load that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoadFailure {
    /// The engine finds no adapter at the path.
    NotFound,
    /// The adapter does not fit the engine: rank too high, another base model, unreadable weights.
    Unfit,
    /// The engine refused for a reason we do not know.
    Rejected,
    /// The replica could not be reached, or its answer could not be read.
    Unreachable,
    /// The engine did not answer in time. It may still finish the load.
    TimedOut,
    /// The engine restarted while it loaded.
    Restarted,
}

impl LoadFailure {
    /// Will the same load fail again until somebody changes the files or the engine?
    pub fn is_permanent(self) -> bool {
        matches!(self, Self::NotFound | Self::Unfit | Self::Rejected)
    }

    /// May the engine hold the adapter in spite of the failure? Then it keeps its slot until an unload has made sure.
    pub fn is_uncertain(self) -> bool {
        matches!(self, Self::TimedOut | Self::Unreachable)
    }

    /// How long to leave the adapter alone on that replica after its `strikes`th failure in a row (1 is the first).
    /// Doubles with each strike up to the cap. A load cut short by a restart is tried again at once, the first time.
    pub fn backoff(self, strikes: u32) -> Duration {
        match self {
            Self::Restarted if strikes <= 1 => Duration::ZERO,
            Self::Restarted => doubled(TRANSIENT.0, strikes - 1, TRANSIENT.1),
            _ if self.is_permanent() => doubled(PERMANENT.0, strikes, PERMANENT.1),
            _ => doubled(TRANSIENT.0, strikes, TRANSIENT.1),
        }
    }
}

/// First back-off and cap of a failure that may pass by itself (guess: an engine's hiccup lasts seconds).
const TRANSIENT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// First back-off and cap of a failure that needs a person (guess: nobody repairs files within seconds).
const PERMANENT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// `first * 2^(strikes - 1)`, at most `cap`.
pub(super) fn doubled(first: Duration, strikes: u32, cap: Duration) -> Duration {
    first.saturating_mul(1_u32 << strikes.saturating_sub(1).min(20)).min(cap)
}

/// A failure as remembered on a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setback {
    /// What went wrong.
    pub kind: LoadFailure,
    /// Failures in a row, at least 1.
    pub strikes: u32,
    /// No load is started there before.
    pub until: Duration,
}

impl Setback {
    /// The `strikes`th failure in a row, at `now`.
    pub(super) fn new(kind: LoadFailure, strikes: u32, now: Duration) -> Self {
        Self { kind, strikes, until: now + kind.backoff(strikes) }
    }
}

/// Why a request gets no adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its load failed on every replica; this is the failure that is over soonest.
    Failed(LoadFailure),
    /// It is suspected to have killed a replica.
    Quarantined,
    /// It was removed from the configuration.
    Retired,
}

/// The answer to a request that gets no adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// When a new try may have better luck; `None`: never.
    pub retry_at: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_its_cap() {
        let seconds = |kind: LoadFailure, strikes| kind.backoff(strikes).as_secs();
        for (kind, expected) in [
            (LoadFailure::TimedOut, [1, 2, 4, 30]),
            (LoadFailure::NotFound, [10, 20, 40, 600]),
            (LoadFailure::Restarted, [0, 1, 2, 30]),
        ] {
            let got = [seconds(kind, 1), seconds(kind, 2), seconds(kind, 3), seconds(kind, u32::MAX)];
            assert_eq!(got, expected, "{kind:?}");
        }
    }
}
