//! Everything that can be wrong on order.

use crate::client::{
    DEADLINE, chat, chat_request, event, eventually, fast, get, load, open, post, request, sample, try_call,
};
use pointsman::standin::{Ending, Misbehaviour};
use serde_json::json;
use std::io;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

#[tokio::test]
async fn refused_connections_are_accepted_again_once_all_is_well() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::Refuse);
    eventually("refused", || std::net::TcpStream::connect(standin.address()).is_err()).await;
    standin.misbehave(Misbehaviour::Well);
    eventually("accepted", || std::net::TcpStream::connect(standin.address()).is_ok()).await;
    assert_eq!(get(&standin, "/health").await.status, 200);
}

#[tokio::test]
async fn reset_on_accept_gives_no_answer() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::ResetOnAccept);
    assert!(try_call(&standin, "GET", "/health", "", "").await.is_err());
}

#[tokio::test]
async fn a_hung_core_is_healthy_and_answers_once_it_goes_on() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::HungCore);
    let mut hung = open(&standin, &chat_request("base", 1, false)).await.expect("sent");
    eventually("it holds a seat", || standin.stats().running == 1).await;
    assert_eq!(get(&standin, "/health").await.status, 200);
    assert_eq!(sample(&get(&standin, "/metrics").await.text(), "vllm:num_requests_running"), Some(1.0));
    standin.misbehave(Misbehaviour::Well);
    timeout(DEADLINE, hung.read_u8()).await.expect("an answer in time").expect("an answer");
}

#[tokio::test]
async fn a_stalled_engine_answers_not_even_health() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::Stall);
    let mut health = open(&standin, &request("GET", "/health", "", "")).await.expect("sent");
    eventually("received", || standin.stats().received == 1).await;
    assert!(timeout(Duration::from_millis(30), health.read_u8()).await.is_err());
    standin.misbehave(Misbehaviour::Well);
    timeout(DEADLINE, health.read_u8()).await.expect("an answer in time").expect("an answer");
}

#[tokio::test]
async fn death_in_mid_stream_resets_after_the_tokens_were_sent() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::DieMidStream { after_tokens: 2 });
    let mut stream = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
    let mut bytes = Vec::new();
    let end = timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("an end in time");
    assert_eq!(end.expect_err("a reset").kind(), io::ErrorKind::ConnectionReset);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert_eq!((text.matches("\"content\":\" one\"").count(), text.matches(" two").count()), (1, 0), "{text}");
    eventually("aborted", || standin.requests()[0].ending == Ending::Aborted).await;
}

#[tokio::test]
async fn death_before_the_first_token_gives_no_byte() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::DieMidStream { after_tokens: 0 });
    for stream in [true, false] {
        let mut connection = open(&standin, &chat_request("base", 9, stream)).await.expect("sent");
        let first = timeout(DEADLINE, connection.read_u8()).await.expect("an end in time");
        assert_eq!(first.expect_err("a reset").kind(), io::ErrorKind::ConnectionReset, "stream {stream}");
    }
    eventually("the seats are free", || standin.stats().running == 0).await;
}

#[tokio::test]
async fn an_abort_in_mid_stream_has_a_clean_looking_tail() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::AbortMidStream { after_tokens: 2 });
    let reply = post(&standin, "/v1/chat/completions", chat("base", 9, true)).await;
    assert_eq!(reply.chunks.len(), 5);
    assert_eq!(event(&reply.chunks[3])["choices"][0]["finish_reason"], "abort");
    assert_eq!(reply.chunks[4], "data: [DONE]\n\n");
}

#[tokio::test]
async fn ordered_statuses_are_answered() {
    let standin = fast().await;
    for status in [429, 500, 503] {
        standin.misbehave(Misbehaviour::Answer { status });
        assert_eq!(post(&standin, "/v1/chat/completions", chat("base", 1, true)).await.status, status);
        assert_eq!(get(&standin, "/health").await.status, 200);
    }
    standin.misbehave(Misbehaviour::DeadCore);
    let dead = post(&standin, "/v1/chat/completions", chat("base", 1, false)).await;
    assert_eq!((dead.status, dead.text().contains("EngineCore")), (500, true));
    assert_eq!(get(&standin, "/health").await.status, 503);
}

#[tokio::test]
async fn metrics_lie_or_fail_on_order() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::LieInMetrics { running: 7.0, waiting: 9.0, kv: 0.5 });
    let metrics = get(&standin, "/metrics").await.text();
    assert_eq!(sample(&metrics, "vllm:num_requests_waiting{"), Some(9.0));
    assert_eq!(sample(&metrics, "vllm:kv_cache_usage_perc"), Some(0.5));
    standin.misbehave(Misbehaviour::FailMetrics { status: 500 });
    assert_eq!(get(&standin, "/metrics").await.status, 500);
}

#[tokio::test]
async fn slow_loads_and_slow_first_tokens_take_their_time() {
    let standin = fast().await;
    let since = std::time::Instant::now();
    standin.misbehave(Misbehaviour::SlowLoad { ms: 40 });
    load(&standin, "sql", "standin:").await;
    standin.misbehave(Misbehaviour::SlowFirstToken { ms: 40 });
    post(&standin, "/v1/chat/completions", chat("sql", 1, true)).await;
    assert!(since.elapsed() >= Duration::from_millis(80), "{:?}", since.elapsed());
}

#[tokio::test]
async fn misbehaviour_is_switched_over_http_for_a_while() {
    let standin = fast().await;
    assert_eq!(post(&standin, "/standin/misbehave", json!({"kind": "answer", "status": 503})).await.status, 200);
    assert_eq!(post(&standin, "/v1/chat/completions", chat("base", 1, false)).await.status, 503);
    post(&standin, "/standin/misbehave", json!({"kind": "answer", "status": 503, "for_ms": 20})).await;
    let wait = async { while post(&standin, "/v1/chat/completions", chat("base", 1, false)).await.status != 200 {} };
    timeout(DEADLINE, wait).await.expect("well again");
    assert_eq!(post(&standin, "/standin/misbehave", json!({"kind": "dance"})).await.status, 400);
}
