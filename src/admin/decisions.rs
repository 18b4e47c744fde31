//! `GET /decisions?model=NAME&limit=N`: the last requests and why they went where they went.

use crate::telemetry::decisions::{Decisions, KEPT, Wanted};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Lines where the query says nothing.
const USUAL: usize = 50;

/// The lines that the query wants, the newest first.
pub(super) fn list(decisions: &Decisions, query: Option<&str>) -> Result<Value, &'static str> {
    let (mut model, mut limit) = (None, USUAL);
    for (key, value) in query.into_iter().flat_map(|query| query.split('&')).filter_map(|pair| pair.split_once('=')) {
        match key {
            "model" => model = Some(decoded(value)),
            "limit" => limit = value.parse().map_err(|_| "limit is a whole number")?,
            _ => return Err("/decisions takes model and limit"),
        }
    }
    let wanted = Wanted { model: model.as_deref(), limit: limit.min(KEPT) };
    Ok(json!({ "kept": KEPT, "decisions": decisions.lines(wanted) }))
}

/// A value of a query without its percent signs; what is no text decodes to what no model is called.
fn decoded(value: &str) -> Cow<'_, str> {
    if !value.contains('%') {
        return value.into();
    }
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let hex = others.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = others.get(if byte.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_and_broken_escapes_stay() {
        assert_eq!(decoded("qwen2.5%3A7b%2fx"), "qwen2.5:7b/x");
        assert_eq!(decoded("a%zz%"), "a%zz%");
    }

    #[test]
    fn a_query_that_makes_no_sense_is_refused() {
        let ring = Decisions::default();
        assert_eq!(list(&ring, None).unwrap()["decisions"], json!([]));
        assert!(list(&ring, Some("limit=many")).is_err());
        assert!(list(&ring, Some("modell=x")).is_err());
    }
}
