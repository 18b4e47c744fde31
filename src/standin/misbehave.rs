//! How a stand-in can misbehave, and the orders that switch it. One misbehaviour holds at a time; the next replaces it.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is wrong with the stand-in at the moment. As JSON: `{"kind":"die_mid_stream","after_tokens":3}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Misbehaviour {
    /// Nothing.
    #[default]
    Well,
    /// The listener is closed: new connections are refused. Open connections live on.
    Refuse,
    /// New connections are accepted and reset.
    ResetOnAccept,
    /// Nothing is answered, health included, until this ends.
    Stall,
    /// Health and metrics are answered; generation hangs until this ends (a stopped engine core).
    HungCore,
    /// A generation resets its connection after this many tokens; before any byte of the answer where that is 0 or the
    /// answer is not streamed.
    DieMidStream {
        /// Tokens sent before the reset.
        after_tokens: u64,
    },
    /// A generation ends after this many tokens with finish_reason "abort" and a tail that looks clean.
    AbortMidStream {
        /// Tokens sent before the end.
        after_tokens: u64,
    },
    /// Generation is answered with this status.
    Answer {
        /// The HTTP status, 400 to 599.
        status: u16,
    },
    /// Generation is answered 500 "EngineCore encountered an issue", health 503.
    DeadCore,
    /// The metrics tell these values, whatever is true.
    LieInMetrics {
        /// Requests running.
        running: f64,
        /// Requests waiting.
        waiting: f64,
        /// Share of the KV cache in use, 0 to 1.
        kv: f64,
    },
    /// The metrics are answered with this status.
    FailMetrics {
        /// The HTTP status, 400 to 599.
        status: u16,
    },
    /// Adapter loads are answered with this status.
    FailLoads {
        /// The HTTP status, 400 to 599.
        status: u16,
    },
    /// Adapter loads take this much longer.
    SlowLoad {
        /// Milliseconds.
        ms: u64,
    },
    /// First tokens take this much longer.
    SlowFirstToken {
        /// Milliseconds.
        ms: u64,
    },
    /// An event, not a state: every adapter is forgotten and the start time is now, as after a restart.
    LoseAdapters,
}

impl Misbehaviour {
    /// How much longer an adapter load takes.
    pub(super) fn load_delay(self) -> Duration {
        match self {
            Self::SlowLoad { ms } => Duration::from_millis(ms),
            _ => Duration::ZERO,
        }
    }

    /// How much longer a first token takes.
    pub(super) fn first_token_delay(self) -> Duration {
        match self {
            Self::SlowFirstToken { ms } => Duration::from_millis(ms),
            _ => Duration::ZERO,
        }
    }
}

/// The body of `POST /standin/misbehave`.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    #[serde(flatten)]
    pub(super) misbehaviour: Misbehaviour,
    /// All is well again after this many milliseconds, unless something else is ordered before.
    pub(super) for_ms: Option<u64>,
}
