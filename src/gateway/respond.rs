//! Writing answers of our own, and the record of how a request ended.

use super::Gateway;
use super::context::{AdapterUse, Context};
use super::error_response::Failure;
use crate::fleet::clock::now_ms;
use crate::telemetry::{Outcome, Record};
use bytes::Bytes;
use http::StatusCode;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use pingora::{Error, ErrorSource, Result};
use std::time::Duration;

/// How long to ask a replica whether it is dead after it answered 500. Guess: a living engine answers in milliseconds.
const DEATH_CHECK: Duration = Duration::from_secs(1);

impl Gateway {
    /// Answer with JSON.
    pub(super) async fn answer_json(
        &self,
        session: &mut Session,
        ctx: &Context,
        value: &serde_json::Value,
    ) -> Result<()> {
        let header = self.header(StatusCode::OK, ctx)?;
        write(session, header, value.to_string().into()).await
    }

    /// Tell the client of a failure: as an error answer, or as the last event of a stream that has begun. An answer that
    /// has begun and is no stream can only be cut off.
    pub(super) async fn answer_failure(&self, session: &mut Session, ctx: &Context, failure: &Failure) -> Result<()> {
        if session.response_written().is_some() {
            if ctx.answer.as_ref().is_some_and(|answer| answer.is_stream) {
                let event = failure.sse_event(ctx.dialect(), ctx.request_id());
                session.write_response_body(Some(event), true).await?;
            }
            return Ok(());
        }
        let mut header = self.header(failure.status(), ctx)?;
        if let Some(seconds) = failure.retry_after() {
            header.insert_header(RETRY_AFTER, seconds)?;
        }
        if let Some(retry) = failure.should_retry() {
            header.insert_header("x-should-retry", if retry { "true" } else { "false" })?;
        }
        match failure {
            Failure::MethodNotAllowed { allow } => header.insert_header(ALLOW, *allow)?,
            // What is left of the body is not worth reading.
            Failure::BadFraming | Failure::BodyTooLarge { .. } | Failure::BodyTimedOut { .. } => {
                session.set_keepalive(None)
            }
            _ => {}
        }
        write(session, header, failure.body(ctx.dialect(), ctx.request_id())).await
    }

    fn header(&self, status: StatusCode, ctx: &Context) -> Result<ResponseHeader> {
        let mut header = ResponseHeader::build(status, Some(5))?;
        header.insert_header(CONTENT_TYPE, "application/json")?;
        header.insert_header("x-request-id", ctx.request_id.clone())?;
        ctx.explain_in(&mut header, &self.telemetry.decisions)?;
        Ok(header)
    }

    /// A 500 may concern one request or tell of a dead engine: vLLM's health check tells them apart.
    pub(super) async fn engine_is_dead(&self, ctx: &Context) -> bool {
        let Some(attempt) = &ctx.attempt else { return false };
        let replica = attempt.lease.replica();
        replica.engine.health(&self.engines.within(DEATH_CHECK), &replica.name).await.is_err()
    }

    /// Judge the replica by the whole answer and count the request.
    pub(super) fn record(&self, session: &Session, error: Option<&Error>, ctx: &mut Context) {
        // One that was refused at the door has a line too.
        ctx.open_line(&self.telemetry.decisions);
        let ctx = &*ctx;
        let outcome = outcome(error, ctx);
        if let (Some(attempt), Some(answer), Some(job)) = (&ctx.attempt, &ctx.answer, &ctx.job) {
            let replica = attempt.lease.replica();
            if answer.complete && answer.was_aborted() {
                let health = &job.fleet.config.health;
                replica.breaker.failed(crate::fleet::breaker::Severity::Suspect, &health.policy(), now_ms());
            } else if answer.complete && answer.status < 500 {
                replica.breaker.succeeded();
            }
            if let Some(first_token) = answer.first_token {
                replica.observe_first_token(first_token);
            }
        }
        let record = Record {
            request_id: ctx.request_id(),
            model: ctx.job.as_ref().map_or("", |job| &job.model().name),
            adapter: ctx.job.as_ref().and_then(|job| job.target.adapter()).map(|adapter| adapter.name.as_str()),
            endpoint: ctx.endpoint.map_or("other", |endpoint| endpoint.name()),
            outcome,
            status: session.response_written().map_or(0, |header| header.status.as_u16()),
            code: ctx.failure.as_ref().map(Failure::code),
            replica: ctx.attempt.as_ref().map(|attempt| &*attempt.lease.replica().name),
            retries: ctx.retries,
            queue_wait: ctx.queue_wait,
            adapter_use: ctx.adapter_use.map(AdapterUse::as_str),
            adapter_wait: ctx.adapter_wait,
            first_token: ctx.answer.as_ref().and_then(|answer| answer.first_token),
            duration: ctx.started.elapsed(),
            usage: ctx.answer.as_ref().map(|answer| answer.seen.usage).unwrap_or_default(),
        };
        self.telemetry.record(&record);
        ctx.note_ended(&self.telemetry.decisions, &record);
    }
}

fn outcome(error: Option<&Error>, ctx: &Context) -> Outcome {
    match (&ctx.failure, &ctx.answer, error) {
        (Some(Failure::ReplicaLost { .. }), _, _) => Outcome::ReplicaLost,
        (Some(failure), None, _) if failure.status().is_client_error() => Outcome::Refused,
        (Some(_), None, _) => Outcome::Failed,
        (_, _, Some(error)) if *error.esource() == ErrorSource::Downstream => Outcome::ClientGone,
        (_, _, Some(_)) => Outcome::Failed,
        (_, Some(answer), None) if answer.was_aborted() => Outcome::ReplicaLost,
        (_, Some(answer), None) if answer.status >= 400 => Outcome::EngineError,
        _ => Outcome::Answered,
    }
}

async fn write(session: &mut Session, mut header: ResponseHeader, body: Bytes) -> Result<()> {
    header.insert_header(CONTENT_LENGTH, body.len())?;
    let body = if session.req_header().method == http::Method::HEAD { Bytes::new() } else { body };
    session.write_response_header(Box::new(header), false).await?;
    session.write_response_body(Some(body), true).await
}
