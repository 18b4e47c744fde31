//! Two llama-servers: adapters by name, though the engine knows only numbers.

use crate::chat::{self, say, say_streamed};
use crate::fleet::Fleet;
use crate::http;
use crate::pointsman::Pointsman;
use crate::replica::{Engine, adapters};
use crate::wait::until;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

const QUESTION: &str = "Which track is free?";

async fn start() -> (Fleet, Pointsman) {
    let fleet = Fleet::of(Engine::LlamaCpp).await;
    let pointsman = Pointsman::before(Engine::LlamaCpp, &fleet).await;
    (fleet, pointsman)
}

/// What the engine is asked directly. Without `lora` it would answer the base from what an adapter left in its cache.
fn direct(adapter: Option<usize>, tokens: u32) -> Value {
    let lora = json!([{"id": adapter.unwrap_or(0), "scale": if adapter.is_some() { 1.0 } else { 0.0 }}]);
    chat::with(by_name("gemma", tokens), json!({"lora": lora}))
}

/// What Pointsman is asked. No prompt cache: an adapter of random weights chooses narrowly, and a cached prompt rounds otherwise.
fn by_name(model: &str, tokens: u32) -> Value {
    chat::with(chat::request(model, QUESTION, tokens), json!({"cache_prompt": false}))
}

#[tokio::test]
async fn the_kit_each_adapter_has_an_answer_of_its_own_that_is_the_same_on_both_replicas() {
    let fleet = Fleet::of(Engine::LlamaCpp).await;
    let mut answers = HashSet::new();
    for adapter in [None, Some(0), Some(1), Some(2)] {
        let answer = say(fleet[0].address, &direct(adapter, 12)).await;
        assert_eq!(say(fleet[1].address, &direct(adapter, 12)).await, answer);
        assert!(answers.insert(answer), "{adapter:?} answers as another");
    }
}

#[tokio::test]
async fn a_chat_is_answered_as_by_the_engine_streamed_or_not() {
    let (fleet, pointsman) = start().await;
    let answer = say(fleet[0].address, &direct(None, 12)).await;
    assert_eq!(say(pointsman.clients, &by_name("gemma", 12)).await, answer);
    let (text, pieces) = say_streamed(pointsman.clients, &chat::streamed(by_name("gpt-4o-mini", 12))).await;
    assert_eq!(text, answer);
    assert!(pieces >= 8, "{pieces} pieces for 12 tokens");
}

#[tokio::test]
async fn adapters_by_name_answer_with_their_own_weights() {
    let (fleet, pointsman) = start().await;
    for (id, (name, _)) in adapters(Engine::LlamaCpp).iter().enumerate() {
        let answer = say(fleet[0].address, &direct(Some(id), 12)).await;
        assert_eq!(say(pointsman.clients, &by_name(name, 12)).await, answer, "{name}");
        assert_eq!(say(pointsman.clients, &by_name(&format!("gemma:{name}"), 12)).await, answer, "gemma:{name}");
        assert_eq!(
            say_streamed(pointsman.clients, &chat::streamed(by_name(name, 12))).await.0,
            answer,
            "{name} streamed"
        );
    }
}

/// llama-server, asked without `lora`, drops the adapter but keeps the prompt that the adapter put in its cache, and answers
/// the base from that: seen with b11434. So Pointsman has to say `scale: 0` for the base.
#[tokio::test]
async fn the_base_is_not_answered_from_what_an_adapter_left_in_the_cache() {
    let (fleet, pointsman) = start().await;
    let base = say(fleet[0].address, &direct(None, 12)).await;
    for _ in 0..6 {
        say(pointsman.clients, &chat::request("lora-2", QUESTION, 12)).await;
        assert_eq!(say(pointsman.clients, &chat::request("gemma", QUESTION, 12)).await, base);
    }
}

#[tokio::test]
async fn an_unknown_adapter_is_refused() {
    let (_fleet, pointsman) = start().await;
    for model in ["lora-9", "gemma:lora-9"] {
        let answer = http::post(pointsman.clients, chat::PATH, &by_name(model, 1)).await;
        assert_eq!(answer.status, 404, "{model}: {answer:?}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_its_stream_frees_the_slot() {
    let (fleet, pointsman) = start().await;
    let processing = async || {
        fleet[0].metric("llamacpp:requests_processing").await + fleet[1].metric("llamacpp:requests_processing").await
    };
    let request = chat::streamed(by_name("gemma", 1500));
    let mut stream = http::begin(pointsman.clients, chat::PATH, &request).await.expect("a stream");
    stream.event().await.expect("a first event");
    assert_eq!(processing().await, 1.0);
    drop(stream);
    until("the slot is freed", Duration::from_secs(2), async || (processing().await == 0.0).then_some(())).await;
}

#[tokio::test]
async fn the_engines_load_is_read_while_they_work() {
    let (_fleet, pointsman) = start().await;
    let request = chat::streamed(by_name("gemma", 1000));
    let _stream = http::begin(pointsman.clients, chat::PATH, &request).await.expect("a stream");
    until("/status shows a replica at work, freshly read", Duration::from_secs(10), async || {
        let working = |replica: &Value| replica["running"].as_f64() == Some(1.0);
        let fresh = |replica: &Value| replica["readout_age_ms"].as_f64().is_some_and(|age| age < 2000.0);
        let replicas = pointsman.replicas().await;
        (replicas.iter().any(working) && replicas.iter().all(fresh)).then_some(())
    })
    .await;
}
