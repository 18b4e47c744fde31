//! Limits of a call, hanging engines, streams that lose their replica, replicas that are taken out.

use super::harness::{CHAT, Pointsman, eventually};
use super::{ask, config, engines, replica, stream};
use pointsman::engine::client::CallError;
use pointsman::standin::{Misbehaviour, Options};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn assert_504(answer: &Result<String, CallError>, why: &str) {
    match answer {
        Err(CallError::Status { status: 504, message }) => assert!(message.contains(why), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_time_out_is_its_own() {
    let slow = Options { tokens_per_second: Some(2.0), ..Options::fast() };
    let engines = engines(1, slow).await;
    let limits = json!({ "timeouts": { "first_byte": "1s", "between_bytes": "5s", "total": "2s" } });
    let pointsman = Pointsman::with(config(&engines, limits)).await;
    // Not streamed, an answer's first byte comes with its last: 4 tokens take 2 s.
    let started = Instant::now();
    assert_504(&pointsman.chat(ask(4)).await, "timeouts.first_byte");
    assert!(started.elapsed() < Duration::from_millis(1_600), "{:?}", started.elapsed());
    // A stream has no total.
    let answer = pointsman.chat(stream(6)).await.unwrap();
    assert!(answer.contains("[DONE]"), "{answer}");
    eventually("the engine's seats are free", async || engines[0].stats().running == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_pauses_too_long_ends_with_an_error_event() {
    let engines = engines(1, Options { tokens_per_second: Some(4.0), ..Options::fast() }).await;
    let limits = json!({ "timeouts": { "between_bytes": "100ms" } });
    let pointsman = Pointsman::with(config(&engines, limits)).await;
    let answer = pointsman.chat(stream(8)).await.unwrap();
    assert!(answer.contains("event: error") && answer.contains("timeouts.between_bytes"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_takes_too_long_in_all_is_given_up() {
    let engines = engines(1, Options { tokens_per_second: Some(2.0), ..Options::fast() }).await;
    let pointsman = Pointsman::with(config(&engines, json!({ "timeouts": { "total": "500ms" } }))).await;
    assert_504(&pointsman.chat(ask(20)).await, "timeouts.total");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_hangs_is_taken_out_and_what_waits_there_goes_elsewhere() {
    let engines = engines(2, Options::fast()).await;
    let pointsman =
        Arc::new(Pointsman::with(config(&engines, json!({ "health": { "stall_timeout": "500ms" } }))).await);
    engines[0].misbehave(Misbehaviour::HungCore);
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let pointsman = pointsman.clone();
            tokio::spawn(async move { pointsman.chat(ask(2)).await })
        })
        .collect();
    for client in clients {
        client.await.unwrap().unwrap();
    }
    let hung = replica(&pointsman, 0).await;
    assert_eq!((hung["stalled"].as_bool(), hung["breaker"].as_str()), (Some(true), Some("tripped")), "{hung}");
    engines[0].misbehave(Misbehaviour::Well);
    eventually("it works again", async || replica(&pointsman, 0).await["breaker"] != "tripped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_only_slow_does_not_hang() {
    let engines = engines(1, Options { tokens_per_second: Some(5.0), ..Options::fast() }).await;
    let pointsman = Pointsman::with(config(&engines, json!({ "health": { "stall_timeout": "600ms" } }))).await;
    // 10 tokens take 2 s; nothing is sent before the end, but the engine's counters move.
    pointsman.chat(ask(10)).await.unwrap();
    assert_eq!(replica(&pointsman, 0).await["stalled"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_replica_ends_the_stream_within_a_second_in_the_clients_dialect() {
    let engines = engines(1, Options { tokens_per_second: Some(10.0), ..Options::fast() }).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!({}))).await);
    let messages = json!({
        "model": "base", "max_tokens": 100, "stream": true, "messages": [{ "role": "user", "content": "Hello" }],
    });
    for (path, body, wanted) in
        [(CHAT, stream(100), r#""error":{"message""#), ("/v1/messages", messages, r#"{"type":"error","error""#)]
    {
        let answer = tokio::spawn({
            let pointsman = pointsman.clone();
            async move { pointsman.http.post(&pointsman.clients, path, body.to_string()).await }
        });
        eventually("it streams", async || engines[0].stats().generated_tokens > 3).await;
        engines[0].kill().await;
        let killed = Instant::now();
        let answer = answer.await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(killed.elapsed() < Duration::from_secs(1), "{:?}", killed.elapsed());
        let event = answer.split("event: error\ndata: ").nth(1).unwrap_or_else(|| panic!("{answer}"));
        assert!(event.contains(wanted) && event.contains("replica_lost"), "{path}: {event}");
        engines[0].restart().await.unwrap();
        eventually("it is back", async || pointsman.chat(ask(1)).await.is_ok()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_replica_finishes_and_gets_nothing_new_until_it_is_let_in_again() {
    let engines = engines(2, Options { tokens_per_second: Some(20.0), ..Options::fast() }).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!({}))).await);
    let order = async |verb: &str| {
        let path = format!("/replicas/{}/{verb}", engines[0].url().trim_start_matches("http://"));
        pointsman.http.post(&pointsman.admin, &path, String::new()).await
    };
    let streams: Vec<_> = (0..8)
        .map(|_| {
            let pointsman = pointsman.clone();
            tokio::spawn(async move { pointsman.chat(stream(20)).await })
        })
        .collect();
    eventually("it has some", async || engines[0].stats().running > 0).await;
    order("drain").await.unwrap();
    let before = engines[0].requests().len();
    for _ in 0..10 {
        pointsman.chat(ask(1)).await.unwrap();
    }
    let chats = |from: usize| engines[0].requests()[from..].iter().filter(|request| request.path == CHAT).count();
    assert_eq!(chats(before), 0);
    for stream in streams {
        assert!(stream.await.unwrap().unwrap().contains("[DONE]"));
    }
    order("undrain").await.unwrap();
    eventually("it gets requests again", async || {
        pointsman.chat(ask(1)).await.unwrap();
        chats(before) > 0
    })
    .await;
    let nobody = pointsman.http.post(&pointsman.admin, "/replicas/nobody:1/drain", String::new()).await;
    assert!(matches!(nobody, Err(CallError::Status { status: 404, .. })), "{nobody:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_errors_and_back_pressure_do_not_trip_a_replica() {
    let engines = engines(1, Options::fast()).await;
    let pointsman = Pointsman::with(config(&engines, json!({}))).await;
    for status in [400, 404, 422, 429] {
        engines[0].misbehave(Misbehaviour::Answer { status });
        for _ in 0..5 {
            let answer = pointsman.chat(ask(1)).await;
            assert!(matches!(&answer, Err(CallError::Status { status: told, .. }) if *told == status), "{answer:?}");
        }
        assert_eq!(replica(&pointsman, 0).await["breaker"], "healthy", "after {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_the_engine_aborts_counts_against_it() {
    let engines = engines(1, Options::fast()).await;
    let pointsman = Pointsman::with(config(&engines, json!({}))).await;
    engines[0].misbehave(Misbehaviour::AbortMidStream { after_tokens: 1 });
    for _ in 0..3 {
        pointsman.chat(stream(5)).await.unwrap();
    }
    eventually("it is tripped", async || replica(&pointsman, 0).await["breaker"] != "healthy").await;
}
