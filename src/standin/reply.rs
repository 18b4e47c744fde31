//! Answers that are whole at once, and refusals in the words of each API.

use super::options::Dialect;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::convert::Infallible;

/// The body of every answer.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A request that is not served, and why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) kind: &'static str,
    pub(super) param: Option<String>,
    pub(super) message: String,
    /// Further fields of llama.cpp's error object.
    pub(super) more: Vec<(&'static str, u64)>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, param: None, message: message.into(), more: Vec::new() }
    }

    pub(super) fn about(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// What vLLM says once its engine core has died.
    pub(super) fn dead_core() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalServerError",
            "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        )
    }

    /// A status that was ordered, with a message that says so.
    pub(super) fn ordered(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "RateLimitError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
            _ => "InternalServerError",
        };
        Self::new(status, kind, "The stand-in was told to answer so.")
    }

    /// vLLM's text for one field that does not validate.
    pub(super) fn invalid(kind: &str, loc: &str, msg: &str, input: &str) -> Self {
        let detail = format!("{{'type': '{kind}', 'loc': '{loc}', 'msg': '{msg}', 'input': {input}}}");
        Self::validation(&detail).about(loc)
    }

    /// vLLM's text around a validation error.
    pub(super) fn validation(detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad Request", format!("1 validation error:\n  {detail}"))
    }

    pub(super) fn render(&self, tongue: Tongue) -> Response<Body> {
        json_reply(self.status, &self.value(tongue))
    }

    pub(super) fn value(&self, tongue: Tongue) -> Value {
        let code = self.status.as_u16();
        match tongue {
            Tongue::OpenAi => {
                json!({"error": {"message": self.message, "type": self.kind, "param": self.param, "code": code}})
            }
            Tongue::Anthropic => json!({"type": "error", "error": {"type": self.kind, "message": self.message}}),
            Tongue::LlamaCpp => {
                let mut error = json!({"code": code, "message": self.message, "type": llamacpp_kind(self)});
                for (name, value) in &self.more {
                    if let Some(object) = error.as_object_mut() {
                        object.insert((*name).to_owned(), Value::from(*value));
                    }
                }
                json!({ "error": error })
            }
        }
    }
}

fn llamacpp_kind(refusal: &Refusal) -> &'static str {
    match refusal.status {
        StatusCode::BAD_REQUEST if refusal.more.is_empty() => "invalid_request_error",
        StatusCode::BAD_REQUEST => "exceed_context_size_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable_error",
        _ => "server_error",
    }
}

/// In which API's shape a refusal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tongue {
    OpenAi,
    Anthropic,
    LlamaCpp,
}

impl Tongue {
    pub(super) fn of(dialect: Dialect, path: &str) -> Self {
        match dialect {
            Dialect::LlamaCpp => Self::LlamaCpp,
            Dialect::Vllm if path.starts_with("/v1/messages") => Self::Anthropic,
            Dialect::Vllm => Self::OpenAi,
        }
    }
}

pub(super) fn json_reply(status: StatusCode, value: &Value) -> Response<Body> {
    reply(status, Some("application/json"), value.to_string())
}

pub(super) fn ok(value: &Value) -> Response<Body> {
    json_reply(StatusCode::OK, value)
}

/// An answer without a content type, as vLLM gives for health and for adapter loads.
pub(super) fn bare(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    reply(status, None, text)
}

pub(super) fn text(content_type: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    reply(StatusCode::OK, Some(content_type), text)
}

fn reply(status: StatusCode, content_type: Option<&'static str>, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response
}
