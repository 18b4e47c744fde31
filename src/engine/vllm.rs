//! vLLM's control plane: metrics, the list of models, loading and unloading of adapters.
//!
//! Outcomes are told from the codes and texts recorded from vLLM 0.32.0. It never decides whether to load.

use super::{
    Readout,
    client::{CallError, Client},
    metrics_text,
};
use serde::Deserialize;
use serde_json::json;

/// A vLLM server. It keeps nothing.
#[derive(Debug)]
pub struct Vllm;

/// One entry of the list of models.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Model {
    /// The name by which requests ask for it.
    pub id: String,
    /// The path it was loaded from.
    pub root: Option<String>,
    /// The base model when this is an adapter; `None` for a base model.
    pub parent: Option<String>,
}

/// What became of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// It is registered now.
    Loaded,
    /// The name was registered before, perhaps with another path: check the list's root before adopting it.
    AlreadyLoaded,
    /// No adapter at that path.
    NotFound(String),
    /// Its rank is above the engine's `max_lora_rank`.
    RankTooHigh(String),
    /// The name is that of a served base model.
    BaseNameConflict,
    /// The server was started without `VLLM_ALLOW_RUNTIME_LORA_UPDATING`: it has no such route.
    RuntimeLoadingDisabled,
    /// Refused for another reason.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The engine's words.
        reason: String,
    },
    /// No connection, or it broke: whether the adapter is loaded is then unknown.
    Unreachable(String),
    /// No answer in time: whether the adapter is loaded is unknown.
    TimedOut,
}

/// What became of an unload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unload {
    /// The name is gone; requests that run on it end normally.
    Unloaded,
    /// The name was not registered.
    NotLoaded,
    /// The server has no such route (see [`Load::RuntimeLoadingDisabled`]).
    RuntimeLoadingDisabled,
    /// Any other failure.
    Failed(CallError),
}

impl Vllm {
    /// Reads the load figures once.
    pub async fn readout(&self, client: &Client, address: &str) -> Result<Readout, CallError> {
        Ok(metrics_text::parse(&client.get(address, "/metrics").await?))
    }

    /// Base models and registered adapters. Registered does not mean resident in memory.
    pub async fn models(&self, client: &Client, address: &str) -> Result<Vec<Model>, CallError> {
        #[derive(Deserialize)]
        struct List {
            data: Vec<Model>,
        }
        let body = client.get(address, "/v1/models").await?;
        let list: List = serde_json::from_slice(&body).map_err(|e| CallError::BadBody(e.to_string()))?;
        Ok(list.data)
    }

    /// Registers the adapter at `path` (as the engine sees it) under `name`.
    pub async fn load_adapter(&self, client: &Client, address: &str, name: &str, path: &str) -> Load {
        let body = json!({"lora_name": name, "lora_path": path}).to_string();
        match client.post(address, "/v1/load_lora_adapter", body).await {
            Ok(_) => Load::Loaded,
            Err(CallError::TimedOut) => Load::TimedOut,
            Err(CallError::Status { status, message }) => load_refusal(status, message),
            Err(CallError::Refused(why) | CallError::BadBody(why)) => Load::Unreachable(why),
        }
    }

    /// Removes `name`.
    pub async fn unload_adapter(&self, client: &Client, address: &str, name: &str) -> Unload {
        let body = json!({ "lora_name": name }).to_string();
        match client.post(address, "/v1/unload_lora_adapter", body).await {
            Ok(_) => Unload::Unloaded,
            Err(CallError::Status { status: 404, message }) if message == "Not Found" => Unload::RuntimeLoadingDisabled,
            Err(CallError::Status { status: 404, .. }) => Unload::NotLoaded,
            Err(other) => Unload::Failed(other),
        }
    }
}

fn load_refusal(status: u16, reason: String) -> Load {
    match status {
        400 if reason.contains("has already been loaded") => Load::AlreadyLoaded,
        400 if reason.contains("conflicts with a served base model") => Load::BaseNameConflict,
        404 if reason == "Not Found" => Load::RuntimeLoadingDisabled,
        404 if reason.contains("No adapter found") => Load::NotFound(reason),
        500 if reason.contains("is greater than max_lora_rank") => Load::RankTooHigh(reason),
        _ => Load::Refused { status, reason },
    }
}
