//! Who runs, who waits, and when tokens come.

use crate::client::{DEADLINE, JSON, chat, chat_request, eventually, get, open, post, request, sample, slow, start};
use pointsman::standin::{Ending, HeadSent, Options, StartAdapter};
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

#[tokio::test]
async fn a_client_that_leaves_frees_its_seat_and_its_place() {
    let standin = start(Options { max_running: 1, ..slow() }).await;
    let streaming = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
    eventually("one runs", || standin.stats().running == 1).await;
    let waiting = open(&standin, &chat_request("base", 9, false)).await.expect("sent");
    eventually("one waits", || standin.stats().waiting == 1).await;
    drop(waiting);
    eventually("none waits", || standin.stats().waiting == 0).await;
    drop(streaming);
    eventually("none runs", || standin.stats().running == 0).await;
    eventually("both are aborted", || standin.requests().iter().all(|one| one.ending == Ending::Aborted)).await;
    assert_eq!(standin.stats().aborted, 2);
}

#[tokio::test]
async fn requests_beyond_the_adapter_limit_are_told_as_deferred() {
    let names: Vec<String> = (1..=6).map(|number| format!("lora-{number}")).collect();
    let adapters = names.iter().map(|name| StartAdapter { name: name.clone(), path: "standin:".into() }).collect();
    let standin = start(Options { max_running: 4, max_loras: 2, adapters, ..slow() }).await;
    let mut streams = Vec::new();
    for (number, name) in names.iter().chain(&names).enumerate() {
        streams.push(open(&standin, &chat_request(name, 9, true)).await.expect("sent"));
        eventually("arrived", || standin.stats().running + standin.stats().waiting == number + 1).await;
    }
    let metrics = get(&standin, "/metrics").await.text();
    let gauge = |name: &str| sample(&metrics, &format!("vllm:{name}"));
    assert_eq!(gauge("num_requests_running{"), Some(4.0));
    assert_eq!(gauge("num_requests_waiting{"), Some(8.0));
    let reason = |reason: &str| {
        gauge(&format!("num_requests_waiting_by_reason{{engine=\"0\",model_name=\"base\",reason=\"{reason}\""))
    };
    assert_eq!((reason("capacity"), reason("deferred")), (Some(4.0), Some(4.0)));
    assert!(metrics.contains("max_lora=\"2\",running_lora_adapters=\"lora-1,lora-2\""));
}

#[tokio::test]
async fn tokens_held_show_in_the_cache_gauge() {
    let standin = start(Options { kv_tokens: 100, ..slow() }).await;
    let body = json!({"prompt": "x".repeat(200), "stream": true}).to_string();
    let _stream = open(&standin, &request("POST", "/v1/completions", JSON, &body)).await.expect("sent");
    eventually("runs", || standin.stats().generated_tokens == 1).await;
    let metrics = get(&standin, "/metrics").await.text();
    assert_eq!(sample(&metrics, "vllm:kv_cache_usage_perc"), Some(0.51));
}

#[tokio::test]
async fn a_rate_spreads_tokens_over_time() {
    let standin = start(Options { tokens_per_second: Some(100.0), ..Options::fast() }).await;
    for stream in [true, false] {
        let since = std::time::Instant::now();
        post(&standin, "/v1/chat/completions", chat("base", 11, stream)).await;
        assert!(since.elapsed() >= Duration::from_millis(100), "stream {stream}: {:?}", since.elapsed());
    }
}

#[tokio::test]
async fn the_head_of_a_queued_stream_leaves_as_told() {
    for (head_sent, expected) in [(HeadSent::AtOnce, true), (HeadSent::WithFirstToken, false)] {
        let standin = start(Options { max_running: 1, head_sent, ..slow() }).await;
        let _running = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
        eventually("one runs", || standin.stats().running == 1).await;
        let mut queued = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
        eventually("one waits", || standin.stats().waiting == 1).await;
        let wait = if expected { DEADLINE } else { Duration::from_millis(50) };
        let head = timeout(wait, queued.read_u8()).await;
        assert_eq!(head.is_ok(), expected, "{head_sent:?}");
    }
}
