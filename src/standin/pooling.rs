//! Answers that generate nothing: embeddings, scores, classes, tokens, and speech. Their shapes are those of vLLM's
//! documentation; only `/tokenize`, `/detokenize` and `count_tokens` were recorded. The numbers mean nothing.

use super::ask;
use super::engine_core::Core;
use super::generate::{Arrival, refuse_on_order, resolve};
use super::generation::prefill_only;
use super::reply::{Body, Refusal, ok};
use http::Response;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

/// Dimensions of an embedding.
const DIMENSIONS: u64 = 8;

/// Most token ids that `/tokenize` lists.
const LISTED_TOKENS: u64 = 4_096;

/// Answer a request of one of these paths.
pub(super) async fn answer(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    if arrival.path().starts_with("/v1/audio/") {
        return speech(arrival).await;
    }
    let body = ask::json(&arrival.parts.headers, &arrival.body)?;
    arrival.visit.asked_for(ask::model(&body));
    refuse_on_order(&arrival.core)?;
    let adapter = resolve(&arrival.core, ask::model(&body))?;
    let tokens = ask::prompt_tokens(&body);
    if let Some(counted) = counted(&arrival.core, arrival.path(), tokens) {
        return Ok(ok(&counted));
    }
    prefill_only(&arrival.core, adapter.as_ref(), tokens).await?;
    let model = ask::model(&body).unwrap_or(&arrival.core.options.model).to_owned();
    Ok(ok(&pooled(arrival, &body, &model, tokens)))
}

/// What needs no seat.
fn counted(core: &Core, path: &str, tokens: u64) -> Option<Value> {
    match path {
        "/tokenize" => {
            let ids: Vec<u64> = (1..=tokens.min(LISTED_TOKENS)).collect();
            let limit = core.options.max_model_len;
            Some(json!({"count": tokens, "max_model_len": limit, "tokens": ids, "token_strs": null}))
        }
        "/detokenize" => Some(json!({"prompt": format!("stand-in {}", core.options.name)})),
        "/v1/messages/count_tokens" => {
            Some(json!({"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}}))
        }
        _ => None,
    }
}

fn pooled(arrival: &Arrival, body: &Value, model: &str, tokens: u64) -> Value {
    let id = arrival.answer_id();
    let (prefix, data) = match arrival.path() {
        "/v1/embeddings" => ("embd", each(body, "input", embedding)),
        "/pooling" => ("pool", each(body, "input", pooling)),
        "/classify" => ("classify", each(body, "input", class)),
        "/v1/rerank" | "/rerank" => return ranking(&id, model, tokens, each(body, "documents", rank)),
        _ => ("score", each(body, "text_2", score)),
    };
    json!({
        "id": format!("{prefix}-{id}"), "object": "list", "created": super::clock::unix_whole_seconds(),
        "model": model, "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0},
    })
}

fn ranking(id: &str, model: &str, tokens: u64, results: Vec<Value>) -> Value {
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    json!({"id": format!("rerank-{id}"), "model": model, "usage": usage, "results": results})
}

fn embedding(index: usize, item: &Value) -> Value {
    json!({"index": index, "object": "embedding", "embedding": vector(item)})
}

fn pooling(index: usize, item: &Value) -> Value {
    json!({"index": index, "object": "pooling", "data": vector(item)})
}

fn class(index: usize, item: &Value) -> Value {
    let share = number(item, 0).abs();
    json!({"index": index, "label": "LABEL_0", "probs": [share, 1.0 - share], "num_classes": 2})
}

fn rank(index: usize, item: &Value) -> Value {
    json!({"index": index, "document": {"text": item}, "relevance_score": number(item, 0).abs()})
}

fn score(index: usize, item: &Value) -> Value {
    json!({"index": index, "object": "score", "score": number(item, 0).abs()})
}

/// One result for each item of a field; a field that is no list is one item.
fn each(body: &Value, field: &str, result: impl Fn(usize, &Value) -> Value) -> Vec<Value> {
    match body.get(field) {
        Some(Value::Array(items)) => items.iter().enumerate().map(|(index, item)| result(index, item)).collect(),
        Some(item) => vec![result(0, item)],
        None => Vec::new(),
    }
}

fn vector(item: &Value) -> Vec<f64> {
    (0..DIMENSIONS).map(|dimension| number(item, dimension)).collect()
}

/// A number in [-1, 1) that depends on nothing but the text.
fn number(item: &Value, dimension: u64) -> f64 {
    let hash = xxh3_64(item.to_string().as_bytes()).rotate_left((dimension * 7 % 64) as u32);
    #[expect(clippy::cast_precision_loss, reason = "20 bits fit")]
    let unit = (hash & 0xf_ffff) as f64 / f64::from(0x10_0000);
    unit * 2.0 - 1.0
}

/// Multipart: the model is a form field.
async fn speech(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let model = ask::model_of_form(&arrival.body);
    arrival.visit.asked_for(model.as_deref());
    refuse_on_order(&arrival.core)?;
    let adapter = resolve(&arrival.core, model.as_deref())?;
    prefill_only(&arrival.core, adapter.as_ref(), 1).await?;
    let options = &arrival.core.options;
    let text = format!("stand-in {}, model {}", options.name, model.as_deref().unwrap_or(&options.model));
    Ok(ok(&json!({"text": text, "usage": {"type": "duration", "seconds": 1}})))
}
