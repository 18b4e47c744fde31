//! Reading the whole request body before a replica is chosen.
//!
//! Pingora has no hook for that. What makes it forward a body that was already read: its retry buffer must hold something
//! and must not have overflowed at 64 KiB. So the buffer is switched on only once the rest of the body surely fits; its
//! content does not matter, since `request_body_filter` sends our body in its place. Where that cannot be known beforehand,
//! see [`ReplaySession`].

use super::buffered::Held;
use super::error_response::Failure;
use super::replay_session::ReplaySession;
use crate::config::checked::Server;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, EXPECT};
use pingora::protocols::http::ServerSession;

/// Pingora's retry buffer (pingora-core 0.9.1, protocols/http/v1/common.rs).
const RETRY_BUFFER: usize = 64 * 1024;

/// Memory set aside before the first byte came, at most: a length is only a claim.
const MAX_CLAIM: usize = 1024 * 1024;

/// Pingora's errors for chunks that are not well formed (pingora-core 0.9.1, protocols/http/v1/body.rs).
const BAD_FRAMING: [&str; 2] = ["InvalidChunk", "InvalidTrailerEnd"];

/// Why there is no body.
#[derive(Debug)]
pub(super) enum BodyError {
    /// The client is told.
    Refused(Failure),
    /// The client is gone.
    Lost(Box<pingora::Error>),
}

/// Read the body to its end, within the server's limits of size, time and memory.
pub(super) async fn read(session: &mut ServerSession, server: &Server, held: &mut Held) -> Result<Bytes, BodyError> {
    let (limit, deadline) = (server.max_body, server.body_timeout);
    let length = content_length(session);
    if length.is_some_and(|length| length > limit) {
        return Err(BodyError::Refused(Failure::BodyTooLarge { limit }));
    }
    // The claim counts: a thousand slow uploads of 32 MiB each are refused before they fill the memory.
    if !held.grow_to(length.unwrap_or(0), server.max_buffered) {
        return Err(BodyError::Refused(Failure::Overloaded));
    }
    let body = match tokio::time::timeout(deadline, read_to_end(session, length, server, held)).await {
        Ok(body) => body?,
        Err(_) => return Err(BodyError::Refused(Failure::BodyTimedOut { deadline })),
    };
    if !body.is_empty() && session.get_retry_buffer().is_none() {
        ReplaySession::wrap(session, body.clone());
    }
    Ok(body)
}

async fn read_to_end(
    session: &mut ServerSession,
    length: Option<usize>,
    server: &Server,
    held: &mut Held,
) -> Result<Bytes, BodyError> {
    if session.get_header(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        session.write_continue_response().await.map_err(|error| BodyError::Lost(error.into_down()))?;
    }
    let mut body = Accumulated::default();
    loop {
        if length.is_none_or(|length| length.saturating_sub(body.len()) <= RETRY_BUFFER) {
            session.enable_retry_buffering();
        }
        match session.read_request_body().await {
            Ok(Some(piece)) => body.push(piece, length),
            Ok(None) => return Ok(body.freeze()),
            Err(error) if BAD_FRAMING.contains(&error.etype().as_str()) => {
                return Err(BodyError::Refused(Failure::BadFraming));
            }
            Err(error) => return Err(BodyError::Lost(error.into_down())),
        }
        if body.len() > server.max_body {
            return Err(BodyError::Refused(Failure::BodyTooLarge { limit: server.max_body }));
        }
        if !held.grow_to(body.len(), server.max_buffered) {
            return Err(BodyError::Refused(Failure::Overloaded));
        }
    }
}

fn content_length(session: &ServerSession) -> Option<usize> {
    session.get_header(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// The pieces so far. A body that comes in one piece, as most do, is not copied.
#[derive(Default)]
struct Accumulated {
    first: Bytes,
    all: BytesMut,
}

impl Accumulated {
    fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    fn push(&mut self, piece: Bytes, length: Option<usize>) {
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(length.unwrap_or(0).min(MAX_CLAIM).max(self.first.len() + piece.len()));
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&piece);
    }

    fn freeze(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}
