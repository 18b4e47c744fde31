//! What a stand-in pretends to be: its names, limits and speeds. Plain values; nothing here acts.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Which engine's API the stand-in speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// vLLM 0.32.0.
    #[default]
    Vllm,
    /// llama.cpp's `llama-server` b11434.
    #[value(name = "llamacpp")]
    LlamaCpp,
}

/// Whether an adapter's path must lead to files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AdapterFiles {
    /// A folder with `adapter_config.json`, read at load and after an eviction; `standin:` paths need none.
    #[default]
    OnDisk,
    /// No path is looked at.
    Imagined,
}

/// When the head of a streamed answer leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum HeadSent {
    /// Once the request is accepted, before a seat is free. Assumed of vLLM: its web framework sends the head before the
    /// first event is asked for.
    #[default]
    AtOnce,
    /// Together with the first event, as llama.cpp does.
    WithFirstToken,
}

/// An adapter that is registered when the stand-in starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartAdapter {
    /// The name that requests use.
    pub name: String,
    /// Where it is loaded from.
    pub path: String,
}

/// Everything a stand-in can be told at its start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on.
    pub host: IpAddr,
    /// The port to listen on; 0 takes a free one.
    pub port: u16,
    /// The name that the answers give in `x-standin` and in their text.
    pub name: String,
    /// The name of the base model.
    pub model: String,
    /// The API to speak.
    pub dialect: Dialect,
    /// Requests generated at once.
    pub max_running: usize,
    /// Distinct adapters generated at once; requests for others are deferred.
    pub max_loras: usize,
    /// Adapters the engine keeps in memory; the least recently used one beyond is dropped and read again when used.
    pub max_cpu_loras: usize,
    /// The highest rank accepted of an adapter on disk.
    pub max_lora_rank: u64,
    /// Decode speed of one seat, tokens a second; `None` means no delay at all.
    pub tokens_per_second: Option<f64>,
    /// Prefill speed of one request, tokens a second; `None` means no delay at all.
    pub prefill_tokens_per_second: Option<f64>,
    /// How long it takes to load an adapter, also to read it again after an eviction.
    pub adapter_load: Duration,
    /// Size of the KV cache in tokens.
    pub kv_tokens: u64,
    /// Longest context in tokens.
    pub max_model_len: u64,
    /// An idle connection is closed after this long (both engines: 5 s).
    pub keep_alive: Duration,
    /// How long a stand-in whose core died still answers before it is gone (recorded: below 1 s).
    pub death_after: Duration,
    /// Adapters registered from the start.
    pub adapters: Vec<StartAdapter>,
    /// Whether adapter paths are looked at.
    pub adapter_files: AdapterFiles,
    /// When the head of a streamed answer leaves; llama.cpp's dialect always waits for the first token.
    pub head_sent: HeadSent,
    /// How many of the last requests are remembered; 0 remembers none, which is cheapest.
    pub journal: usize,
}

impl Default for Options {
    /// A small engine at human speed. The speeds are guesses; limits and time-outs follow vLLM where it has defaults.
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            name: "standin".into(),
            model: "base".into(),
            dialect: Dialect::Vllm,
            max_running: 8,
            max_loras: 4,
            max_cpu_loras: 8,
            max_lora_rank: 16,
            tokens_per_second: Some(50.0),
            prefill_tokens_per_second: Some(5_000.0),
            adapter_load: Duration::from_millis(300),
            kv_tokens: 131_072,
            max_model_len: 32_768,
            keep_alive: Duration::from_secs(5),
            death_after: Duration::from_millis(500),
            adapters: Vec::new(),
            adapter_files: AdapterFiles::OnDisk,
            head_sent: HeadSent::AtOnce,
            journal: 1_024,
        }
    }
}

impl Options {
    /// No delay anywhere, many seats, and adapter paths that need no files: for tests and benches.
    pub fn fast() -> Self {
        Self {
            max_running: 256,
            tokens_per_second: None,
            prefill_tokens_per_second: None,
            adapter_load: Duration::ZERO,
            death_after: Duration::from_millis(50),
            adapter_files: AdapterFiles::Imagined,
            ..Self::default()
        }
    }
}
