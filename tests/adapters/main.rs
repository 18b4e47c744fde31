//! LoRA residency over the wire: the real binary before stand-in engines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod failures;
mod files;
mod loads;

use harness::{CHAT, Pointsman};
use pointsman::standin::{Options, StandIn};
use serde_json::{Value, json};
use std::time::Duration;

async fn engine(options: Options) -> StandIn {
    StandIn::start(Options { max_loras: 64, max_cpu_loras: 64, ..options }).await.unwrap()
}

async fn engines(count: usize, adapter_load: Duration) -> Vec<StandIn> {
    let mut engines = Vec::new();
    for number in 0..count {
        engines.push(engine(Options { name: format!("r{number}"), adapter_load, ..Options::fast() }).await);
    }
    engines
}

/// One model with adapters a, b, c, ... and `slots` on each replica.
fn config(engines: &[StandIn], adapters: &[&str], slots: usize) -> Value {
    let replicas: Vec<_> = engines.iter().map(|engine| json!({ "url": engine.url() })).collect();
    let adapters: Vec<_> =
        adapters.iter().map(|name| json!({ "name": name, "path": format!("standin:{name}") })).collect();
    json!({
        "models": [{
            "name": "base", "engine": "vllm", "max_loaded_adapters": slots, "adapters": adapters,
            "pools": [{ "name": "edge", "replicas": replicas }],
        }],
    })
}

fn ask(model: &str) -> Value {
    json!({ "model": model, "max_tokens": 4, "messages": [{ "role": "user", "content": "Hello" }] })
}

fn loads(engines: &[StandIn]) -> u64 {
    engines.iter().map(|engine| engine.stats().loads).sum()
}

/// Names of the chat requests that an engine got, in order.
fn asked(engine: &StandIn) -> Vec<String> {
    let chats = engine.requests().into_iter().filter(|request| request.path == CHAT);
    chats.filter_map(|request| request.model).collect()
}

/// The state of an adapter on the replica at this position.
async fn state(pointsman: &Pointsman, replica: usize, adapter: &str) -> String {
    let status = pointsman.status().await;
    let cells = status["models"][0]["residency"]["replicas"][replica]["adapters"].as_array().unwrap().clone();
    let cell = cells.into_iter().find(|cell| cell["adapter"] == adapter);
    cell.map_or("absent".to_owned(), |cell| cell["state"].as_str().unwrap().to_owned())
}

async fn residency(pointsman: &Pointsman) -> Value {
    pointsman.status().await["models"][0]["residency"].clone()
}
