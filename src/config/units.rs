//! Durations and sizes carry their units: `250ms`, `2s`, `5m`, `32MiB`. A size without a unit is in bytes.

use super::at::{At, shown};
use std::time::Duration;

/// Longer waits are taken for mistakes; it also keeps clock arithmetic far from overflow.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Larger sizes are taken for mistakes; up to 2^53 a float holds each whole number.
const LARGEST: f64 = (1_u64 << 40) as f64;

const DURATIONS: &[(&str, f64)] = &[("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

const SIZES: &[(&str, f64)] =
    &[("", 1.0), ("B", 1.0), ("KiB", 1024.0), ("MiB", 1024.0 * 1024.0), ("GiB", 1024.0 * 1024.0 * 1024.0)];

/// A duration above 0, up to a day.
pub(crate) fn duration(at: &At<'_>) -> Option<Duration> {
    let duration = duration_or_zero(at)?;
    at.hold(duration, !duration.is_zero(), "above 0")
}

/// A duration from 0 to a day.
pub(crate) fn duration_or_zero(at: &At<'_>) -> Option<Duration> {
    let what = "a duration such as 250ms, 2s or 5m";
    let text = at.scalar(what)?;
    let Some((amount, unit)) = split(text) else { return at.expected(what) };
    if unit.is_empty() {
        return at.fail(format!("needs a unit: write {0}s or {0}ms", shown(text)));
    }
    let Some(scale) = scale(DURATIONS, unit) else { return unknown_unit(at, unit, DURATIONS) };
    let duration = Duration::try_from_secs_f64(amount * scale).unwrap_or(Duration::MAX);
    at.hold(duration, duration <= LONGEST, "at most 24h")
}

/// A size in bytes, above 0.
pub(crate) fn size(at: &At<'_>) -> Option<usize> {
    let what = "a size such as 32MiB, 512KiB or 1048576";
    let text = at.scalar(what)?;
    let Some((amount, unit)) = split(text) else { return at.expected(what) };
    let Some(scale) = scale(SIZES, unit) else { return unknown_unit(at, unit, SIZES) };
    let bytes = amount * scale;
    if bytes.fract() != 0.0 {
        return at.expected("a whole number of bytes");
    }
    at.hold(bytes as usize, (1.0..=LARGEST).contains(&bytes), "above 0 and at most 1024GiB")
}

/// `2.5 s` to 2.5 and `s`. No sign, no exponent.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (amount, unit) = text.split_at_checked(end)?;
    Some((amount.parse().ok()?, unit.trim_start()))
}

fn scale(units: &[(&str, f64)], unit: &str) -> Option<f64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
}

fn unknown_unit<T>(at: &At<'_>, unit: &str, units: &[(&str, f64)]) -> Option<T> {
    let names: Vec<_> = units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
    at.fail(format!("has the unknown unit `{}`: use one of {}", shown(unit), names.join(", ")))
}
