//! A client session whose request body was read already and is given back as one piece.
//!
//! Pingora forwards a body that was read before `upstream_peer` only if it fits its retry buffer of 64 KiB. Where the length
//! is not known beforehand (chunked, HTTP/2 without a length) and the body turns out larger, the session is wrapped in
//! this one, which hands the whole body out as its retry buffer. Everything else goes to the wrapped session. On HTTP/1
//! the connection is closed after the answer, since Pingora cannot reuse it from under a wrapper.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use http::HeaderMap;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::Digest;
use pingora::protocols::http::custom::CustomMessageWrite;
use pingora::protocols::http::custom::server::Session as CustomSession;
use pingora::protocols::http::{HttpTask, ServerSession};
use pingora::protocols::l4::socket::SocketAddr;
use pingora::{Error, ErrorType, Result};
use std::time::Duration;

/// The wrapped session and its body.
pub(super) struct ReplaySession {
    inner: ServerSession,
    body: Bytes,
}

impl ReplaySession {
    /// Put a session in the place of `session` that replays `body`.
    pub(super) fn wrap(session: &mut ServerSession, body: Bytes) {
        session.set_keepalive(None);
        let placeholder = ServerSession::new_custom(Box::new(()));
        let inner = std::mem::replace(session, placeholder);
        *session = ServerSession::new_custom(Box::new(Self { inner, body }));
    }
}

type MessageReader = Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>;

#[async_trait]
impl CustomSession for ReplaySession {
    fn req_header(&self) -> &RequestHeader {
        self.inner.req_header()
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        self.inner.req_header_mut()
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        self.inner.read_request_body().await
    }

    async fn drain_request_body(&mut self) -> Result<()> {
        self.inner.drain_request_body().await
    }

    async fn write_response_header(&mut self, resp: Box<ResponseHeader>, _end: bool) -> Result<()> {
        self.inner.write_response_header(resp).await
    }

    async fn write_response_header_ref(&mut self, resp: &ResponseHeader, _end: bool) -> Result<()> {
        self.inner.write_response_header_ref(resp).await
    }

    async fn write_body(&mut self, data: Bytes, end: bool) -> Result<()> {
        self.inner.write_response_body(data, end).await
    }

    async fn write_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        self.inner.write_response_trailers(trailers).await
    }

    async fn response_duplex_vec(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        self.inner.response_duplex_vec(tasks).await
    }

    fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.inner.set_read_timeout(timeout);
    }

    fn get_read_timeout(&self) -> Option<Duration> {
        self.inner.get_read_timeout()
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.inner.set_write_timeout(timeout);
    }

    fn get_write_timeout(&self) -> Option<Duration> {
        self.inner.get_write_timeout()
    }

    fn set_total_drain_timeout(&mut self, timeout: Option<Duration>) {
        self.inner.set_total_drain_timeout(timeout);
    }

    fn get_total_drain_timeout(&self) -> Option<Duration> {
        self.inner.get_total_drain_timeout()
    }

    fn request_summary(&self) -> String {
        self.inner.request_summary()
    }

    fn response_written(&self) -> Option<&ResponseHeader> {
        self.inner.response_written()
    }

    async fn shutdown(&mut self, _code: u32, _ctx: &str) {
        self.inner.shutdown().await;
    }

    fn is_body_done(&mut self) -> bool {
        self.inner.is_body_done()
    }

    async fn finish(&mut self) -> Result<()> {
        self.inner.finish_body().await
    }

    fn is_body_empty(&mut self) -> bool {
        self.body.is_empty()
    }

    async fn read_body_or_idle(&mut self, no_body_expected: bool) -> Result<Option<Bytes>> {
        self.inner.read_body_or_idle(no_body_expected).await
    }

    fn body_bytes_sent(&self) -> usize {
        self.inner.body_bytes_sent()
    }

    fn body_bytes_read(&self) -> usize {
        self.inner.body_bytes_read()
    }

    fn digest(&self) -> Option<&Digest> {
        self.inner.digest()
    }

    fn digest_mut(&mut self) -> Option<&mut Digest> {
        self.inner.digest_mut()
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        self.inner.client_addr()
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        self.inner.server_addr()
    }

    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        self.inner.to_h1_raw()
    }

    fn enable_retry_buffering(&mut self) {}

    fn retry_buffer_truncated(&self) -> bool {
        false
    }

    fn get_retry_buffer(&self) -> Option<Bytes> {
        Some(self.body.clone())
    }

    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_reader(&mut self) -> Option<MessageReader> {
        None
    }

    fn restore_custom_message_reader(&mut self, _reader: MessageReader) -> Result<()> {
        Error::e_explain(ErrorType::InternalError, "a replayed session has no custom messages")
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        None
    }

    fn restore_custom_message_writer(&mut self, _writer: Box<dyn CustomMessageWrite>) -> Result<()> {
        Error::e_explain(ErrorType::InternalError, "a replayed session has no custom messages")
    }
}
