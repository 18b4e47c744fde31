//! The engine's answer as it passes: looked at, never held back, never copied.

use super::context::Attempt;
use crate::engine::stream_text::{Finish, Seen, StreamText};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use pingora::http::ResponseHeader;
use std::time::Duration;

/// What is known of an answer so far.
pub(super) struct Answer {
    /// The engine's status.
    pub(super) status: u16,
    /// It is a stream of events.
    pub(super) is_stream: bool,
    /// From the request sent to the first token; only a stream tells.
    pub(super) first_token: Option<Duration>,
    /// Its last byte has passed.
    pub(super) complete: bool,
    /// What was found in its text; of a JSON answer only at its end.
    pub(super) seen: Seen,
    text: StreamText,
}

impl Answer {
    /// Its header came.
    pub(super) fn begins(response: &ResponseHeader) -> Self {
        let is_stream =
            response.headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let text = if is_stream { StreamText::sse() } else { StreamText::json() };
        Self {
            status: response.status.as_u16(),
            is_stream,
            first_token: None,
            complete: false,
            seen: Seen::default(),
            text,
        }
    }

    /// A piece of its body passes.
    pub(super) fn passes(&mut self, piece: Option<&Bytes>, last: bool, attempt: &Attempt) {
        if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
            if let Some(call) = &attempt.call {
                call.byte_passed();
            }
            self.text.feed(piece);
            self.seen = self.text.seen();
            if self.first_token.is_none() && self.seen.first_token {
                self.first_token = attempt.sent.map(|sent| sent.elapsed());
            }
        }
        if last && !self.complete {
            self.complete = true;
            self.seen = std::mem::replace(&mut self.text, StreamText::sse()).finish();
        }
    }

    /// The engine gave up on the request although nobody had asked it to: its process is being stopped.
    pub(super) fn was_aborted(&self) -> bool {
        self.seen.finish == Some(Finish::Abort)
    }
}
