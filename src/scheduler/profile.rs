//! A profile names the filters, the weighted scorers and the picker of a decision.

use std::sync::Arc;

/// The thresholds that several parts of a profile share; the numbers are the design's seed values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Waiting requests at which a replica counts as full. At least 1. Seed value 4.
    pub target_waiting: f64,
    /// Requests in flight at which the in-flight score is one half. At least 1. Seed value 8.
    pub target_inflight: f64,
    /// KV cache use at which a replica counts as full, in (0, 1]. Seed value 0.9.
    pub kv_ceiling: f64,
    /// How far above the mean load a session's replica may be before the session moves. At least 1. Seed value 1.25.
    pub session_load_factor: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { target_waiting: 4.0, target_inflight: 8.0, kv_ceiling: 0.9, session_load_factor: 1.25 }
    }
}

/// Filters, weighted scorers and a picker under a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name used in the configuration and in the `x-pointsman-profile` header.
    pub name: Arc<str>,
}
