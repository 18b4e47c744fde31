//! vLLM's routes for adapters: load, unload, their SageMaker aliases, and the list of models.

use super::ask;
use super::engine_core::Core;
use super::generate::Arrival;
use super::lora::OnDuplicate;
use super::misbehave::Misbehaviour;
use super::reply::{Body, Refusal, bare};
use http::{Response, StatusCode};
use serde_json::{Value, json};

/// `POST /v1/load_lora_adapter`.
pub(super) async fn load(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let body = ask::json(&arrival.parts.headers, &arrival.body)?;
    let (name, path) = (field(&body, "lora_name")?, field(&body, "lora_path")?);
    let on_duplicate = match body.get("load_inplace").and_then(Value::as_bool) {
        Some(true) => OnDuplicate::Replace,
        _ => OnDuplicate::Refuse,
    };
    load_as(&arrival.core, name, path, on_duplicate).await?;
    Ok(bare(StatusCode::OK, format!("Success: LoRA adapter '{name}' added successfully.")))
}

/// `POST /adapters`.
pub(super) async fn load_by_alias(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let body = ask::json(&arrival.parts.headers, &arrival.body)?;
    let (name, path) = (field(&body, "name")?, field(&body, "src")?);
    load_as(&arrival.core, name, path, OnDuplicate::Refuse).await?;
    Ok(bare(StatusCode::OK, format!("Adapter {name} registered")))
}

async fn load_as(core: &Core, name: &str, path: &str, on_duplicate: OnDuplicate) -> Result<(), Refusal> {
    if let Misbehaviour::FailLoads { status } = core.misbehaves() {
        return Err(Refusal::ordered(status));
    }
    core.adapters.check(name, path, on_duplicate)?;
    core.pause(core.options.adapter_load + core.misbehaves().load_delay()).await;
    // Another load of the same name may have come first meanwhile.
    core.adapters.check(name, path, on_duplicate)?;
    core.adapters.register(name, path);
    Ok(())
}

/// `POST /v1/unload_lora_adapter`.
pub(super) fn unload(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let body = ask::json(&arrival.parts.headers, &arrival.body)?;
    let name = field(&body, "lora_name")?;
    arrival.core.adapters.unload(name)?;
    Ok(bare(StatusCode::OK, format!("Success: LoRA adapter '{name}' removed successfully.")))
}

/// `DELETE /adapters/NAME`.
pub(super) fn unload_by_alias(arrival: &Arrival) -> Result<Response<Body>, Refusal> {
    let name = arrival.path().trim_start_matches("/adapters/");
    arrival.core.adapters.unload(name)?;
    Ok(bare(StatusCode::OK, format!("Adapter {name} unregistered")))
}

fn field<'a>(body: &'a Value, name: &str) -> Result<&'a str, Refusal> {
    let loc = format!("body.{name}");
    match body.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(Refusal::invalid("string_type", &loc, "Input should be a valid string", &other.to_string())),
        None => Err(missing(body, name)),
    }
}

/// vLLM's words for a required field that is not there.
pub(super) fn missing(body: &Value, name: &str) -> Refusal {
    let items = body.as_object().map_or(0, serde_json::Map::len);
    Refusal::invalid("missing", &format!("body.{name}"), "Field required", &format!("'<dict of {items} items>'"))
}

/// `GET /v1/models`: the base model and the registered adapters.
pub(super) fn list(core: &Core) -> Value {
    let parent = Value::from(core.options.model.as_str());
    let adapters = core.adapters.registered();
    let adapters = adapters
        .iter()
        .map(|adapter| entry(&adapter.name, adapter.created, &adapter.path, parent.clone(), Value::Null));
    let data: Vec<Value> = std::iter::once(core.base_entry()).chain(adapters).collect();
    json!({"object": "list", "data": data})
}

/// One model of the list.
pub(super) fn entry(id: &str, created: u64, root: &str, parent: Value, max_model_len: Value) -> Value {
    let permission = json!({
        "id": format!("modelperm-{id}"), "object": "model_permission", "created": created,
        "allow_create_engine": false, "allow_sampling": true, "allow_logprobs": true, "allow_search_indices": false,
        "allow_view": true, "allow_fine_tuning": false, "organization": "*", "group": null, "is_blocking": false,
    });
    json!({
        "id": id, "object": "model", "created": created, "owned_by": "vllm", "root": root, "parent": parent,
        "max_model_len": max_model_len, "permission": [permission],
    })
}
