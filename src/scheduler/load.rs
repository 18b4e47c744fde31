//! How loaded a candidate is, as one number, made safe against broken read-outs.

use crate::fleet::snapshot::Candidate;

/// A count that an engine gave, made usable: negative is 0, NaN is infinite (an unknown load is never idle).
pub(crate) fn amount(count: f64) -> f64 {
    if count.is_nan() { f64::INFINITY } else { count.max(0.0) }
}

/// A weight made usable: anything but a positive finite number is 0.
pub(crate) fn share(weight: f64) -> f64 {
    if weight.is_finite() { weight.max(0.0) } else { 0.0 }
}

/// Requests in the engine: those that wait and those that run.
pub(crate) fn batch(candidate: &Candidate) -> f64 {
    amount(candidate.waiting) + amount(candidate.running)
}

/// Requests on the replica: our own, or what the engine says if that is more, since others may use it too.
pub(crate) fn load(candidate: &Candidate) -> f64 {
    amount(candidate.in_flight).max(batch(candidate))
}

/// Load for each unit of weight: equal where everybody has its share.
pub(crate) fn relative_load(candidate: &Candidate) -> f64 {
    (load(candidate) / share(candidate.weight)).max(0.0)
}
