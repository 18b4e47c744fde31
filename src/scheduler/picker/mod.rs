//! Pickers take one candidate, mostly by its total score.

mod least_request;
mod max_score;
mod p2c;
mod round_robin;
mod softmax;
mod two_choice;

use super::field::Field;
use super::name;
use rand::Rng;
use std::fmt;

/// Default of [`Picker::Softmax`]: the seed's value.
pub const DEFAULT_TEMPERATURE: f64 = 0.2;

/// A way to take one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Picker {
    /// The better of two.
    P2c,
    /// The best, ties at random.
    MaxScore,
    /// At random, by `exp(total / temperature)`; the temperature is finite and above 0.
    Softmax(f64),
    /// Each in turn.
    RoundRobin,
    /// The less loaded of the two replicas that the request's key ranks first.
    TwoChoice,
    /// The one with the fewest requests for its weight.
    LeastRequest,
}

impl Picker {
    /// The names that [`Picker::from_name`] knows; `softmax` takes a number, as in `softmax(0.2)`.
    pub const NAMES: &[&str] = &["p2c", "max-score", "softmax", "round-robin", "two-choice", "least-request"];

    /// The picker of that name; `None` for an unknown one and for a number that is not above 0 or not taken.
    pub fn from_name(text: &str) -> Option<Self> {
        match name::split(text)? {
            ("p2c", None) => Some(Self::P2c),
            ("max-score", None) => Some(Self::MaxScore),
            ("softmax", number) => Some(number.unwrap_or(DEFAULT_TEMPERATURE)).filter(|t| *t > 0.0).map(Self::Softmax),
            ("round-robin", None) => Some(Self::RoundRobin),
            ("two-choice", None) => Some(Self::TwoChoice),
            ("least-request", None) => Some(Self::LeastRequest),
            _ => None,
        }
    }

    /// Position of one candidate of the field; `None` only when there is none. `totals` are parallel to the candidates.
    pub fn pick(self, field: &Field<'_>, totals: &[f64], rng: &mut impl Rng) -> Option<usize> {
        match self {
            Self::P2c => p2c::pick(field, totals, rng),
            Self::MaxScore => max_score::pick(totals, rng),
            Self::Softmax(temperature) => softmax::pick(temperature, totals, rng),
            Self::RoundRobin => round_robin::pick(field),
            Self::TwoChoice => two_choice::pick(field, rng),
            Self::LeastRequest => least_request::pick(field, rng),
        }
    }
}

impl fmt::Display for Picker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::P2c => out.write_str("p2c"),
            Self::MaxScore => out.write_str("max-score"),
            Self::Softmax(temperature) => write!(out, "softmax({temperature})"),
            Self::RoundRobin => out.write_str("round-robin"),
            Self::TwoChoice => out.write_str("two-choice"),
            Self::LeastRequest => out.write_str("least-request"),
        }
    }
}
