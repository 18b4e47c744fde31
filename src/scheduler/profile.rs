//! A profile names the filters, the weighted scorers and the picker of a decision. The numbers are the design's.

use super::filter::Filter;
use super::picker::{DEFAULT_TEMPERATURE, Picker};
use super::scorer::{DEFAULT_LOAD, Scorer};
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

impl Thresholds {
    /// The same, with the default in place of each value outside its range.
    pub fn sanitized(&self) -> Self {
        let default = Self::default();
        let at_least_one = |value: f64, default| if value.is_finite() && value >= 1.0 { value } else { default };
        let kv_valid = self.kv_ceiling > 0.0 && self.kv_ceiling <= 1.0;
        Self {
            target_waiting: at_least_one(self.target_waiting, default.target_waiting),
            target_inflight: at_least_one(self.target_inflight, default.target_inflight),
            kv_ceiling: if kv_valid { self.kv_ceiling } else { default.kv_ceiling },
            session_load_factor: at_least_one(self.session_load_factor, default.session_load_factor),
        }
    }
}

/// Filters, weighted scorers and a picker under a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name used in the configuration and in the `x-pointsman-profile` header.
    pub name: Arc<str>,
    /// Applied in this order.
    pub filters: Vec<Filter>,
    /// Each with its weight, finite.
    pub scorers: Vec<(Scorer, f64)>,
    /// Takes one of those left.
    pub picker: Picker,
}

impl Profile {
    /// The four profiles that every configuration has: chat, batch, long-context, debug.
    pub fn builtin() -> Vec<Self> {
        vec![Self::chat(), Self::batch(), Self::long_context(), Self::debug()]
    }

    /// Whether requests need their prefix blocks hashed.
    pub fn uses_prefix(&self) -> bool {
        self.values(Scorer::Prefix)
    }

    /// Does it give this scorer a say?
    pub(crate) fn values(&self, scorer: Scorer) -> bool {
        self.scorers.iter().any(|(own, weight)| *own == scorer && *weight > 0.0)
    }

    /// Conversations: their cache comes first. Prefix scores 0 for all until the model's requests carry prefix blocks; it
    /// weighs less than session because a session id is the client's statement and a prefix match our guess.
    fn chat() -> Self {
        use Scorer::{Inflight, Kv, Prefix, Queue, Session, Weight};
        let scorers = vec![(Session, 3.0), (Queue, 1.0), (Kv, 1.0), (Inflight, 1.0), (Weight, 0.5), (Prefix, 2.0)];
        Self { name: "chat".into(), filters: standard_filters(), scorers, picker: Picker::P2c }
    }

    /// Many independent requests: the shortest queue comes first.
    fn batch() -> Self {
        use Scorer::{Inflight, Kv, Load, Queue, Weight};
        let scorers = vec![(Queue, 3.0), (Kv, 1.0), (Load(DEFAULT_LOAD), 1.0), (Inflight, 1.0), (Weight, 1.0)];
        Self { name: "batch".into(), filters: standard_filters(), scorers, picker: Picker::MaxScore }
    }

    /// Long prompts: room in the KV cache comes first.
    fn long_context() -> Self {
        use Scorer::{Inflight, Kv, Prefix, Queue, Session};
        let scorers = vec![(Kv, 3.0), (Session, 2.0), (Queue, 1.0), (Inflight, 1.0), (Prefix, 3.0)];
        let picker = Picker::Softmax(DEFAULT_TEMPERATURE);
        Self { name: "long-context".into(), filters: standard_filters(), scorers, picker }
    }

    /// Every replica in turn, whatever its load.
    fn debug() -> Self {
        let filters = vec![Filter::BreakerOpen];
        Self { name: "debug".into(), filters, scorers: Vec::new(), picker: Picker::RoundRobin }
    }
}

fn standard_filters() -> Vec<Filter> {
    vec![Filter::BreakerOpen, Filter::PoolPriority, Filter::AdapterAffinity]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_thresholds_fall_back_one_by_one() {
        let broken = Thresholds {
            target_waiting: 0.5,
            target_inflight: f64::NAN,
            kv_ceiling: 1.1,
            session_load_factor: f64::INFINITY,
        };
        assert_eq!(broken.sanitized(), Thresholds::default());
        let mixed = Thresholds { target_waiting: 7.0, kv_ceiling: 0.0, ..Thresholds::default() };
        assert_eq!(mixed.sanitized(), Thresholds { target_waiting: 7.0, ..Thresholds::default() });
    }

    #[test]
    fn builtin_profiles_read_as_designed() {
        let text: Vec<_> = Profile::builtin()
            .iter()
            .map(|profile| {
                let filters: Vec<_> = profile.filters.iter().map(ToString::to_string).collect();
                let scorers: Vec<_> =
                    profile.scorers.iter().map(|(scorer, weight)| format!("{scorer} {weight}")).collect();
                format!("{}: {} | {} | {}", profile.name, filters.join(", "), scorers.join(", "), profile.picker)
            })
            .collect();
        let standard = "breaker-open, pool-priority, adapter-affinity";
        assert_eq!(
            text,
            [
                format!("chat: {standard} | session 3, queue 1, kv 1, inflight 1, weight 0.5, prefix 2 | p2c"),
                format!("batch: {standard} | queue 3, kv 1, load(30) 1, inflight 1, weight 1 | max-score"),
                format!("long-context: {standard} | kv 3, session 2, queue 1, inflight 1, prefix 3 | softmax(0.2)"),
                "debug: breaker-open |  | round-robin".to_owned(),
            ]
        );
    }
}
