//! Engines that hang, die, lie and come back, and clients that do not behave: the real binary before stand-ins.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod chaos;
mod clients;
mod metrics;
mod timeouts;

use harness::Pointsman;
use pointsman::standin::{Options, StandIn};
use serde_json::{Value, json};

async fn engines(count: usize, options: Options) -> Vec<StandIn> {
    let mut engines = Vec::new();
    for number in 0..count {
        let options = Options { name: format!("r{number}"), ..options.clone() };
        engines.push(StandIn::start(options).await.unwrap());
    }
    engines
}

fn config(engines: &[StandIn], more: Value) -> Value {
    let replicas: Vec<_> = engines.iter().map(|engine| json!({ "url": engine.url() })).collect();
    let mut config = json!({
        "admission": { "hold_unavailable": "500ms" },
        "models": [{ "name": "base", "engine": "vllm", "pools": [{ "name": "edge", "replicas": replicas }] }],
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn ask(tokens: u32) -> Value {
    json!({ "model": "base", "max_tokens": tokens, "messages": [{ "role": "user", "content": "Hello" }] })
}

fn stream(tokens: u32) -> Value {
    let mut body = ask(tokens);
    body["stream"] = json!(true);
    body
}

async fn replica(pointsman: &Pointsman, at: usize) -> Value {
    pointsman.status().await["models"][0]["pools"][0]["replicas"][at].clone()
}
