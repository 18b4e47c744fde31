//! Which request goes where, in vLLM's routes; what every answer carries; and the stand-in's own routes.

use super::engine_core::Core;
use super::generate::{self, Arrival};
use super::journal::Visit;
use super::misbehave::{Misbehaviour, Order};
use super::options::Dialect;
use super::reply::{Body, Refusal, Tongue, bare, json_reply, ok, text};
use super::server::Wire;
use super::{adapter_routes, llamacpp, metrics, pooling};
use bytes::Bytes;
use http::header::{ALLOW, HeaderMap, HeaderName, HeaderValue, SERVER, VARY};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Answer one request.
pub(super) async fn answer(
    core: Arc<Core>,
    wire: Arc<Wire>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return Ok(bare(StatusCode::BAD_REQUEST, "")) };
    let body = body.to_bytes();
    let visit = core.journal.enter(&parts, &body);
    core.while_it(|now| *now == Misbehaviour::Stall).await;
    let arrival = Arrival { core, wire, parts, body, visit };
    let mut response = match own_or_dialect(&arrival).await {
        Ok(response) => response,
        Err(refusal) => refusal.render(Tongue::of(arrival.core.options.dialect, arrival.path())),
    };
    stamp(&arrival, response.headers_mut());
    finish_if_whole(&response, &arrival.visit);
    Ok(response)
}

/// A stream finishes itself.
fn finish_if_whole(response: &Response<Body>, visit: &Visit) {
    if response.body().size_hint().exact().is_some() {
        visit.finish();
    }
}

async fn own_or_dialect(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    if arrival.path().starts_with("/standin/") {
        return own(arrival);
    }
    match arrival.core.options.dialect {
        Dialect::Vllm => vllm(arrival).await,
        Dialect::LlamaCpp => llamacpp::answer(arrival).await,
    }
}

/// The methods that vLLM knows for a path.
fn methods(path: &str) -> Option<&'static str> {
    Some(match path {
        "/health" | "/version" | "/load" | "/metrics" | "/kv_event_sources" | "/v1/models" => "GET",
        "/ping" => "GET, POST",
        "/v1/chat/completions" | "/v1/completions" | "/v1/embeddings" | "/v1/responses" | "/v1/messages" => "POST",
        "/v1/messages/count_tokens" | "/v1/rerank" | "/rerank" | "/v1/score" | "/score" | "/tokenize" => "POST",
        "/detokenize" | "/pooling" | "/classify" | "/v1/audio/transcriptions" | "/v1/audio/translations" => "POST",
        "/v1/load_lora_adapter" | "/v1/unload_lora_adapter" | "/adapters" => "POST",
        _ if path.strip_prefix("/adapters/").is_some_and(|name| !name.is_empty()) => "DELETE",
        _ => return None,
    })
}

async fn vllm(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let path = arrival.path();
    let Some(methods) = methods(path) else {
        return Ok(json_reply(StatusCode::NOT_FOUND, &json!({"detail": "Not Found"})));
    };
    if !methods.split(", ").any(|method| method == arrival.parts.method.as_str()) {
        return Ok(wrong_method(methods));
    }
    if methods.contains("GET") {
        return told(&arrival.core, path);
    }
    match path {
        "/v1/load_lora_adapter" => adapter_routes::load(arrival).await,
        "/v1/unload_lora_adapter" => adapter_routes::unload(arrival),
        "/adapters" => adapter_routes::load_by_alias(arrival).await,
        _ if arrival.parts.method == Method::DELETE => adapter_routes::unload_by_alias(arrival),
        _ => match generate::api(path) {
            Some(api) => generate::vllm(arrival, api).await,
            None => pooling::answer(arrival).await,
        },
    }
}

fn wrong_method(methods: &'static str) -> Response<Body> {
    let mut response = json_reply(StatusCode::METHOD_NOT_ALLOWED, &json!({"detail": "Method Not Allowed"}));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// What the engine tells about itself.
fn told(core: &Core, path: &str) -> Result<Response<Body>, Refusal> {
    match path {
        "/version" => Ok(ok(&json!({"version": "0.32.0"}))),
        "/load" => Ok(ok(&json!({"server_load": 0}))),
        "/kv_event_sources" => Ok(ok(&json!({}))),
        "/v1/models" => Ok(ok(&adapter_routes::list(core))),
        "/metrics" => metrics_or_failure(core, metrics::vllm),
        _ if core.is_dead() => Ok(bare(StatusCode::SERVICE_UNAVAILABLE, "")),
        _ => Ok(bare(StatusCode::OK, "")),
    }
}

/// The metrics, unless they are to fail.
pub(super) fn metrics_or_failure(core: &Core, write: fn(&Core) -> String) -> Result<Response<Body>, Refusal> {
    match core.misbehaves() {
        Misbehaviour::FailMetrics { status } => Err(Refusal::ordered(status)),
        _ => Ok(text("text/plain; version=0.0.4; charset=utf-8", write(core))),
    }
}

/// The stand-in's own routes: `/standin/misbehave`, `/standin/requests`, `/standin/stats`.
fn own(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let core = &arrival.core;
    match (&arrival.parts.method, arrival.path()) {
        (&Method::GET, "/standin/requests") => Ok(ok(&json!(core.journal.requests()))),
        (&Method::GET, "/standin/stats") => Ok(ok(&json!(core.stats()))),
        (&Method::POST, "/standin/misbehave") => {
            let order: Order = serde_json::from_slice(&arrival.body)
                .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, "BadRequestError", error.to_string()))?;
            carry_out(core, &order);
            Ok(ok(&json!(order.misbehaviour)))
        }
        _ => Ok(json_reply(StatusCode::NOT_FOUND, &json!({"detail": "Not Found"}))),
    }
}

fn carry_out(core: &Arc<Core>, order: &Order) {
    core.misbehave(order.misbehaviour);
    if let Some(ms) = order.for_ms {
        let (core, misbehaviour) = (Arc::clone(core), order.misbehaviour);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            core.forgive(misbehaviour);
        });
    }
}

/// The headers of every answer, and the echoes that the request asks for: `x-standin-echo: a, b` returns those request
/// headers as `x-standin-echo-a`; `x-standin-digest: 1` returns length and xxh3 of the body received.
fn stamp(arrival: &Arrival, headers: &mut HeaderMap) {
    let core = &arrival.core;
    match core.options.dialect {
        Dialect::Vllm => {
            headers.insert(SERVER, HeaderValue::from_static("uvicorn"));
            headers.insert(VARY, HeaderValue::from_static("Origin"));
        }
        Dialect::LlamaCpp => llamacpp::stamp(arrival, headers),
    }
    insert(headers, "x-standin", &core.options.name);
    if arrival.parts.headers.contains_key("x-standin-digest") {
        let digest = xxhash_rust::xxh3::xxh3_64(&arrival.body);
        insert(headers, "x-standin-body-xxh3", &format!("{digest:016x}"));
        insert(headers, "x-standin-body-length", &arrival.body.len().to_string());
    }
    if let Some(wanted) = arrival.header("x-standin-echo") {
        echo(wanted, &arrival.parts.headers, headers);
    }
}

fn echo(wanted: &str, received: &HeaderMap, headers: &mut HeaderMap) {
    for name in wanted.split(',').map(str::trim) {
        let echoed = HeaderName::try_from(format!("x-standin-echo-{name}"));
        if let (Some(value), Ok(echoed)) = (received.get(name), echoed) {
            headers.insert(echoed, value.clone());
        }
    }
}

/// Insert a header, unless its value cannot be one.
pub(super) fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::copy_from_slice(value.as_bytes())) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

impl Core {
    /// The model that vLLM's lists describe first.
    pub(super) fn base_entry(&self) -> Value {
        let limit = Value::from(self.options.max_model_len);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time since the epoch fits")]
        let created = self.start_time() as u64;
        adapter_routes::entry(&self.options.model, created, &self.options.model, Value::Null, limit)
    }
}
