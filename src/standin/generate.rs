//! From a request for generation to its job: checks in vLLM's order and words, then stream or document.

use super::adapter_routes;
use super::answer::{Answer, Api, Extent};
use super::ask::{self, Ask};
use super::engine_core::Core;
use super::generation::{Job, Manner};
use super::journal::Visit;
use super::lora::Adapter;
use super::misbehave::Misbehaviour;
use super::reply::{Body, Refusal};
use super::route::insert;
use super::server::Wire;
use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;

/// A request with its whole body.
pub(super) struct Arrival {
    pub(super) core: Arc<Core>,
    pub(super) wire: Arc<Wire>,
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    pub(super) visit: Arc<Visit>,
}

impl Arrival {
    pub(super) fn path(&self) -> &str {
        self.parts.uri.path()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// What the answer's id is made of: the request's own id, if it has one.
    pub(super) fn answer_id(&self) -> String {
        self.header("x-request-id").map_or_else(|| self.core.fresh_id(), str::to_owned)
    }
}

/// The API of a generating path.
pub(super) fn api(path: &str) -> Option<Api> {
    match path {
        "/v1/chat/completions" => Some(Api::Chat),
        "/v1/completions" => Some(Api::Completion),
        "/v1/responses" => Some(Api::Responses),
        "/v1/messages" => Some(Api::Messages),
        _ => None,
    }
}

/// Generate as vLLM does.
pub(super) async fn vllm(arrival: &Arrival, api: Api) -> Result<Response<Body>, Refusal> {
    let core = &arrival.core;
    let body = ask::json(&arrival.parts.headers, &arrival.body)?;
    let ask = Ask::of(&body);
    arrival.visit.asked_for(ask.model.as_deref());
    refuse_on_order(core)?;
    require(api, &body)?;
    let adapter = resolve(core, ask.model.as_deref())?;
    let manner = Manner::of(&ask, core.options.head_sent);
    let mut response = job(arrival, api, &ask, adapter)?.answer(manner).await?;
    if manner == Manner::Whole {
        add_load_report(arrival, &mut response);
    }
    Ok(response)
}

/// The refusals that a misbehaving or dead engine gives whatever was asked.
pub(super) fn refuse_on_order(core: &Core) -> Result<(), Refusal> {
    match core.misbehaves() {
        Misbehaviour::Answer { status } => Err(Refusal::ordered(status)),
        _ if core.is_dead() => Err(Refusal::dead_core()),
        _ => Ok(()),
    }
}

fn require(api: Api, body: &Value) -> Result<(), Refusal> {
    let name = match api {
        Api::Chat | Api::Messages | Api::LlamaCppChat => "messages",
        Api::Completion => "prompt",
        Api::Responses => "input",
    };
    match body.get(name) {
        None => Err(adapter_routes::missing(body, name)),
        Some(Value::Array(_)) => Ok(()),
        Some(_) if name != "messages" => Ok(()),
        Some(other) => {
            let input = other.as_str().map_or_else(|| other.to_string(), |text| format!("'{text}'"));
            Err(Refusal::invalid("list_type", "body.messages", "Input should be a valid list", &input))
        }
    }
}

/// The adapter of that name; `None` is the base model, which also answers for no name at all.
pub(super) fn resolve(core: &Core, model: Option<&str>) -> Result<Option<Adapter>, Refusal> {
    match model {
        None => Ok(None),
        Some(model) if model == core.options.model => Ok(None),
        Some(model) => match core.adapters.find(model) {
            Some(adapter) => Ok(Some(adapter)),
            None => {
                let message = format!("The model `{model}` does not exist. Valid aliases: {}.", core.options.model);
                Err(Refusal::new(StatusCode::NOT_FOUND, "NotFoundError", message).about("model"))
            }
        },
    }
}

fn job(arrival: &Arrival, api: Api, ask: &Ask, adapter: Option<Adapter>) -> Result<Job, Refusal> {
    let core = &arrival.core;
    let model = adapter.as_ref().map_or(core.options.model.as_str(), |adapter| &adapter.name).to_owned();
    let name = adapter.as_ref().map(|adapter| &*adapter.name);
    let answer = Answer::new(core, api, arrival.answer_id(), model, name, extent(core, ask)?);
    Ok(Job {
        core: Arc::clone(core),
        wire: Arc::clone(&arrival.wire),
        visit: Arc::clone(&arrival.visit),
        answer,
        batch: adapter.as_ref().map(|adapter| Arc::clone(&adapter.name)),
        adapter,
    })
}

/// What fits into the context, or vLLM's words for what does not.
fn extent(core: &Core, ask: &Ask) -> Result<Extent, Refusal> {
    let limit = core.options.max_model_len;
    let refuse = |param: &str, message: String| {
        Err(Refusal::new(StatusCode::BAD_REQUEST, "BadRequestError", message).about(param))
    };
    if ask.max_tokens > limit {
        let asked = ask.max_tokens;
        return refuse(
            "max_tokens",
            format!(
                "max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens. (parameter=max_tokens, value={asked})"
            ),
        );
    }
    if ask.max_tokens == 0 {
        return refuse("max_tokens", "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)".into());
    }
    if ask.prompt_tokens >= limit {
        let found = limit + 1;
        return refuse(
            "input_tokens",
            format!(
                "This model's maximum context length is {limit} tokens. However, your prompt contains at least {found} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={found})"
            ),
        );
    }
    let max_tokens = ask.max_tokens.min(limit - ask.prompt_tokens);
    Ok(Extent { prompt_tokens: ask.prompt_tokens, max_tokens, include_usage: ask.include_usage })
}

/// ORCA: how loaded the engine is, in a header of answers that are not streamed.
fn add_load_report(arrival: &Arrival, response: &mut Response<Body>) {
    let Some(format) = arrival.header("endpoint-load-metrics-format") else { return };
    let gauges = arrival.core.seats.gauges();
    let (waiting, kv) = (gauges.capacity + gauges.deferred, gauges.kv);
    let report = match format {
        "TEXT" => {
            format!("TEXT named_metrics.num_requests_waiting={waiting}.0, named_metrics.kv_cache_usage_perc={kv:?}")
        }
        "JSON" => format!(
            r#"JSON {{"named_metrics": {{"num_requests_waiting": {waiting}.0, "kv_cache_usage_perc": {kv:?}}}}}"#
        ),
        _ => return,
    };
    insert(response.headers_mut(), "endpoint-load-metrics", &report);
}
