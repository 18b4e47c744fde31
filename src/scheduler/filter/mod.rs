//! Filters drop candidates that should not get the request. A filter never drops everybody: where nobody meets its rule, it
//! keeps all. It keeps the order.

mod adapter_affinity;
mod breaker_open;
mod pool_priority;

pub(crate) use breaker_open::usable;

use super::field::Kept;
use super::profile::Thresholds;
use super::request::Request;
use crate::fleet::snapshot::Candidate;
use std::fmt;

/// A rule that drops candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Drops tripped replicas.
    BreakerOpen,
    /// Keeps the first pool that has room.
    PoolPriority,
    /// Keeps the replicas that hold the request's on-demand adapter, or can take it.
    AdapterAffinity,
}

impl Filter {
    /// The names that [`Filter::from_name`] knows.
    pub const NAMES: &[&str] = &["breaker-open", "pool-priority", "adapter-affinity"];

    /// The filter of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "breaker-open" => Some(Self::BreakerOpen),
            "pool-priority" => Some(Self::PoolPriority),
            "adapter-affinity" => Some(Self::AdapterAffinity),
            _ => None,
        }
    }

    /// Drops candidates from `kept` and tells `dropped` about each.
    pub fn apply<'a>(
        self,
        request: &Request,
        thresholds: &Thresholds,
        kept: &mut Kept<'a>,
        dropped: &mut impl FnMut(&'a Candidate),
    ) {
        match self {
            Self::BreakerOpen => breaker_open::apply(kept, dropped),
            Self::PoolPriority => pool_priority::apply(thresholds, kept, dropped),
            Self::AdapterAffinity => adapter_affinity::apply(request, thresholds, kept, dropped),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::BreakerOpen => "breaker-open",
            Self::PoolPriority => "pool-priority",
            Self::AdapterAffinity => "adapter-affinity",
        })
    }
}

/// Keeps only those that meet the rule, if any does; whether any did.
pub(crate) fn narrow<'a>(
    kept: &mut Kept<'a>,
    rule: impl Fn(&Candidate) -> bool,
    dropped: &mut impl FnMut(&'a Candidate),
) -> bool {
    let any = kept.iter().any(|candidate| rule(candidate));
    if any {
        kept.retain(|candidate| {
            let keeps = rule(candidate);
            if !keeps {
                dropped(candidate);
            }
            keeps
        });
    }
    any
}
