//! JSON objects as text, for the property tests of this room.

use proptest::prelude::*;

/// A well-formed object as text, with spaces, escapes and all kinds of values.
pub(super) fn document() -> impl Strategy<Value = String> {
    object(value())
}

fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -!#-\\[\\]-~é漢😀]{0,40}".prop_map(|text| text.to_owned()),
        1 => prop::sample::select(vec!["\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\u00e9", "\\ud83d\\ude00", "\\t"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "", " ", "\n  ", "\t\r\n"])
}

fn value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        string(),
        prop::sample::select(vec!["true", "false", "null", "0", "-0", "12.50", "1e9", "-3E-2", "18446744073709551616"])
            .prop_map(str::to_owned),
    ];
    scalar.prop_recursive(5, 40, 5, |inner| {
        let array = (prop::collection::vec(inner.clone(), 0..5), space())
            .prop_map(|(items, space)| format!("[{space}{}{space}]", items.join(&format!("{space},{space}"))));
        prop_oneof![array, object(inner)]
    })
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (prop::collection::vec((string(), value), 0..5), space()).prop_map(|(members, space)| {
        let members: Vec<_> = members.iter().map(|(key, value)| format!("{key}{space}:{space}{value}")).collect();
        format!("{space}{{{space}{}{space}}}{space}", members.join(&format!("{space},{space}")))
    })
}
