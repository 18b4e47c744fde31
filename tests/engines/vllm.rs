//! Two vLLM replicas: every answer through Pointsman is what the engine itself answers.

use crate::chat::{self, say, say_streamed};
use crate::fleet::Fleet;
use crate::http;
use crate::pointsman::Pointsman;
use crate::replica::{Engine, adapters, cached};
use crate::wait::until;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// What the adapters answer with (make_tiny_model.py), lora-1 first.
pub const WORDS: [&str; 4] = [" one", " two", " three", " four"];
const QUESTIONS: [&str; 3] = ["Which track is free?", "Tell me of the signals.", "hello"];

async fn start() -> (Fleet, Pointsman) {
    let fleet = Fleet::of(Engine::Vllm).await;
    let pointsman = Pointsman::before(Engine::Vllm, &fleet).await;
    (fleet, pointsman)
}

/// The replicas' addresses.
fn engines(fleet: &Fleet) -> Vec<SocketAddr> {
    fleet.iter().map(|replica| replica.address).collect()
}

/// Asserts that Pointsman gives the answer of the engine itself, but for the fields that differ each time.
async fn same_answer(engine: SocketAddr, pointsman: SocketAddr, path: &str, body: Value) -> Value {
    let direct = http::post(engine, path, &body).await;
    let through = http::post(pointsman, path, &body).await;
    assert_eq!(through.status, direct.status, "{path}: {through:?}");
    let [mut direct, mut through] = [direct.json(), through.json()];
    for answer in [&mut direct, &mut through].into_iter().filter_map(Value::as_object_mut) {
        answer.retain(|field, _| field != "id" && field != "created");
    }
    assert_eq!(through, direct, "{path}");
    through
}

#[tokio::test]
async fn the_kit_each_adapter_says_its_own_word_on_both_replicas_whatever_else_runs() {
    let fleet = Fleet::of(Engine::Vllm).await;
    let asked =
        engines(&fleet).into_iter().flat_map(|engine| WORDS.iter().enumerate().map(move |(k, word)| (engine, k, word)));
    join_all(asked.map(async |(engine, k, word)| {
        let request = chat::request(&format!("lora-{}", k + 1), QUESTIONS[0], 6);
        assert_eq!(say(engine, &request).await, word.repeat(6));
    }))
    .await;
}

#[tokio::test]
async fn the_kit_a_greedy_answer_is_always_the_same_and_no_adapters_word() {
    let fleet = Fleet::of(Engine::Vllm).await;
    let request = chat::request("base", QUESTIONS[0], 16);
    let answers = join_all(engines(&fleet).repeat(8).into_iter().map(|engine| say(engine, &request))).await;
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert!(WORDS.iter().all(|word| !answers[0].contains(word)), "{answers:?}");
    assert_ne!(answers[0], say(fleet[0].address, &chat::request("base", QUESTIONS[1], 16)).await);
}

#[tokio::test]
async fn the_kit_an_adapter_of_too_high_rank_is_refused_by_the_engine() {
    let fleet = Fleet::of(Engine::Vllm).await;
    let load = json!({"lora_name": "wide", "lora_path": cached("tiny/rank-16")});
    let answer = http::post(fleet[0].address, "/v1/load_lora_adapter", &load).await;
    assert_eq!(answer.status, 500, "{answer:?}");
    assert!(String::from_utf8_lossy(&answer.body).contains("rank"), "{answer:?}");
}

#[tokio::test]
async fn a_chat_is_answered_as_by_the_engine() {
    let (fleet, pointsman) = start().await;
    for question in QUESTIONS {
        same_answer(fleet[0].address, pointsman.clients, chat::PATH, chat::request("base", question, 12)).await;
    }
}

#[tokio::test]
async fn a_streamed_chat_comes_in_pieces_that_add_up_to_the_whole() {
    let (fleet, pointsman) = start().await;
    let request = chat::request("base", QUESTIONS[0], 12);
    let whole = say(fleet[0].address, &request).await;
    let (text, pieces) = say_streamed(pointsman.clients, &chat::streamed(request)).await;
    assert_eq!(text, whole);
    assert!(pieces >= 12, "{pieces} pieces for 12 tokens");
}

#[tokio::test]
async fn a_completion_is_answered_as_by_the_engine() {
    let (fleet, pointsman) = start().await;
    for model in ["base", "lora-3"] {
        let body = json!({"model": model, "prompt": QUESTIONS[1], "max_tokens": 12, "temperature": 0});
        same_answer(fleet[1].address, pointsman.clients, "/v1/completions", body).await;
    }
}

#[tokio::test]
async fn tokens_are_counted_as_by_the_engine_and_turned_back_to_text() {
    let (fleet, pointsman) = start().await;
    let body = json!({"model": "lora-2", "prompt": QUESTIONS[1]});
    let tokens = same_answer(fleet[0].address, pointsman.clients, "/tokenize", body).await["tokens"].clone();
    let body = json!({"model": "base", "tokens": tokens});
    let text = same_answer(fleet[1].address, pointsman.clients, "/detokenize", body).await;
    assert!(text["prompt"].as_str().is_some_and(|text| text.contains(QUESTIONS[1])), "{text}");
}

#[tokio::test]
async fn the_engines_refusal_of_embeddings_passes_through() {
    let (fleet, pointsman) = start().await;
    let refusal = json!({"model": "base", "input": "x"});
    same_answer(fleet[0].address, pointsman.clients, "/v1/embeddings", refusal).await;
}

#[tokio::test]
async fn the_engines_refusal_of_a_bad_request_passes_through() {
    let (fleet, pointsman) = start().await;
    let too_long = chat::request("base", QUESTIONS[0], 1_000_000);
    let error = same_answer(fleet[0].address, pointsman.clients, chat::PATH, too_long).await;
    assert!(error["error"]["message"].is_string(), "{error}");
}

#[tokio::test]
async fn an_unknown_model_is_refused_by_pointsman_itself() {
    let (_fleet, pointsman) = start().await;
    let answer = http::post(pointsman.clients, chat::PATH, &chat::request("no-such-model", "x", 1)).await;
    assert_eq!(answer.status, 404, "{answer:?}");
    let error = &answer.json()["error"];
    assert!(error["message"].as_str().is_some_and(|message| message.contains("no-such-model")), "{error}");
    assert_eq!(error["code"], "model_not_found");
    assert!(answer.headers.contains_key("x-request-id"), "{answer:?}");
}

#[tokio::test]
async fn models_and_adapters_are_listed() {
    let (_fleet, pointsman) = start().await;
    let list = http::get(pointsman.clients, "/v1/models").await.json();
    let listed = list["data"].as_array().expect("a list");
    let parent = |name: &str| listed.iter().find(|one| one["id"] == name).map(|one| one["parent"].clone());
    assert_eq!(parent("base"), Some(Value::Null), "{list}");
    for (name, _) in adapters(Engine::Vllm) {
        assert_eq!(parent(&name), Some(json!("base")), "{list}");
    }
}

#[tokio::test]
async fn an_alias_and_a_model_with_adapter_reach_the_right_weights() {
    let (fleet, pointsman) = start().await;
    let base = say(fleet[0].address, &chat::request("base", QUESTIONS[0], 8)).await;
    assert_eq!(say(pointsman.clients, &chat::request("gpt-4o-mini", QUESTIONS[0], 8)).await, base);
    assert_eq!(say(pointsman.clients, &chat::request("base:lora-2", QUESTIONS[0], 8)).await, WORDS[1].repeat(8));
}

#[tokio::test]
async fn adapters_registered_at_start_answer_with_their_own_weights() {
    let (fleet, pointsman) = start().await;
    let asked = WORDS.iter().enumerate().flat_map(|(k, word)| QUESTIONS.map(|question| (k, word, question)));
    join_all(asked.map(async |(k, word, question)| {
        let request = chat::request(&format!("lora-{}", k + 1), question, 6);
        assert_eq!(say(pointsman.clients, &request).await, word.repeat(6));
        assert_eq!(say(fleet[k % 2].address, &request).await, word.repeat(6));
        assert_eq!(say_streamed(pointsman.clients, &chat::streamed(request)).await.0, word.repeat(6));
    }))
    .await;
}

#[tokio::test]
async fn the_engines_load_is_read_while_they_work() {
    let (_fleet, pointsman) = start().await;
    let request = chat::streamed(chat::request("base", QUESTIONS[0], 1500));
    let _streams = join_all((0..6).map(|_| http::begin(pointsman.clients, chat::PATH, &request))).await;
    let working =
        |replica: &Value| replica["running"].as_f64() > Some(0.0) && replica["in_flight"].as_f64() > Some(0.0);
    let fresh = |replica: &Value| replica["readout_age_ms"].as_f64().is_some_and(|age| age < 2000.0);
    until("/status shows both replicas at work, freshly read", Duration::from_secs(10), async || {
        let replicas = pointsman.replicas().await;
        (replicas.len() == 2 && replicas.iter().all(|replica| working(replica) && fresh(replica))).then_some(())
    })
    .await;
}
