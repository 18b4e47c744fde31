//! What the engine sees: where it is, the header as it must be for a body of known length, and who asked.

use super::context::{Attempt, Context};
use super::error_response::Failure;
use crate::config::checked::Timeouts;
use crate::fleet::call::{InCall, Limits};
use crate::request::Wanted;
use http::header::{CONTENT_LENGTH, EXPECT, FORWARDED, HOST, TRANSFER_ENCODING};
use pingora::http::RequestHeader;
use pingora::proxy::Session;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Result, protocols::l4::socket::SocketAddr};
use std::time::{Duration, Instant};

/// How much later than the watchdog Pingora would end a silent read.
const BACKSTOP: Duration = Duration::from_secs(5);

/// The attempt's replica as Pingora's peer: it is sent now, and watched from now on.
pub(super) fn peer(
    attempt: &mut Attempt,
    wanted: &Wanted,
    timeouts: &Timeouts,
) -> std::result::Result<Box<HttpPeer>, Failure> {
    attempt.sent = Some(Instant::now());
    let limits = Limits {
        first_byte: timeouts.first_byte,
        between_bytes: timeouts.between_bytes,
        total: timeouts.total.filter(|_| !wanted.stream),
    };
    attempt.call = Some(InCall::begin(attempt.lease.replica(), limits));
    let replica = attempt.lease.replica();
    let Some(address) = replica.address() else {
        return Err(Failure::ReplicaFailed {
            replica: replica.name.clone(),
            reason: "its host name does not resolve".into(),
        });
    };
    let mut peer = HttpPeer::new(address, false, String::new());
    peer.options.connection_timeout = Some(timeouts.connect);
    peer.options.total_connection_timeout = Some(timeouts.connect);
    // The watchdog keeps the time; this is only its backstop.
    peer.options.read_timeout = Some(timeouts.first_byte.max(timeouts.between_bytes) + BACKSTOP);
    peer.options.write_timeout = Some(timeouts.between_bytes);
    peer.options.idle_timeout = Some(timeouts.upstream_idle);
    Ok(Box::new(peer))
}

/// Headers for the engine. Hop-by-hop headers were taken out by Pingora.
pub(super) fn prepare(session: &Session, request: &mut RequestHeader, ctx: &Context) -> Result<()> {
    request.remove_header(&EXPECT);
    request.remove_header(&TRANSFER_ENCODING);
    if let Some(attempt) = &ctx.attempt {
        request.insert_header(CONTENT_LENGTH, attempt.body.len())?;
        request.insert_header(HOST, &*attempt.lease.replica().name)?;
    }
    request.insert_header("x-request-id", ctx.request_id.clone())?;
    forwarded(session, request)
}

/// `X-Forwarded-For` grows by the client's address; the host that the client asked for is kept in `X-Forwarded-Host`.
fn forwarded(session: &Session, request: &mut RequestHeader) -> Result<()> {
    if let Some(SocketAddr::Inet(client)) = session.client_addr() {
        request.append_header("x-forwarded-for", client.ip().to_canonical().to_string())?;
    }
    if !request.headers.contains_key("x-forwarded-host")
        && let Some(host) = session.get_header(HOST)
    {
        request.insert_header("x-forwarded-host", host.clone())?;
    }
    if !request.headers.contains_key("x-forwarded-proto") && !request.headers.contains_key(FORWARDED) {
        request.insert_header("x-forwarded-proto", "http")?;
    }
    Ok(())
}
