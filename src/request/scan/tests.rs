use super::*;
use crate::request::arbitrary::document;
use proptest::prelude::*;
use serde::de::IgnoredAny;

fn members(bytes: &[u8]) -> Result<Vec<Member>, SyntaxError> {
    let mut scanner = Scanner::open(bytes)?;
    std::iter::from_fn(|| scanner.member().transpose()).collect()
}

fn texts(body: &str) -> Vec<(&str, &str, Kind)> {
    let text = |span: Span| std::str::from_utf8(span.of(body.as_bytes())).unwrap();
    let members = members(body.as_bytes()).unwrap();
    members.iter().map(|member| (text(member.key.span), text(member.value.span), member.value.kind)).collect()
}

#[test]
fn members_are_found_with_their_spans_and_kinds() {
    let body = " {\"a\" : \"x\",\"b\\n\":[1,{\"c\":[]}] ,\r\n\t\"\":{\"a\":{}}, \"d\":-1.5e+3,\"e\":true,\"f\":false,\"g\":null,\"h\":\"\\u00e9\"}\n";
    assert_eq!(
        texts(body),
        [
            ("\"a\"", "\"x\"", Kind::PlainString),
            ("\"b\\n\"", "[1,{\"c\":[]}]", Kind::Array),
            ("\"\"", "{\"a\":{}}", Kind::Object),
            ("\"d\"", "-1.5e+3", Kind::Number),
            ("\"e\"", "true", Kind::True),
            ("\"f\"", "false", Kind::False),
            ("\"g\"", "null", Kind::Null),
            ("\"h\"", "\"\\u00e9\"", Kind::EscapedString),
        ]
    );
    assert_eq!(texts("{}"), []);
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    for (body, what, offset) in [
        (&b""[..], Syntax::Truncated, 0),
        (b"  ", Syntax::Truncated, 2),
        (b"[]", Syntax::NotAnObject, 0),
        (b" \"a\"", Syntax::NotAnObject, 1),
        (b"\xef\xbb\xbf{}", Syntax::ByteOrderMark, 0),
        (b"{\"a\":\"\xff\"}", Syntax::InvalidUtf8, 6),
        (b"{\"a\":\"\xed\xa0\x80\"}", Syntax::InvalidUtf8, 6),
        (b"{", Syntax::Truncated, 1),
        (b"{\"a", Syntax::Truncated, 3),
        (b"{\"a\"", Syntax::Truncated, 4),
        (b"{\"a\":", Syntax::Truncated, 5),
        (b"{\"a\":1", Syntax::Truncated, 6),
        (b"{\"a\":[[]", Syntax::Truncated, 8),
        (b"{\"a\":\"\\", Syntax::Truncated, 7),
        (b"{\"a\":tru", Syntax::Truncated, 8),
        (b"{a:1}", Syntax::ExpectedKey, 1),
        (b"{\"a\":1,}", Syntax::ExpectedKey, 7),
        (b"{,}", Syntax::ExpectedKey, 1),
        (b"{\"a\" 1}", Syntax::ExpectedColon, 5),
        (b"{\"a\":1 \"b\":2}", Syntax::ExpectedComma, 7),
        (b"{\"a\":[1 2]}", Syntax::ExpectedComma, 8),
        (b"{\"a\":[1}", Syntax::ExpectedComma, 7),
        (b"{\"a\":{\"b\":1]}", Syntax::ExpectedComma, 11),
        (b"{\"a\":[1,]}", Syntax::ExpectedValue, 8),
        (b"{\"a\":}", Syntax::ExpectedValue, 5),
        (b"{\"a\":NaN}", Syntax::ExpectedValue, 5),
        (b"{\"a\":'b'}", Syntax::ExpectedValue, 5),
        (b"{\"a\":truth}", Syntax::InvalidLiteral, 8),
        (b"{\"a\":nil}", Syntax::InvalidLiteral, 6),
        (b"{\"a\":-}", Syntax::InvalidNumber, 6),
        (b"{\"a\":1.}", Syntax::InvalidNumber, 7),
        (b"{\"a\":1e+}", Syntax::InvalidNumber, 8),
        (b"{\"a\":01}", Syntax::ExpectedComma, 6),
        (b"{\"a\":\"\\x\"}", Syntax::InvalidEscape, 7),
        (b"{\"a\":\"\\u12g4\"}", Syntax::InvalidEscape, 10),
        (b"{\"a\":\"b\nc\"}", Syntax::ControlCharacter, 7),
        (b"{\"a\":\"b\0\"}", Syntax::ControlCharacter, 7),
        (b"{}}", Syntax::TrailingBytes, 2),
        (b"{} {}", Syntax::TrailingBytes, 3),
    ] {
        assert_eq!(members(body), Err(SyntaxError { what, offset }), "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn a_string_may_end_at_every_place_of_a_group() {
    for length in 0..3 * GROUP {
        for end in ["\"", "\\n\"", "\n", ""] {
            let body = format!("{{\"a\":\"{}{end}", "é".repeat(length / 2) + &"x".repeat(length % 2));
            let closed = format!("{body}}}");
            let expected = match end {
                "\n" => Some((Syntax::ControlCharacter, body.len() - 1)),
                "" => Some((Syntax::Truncated, closed.len())),
                _ => None,
            };
            let error = members(closed.as_bytes()).err();
            assert_eq!(error, expected.map(|(what, offset)| SyntaxError { what, offset }), "{closed:?}");
        }
    }
}

#[test]
fn depth_is_bounded_for_arrays_and_objects_alike() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let levels = open.matches(['[', '{']).count();
        let nested = |depth: usize| {
            let times = depth / levels;
            format!("{{\"a\":{}1{}}}", open.repeat(times), close.repeat(times))
        };
        let most = MAX_DEPTH as usize - 1;
        assert_eq!(members(nested(most).as_bytes()).map(|members| members.len()), Ok(1), "{open}");
        let error = members(nested(most + levels).as_bytes()).unwrap_err();
        assert_eq!(error.what, Syntax::TooDeep, "{open}");
    }
}

/// What `serde_json` says, but for the differences that the module names.
fn is_accepted_by_design(bytes: &[u8]) -> bool {
    let object = bytes.iter().find(|byte| !b" \n\r\t".contains(byte)) == Some(&b'{');
    object && std::str::from_utf8(bytes).is_ok() && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// One change to a document: bytes taken out, put in, or cut off.
fn mutate(mut bytes: Vec<u8>, mutations: &[(prop::sample::Index, u8, Vec<u8>)]) -> Vec<u8> {
    for (at, how, with) in mutations {
        let at = at.index(bytes.len() + 1);
        match how % 4 {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..at, with.iter().copied())),
            2 => drop(bytes.drain(at..bytes.len().min(at + with.len()))),
            _ => drop(bytes.splice(at..bytes.len().min(at + 1), with.iter().copied().take(1))),
        }
    }
    bytes
}

fn snippet() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..3),
        prop::collection::vec(prop::sample::select(br#"{}[]",:\u0123eE+-. tfn"#.to_vec()), 1..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn well_formed_objects_are_accepted(document in document()) {
        prop_assert!(is_accepted_by_design(document.as_bytes()));
        prop_assert!(members(document.as_bytes()).is_ok());
    }

    #[test]
    fn broken_documents_are_judged_as_by_serde(
        document in document(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), snippet()), 1..4),
    ) {
        let bytes = mutate(document.into_bytes(), &mutations);
        prop_assert_eq!(members(&bytes).is_ok(), is_accepted_by_design(&bytes), "{}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn arbitrary_tokens_are_judged_as_by_serde(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\", "\\u00", "0", "1", "-", ".", "e", "true", "nul", " ", "\n", "é",
        ]), 0..14),
    ) {
        for text in [pieces.concat(), format!("{{\"a\":{}}}", pieces.concat()), format!("{{\"a\":\"{}\"}}", pieces.concat())] {
            prop_assert_eq!(members(text.as_bytes()).is_ok(), is_accepted_by_design(text.as_bytes()), "{}", text);
        }
    }

    #[test]
    fn arbitrary_bytes_are_judged_as_by_serde(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(members(&bytes).is_ok(), is_accepted_by_design(&bytes));
        bytes.splice(0..0, *b"{\"a\":\"");
        bytes.extend_from_slice(b"\"}");
        prop_assert_eq!(members(&bytes).is_ok(), is_accepted_by_design(&bytes));
    }

    #[test]
    fn error_offsets_lie_within_the_body(bytes in prop::collection::vec(prop::sample::select(br#"{}[]",:\u01e-."#.to_vec()), 0..30)) {
        if let Err(error) = members(&bytes) {
            prop_assert!(error.offset <= bytes.len());
            prop_assert_eq!(error.what == Syntax::Truncated, error.offset == bytes.len());
        }
    }
}
