//! The first phase: route, read the body, find out whom it is for. Ends with a job to proxy or with an answer of ours.

use super::buffered::Held;
use super::context::{Context, Job};
use super::error_response::Failure;
use super::request_body::{self, BodyError};
use super::{Gateway, models_list, request_id};
use crate::fleet::{Fleet, Target};
use crate::request::{self, Endpoint, PrefixBlocks, Wanted};
use crate::scheduler::Profile;
use bytes::Bytes;
use http::{HeaderMap, Method};
use pingora::Result;
use pingora::proxy::Session;
use serde_json::json;
use std::sync::Arc;

/// Names the profile for one request.
const PROFILE_HEADER: &str = "x-pointsman-profile";

/// What becomes of a request.
enum Accepted {
    /// It goes to an engine.
    Job(Box<Job>),
    /// We answer with this JSON.
    Answer(serde_json::Value),
}

/// Take a request in. True when it was answered here.
pub(super) async fn accept(gateway: &Gateway, session: &mut Session, ctx: &mut Context) -> Result<bool> {
    ctx.request_id = request_id::of(session.req_header());
    ctx.running = Some(gateway.draining.request());
    let fleet = gateway.fleet.load_full();
    let keepalive = (!gateway.draining.is_on()).then_some(fleet.config.server.keepalive.as_secs());
    session.set_keepalive(keepalive);
    match take(gateway, fleet, session, ctx).await {
        Ok(Accepted::Job(job)) => {
            job.model().retry_budget.deposit();
            ctx.job = Some(*job);
            ctx.explain = ctx.may_explain(&session.req_header().headers);
            match ctx.admit(session.as_downstream_mut()).await? {
                Ok(()) => Ok(false),
                Err(failure) => refuse(gateway, session, ctx, failure).await,
            }
        }
        Ok(Accepted::Answer(value)) => {
            gateway.answer_json(session, ctx, &value).await?;
            Ok(true)
        }
        Err(BodyError::Refused(failure)) => refuse(gateway, session, ctx, failure).await,
        Err(BodyError::Lost(error)) => Err(error),
    }
}

async fn refuse(gateway: &Gateway, session: &mut Session, ctx: &mut Context, failure: Failure) -> Result<bool> {
    ctx.failure = Some(failure.clone());
    gateway.answer_failure(session, ctx, &failure).await?;
    Ok(true)
}

async fn take(
    gateway: &Gateway,
    fleet: Arc<Fleet>,
    session: &mut Session,
    ctx: &mut Context,
) -> std::result::Result<Accepted, BodyError> {
    let Some(endpoint) = Endpoint::from_path(session.req_header().uri.path()) else {
        return local(&fleet, session).map(Accepted::Answer).map_err(BodyError::Refused);
    };
    ctx.endpoint = Some(endpoint);
    if session.req_header().method != Method::POST {
        return Err(BodyError::Refused(Failure::MethodNotAllowed { allow: "POST" }));
    }
    let server = &fleet.config.server;
    let mut held = gateway.buffered.hold();
    let body = request_body::read(session.as_downstream_mut(), server, &mut held).await?;
    let job = job(fleet, endpoint, &session.req_header().headers, body, held).map_err(BodyError::Refused)?;
    Ok(Accepted::Job(Box::new(job)))
}

/// Paths that are answered without an engine.
fn local(fleet: &Fleet, session: &Session) -> std::result::Result<serde_json::Value, Failure> {
    let header = session.req_header();
    let path = header.uri.path();
    let answer = match path.strip_prefix("/v1/models").map(|rest| rest.strip_prefix('/').unwrap_or(rest)) {
        Some("") => models_list::list(fleet),
        Some(name) => models_list::card(fleet, name).ok_or_else(|| Failure::UnknownModel(name.to_owned()))?,
        None if path == "/health" || path == "/ping" => json!({ "status": "ok" }),
        None => return Err(Failure::UnknownPath(path.to_owned())),
    };
    if matches!(header.method, Method::GET | Method::HEAD) {
        Ok(answer)
    } else {
        Err(Failure::MethodNotAllowed { allow: "GET" })
    }
}

fn job(
    fleet: Arc<Fleet>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: Bytes,
    held: Held,
) -> std::result::Result<Job, Failure> {
    let wanted = request::read(endpoint, headers, &body).map_err(Failure::BadRequest)?;
    let target = resolve(&fleet, &wanted)?;
    let profile = profile(&fleet, &target, headers)?;
    let prefix_blocks = if profile.uses_prefix() {
        wanted.prefix_blocks(&body, xxhash_rust::xxh3::xxh3_64(target.wire_name().as_bytes()))
    } else {
        PrefixBlocks::new()
    };
    Ok(Job { fleet, target, profile, wanted, body, _held: held, prefix_blocks })
}

/// Whom the request means: its model, and the adapter named beside it.
pub(super) fn resolve(fleet: &Fleet, wanted: &Wanted) -> std::result::Result<Target, Failure> {
    let target = match &wanted.model {
        Some(name) => fleet.resolve(name.whole()).ok_or_else(|| Failure::UnknownModel(name.whole().to_owned()))?,
        None => fleet.default_model().cloned().ok_or(Failure::NoModel)?,
    };
    match &wanted.adapter {
        Some(adapter) => target.with_adapter(adapter).ok_or_else(|| Failure::UnknownModel(adapter.to_string())),
        None => Ok(target),
    }
}

fn profile(fleet: &Fleet, target: &Target, headers: &HeaderMap) -> std::result::Result<Arc<Profile>, Failure> {
    let Some(value) = headers.get(PROFILE_HEADER) else { return Ok(target.model.profile.clone()) };
    let name = String::from_utf8_lossy(value.as_bytes());
    fleet.config.profiles.get(name.as_ref()).cloned().ok_or_else(|| Failure::UnknownProfile(name.into_owned()))
}
