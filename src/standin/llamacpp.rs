//! The second dialect: llama.cpp's `llama-server` b11434. Adapters are those of the start, chosen per request by id; the
//! model name is ignored; health is fine whatever happens. `/v1/responses` and `/v1/messages` keep vLLM's shapes.

use super::adapter_routes::entry;
use super::answer::{Answer, Api, Extent};
use super::ask::{self, Ask};
use super::engine_core::Core;
use super::generate::{self, Arrival, refuse_on_order};
use super::generation::{Job, Manner};
use super::lora::Adapter;
use super::metrics;
use super::options::HeadSent;
use super::reply::{Body, Refusal, ok};
use super::route::metrics_or_failure;
use super::seats::Name;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SERVER};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Answer one request.
pub(super) async fn answer(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let core = &arrival.core;
    match (arrival.parts.method.as_str(), arrival.path()) {
        ("GET", "/health" | "/v1/health") => Ok(ok(&json!({"status": "ok"}))),
        ("GET", "/v1/models" | "/models") => Ok(ok(&models(core))),
        ("GET", "/props") => {
            Ok(ok(&json!({"total_slots": core.options.max_running, "model_path": core.options.model})))
        }
        ("GET", "/slots") => slots(arrival),
        ("GET", "/metrics") => metrics_or_failure(core, metrics::llamacpp),
        ("GET", "/lora-adapters") => Ok(ok(&adapters(core))),
        ("POST", "/lora-adapters") => set_scales(arrival),
        ("POST", "/tokenize") => tokenize(arrival),
        ("POST", path) => match generate::api(path) {
            Some(Api::Chat) => generation(arrival, Api::LlamaCppChat).await,
            Some(api) => generation(arrival, api).await,
            None => Err(not_found()),
        },
        _ => Err(not_found()),
    }
}

fn not_found() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "not_found_error", "File Not Found")
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
}

/// The headers of every answer.
pub(super) fn stamp(arrival: &Arrival, headers: &mut HeaderMap) {
    headers.insert(SERVER, HeaderValue::from_static("llama.cpp"));
    headers.insert(HeaderName::from_static("access-control-allow-origin"), HeaderValue::from_static(""));
    if arrival.header("connection").is_none_or(|wish| !wish.eq_ignore_ascii_case("close")) {
        headers.insert(HeaderName::from_static("keep-alive"), HeaderValue::from_static("timeout=5, max=100"));
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    if kind.starts_with("text/event-stream") {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    } else if kind == "application/json" {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    }
}

/// Adapters are not listed here.
fn models(core: &Core) -> Value {
    let model = &core.options.model;
    let mut entry = entry(model, 0, model, Value::Null, Value::Null);
    if let Some(fields) = entry.as_object_mut() {
        fields.retain(|name, _| matches!(name.as_str(), "id" | "object" | "created" | "owned_by"));
        fields.insert("owned_by".into(), "llamacpp".into());
        fields.insert("meta".into(), json!({"n_ctx": core.options.max_model_len}));
    }
    json!({"object": "list", "data": [entry]})
}

fn slots(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let core = &arrival.core;
    let (busy, all) = (core.seats.gauges().running, core.options.max_running);
    if busy >= all && arrival.parts.uri.query().is_some_and(|query| query.contains("fail_on_no_slot=1")) {
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", "no slot available"));
    }
    let slot = |id: usize| json!({"id": id, "n_ctx": core.options.max_model_len, "speculative": false, "is_processing": id < busy});
    Ok(ok(&(0..all).map(slot).collect()))
}

fn adapters(core: &Core) -> Value {
    let scales = core.scales.lock();
    let one = |(id, (adapter, scale)): (usize, (&super::options::StartAdapter, &f64))| json!({"id": id, "path": adapter.path, "scale": scale, "task_name": "", "prompt_prefix": ""});
    core.options.adapters.iter().zip(scales.iter()).enumerate().map(one).collect()
}

/// Those named get their scale, all others 0; unknown ids are passed over.
fn set_scales(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let Ok(Value::Array(wanted)) = serde_json::from_slice(&arrival.body) else {
        return Err(bad("Request body must be an array"));
    };
    let mut scales = arrival.core.scales.lock();
    scales.fill(0.0);
    for (id, scale) in wanted.iter().filter_map(id_and_scale) {
        if let Some(known) = scales.get_mut(id) {
            *known = scale;
        }
    }
    Ok(ok(&json!({"success": true})))
}

fn id_and_scale(wanted: &Value) -> Option<(usize, f64)> {
    let id = wanted.get("id")?.as_u64()?;
    Some((usize::try_from(id).ok()?, wanted.get("scale")?.as_f64()?))
}

fn tokenize(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let tokens: Vec<u64> = (1..=ask::prompt_tokens(&json(arrival)?)).collect();
    Ok(ok(&json!({"tokens": tokens})))
}

fn json(arrival: &Arrival) -> Result<Value, Refusal> {
    serde_json::from_slice(&arrival.body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        bad(format!("[json.exception.parse_error.101] parse error at line {line}, column {column}: {error}"))
    })
}

async fn generation(arrival: &Arrival, api: Api) -> Result<Response<Body>, Refusal> {
    let body = json(arrival)?;
    let ask = Ask::of(&body);
    arrival.visit.asked_for(ask.model.as_deref());
    refuse_on_order(&arrival.core)?;
    if matches!(api, Api::LlamaCppChat | Api::Messages) && body.get("messages").is_none() {
        return Err(bad("'messages' is required"));
    }
    let job = job(arrival, api, &ask, chosen(&arrival.core, &body)?)?;
    job.answer(Manner::of(&ask, HeadSent::WithFirstToken)).await
}

/// The adapter that the request chooses, or the one that is on for all; an unknown id is silently the base model.
fn chosen(core: &Core, body: &Value) -> Result<Option<Adapter>, Refusal> {
    let id = match body.get("lora") {
        None => core.scales.lock().iter().position(|scale| *scale > 0.0),
        Some(Value::Array(wanted)) => {
            wanted.iter().filter_map(id_and_scale).find(|(_, scale)| *scale > 0.0).map(|(id, _)| id)
        }
        Some(_) => {
            return Err(bad("Field 'lora': Error: 'lora' must be an array of objects with 'id' and 'scale' fields"));
        }
    };
    let adapter = id.and_then(|id| core.options.adapters.get(id));
    Ok(adapter.and_then(|adapter| core.adapters.find(&adapter.name)))
}

fn job(arrival: &Arrival, api: Api, ask: &Ask, adapter: Option<Adapter>) -> Result<Job, Refusal> {
    let core = &arrival.core;
    let name = adapter.as_ref().map(|adapter| &*adapter.name);
    let answer = Answer::new(core, api, core.fresh_id(), core.options.model.clone(), name, extent(core, ask)?);
    Ok(Job {
        core: Arc::clone(core),
        wire: Arc::clone(&arrival.wire),
        visit: Arc::clone(&arrival.visit),
        answer,
        // Requests with different adapters, or with and without, do not share a batch.
        batch: Some(name.map_or_else(|| Name::from(""), Name::from)),
        adapter,
    })
}

fn extent(core: &Core, ask: &Ask) -> Result<Extent, Refusal> {
    let (prompt, limit) = (ask.prompt_tokens, core.options.max_model_len);
    if prompt >= limit {
        let message =
            format!("request ({prompt} tokens) exceeds the available context size ({limit} tokens), try increasing it");
        return Err(Refusal { more: vec![("n_prompt_tokens", prompt), ("n_ctx", limit)], ..bad(message) });
    }
    let max_tokens = ask.max_tokens.clamp(1, limit - prompt);
    Ok(Extent { prompt_tokens: prompt, max_tokens, include_usage: ask.include_usage })
}
