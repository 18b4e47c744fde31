//! The one place that turns a failure into HTTP: status, OpenAI's error JSON (Anthropic's on `/v1/messages`), and the SSE
//! event that ends a broken stream.

use crate::request::{BadRequest, ErrorDialect};
use crate::residency::ledger::Complaint;
use bytes::Bytes;
use http::StatusCode;
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Why a request was not answered by an engine. Each has one status and one `code`; the README lists them.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The body or a header does not make sense.
    BadRequest(BadRequest),
    /// The body is larger than `server.max_body`.
    BodyTooLarge {
        /// The limit, bytes.
        limit: usize,
    },
    /// The body did not arrive within `server.body_timeout`.
    BodyTimedOut {
        /// The limit.
        deadline: Duration,
    },
    /// The body's chunks are not well formed.
    BadFraming,
    /// No route of this path.
    UnknownPath(String),
    /// The path exists, with another method.
    MethodNotAllowed {
        /// The method that the path takes.
        allow: &'static str,
    },
    /// No model is named and none is the default.
    NoModel,
    /// No model, alias or adapter has this name.
    UnknownModel(String),
    /// The header `x-pointsman-priority` names no class.
    UnknownPriority(String),
    /// The header `x-request-timeout-ms` is no number.
    BadTimeout(String),
    /// Too many request bodies are in memory.
    Overloaded,
    /// The replicas are full, and so is the waiting room; or the request waited there too long.
    Saturated {
        /// The model asked for.
        model: Box<str>,
        /// The room was full.
        full: bool,
        /// Seconds until those who wait now have probably gone in.
        retry_after: u32,
    },
    /// The header or the configuration has no profile of this name.
    UnknownProfile(String),
    /// The adapter is configured but no replica has it.
    AdapterNotServed(String),
    /// No slot for the adapter became free in time.
    AdapterCapacity {
        /// Its name.
        adapter: String,
        /// How long the request waited.
        limit: Duration,
    },
    /// The adapter was not loaded in time.
    AdapterTimedOut {
        /// Its name.
        adapter: String,
        /// How long the request waited.
        limit: Duration,
    },
    /// The adapter could not be loaded anywhere.
    AdapterFailed {
        /// Its name.
        adapter: String,
        /// It will fail again until somebody changes the files or the engine.
        permanent: bool,
        /// What the engine said, and which.
        complaint: Option<Complaint>,
        /// Until the next try.
        retry_after: Duration,
    },
    /// A replica died with a request for this adapter.
    AdapterQuarantined {
        /// Its name.
        adapter: String,
        /// Until it gets another chance.
        retry_after: Duration,
    },
    /// No replica may get the request.
    NoReplica {
        /// The model asked for.
        model: Box<str>,
    },
    /// The replica failed before its first byte, and so did the others that were tried.
    ReplicaFailed {
        /// The last replica tried.
        replica: Arc<str>,
        /// What happened there.
        reason: Cow<'static, str>,
    },
    /// The replica did not answer in time.
    ReplicaTimedOut {
        /// The last replica tried.
        replica: Arc<str>,
        /// Which limit it passed.
        which: &'static str,
    },
    /// The replica was lost in the middle of its answer.
    ReplicaLost {
        /// The replica.
        replica: Arc<str>,
    },
    /// A fault of ours.
    Internal,
}

/// OpenAI's `type` for what the client did wrong.
const INVALID_REQUEST: &str = "invalid_request_error";
/// OpenAI's `type` for what went wrong behind the client's back.
const SERVER_ERROR: &str = "server_error";

impl Failure {
    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) | Self::BadFraming | Self::NoModel => StatusCode::BAD_REQUEST,
            Self::UnknownProfile(_) | Self::UnknownPriority(_) | Self::BadTimeout(_) => StatusCode::BAD_REQUEST,
            Self::Saturated { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::UnknownPath(_) | Self::UnknownModel(_) | Self::AdapterNotServed(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTimedOut { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::ReplicaFailed { .. } | Self::ReplicaLost { .. } => StatusCode::BAD_GATEWAY,
            Self::AdapterFailed { permanent: true, .. } => StatusCode::FAILED_DEPENDENCY,
            Self::Overloaded
            | Self::NoReplica { .. }
            | Self::AdapterCapacity { .. }
            | Self::AdapterFailed { .. }
            | Self::AdapterQuarantined { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::ReplicaTimedOut { .. } | Self::AdapterTimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The machine-readable reason, also the outcome in metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadRequest(bad) => bad.code(),
            Self::BadFraming => "invalid_framing",
            Self::BodyTooLarge { .. } => "request_too_large",
            Self::BodyTimedOut { .. } => "request_timeout",
            Self::UnknownPath(_) => "unknown_path",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::NoModel => "model_missing",
            Self::UnknownModel(_) => "model_not_found",
            Self::UnknownProfile(_) => "profile_not_found",
            Self::UnknownPriority(_) => "priority_not_found",
            Self::BadTimeout(_) => "invalid_timeout",
            Self::Overloaded => "overloaded",
            Self::Saturated { .. } => "saturated",
            Self::AdapterNotServed(_) => "adapter_not_served",
            Self::AdapterCapacity { .. } => "adapter_capacity",
            Self::AdapterTimedOut { .. } => "adapter_timeout",
            Self::AdapterFailed { .. } => "adapter_load_failed",
            Self::AdapterQuarantined { .. } => "adapter_quarantined",
            Self::NoReplica { .. } => "no_replica",
            Self::ReplicaFailed { .. } => "replica_failed",
            Self::ReplicaTimedOut { .. } => "replica_timeout",
            Self::ReplicaLost { .. } => "replica_lost",
            Self::Internal => "internal",
        }
    }

    /// Seconds after which the same request may succeed, where that can be said.
    pub fn retry_after(&self) -> Option<u32> {
        let at_least_one = |wait: &Duration| u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1);
        match self {
            Self::NoReplica { .. } | Self::AdapterCapacity { .. } | Self::Overloaded => Some(1),
            Self::Saturated { retry_after, .. } => Some(*retry_after),
            Self::AdapterFailed { retry_after, .. } | Self::AdapterQuarantined { retry_after, .. } => {
                Some(at_least_one(retry_after))
            }
            _ => None,
        }
    }

    /// The header `x-should-retry`, which OpenAI's clients obey, where a status alone would mislead them.
    pub fn should_retry(&self) -> Option<bool> {
        match self {
            Self::AdapterCapacity { .. } | Self::AdapterFailed { permanent: false, .. } => Some(true),
            Self::AdapterFailed { .. } | Self::AdapterQuarantined { .. } => Some(false),
            _ => None,
        }
    }

    fn param(&self) -> Option<&str> {
        match self {
            Self::BadRequest(bad) => bad.param(),
            Self::NoModel | Self::UnknownModel(_) => Some("model"),
            _ => None,
        }
    }

    fn message(&self) -> Cow<'static, str> {
        match self {
            Self::BadRequest(bad) => bad.to_string().into(),
            Self::BadFraming => "the request body's chunks are not well formed".into(),
            Self::BodyTooLarge { limit } => format!("the request body is larger than {limit} bytes").into(),
            Self::BodyTimedOut { deadline } => format!("the request body did not arrive within {deadline:?}").into(),
            Self::UnknownPath(path) => format!("no such path: {path}").into(),
            Self::MethodNotAllowed { allow } => format!("this path takes {allow}").into(),
            Self::NoModel => "the request names no model and no default model is configured".into(),
            Self::UnknownModel(name) => format!("the model `{name}` does not exist").into(),
            Self::UnknownPriority(name) => {
                format!("the priority `{name}` does not exist: interactive, default or batch").into()
            }
            Self::BadTimeout(value) => {
                format!("x-request-timeout-ms must be a number of milliseconds, found `{value}`").into()
            }
            Self::Overloaded => "too many request bodies are in memory; try again soon".into(),
            Self::Saturated { model, full: true, .. } => {
                format!("all replicas of `{model}` are full, and so is the waiting room").into()
            }
            Self::Saturated { model, .. } => format!("all replicas of `{model}` stayed full").into(),
            Self::UnknownProfile(name) => format!("the profile `{name}` does not exist").into(),
            Self::AdapterNotServed(name) => format!("no replica serves the adapter `{name}`").into(),
            Self::AdapterCapacity { adapter, limit } => {
                format!("no replica had a slot for the adapter `{adapter}` within {limit:?}").into()
            }
            Self::AdapterTimedOut { adapter, limit } => {
                format!("the adapter `{adapter}` was not loaded within {limit:?}").into()
            }
            Self::AdapterFailed { adapter, complaint: Some(Complaint { replica, reason }), .. } => {
                format!("the adapter `{adapter}` could not be loaded: replica {replica}: {reason}").into()
            }
            Self::AdapterFailed { adapter, complaint: None, .. } => {
                format!("the adapter `{adapter}` could not be loaded").into()
            }
            Self::AdapterQuarantined { adapter, .. } => {
                format!("a replica died with a request for the adapter `{adapter}`; it is under quarantine").into()
            }
            Self::NoReplica { model } => format!("no replica of `{model}` can take the request").into(),
            Self::ReplicaFailed { replica, reason } => format!("replica {replica} failed: {reason}").into(),
            Self::ReplicaTimedOut { replica, which } => format!("replica {replica}: {which}").into(),
            Self::ReplicaLost { replica } => format!("replica {replica} was lost in the middle of its answer").into(),
            Self::Internal => "an internal error; the log has it under this request id".into(),
        }
    }

    /// The body of the answer.
    pub fn body(&self, dialect: ErrorDialect, request_id: &str) -> Bytes {
        let message = self.message();
        let value = match dialect {
            ErrorDialect::OpenAi => json!({ "error": {
                "message": message,
                "type": if self.status().is_client_error() { INVALID_REQUEST } else { SERVER_ERROR },
                "param": self.param(),
                "code": self.code(),
                "request_id": request_id,
            }}),
            ErrorDialect::Anthropic => json!({
                "type": "error",
                "error": { "type": self.anthropic_type(), "message": message, "code": self.code() },
                "request_id": request_id,
            }),
        };
        value.to_string().into()
    }

    /// The event that tells a client of a stream, whose status was sent long ago, that it broke; the stream ends with it.
    pub fn sse_event(&self, dialect: ErrorDialect, request_id: &str) -> Bytes {
        let body = self.body(dialect, request_id);
        // The blank line first ends an event that the replica left half written.
        [b"\n\nevent: error\ndata: ", body.as_ref(), b"\n\n"].concat().into()
    }

    /// Anthropic's names for the same statuses (docs.anthropic.com, "Errors").
    fn anthropic_type(&self) -> &'static str {
        match self.status() {
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            StatusCode::GATEWAY_TIMEOUT => "timeout_error",
            status if status.is_client_error() => INVALID_REQUEST,
            _ => "api_error",
        }
    }
}
