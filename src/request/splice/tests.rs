use super::*;
use crate::request::arbitrary::document;
use crate::request::{Endpoint, read};
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use proptest::prelude::*;
use serde_json::{Map, json};

fn splice(endpoint: Endpoint, body: &str, splice: Splice<'_>) -> String {
    let form = HeaderValue::from_static("multipart/form-data; boundary=XX");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, form)]);
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let wanted = read(endpoint, &headers, &bytes).unwrap();
    let spliced = splice.apply(&bytes, &wanted);
    if spliced == bytes {
        assert_eq!(spliced.as_ptr(), bytes.as_ptr(), "an unchanged body is not copied");
    }
    String::from_utf8(spliced.to_vec()).unwrap()
}

fn json(body: &str, model: Option<&str>, adapter: AdapterFields) -> String {
    splice(Endpoint::ChatCompletions, body, Splice { model, adapter })
}

const KEEP: AdapterFields = AdapterFields::Keep;
const REMOVE: AdapterFields = AdapterFields::Remove;
const SELECT: AdapterFields = AdapterFields::Select { id: 3 };
const NONE: AdapterFields = AdapterFields::SelectNone;

#[test]
fn the_model_is_replaced_in_its_place() {
    assert_eq!(json(r#"{"a":1, "model" : "x:y" ,"b":2}"#, Some("x"), KEEP), r#"{"a":1, "model" : "x" ,"b":2}"#);
    assert_eq!(json(r#"{"mod\u0065l":"x"}"#, Some("a\"\\\n漢"), KEEP), r#"{"mod\u0065l":"a\"\\\n漢"}"#);
    assert_eq!(json(r#"{"model":""}"#, Some("x"), KEEP), r#"{"model":"x"}"#);
}

#[test]
fn a_missing_model_is_added_in_front() {
    assert_eq!(json(r#" { "a":1}"#, Some("x"), KEEP), r#" {"model":"x", "a":1}"#);
    assert_eq!(json("{ }", Some("x"), KEEP), r#"{"model":"x" }"#);
}

#[test]
fn what_is_already_right_is_returned_as_it_is() {
    let body = r#"{"model":"x","lora_path":"y"}"#;
    assert_eq!(json(body, Some("x"), KEEP), body);
    assert_eq!(json(body, None, KEEP), body);
    assert_eq!(json(r#"{"model":"x"}"#, Some("x"), REMOVE), r#"{"model":"x"}"#);
}

#[test]
fn adapter_fields_are_cut_with_their_commas() {
    for (body, rest) in [
        (r#"{"lora_path":"y"}"#, "{}"),
        (r#"{ "lora_path":"y" }"#, "{  }"),
        (r#"{"lora_path":"y","a":1}"#, r#"{"a":1}"#),
        (r#"{"a":1 , "lora_path":"y" }"#, r#"{"a":1 }"#),
        (r#"{"a":1,"lora_path":"y","b":2}"#, r#"{"a":1,"b":2}"#),
        (r#"{"a":1,"lora_path":"y","lora":[1]}"#, r#"{"a":1}"#),
        (r#"{"lora":1,"lora_path":"y","a":1}"#, r#"{"a":1}"#),
        (r#"{"lora":1,"lora":2}"#, "{}"),
        (r#"{"lora":1,"a":1,"lor\u0061":2,"b":2,"lora_path":null}"#, r#"{"a":1,"b":2}"#),
    ] {
        assert_eq!(json(body, None, REMOVE), rest, "{body}");
    }
}

#[test]
fn an_adapter_id_is_added_for_llama_cpp() {
    let lora = r#""lora":[{"id":3,"scale":1.0}]"#;
    assert_eq!(json(r#"{"a":1}"#, None, SELECT), format!(r#"{{{lora},"a":1}}"#));
    assert_eq!(json(r#"{"lora":[],"lora_path":"y"}"#, None, SELECT), format!("{{{lora}}}"));
    assert_eq!(json(r#"{"lora":[]}"#, Some("x"), SELECT), format!(r#"{{"model":"x",{lora}}}"#));
    assert_eq!(json(r#"{"lora":[]}"#, Some("x"), KEEP), r#"{"model":"x","lora":[]}"#);
    assert_eq!(json(r#"{"model":"z","lora":[]}"#, Some("x"), SELECT), format!(r#"{{{lora},"model":"x"}}"#));
}

#[test]
fn llama_cpp_is_told_to_use_no_adapter() {
    let none = r#""lora":[{"id":0,"scale":0.0}]"#;
    assert_eq!(json(r#"{"a":1}"#, None, NONE), format!(r#"{{{none},"a":1}}"#));
    assert_eq!(json(r#"{"lora":[{"id":2,"scale":1}]}"#, None, NONE), format!("{{{none}}}"));
}

#[test]
fn a_form_is_spliced_too() {
    let form = |body: &str, model, adapter| splice(Endpoint::Transcriptions, body, Splice { model, adapter });
    let field =
        |name: &str, value: &str| format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    let (file, close) = (field("file", "\0\r\n--X"), "--XX--\r\n");
    let with = |model: &str| format!("{file}{}{close}", field("model", model));
    assert_eq!(form(&with("x:y"), Some("x"), KEEP), with("x"));
    assert_eq!(form(&with("x"), Some("x"), REMOVE), with("x"));
    assert_eq!(form(&format!("{file}{close}"), Some("x"), KEEP), format!("{}{file}{close}", field("model", "x")));
    assert_eq!(form(close, Some("x"), KEEP), format!("{}{close}", field("model", "x")));
    assert_eq!(
        form(&format!("{}{}{file}{close}", field("lora_path", "y"), field("lora", "z")), Some("x"), SELECT),
        format!("{}{file}{close}", field("model", "x"))
    );
}

/// Any of these members in any order, with any spaces: what splicing touches between what it must not touch.
fn body() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        2 => Just(r#""lora_path":"y""#.to_owned()),
        2 => Just(r#""lora" : [{"id":0,"scale":1}]"#.to_owned()),
        1 => Just(r#""l\u006fra_path":null"#.to_owned()),
        4 => (0..6u8, document()).prop_map(|(key, value)| format!("\"k{key}\":{value}")),
    ];
    let space = prop::sample::select(vec!["", " ", "\n\t"]);
    (prop::collection::vec(member, 0..6), prop::option::of((any::<prop::sample::Index>(), any::<String>())), space)
        .prop_map(|(mut members, model, space)| {
            if let Some((at, name)) = model {
                members.insert(at.index(members.len() + 1), format!("\"model\"{space}:{space}{}", Value::from(name)));
            }
            format!("{space}{{{space}{}{space}}}{space}", members.join(&format!("{space},{space}")))
        })
}

fn parsed(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn splicing_changes_what_it_should_and_nothing_else(
        body in body(),
        model in prop::option::of(any::<String>()),
        adapter in prop::sample::select(vec![KEEP, REMOVE, SELECT, NONE]),
    ) {
        let mut expected = parsed(&body);
        if let Some(model) = &model {
            expected.insert("model".to_owned(), json!(model));
        }
        if adapter != KEEP {
            expected.remove("lora_path");
            expected.remove("lora");
        }
        if adapter == SELECT {
            expected.insert("lora".to_owned(), json!([{"id": 3, "scale": 1.0}]));
        }
        if adapter == NONE {
            expected.insert("lora".to_owned(), json!([{"id": 0, "scale": 0.0}]));
        }
        let spliced = json(&body, model.as_deref(), adapter);
        prop_assert_eq!(Value::Object(parsed(&spliced)), Value::Object(expected), "{} -> {}", body, spliced);
        let again = json(&spliced, model.as_deref(), if adapter == REMOVE { REMOVE } else { KEEP });
        prop_assert_eq!(again, spliced, "a second time nothing is left to change");
    }
}
