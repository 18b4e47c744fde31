//! The phases of a request as Pingora calls them; each hands over to the file that knows.

use super::Gateway;
use super::answer::Answer;
use super::context::{Attempt, Context};
use super::dispatch::Stop;
use super::error_response::Failure;
use super::retry::Fault;
use super::{accept, upstream_request, upstream_socket};
use async_trait::async_trait;
use bytes::Bytes;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::Digest;
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType, Result};
use std::os::fd::RawFd;
use std::time::Duration;

#[async_trait]
impl ProxyHttp for Gateway {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context::new()
    }

    /// No response compression: a stream must not be held back to be packed.
    fn init_downstream_modules(&self, _modules: &mut pingora::modules::http::HttpModules) {}

    async fn early_request_filter(&self, session: &mut Session, _ctx: &mut Context) -> Result<()> {
        self.connections.header_came(session.client_addr());
        Ok(())
    }

    async fn request_filter(&self, session: &mut Session, ctx: &mut Context) -> Result<bool> {
        accept::accept(self, session, ctx).await
    }

    /// The first choice of a replica. It is made here and not in `upstream_peer` because a failure here leaves the
    /// client's connection usable.
    async fn proxy_upstream_filter(&self, session: &mut Session, ctx: &mut Context) -> Result<bool> {
        match ctx.dispatch(self, session.as_downstream_mut()).await {
            Ok(()) => Ok(true),
            Err(Stop::ClientGone(error)) => Err(error),
            Err(stop) => {
                let failure = ctx.failure_of(stop);
                ctx.failure = Some(failure.clone());
                self.answer_failure(session, ctx, &failure).await?;
                Ok(false)
            }
        }
    }

    async fn upstream_peer(&self, session: &mut Session, ctx: &mut Context) -> Result<Box<HttpPeer>> {
        let dispatched = match &ctx.attempt {
            Some(attempt) if attempt.sent.is_none() => Ok(()),
            _ => ctx.dispatch(self, session.as_downstream_mut()).await,
        };
        let peer = match (dispatched, &mut ctx.attempt, &ctx.job) {
            (Ok(()), Some(attempt), Some(job)) => {
                upstream_request::peer(attempt, &job.wanted, &job.fleet.config.timeouts)
            }
            (Ok(()), ..) => Err(Failure::Internal),
            (Err(Stop::ClientGone(error)), ..) => return Err(error),
            (Err(stop), ..) => Err(ctx.failure_of(stop)),
        };
        peer.map_err(|failure| {
            let status = failure.status().as_u16();
            // After a failed try its reason says more than "no replica".
            ctx.failure.get_or_insert(failure);
            Error::explain(ErrorType::HTTPStatus(status), "no replica was chosen")
        })
    }

    async fn connected_to_upstream(
        &self,
        _session: &mut Session,
        _reused: bool,
        _peer: &HttpPeer,
        socket: RawFd,
        _digest: Option<&Digest>,
        ctx: &mut Context,
    ) -> Result<()> {
        let call = ctx.attempt.as_ref().and_then(|attempt| attempt.call.as_ref());
        if let (Some(call), Some(socket)) = (call, upstream_socket::second_handle(socket)) {
            call.call().runs_over(socket);
        }
        Ok(())
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        upstream_request::prepare(session, request, ctx)
    }

    async fn request_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut Context,
    ) -> Result<()> {
        // What Pingora kept of the client's body only says that there is one; ours is sent in its place, whole.
        *body = match &ctx.attempt {
            Some(attempt) if end_of_stream => Some(attempt.body.clone()),
            _ => Some(Bytes::new()),
        };
        Ok(())
    }

    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        if response.status.is_informational() {
            return Ok(());
        }
        self.refuse_dead_replica(response.status.as_u16(), ctx).await?;
        ctx.answer = Some(Answer::begins(response));
        Ok(())
    }

    async fn response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        response.insert_header("x-request-id", ctx.request_id.clone())?;
        ctx.explain_in(response, &self.telemetry.decisions)
    }

    fn upstream_response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        ctx: &mut Context,
    ) -> Result<Option<Duration>> {
        if let (Some(answer), Some(attempt)) = (&mut ctx.answer, &ctx.attempt) {
            answer.passes(body.as_ref(), end_of_stream, attempt);
        }
        Ok(None)
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        _peer: &HttpPeer,
        ctx: &mut Context,
        mut error: Box<Error>,
    ) -> Box<Error> {
        let retry = Fault::of(&error).is_some_and(|fault| ctx.attempt_failed(&fault, false));
        error.set_retry(retry);
        error
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        mut error: Box<Error>,
        ctx: &mut Context,
        client_reused: bool,
    ) -> Box<Error> {
        if matches!(error.etype(), ErrorType::HTTPStatus(_)) {
            // Judged when the status came; another try was granted then.
            return error;
        }
        let started = session.response_written().is_some();
        let fault = ctx.broken_off().or_else(|| Fault::of(&error));
        let retry = fault.is_some_and(|fault| {
            // The engine closed an idle connection just as we used it: no sign of trouble. The replica may be tried again.
            let stale = client_reused && !started && fault == Fault::Broken && ctx.forgive_stale_connection();
            stale || ctx.attempt_failed(&fault, started)
        });
        error.set_retry(retry);
        error
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, ctx: &mut Context) -> FailToProxy {
        if *error.esource() == ErrorSource::Downstream && ctx.failure.is_none() {
            return FailToProxy { error_code: 0, can_reuse_downstream: false };
        }
        let failure = ctx.failure.get_or_insert(Failure::Internal).clone();
        // Pingora closes the connection after a failed try, whatever is said here: the client must know.
        session.set_keepalive(None);
        let written = self.answer_failure(session, ctx, &failure).await;
        if let Err(error) = written {
            tracing::debug!(%error, request_id = ctx.request_id(), "the client left before its error");
        }
        FailToProxy { error_code: failure.status().as_u16(), can_reuse_downstream: false }
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, ctx: &mut Context) {
        self.record(session, error, ctx);
        // The attempt's lease ends here and not when Pingora drops the context, which it keeps until the client's
        // connection is reusable.
        ctx.attempt = None;
        ctx.running = None;
    }

    /// Faults are logged where they are judged, with the replica's name; Pingora's own line would only repeat them.
    fn suppress_error_log(&self, _session: &Session, ctx: &Context, error: &Error) -> bool {
        ctx.failure.as_ref().is_some_and(|failure| !matches!(failure, Failure::Internal))
            || *error.esource() == ErrorSource::Downstream
    }

    fn suppress_proxy_warn_log(
        &self,
        _session: &Session,
        _ctx: &Context,
        _error: &Error,
        _context: pingora::proxy::ProxyWarnLogContext,
    ) -> bool {
        true
    }

    fn request_summary(&self, session: &Session, ctx: &Context) -> String {
        let replica = ctx.attempt.as_ref().map_or("-", |attempt: &Attempt| &attempt.lease.replica().name);
        format!("{} {} replica {replica}", session.req_header().method, session.req_header().uri.path())
    }
}

impl Gateway {
    /// An answer that says that the replica, not the request, is at fault becomes an error, so that the retry policy
    /// decides. On the last try the engine's own answer passes.
    async fn refuse_dead_replica(&self, status: u16, ctx: &mut Context) -> Result<()> {
        if status == 404 && ctx.adapter_was_lost(&self.engines).await {
            return Err(try_again(status));
        }
        let blames_replica = match status {
            502..=504 => true,
            500 => self.engine_is_dead(ctx).await,
            _ => false,
        };
        if !blames_replica {
            ctx.failure = None;
        } else if ctx.attempt_failed(&Fault::Status(status), false) {
            return Err(try_again(status));
        } else if matches!(ctx.failure, Some(Failure::AdapterQuarantined { .. })) {
            return Err(Error::new_up(ErrorType::HTTPStatus(status)));
        }
        Ok(())
    }
}

fn try_again(status: u16) -> Box<Error> {
    let mut error = Error::new_up(ErrorType::HTTPStatus(status));
    error.set_retry(true);
    error
}
