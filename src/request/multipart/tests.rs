use super::*;
use crate::request::{Endpoint, SessionKey, Wanted, read};
use http::HeaderValue;
use proptest::prelude::*;

fn headers(content_type: &str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap())])
}

fn read_form(body: &[u8]) -> Result<Wanted, BadRequest> {
    read(Endpoint::Transcriptions, &headers("multipart/form-data; boundary=XX"), body)
}

/// A part with these header lines and this content, its delimiter before it.
fn part(head: &str, content: &str) -> String {
    format!("--XX\r\n{head}\r\n\r\n{content}\r\n")
}

fn field(name: &str, value: &str) -> String {
    part(&format!("Content-Disposition: form-data; name=\"{name}\""), value)
}

const FILE: &str = "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav";

fn refusal(body: &str) -> (&'static str, Option<&'static str>) {
    let error = read_form(body.as_bytes()).unwrap_err();
    assert!(error.offset().is_none_or(|offset| offset <= body.len()), "{error}");
    (error.code(), error.param())
}

#[test]
fn the_fields_of_a_form_are_read() {
    let body = part(FILE, "RIFF\0\r\n--X\r\n")
        + &field("model", "whisper:lora")
        + &field("stream", "True")
        + &field("user", "u")
        + "--XX--\r\n";
    let wanted = read_form(body.as_bytes()).unwrap();
    assert_eq!(wanted.model.as_ref().unwrap().split(), Some(("whisper", "lora")));
    assert_eq!(wanted.model_value_span().unwrap().of(body.as_bytes()), b"whisper:lora");
    assert!(wanted.stream);
    assert_eq!(wanted.session, Some(SessionKey::of(b"u")));
}

#[test]
fn the_ways_to_write_a_field_are_understood() {
    for body in [
        "\r\n\r\n".to_owned() + &field("model", "m") + "--XX--",
        part("content-disposition:form-data;name=model", "m") + "--XX--\r\nepilogue --XX",
        part("X-Other: name=\"file\"\r\nCONTENT-DISPOSITION: form-data; NAME=\"model\"", "m") + "--XX--",
    ] {
        assert_eq!(read_form(body.as_bytes()).unwrap().model.unwrap().whole(), "m", "{body}");
    }
}

#[test]
fn a_form_without_a_model_has_none() {
    for body in [
        field("file", "x") + "--XX--",
        field("model", "") + "--XX--",
        "--XX--".to_owned(),
        field("Model", "m") + "--XX--",
    ] {
        assert_eq!(read_form(body.as_bytes()).unwrap().model, None, "{body}");
    }
}

#[test]
fn boundary_like_bytes_in_a_file_are_part_of_the_file() {
    let fake = "Content-Disposition: form-data; name=\"model\"\r\n\r\nfake";
    for likeness in [
        "\r\n--X\r\n",
        "\r\n--XXX\r\n",
        "--XX\r\n",
        "\n--XX\r\n",
        "\r\n--XX\n",
        "\r\n--XX \r\n",
        "\r\n--XX-\r\n",
        "\r\n-XX\r\n",
        "\r\n--xx\r\n",
    ] {
        let content = format!("a{likeness}{fake}{likeness}");
        let body = part(FILE, &content) + &field("model", "m") + "--XX--\r\n";
        assert_eq!(read_form(body.as_bytes()).unwrap().model.unwrap().whole(), "m", "{likeness:?}");
    }
}

#[test]
fn an_unclear_model_is_refused() {
    let close = "--XX--";
    assert_eq!(refusal(&(field("model", "a") + &field("model", "a") + close)), ("duplicate_field", Some("model")));
    let file = part("Content-Disposition: form-data; name=\"model\"; filename=\"m\"", "m");
    assert_eq!(refusal(&(file + close)), ("invalid_type", Some("model")));
    let (before, after) = ("--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n", "\r\n--XX--");
    let latin = [before.as_bytes(), b"\xff", after.as_bytes()].concat();
    assert_eq!(read_form(&latin).unwrap_err().code(), "invalid_type");
}

#[test]
fn a_malformed_form_is_refused() {
    let close = "--XX--";
    for body in [
        String::new(),
        close[..4].to_owned(),
        "preamble\r\n".to_owned() + &field("model", "m") + close,
        "--XX \r\n".to_owned() + close,
        "--XXX\r\n".to_owned(),
        field("model", "m"),
        field("model", "m") + "--XX",
        field("model", "m").replace("\r\n", "\n") + close,
        "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\nm\r\n--XX--".to_owned(),
        part("Content-Disposition: form-data", "m") + close,
        part("Content-Type: text/plain", "m") + close,
        part("Content-Disposition: form-data; name=\"file\"; name=\"model\"", "m") + close,
        part("Content-Disposition: form-data; name=\"file\"\r\nContent-Disposition: form-data; name=\"model\"", "m")
            + close,
        part("Content-Disposition: form-data; name*=utf-8''model", "m") + close,
        part("Content-Disposition: form-data; name*0=mo; name*1=del", "m") + close,
        part("Content-Disposition: form-data; name=\"model", "m") + close,
        part("no header\r\nContent-Disposition: form-data; name=model", "m") + close,
        part(": empty\r\nContent-Disposition: form-data; name=model", "m") + close,
        part("Content-Disposition: form-data;\r name=model", "m") + close,
    ] {
        assert_eq!(refusal(&body), ("invalid_multipart", None), "{body:?}");
    }
}

#[test]
fn the_boundary_is_taken_from_the_content_type() {
    for (content_type, expected) in [
        ("multipart/form-data; boundary=XX", "XX"),
        ("Multipart/Form-Data;charset=utf-8; BOUNDARY=\"a b:c\"", "a b:c"),
        (
            "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
            "----WebKitFormBoundary7MA4YWxkTrZu0gW",
        ),
    ] {
        assert_eq!(boundary(&headers(content_type)), Ok(expected.as_bytes()), "{content_type}");
    }
}

#[test]
fn a_content_type_without_a_sound_boundary_is_refused() {
    for (content_type, code) in [
        ("application/json", "invalid_content_type"),
        ("multipart/mixed; boundary=XX", "invalid_content_type"),
        ("multipart/form-data", "missing_boundary"),
        ("multipart/form-data; boundary=", "missing_boundary"),
        ("multipart/form-data; boundary=\"\"", "missing_boundary"),
        ("multipart/form-data; boundary=a; boundary=b", "missing_boundary"),
        ("multipart/form-data; boundary=\"a", "missing_boundary"),
        ("multipart/form-data; boundary=\"a\\\"b\"", "missing_boundary"),
        ("multipart/form-data; boundary=\"a \"", "missing_boundary"),
        ("multipart/form-data; boundary=a@b", "missing_boundary"),
        (
            "multipart/form-data; boundary=0123456789012345678901234567890123456789012345678901234567890123456789x",
            "missing_boundary",
        ),
    ] {
        assert_eq!(boundary(&headers(content_type)).unwrap_err().code(), code, "{content_type}");
    }
    assert_eq!(boundary(&HeaderMap::new()).unwrap_err().code(), "invalid_content_type");
    let mut twice = headers("multipart/form-data; boundary=a");
    twice.append(CONTENT_TYPE, HeaderValue::from_static("multipart/form-data; boundary=b"));
    assert_eq!(boundary(&twice).unwrap_err().code(), "duplicate_field");
}

proptest! {
    #[test]
    fn parts_are_found_as_they_were_written(
        contents in prop::collection::vec(prop_oneof![
            "[ -~\r\n]{0,60}",
            "(\r\n|--|XX|X|-|\r|\n){0,12}",
        ], 0..5),
    ) {
        let clash = |content: &String| ["\r\n--XX\r\n", "\r\n--XX--"].iter().any(|end| format!("\r\n{content}\r\n").contains(end));
        // A content that ends in a delimiter's beginning, or is itself one, is no content that a sender may choose.
        prop_assume!(!contents.iter().any(clash));
        let body = contents.iter().enumerate().map(|(at, content)| field(&at.to_string(), content)).collect::<String>() + "--XX--";
        let mut parts = Parts::open(body.as_bytes(), b"XX").unwrap();
        for (at, content) in contents.iter().enumerate() {
            let part = parts.part().unwrap().unwrap();
            prop_assert_eq!(part.value.of(body.as_bytes()), content.as_bytes());
            let (name, field) = (at.to_string(), field(&at.to_string(), content));
            prop_assert_eq!(part.name, name.as_bytes());
            prop_assert_eq!(part.whole.of(body.as_bytes()), field.as_bytes());
        }
        prop_assert_eq!(parts.part().unwrap(), None);
    }

    #[test]
    fn no_form_panics(pieces in prop::collection::vec(prop::sample::select(vec![
        "--XX", "--", "\r\n", "\r", "\n", "Content-Disposition:", " form-data;", "name=", "\"model\"", "model", ";", "\"", "\\", "filename=", "m",
    ]), 0..25)) {
        let _ = read_form(pieces.concat().as_bytes());
        let _ = read_form(format!("--XX\r\n{}\r\n--XX--", pieces.concat()).as_bytes());
    }
}
