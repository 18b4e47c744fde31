//! Scorers say how good each candidate is, as a number in [0,1]; the profile weighs and adds them.

mod inflight;
mod kv;
mod lmetric;
mod load;
pub(crate) mod prefix;
mod queue;
pub(crate) mod session;
mod weight;

use super::field::{Field, Scores};
use super::name;
use std::fmt;

/// Default of [`Scorer::Load`]: the seed's value, about the batch at which a small GPU stops gaining.
pub const DEFAULT_LOAD: f64 = 30.0;

/// A way to score candidates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scorer {
    /// Few waiting requests.
    Queue,
    /// A free KV cache.
    Kv,
    /// Few of our own requests.
    Inflight,
    /// Few requests in the engine, one half at this many; finite and above 0.
    Load(f64),
    /// A large configured weight.
    Weight,
    /// The replica that the session should use.
    Session,
    /// Much of the request's prefix cached.
    Prefix,
    /// Little prefill to do, in a small batch.
    Lmetric,
}

impl Scorer {
    /// The names that [`Scorer::from_name`] knows; `load` takes a number, as in `load(30)`.
    pub const NAMES: &[&str] = &["queue", "kv", "inflight", "load", "weight", "session", "prefix", "lmetric"];

    /// The scorer of that name; `None` for an unknown one and for a number that is not above 0 or not taken.
    pub fn from_name(text: &str) -> Option<Self> {
        match name::split(text)? {
            ("queue", None) => Some(Self::Queue),
            ("kv", None) => Some(Self::Kv),
            ("inflight", None) => Some(Self::Inflight),
            ("load", number) => Some(number.unwrap_or(DEFAULT_LOAD)).filter(|n| *n > 0.0).map(Self::Load),
            ("weight", None) => Some(Self::Weight),
            ("session", None) => Some(Self::Session),
            ("prefix", None) => Some(Self::Prefix),
            ("lmetric", None) => Some(Self::Lmetric),
            _ => None,
        }
    }

    /// One score in [0,1] for each candidate of the field, in its order.
    pub fn scores(self, field: &Field<'_>) -> Scores {
        let mut scores = match self {
            Self::Queue => queue::scores(field),
            Self::Kv => kv::scores(field),
            Self::Inflight => inflight::scores(field),
            Self::Load(half) => load::scores(half, field),
            Self::Weight => weight::scores(field),
            Self::Session => session::scores(field),
            Self::Prefix => prefix::scores(field),
            Self::Lmetric => lmetric::scores(field),
        };
        scores.iter_mut().for_each(|score| *score = unit(*score));
        scores
    }
}

impl fmt::Display for Scorer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => out.write_str("queue"),
            Self::Kv => out.write_str("kv"),
            Self::Inflight => out.write_str("inflight"),
            Self::Load(half) => write!(out, "load({half})"),
            Self::Weight => out.write_str("weight"),
            Self::Session => out.write_str("session"),
            Self::Prefix => out.write_str("prefix"),
            Self::Lmetric => out.write_str("lmetric"),
        }
    }
}

/// Clamps to [0,1]; NaN is 0, so that broken numbers never attract requests.
fn unit(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) }
}

/// `half / (half + amount)`: 1 when there is nothing, one half at `half`, towards 0 without end.
fn falling(half: f64, amount: f64) -> f64 {
    half / (half + amount)
}
