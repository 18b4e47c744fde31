//! What the engines speak: the only room with vLLM's and llama.cpp's wire names.

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
    /// The engine's limit of distinct adapters that run at once.
    pub max_loras: Option<u32>,
}
