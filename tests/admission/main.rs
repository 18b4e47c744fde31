//! The waiting room over the wire: the real binary before stand-in engines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod overload;

use harness::{Answer, CHAT, Pointsman, eventually};
use pointsman::engine::client::CallError;
use pointsman::standin::{Options, StandIn};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An engine with two seats that answers a request in about 200 ms.
fn small() -> Options {
    Options { max_running: 2, tokens_per_second: Some(20.0), ..Options::fast() }
}

async fn engines(count: usize, options: Options) -> Vec<StandIn> {
    let mut engines = Vec::new();
    for _ in 0..count {
        engines.push(StandIn::start(options.clone()).await.unwrap());
    }
    engines
}

fn config(engines: &[StandIn], admission: Value) -> Value {
    let replicas: Vec<_> = engines.iter().map(|engine| json!({ "url": engine.url() })).collect();
    json!({
        "scheduler": { "target_waiting": 1, "target_inflight": 2 },
        "admission": admission,
        "models": [{ "name": "base", "engine": "vllm", "pools": [{ "name": "edge", "replicas": replicas }] }],
    })
}

fn ask(tokens: u32) -> Value {
    json!({ "model": "base", "max_tokens": tokens, "ignore_eos": true, "messages": [{ "role": "user", "content": "Hello" }] })
}

async fn send(pointsman: &Pointsman, headers: &[(&str, &str)], body: Value) -> Answer {
    pointsman.send(headers, body).await.unwrap()
}

fn spawn(
    pointsman: &Arc<Pointsman>,
    headers: &'static [(&'static str, &'static str)],
    body: Value,
) -> tokio::task::JoinHandle<Answer> {
    let pointsman = pointsman.clone();
    tokio::spawn(async move { send(&pointsman, headers, body).await })
}

async fn queued(pointsman: &Pointsman) -> u64 {
    pointsman.status().await["models"][0]["queue"]["waiting"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_replicas_cannot_take_waits_here_and_not_in_the_engine() {
    let engines = engines(1, small()).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!({}))).await);
    let clients: Vec<_> = (0..20).map(|_| spawn(&pointsman, &[], ask(4))).collect();
    eventually("some wait here", async || queued(&pointsman).await > 5).await;
    let waiting_there = engines[0].stats().waiting;
    assert!(waiting_there <= 3, "{waiting_there} wait in the engine");
    for client in clients {
        assert_eq!(client.await.unwrap().0, 200);
    }
    assert_eq!(queued(&pointsman).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_room_answers_429_with_retry_after() {
    let engines = engines(1, small()).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!({ "max_waiting": 2 }))).await);
    let clients: Vec<_> = (0..12).map(|_| spawn(&pointsman, &[], ask(20))).collect();
    let mut refused = 0;
    for client in clients {
        let (status, headers, body) = client.await.unwrap();
        if status == 429 {
            refused += 1;
            let wait: u32 = headers["retry-after"].to_str().unwrap().parse().unwrap();
            assert!(wait >= 1 && body.contains(r#""code":"saturated""#), "{body}");
        } else {
            assert_eq!(status, 200);
        }
    }
    assert!((3..=9).contains(&refused), "{refused} of 12 refused");
    let metrics = pointsman.metrics().await;
    assert!(metrics.contains(&format!(r#"pointsman_failures_total{{code="saturated",model="base"}} {refused}"#)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_will_not_wait_longer_is_told_in_time() {
    let engines = engines(1, small()).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!({}))).await);
    let clients: Vec<_> = (0..6).map(|_| spawn(&pointsman, &[], ask(40))).collect();
    eventually("some wait", async || queued(&pointsman).await > 0).await;
    let started = Instant::now();
    let (status, _, body) = send(&pointsman, &[("x-request-timeout-ms", "200")], ask(1)).await;
    assert_eq!((status, body.contains("stayed full")), (429, true), "{body}");
    assert!(started.elapsed() < Duration::from_millis(1_500), "{:?}", started.elapsed());
    for client in clients {
        assert_eq!(client.await.unwrap().0, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_client_that_leaves_is_out_at_once_and_never_reaches_the_engine() {
    let engines = engines(1, small()).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!({}))).await);
    let clients: Vec<_> = (0..3).map(|_| spawn(&pointsman, &[], ask(40))).collect();
    eventually("the engine is full", async || engines[0].stats().running == 2).await;
    let impatient = pointsman.http.within(Duration::from_millis(200));
    let gone = impatient.post(&pointsman.clients, CHAT, ask(1).to_string()).await;
    assert_eq!(gone.unwrap_err(), CallError::TimedOut);
    eventually("it is out", async || queued(&pointsman).await == 0).await;
    for client in clients {
        assert_eq!(client.await.unwrap().0, 200);
    }
    let reached = engines[0].requests().iter().filter(|request| request.path == CHAT).count();
    assert_eq!(reached, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_only_replica_is_waited_for() {
    let engines = engines(1, Options::fast()).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!({}))).await);
    engines[0].kill().await;
    let client = spawn(&pointsman, &[], ask(1));
    eventually("it is known to be down", async || pointsman.http.get(&pointsman.admin, "/readyz").await.is_err()).await;
    engines[0].restart().await.unwrap();
    assert_eq!(client.await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_replica_for_too_long_the_answer_is_no_replica() {
    let engines = engines(1, Options::fast()).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!({ "hold_unavailable": "300ms" }))).await);
    engines[0].kill().await;
    eventually("it is known to be down", async || pointsman.http.get(&pointsman.admin, "/readyz").await.is_err()).await;
    let started = Instant::now();
    let (status, headers, body) = send(&pointsman, &[], ask(1)).await;
    assert_eq!((status, body.contains(r#""code":"no_replica""#)), (503, true), "{body}");
    assert!(headers.contains_key("retry-after") && started.elapsed() >= Duration::from_millis(300));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_beyond_the_memory_for_them_are_refused() {
    let engines = engines(1, Options::fast()).await;
    let mut config = config(&engines, json!({}));
    config["server"] = json!({ "max_buffered": "64KiB", "max_body": "1MiB" });
    let pointsman = Arc::new(Pointsman::with(config).await);
    let mut large = ask(1);
    large["pad"] = json!("x".repeat(100_000));
    let (status, _, body) = send(&pointsman, &[], large).await;
    assert_eq!((status, body.contains(r#""code":"overloaded""#)), (503, true), "{body}");
    let (status, _, body) = send(&pointsman, &[], ask(1)).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_admission_headers_are_refused() {
    let engines = engines(1, Options::fast()).await;
    let pointsman = Pointsman::with(config(&engines, json!({}))).await;
    for header in [("x-pointsman-priority", "urgent"), ("x-request-timeout-ms", "soon")] {
        assert_eq!(send(&pointsman, &[header], ask(1)).await.0, 400, "{header:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_off_sends_all_to_the_engine() {
    let engines = engines(1, small()).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!("off"))).await);
    let clients: Vec<_> = (0..20).map(|_| spawn(&pointsman, &[], ask(4))).collect();
    eventually("the engine has them", async || engines[0].stats().waiting > 10).await;
    for client in clients {
        assert_eq!(client.await.unwrap().0, 200);
    }
}
