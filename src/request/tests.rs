use super::arbitrary::document;
use super::*;
use http::HeaderValue;
use proptest::prelude::*;

fn read_json(body: &str) -> Result<Wanted, BadRequest> {
    read(Endpoint::ChatCompletions, &HeaderMap::new(), body.as_bytes())
}

fn read_with(headers: &[(&'static str, &[u8])], body: &str) -> Result<Wanted, BadRequest> {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).parse().unwrap(), HeaderValue::from_bytes(value).unwrap()))
        .fold(HeaderMap::new(), |mut headers, (name, value): (http::HeaderName, _)| {
            headers.append(name, value);
            headers
        });
    read(Endpoint::ChatCompletions, &headers, body.as_bytes())
}

fn model(body: &str) -> Option<String> {
    read_json(body).unwrap().model.map(|name| name.whole().to_owned())
}

fn refusal(result: Result<Wanted, BadRequest>) -> (&'static str, Option<&'static str>, Option<usize>) {
    let error = result.unwrap_err();
    (error.code(), error.param(), error.offset())
}

#[test]
fn a_chat_request_is_read() {
    let body = r#"{"model":"base:lora","messages":[{"role":"user","content":"hi","model":"no"}],"stream":true,"max_tokens":16,"n":2,"user":"u"}"#;
    let wanted = read_json(body).unwrap();
    assert_eq!(wanted.model.as_ref().unwrap().split(), Some(("base", "lora")));
    assert_eq!(wanted.model_value_span().unwrap().of(body.as_bytes()), b"\"base:lora\"");
    assert_eq!((wanted.stream, wanted.max_tokens, wanted.answers), (true, Some(16), Some(2)));
    assert_eq!(wanted.session, Some(SessionKey::of(b"u")));
    assert_eq!(wanted.adapter, None);
    assert_eq!(wanted.prompt[0].of(body.as_bytes()), br#"[{"role":"user","content":"hi","model":"no"}]"#);
    assert_eq!(wanted.prompt_bytes, wanted.prompt[0].len());
}

#[test]
fn an_empty_object_asks_for_nothing() {
    let wanted = read_json("{}").unwrap();
    assert_eq!((wanted.model, wanted.adapter, wanted.session), (None, None, None));
    assert_eq!((wanted.stream, wanted.max_tokens, wanted.answers, wanted.prompt_bytes), (false, None, None, 0));
}

#[test]
fn the_model_is_decoded_and_an_empty_one_is_none() {
    assert_eq!(model(r#"{"model":"meta\/ll\u0061ma"}"#).as_deref(), Some("meta/llama"));
    assert_eq!(model(r#"{"mod\u0065l":"a"}"#).as_deref(), Some("a"));
    assert_eq!(model(r#"{"model":"漢"}"#).as_deref(), Some("漢"));
    assert_eq!(model(r#"{"model":""}"#), None);
    assert_eq!(model(r#"{"Model":"a","model\n":"b","\ud800":"c"}"#), None);
}

#[test]
fn a_second_model_is_refused_however_its_key_is_written() {
    for (body, offset) in [
        (r#"{"model":"a","model":"a"}"#, 21),
        (r#"{"model":"a","mod\u0065l":"b"}"#, 26),
        (r#"{"\u006d\u006f\u0064\u0065\u006c":"a","n":1,"model":""}"#, 52),
    ] {
        assert_eq!(refusal(read_json(body)), ("duplicate_field", Some("model"), Some(offset)), "{body}");
    }
}

#[test]
fn a_model_of_another_type_is_refused() {
    for value in ["1", "null", "true", "[\"a\"]", "{}", r#""\ud800""#] {
        assert_eq!(
            refusal(read_json(&format!("{{\"model\":{value}}}"))),
            ("invalid_type", Some("model"), Some(9)),
            "{value}"
        );
    }
}

#[test]
fn hints_of_another_type_are_left_to_the_engine() {
    for value in ["null", "{}", "[1]", "-1", "1.5", "\"x\""] {
        let body = format!(r#"{{"stream":{value},"max_tokens":{value},"n":{value}}}"#);
        let wanted = read_json(&body).unwrap();
        assert_eq!((wanted.stream, wanted.max_tokens, wanted.answers), (false, None, None), "{value}");
    }
    assert_eq!(read_json(r#"{"session_id":7,"user":""}"#).unwrap().session, None);
}

#[test]
fn the_last_of_two_equal_hints_counts() {
    let wanted = read_json(r#"{"stream":true,"n":3,"stream":false,"n":4,"user":"a","user":"b"}"#).unwrap();
    assert_eq!((wanted.stream, wanted.answers, wanted.session), (false, Some(4), Some(SessionKey::of(b"b"))));
}

#[test]
fn the_token_limit_prefers_the_newer_field_and_saturates() {
    for (body, limit) in [
        (r#"{"max_tokens":1,"max_completion_tokens":2}"#, Some(2)),
        (r#"{"max_tokens":1,"max_completion_tokens":null}"#, Some(1)),
        (r#"{"max_output_tokens":3}"#, Some(3)),
        (r#"{"max_tokens":4294967296}"#, Some(u32::MAX)),
        (r#"{"max_tokens":0}"#, Some(0)),
    ] {
        assert_eq!(read_json(body).unwrap().max_tokens, limit, "{body}");
    }
}

#[test]
fn the_session_comes_from_the_first_place_that_names_it() {
    let all = r#"{"user":"u","previous_response_id":"r","prompt_cache_key":"c","session_id":"s"}"#;
    for (headers, body, id) in [
        (&[("x-session-id", &b"h"[..])][..], all, &b"h"[..]),
        (&[("x-session-id", b"\xff")], all, b"\xff"),
        (&[("x-session-id", b"")], all, b"s"),
        (&[], all, b"s"),
        (&[], r#"{"user":"u","previous_response_id":"r","prompt_cache_key":"c","session_id":null}"#, b"c"),
        (&[], r#"{"user":"u","previous_response_id":"r"}"#, b"r"),
        (&[], r#"{"user":"\u0075"}"#, b"u"),
    ] {
        assert_eq!(read_with(headers, body).unwrap().session, Some(SessionKey::of(id)), "{body}");
    }
}

#[test]
fn the_adapter_comes_from_header_or_body() {
    let adapter = |headers: &[(&'static str, &[u8])], body: &str| read_with(headers, body).unwrap().adapter;
    assert_eq!(adapter(&[("x-lora-adapter", b"a")], "{}").as_deref(), Some("a"));
    assert_eq!(adapter(&[], r#"{"lora_path":"a"}"#).as_deref(), Some("a"));
    assert_eq!(adapter(&[("x-lora-adapter", b"a")], r#"{"lora_path":"\u0061"}"#).as_deref(), Some("a"));
    assert_eq!(adapter(&[("x-lora-adapter", b"")], r#"{"lora_path":null}"#), None);
    assert_eq!(adapter(&[], r#"{"lora":[{"id":0,"scale":1}]}"#), None, "an id is no name");
}

#[test]
fn an_unclear_adapter_is_refused() {
    let header = |values: &[&'static [u8]], body| {
        let headers: Vec<_> = values.iter().map(|value| ("x-lora-adapter", *value)).collect();
        refusal(read_with(&headers, body))
    };
    assert_eq!(header(&[b"a"], r#"{"lora_path":"b"}"#), ("conflicting_adapter", Some("lora_path"), None));
    assert_eq!(header(&[b"a", b"a"], "{}"), ("duplicate_field", Some("x-lora-adapter"), None));
    assert_eq!(header(&[b"\xff"], "{}"), ("invalid_type", Some("x-lora-adapter"), None));
    assert_eq!(header(&[], r#"{"lora_path":["a"]}"#), ("invalid_type", Some("lora_path"), Some(13)));
}

#[test]
fn the_prompt_is_all_that_the_engine_puts_before_the_answer() {
    for (body, pieces) in [
        (r#"{"messages":[1],"system":"s"}"#, &["\"s\"", "[1]"][..]),
        (r#"{"prompt":["a","b"]}"#, &[r#"["a","b"]"#]),
        (r#"{"input":"x\n"}"#, &[r#""x\n""#]),
        (r#"{"prompt":null}"#, &[]),
    ] {
        let wanted = read_json(body).unwrap();
        let found: Vec<_> =
            wanted.prompt.iter().map(|span| std::str::from_utf8(span.of(body.as_bytes())).unwrap()).collect();
        assert_eq!(found, pieces, "{body}");
        assert_eq!(wanted.prompt_bytes, pieces.concat().len());
    }
}

#[test]
fn malformed_json_is_refused_even_behind_all_wanted_fields() {
    assert_eq!(refusal(read_json(r#"{"model":"a","messages":[]"#)), ("invalid_json", None, Some(26)));
    assert_eq!(refusal(read_json(r#"{"model":"a"} x"#)), ("invalid_json", None, Some(14)));
}

#[test]
fn two_turns_of_a_conversation_share_prefix_blocks() {
    let text = "word ".repeat(2_000);
    let first = format!(r#"{{"model":"a","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let second = first.replace("]}", r#",{"role":"assistant","content":"x"}],"stream":true}"#);
    let blocks = |body: &str| read_json(body).unwrap().prefix_blocks(body.as_bytes(), 5);
    assert_eq!(blocks(&first).len(), 4);
    assert_eq!(blocks(&first), blocks(&second));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), keys in "[{}\\[\\]\",:\\\\a-z_ 0-9]{0,80}") {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("multipart/form-data; boundary=b"));
        for endpoint in [Endpoint::ChatCompletions, Endpoint::Transcriptions] {
            let _ = read(endpoint, &headers, &bytes);
            let _ = read(endpoint, &headers, keys.as_bytes());
        }
    }

    #[test]
    fn the_model_is_what_serde_reads(document in document(), name in any::<String>()) {
        let name = serde_json::to_string(&name).unwrap();
        let body = format!(r#"{{"a":{document},"model":{name},"b":{document}}}"#);
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        let wanted = read_json(&body).unwrap();
        prop_assert_eq!(wanted.model.as_ref().map_or("", |name| name.whole()), value["model"].as_str().unwrap());
    }
}
