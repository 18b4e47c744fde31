//! What a request body asks for, read as leniently as vLLM reads it: of two keys of one name the last counts.

use super::reply::Refusal;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use memchr::memmem;
use serde_json::Value;

/// vLLM's chat default is all the context that is left; a stand-in stays short.
const DEFAULT_MAX_TOKENS: u64 = 16;

/// Bytes of text to a token, a usual rule of thumb for English.
const BYTES_PER_TOKEN: u64 = 4;

/// The fields of a generation request that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) model: Option<String>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) max_tokens: u64,
    pub(super) prompt_tokens: u64,
}

impl Ask {
    pub(super) fn of(body: &Value) -> Self {
        let usage = body.get("stream_options").and_then(|options| options.get("include_usage"));
        Self {
            model: model(body).map(str::to_owned),
            stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            include_usage: usage.and_then(Value::as_bool).unwrap_or(false),
            max_tokens: max_tokens(body),
            prompt_tokens: prompt_tokens(body),
        }
    }
}

/// The model that a body names; an empty name is none.
pub(super) fn model(body: &Value) -> Option<&str> {
    body.get("model").and_then(Value::as_str).filter(|name| !name.is_empty())
}

fn max_tokens(body: &Value) -> u64 {
    ["max_completion_tokens", "max_tokens", "max_output_tokens", "n_predict"]
        .iter()
        .find_map(|field| body.get(field).and_then(Value::as_u64))
        .unwrap_or(DEFAULT_MAX_TOKENS)
}

/// Tokens of everything that is read before generation, at least 1.
pub(super) fn prompt_tokens(body: &Value) -> u64 {
    const READ: [&str; 11] = [
        "messages",
        "prompt",
        "input",
        "system",
        "instructions",
        "query",
        "documents",
        "text_1",
        "text_2",
        "content",
        "tools",
    ];
    let bytes: u64 = READ.iter().filter_map(|field| body.get(field)).map(text_bytes).sum();
    bytes.div_ceil(BYTES_PER_TOKEN).max(1)
}

/// A number in a prompt is a token.
fn text_bytes(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields.values().map(text_bytes).sum(),
        Value::Number(_) => BYTES_PER_TOKEN,
        Value::Null | Value::Bool(_) => 0,
    }
}

/// A body as JSON, or vLLM's words for one that is none.
pub(super) fn json(headers: &HeaderMap, body: &Bytes) -> Result<Value, Refusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Err(Refusal::validation("Unsupported Media Type: Only 'application/json' is allowed"));
    }
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Refusal::invalid(
            "model_attributes_type",
            "body",
            "Input should be a valid dictionary or object to extract fields from",
            "'...'",
        )),
        Err(error) => Err(malformed(body, &error)),
    }
}

fn malformed(body: &Bytes, error: &serde_json::Error) -> Refusal {
    let at = if error.is_eof() { body.len() } else { error.column().saturating_sub(1) };
    let expected = match body.trim_ascii_end().last() {
        Some(b',' | b'{') => "Expecting property name enclosed in double quotes",
        _ => "Expecting value",
    };
    let detail = format!(
        "{{'type': 'json_invalid', 'loc': 'body.{at}', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {{'error': '{expected}'}}}}"
    );
    Refusal::validation(&detail).about(format!("body.{at}"))
}

/// The form field `model` of a multipart body.
pub(super) fn model_of_form(body: &[u8]) -> Option<String> {
    let after = |text: &[u8], mark: &str| -> Option<usize> { Some(memmem::find(text, mark.as_bytes())? + mark.len()) };
    let part = body.get(after(body, "name=\"model\"")?..)?;
    let value = part.get(after(part, "\r\n\r\n")?..)?;
    let end = memmem::find(value, b"\r\n")?;
    let name = String::from_utf8_lossy(value.get(..end)?).into_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_of_two_models_counts() {
        let body: Value = serde_json::from_str(r#"{"model":"a","model":"b"}"#).expect("JSON");
        assert_eq!(model(&body), Some("b"));
    }

    #[test]
    fn four_bytes_make_a_token() {
        assert_eq!(prompt_tokens(&json!({"prompt": "12345678"})), 2);
        assert_eq!(prompt_tokens(&json!({"prompt": [7, 8, 9]})), 3);
        assert_eq!(prompt_tokens(&json!({})), 1);
    }

    #[test]
    fn the_form_field_is_found_between_others() {
        let body = b"--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n\x00\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--x--\r\n";
        assert_eq!(model_of_form(body).as_deref(), Some("whisper"));
    }
}
