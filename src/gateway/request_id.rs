//! The id of a request: the client's own if it sent a usable one, else a random one. It goes upstream, back to the client,
//! and into the log.

use http::HeaderValue;
use pingora::http::RequestHeader;
use rand::RngExt;

/// Longest id taken over from a client, bytes: it ends up in every log line.
const MAX_LENGTH: usize = 128;

/// The client's `X-Request-Id` if it is printable ASCII of a sane length, else 32 random hexadecimal digits.
pub(super) fn of(request: &RequestHeader) -> HeaderValue {
    let usable = |value: &&HeaderValue| {
        (1..=MAX_LENGTH).contains(&value.len()) && value.as_bytes().iter().all(|byte| byte.is_ascii_graphic())
    };
    request.headers.get("x-request-id").filter(usable).cloned().unwrap_or_else(random)
}

fn random() -> HeaderValue {
    let id = format!("{:032x}", rand::rng().random::<u128>());
    HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("0"))
}
