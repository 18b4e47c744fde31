//! What the engines speak: the only room with vLLM's and llama.cpp's wire names.
//!
//! Other rooms ask an [`Engine`] about one replica (`host:port`) over a shared [`client::Client`], read a proxied answer
//! with [`answer::classify`], and watch its body with [`stream_text::StreamText`]. Nothing here chooses a replica.

pub mod answer;
pub mod client;
pub mod llamacpp;
pub mod metrics_text;
pub mod stream_text;
pub mod vllm;

use client::{CallError, Client};
use serde::Deserialize;

/// Which engine a model's replicas run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// vLLM's OpenAI-compatible server; adapters can be loaded at run time.
    Vllm,
    /// llama.cpp's `llama-server`; adapters are fixed at start and chosen per request by id.
    LlamaCpp,
}

/// What one read of an engine's metrics said. A value that the engine did not give is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readout {
    /// Requests that wait for a seat (not those deferred by the engine's adapter limit).
    pub waiting: Option<f64>,
    /// Requests that wait because the engine runs its maximum of distinct adapters.
    pub deferred: Option<f64>,
    /// Requests being generated.
    pub running: Option<f64>,
    /// Share of the KV cache in use, 0 to 1.
    pub kv: Option<f64>,
    /// When the engine process started, seconds since the epoch; a change means a restart.
    pub start_time: Option<f64>,
    /// Tokens generated since the engine started: a counter that moves while the engine lives.
    pub generated_tokens: Option<f64>,
    /// Prompt tokens read since the engine started.
    pub prompt_tokens: Option<f64>,
    /// The engine's limit of distinct adapters that run at once.
    pub max_loras: Option<u32>,
    /// Adapters that run now. Says nothing about which others are resident.
    pub running_adapters: Vec<String>,
    /// Whether the engine sleeps (its weights are off the device).
    pub asleep: Option<bool>,
}

/// How to talk to one replica. Keep one per replica: llama.cpp's remembers what its server does not offer.
#[derive(Debug)]
pub enum Engine {
    /// A vLLM server.
    Vllm(vllm::Vllm),
    /// A `llama-server`.
    LlamaCpp(llamacpp::LlamaCpp),
}

impl Engine {
    /// An engine of this kind about which nothing is known yet.
    pub fn new(kind: EngineKind) -> Self {
        match kind {
            EngineKind::Vllm => Self::Vllm(vllm::Vllm),
            EngineKind::LlamaCpp => Self::LlamaCpp(llamacpp::LlamaCpp::default()),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> EngineKind {
        match self {
            Self::Vllm(_) => EngineKind::Vllm,
            Self::LlamaCpp(_) => EngineKind::LlamaCpp,
        }
    }

    /// `Ok` when the server says that it can serve.
    pub async fn health(&self, client: &Client, address: &str) -> Result<(), CallError> {
        client.get(address, "/health").await.map(drop)
    }

    /// `Ok` when it generates one token: its core works. Health alone does not tell.
    pub async fn generates(&self, client: &Client, address: &str, model: &str) -> Result<(), CallError> {
        let body = serde_json::json!({ "model": model, "prompt": "1", "max_tokens": 1 });
        client.post(address, "/v1/completions", body.to_string()).await.map(drop)
    }

    /// Reads the load figures once.
    pub async fn readout(&self, client: &Client, address: &str) -> Result<Readout, CallError> {
        match self {
            Self::Vllm(engine) => engine.readout(client, address).await,
            Self::LlamaCpp(engine) => engine.readout(client, address).await,
        }
    }
}

#[cfg(test)]
mod tests;
