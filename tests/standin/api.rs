//! What the stand-in answers, and how one can check what it received.

use crate::client::{JSON, chat, event, fast, get, post, start, try_call};
use pointsman::standin::{Ending, Options};
use serde_json::{Value, json};

#[tokio::test]
async fn a_whole_chat_answer_says_who_gave_it() {
    let standin = fast().await;
    let reply = post(&standin, "/v1/chat/completions", chat("base", 3, false)).await;
    assert_eq!((reply.status, reply.header("server"), reply.header("x-standin")), (200, Some("uvicorn"), Some("r1")));
    let body = reply.json();
    assert_eq!(body["choices"][0]["message"]["content"], "stand-in r1, model base: one two");
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert_eq!(body["system_fingerprint"], "standin-r1");
    assert_eq!(body["usage"]["completion_tokens"], 3);
}

#[tokio::test]
async fn a_chat_stream_is_one_event_a_chunk_from_role_to_done() {
    let standin = fast().await;
    let reply = post(&standin, "/v1/chat/completions", chat("base", 3, true)).await;
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let (done, events) = reply.chunks.split_last().expect("chunks");
    assert_eq!(done, "data: [DONE]\n\n");
    let events: Vec<Value> = events.iter().map(|chunk| event(chunk)).collect();
    assert_eq!(events.len(), 4);
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(events[2]["choices"][0]["delta"]["content"], " one");
    assert_eq!(events[3]["choices"][0]["finish_reason"], "length");
    assert!(!reply.text().contains("usage"));
    assert_eq!((standin.requests()[0].ending, standin.stats().running), (Ending::Finished, 0));
}

#[tokio::test]
async fn include_usage_adds_an_event_without_choices() {
    let standin = fast().await;
    for (path, prompt) in [("/v1/chat/completions", "messages"), ("/v1/completions", "prompt")] {
        let body =
            json!({prompt: ["hello"], "max_tokens": 2, "stream": true, "stream_options": {"include_usage": true}});
        let reply = post(&standin, path, body).await;
        let usage = event(&reply.chunks[reply.chunks.len() - 2]);
        assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(2)), "{path}");
    }
}

#[tokio::test]
async fn responses_and_messages_streams_end_without_done() {
    let standin = fast().await;
    let messages = post(&standin, "/v1/messages", chat("base", 3, true)).await;
    assert!(messages.chunks.last().expect("chunks").starts_with("event: message_stop\n"));
    let responses =
        post(&standin, "/v1/responses", json!({"input": "hello", "max_output_tokens": 3, "stream": true})).await;
    assert!(responses.chunks.last().expect("chunks").starts_with("event: response.completed\n"));
    let numbers: Vec<u64> = responses.chunks.iter().map(|chunk| sequence_number(chunk)).collect();
    assert_eq!(numbers, (0..11).collect::<Vec<u64>>());
    assert!(!(messages.text() + &responses.text()).contains("[DONE]"));
}

fn sequence_number(chunk: &str) -> u64 {
    let (_, data) = chunk.split_once("data: ").expect("data");
    let event: Value = serde_json::from_str(data).expect("JSON");
    event["sequence_number"].as_u64().expect("a number")
}

#[tokio::test]
async fn every_other_endpoint_answers() {
    let standin = fast().await;
    for (path, body) in [
        ("/v1/embeddings", json!({"input": ["a", "b"]})),
        ("/v1/rerank", json!({"query": "q", "documents": ["a", "b"]})),
        ("/v1/score", json!({"text_1": "q", "text_2": ["a", "b"]})),
        ("/pooling", json!({"input": "a"})),
        ("/classify", json!({"input": "a"})),
        ("/tokenize", json!({"prompt": "hello"})),
        ("/detokenize", json!({"tokens": [1]})),
        ("/v1/responses", json!({"input": "hello"})),
        ("/v1/messages", chat("base", 2, false)),
    ] {
        assert_eq!(post(&standin, path, body).await.status, 200, "{path}");
    }
    for path in ["/health", "/ping", "/version", "/load", "/metrics", "/v1/models", "/kv_event_sources"] {
        assert_eq!(get(&standin, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn speech_takes_its_model_from_the_form() {
    let standin = fast().await;
    let form =
        |model: &str| format!("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n--b--\r\n");
    let kind = "content-type: multipart/form-data; boundary=b\r\n";
    for (model, status) in [("base", 200), ("nope", 404)] {
        let reply =
            try_call(&standin, "POST", "/v1/audio/transcriptions", kind, &form(model)).await.expect("an answer");
        assert_eq!(reply.status, status, "{model}");
    }
}

#[tokio::test]
async fn refusals_have_the_recorded_codes_and_words() {
    let standin = start(Options { max_model_len: 2_048, ..Options::fast() }).await;
    let long = chat("base", 1, false).to_string().replace("hello", &"word ".repeat(4_000));
    for (path, body, status, words) in [
        (
            "/v1/chat/completions",
            chat("nope", 1, true).to_string(),
            404,
            "The model `nope` does not exist. Valid aliases: base.",
        ),
        ("/v1/messages", chat("nope", 1, false).to_string(), 404, r#"{"type":"error","error":{"type":"NotFoundError""#),
        ("/v1/chat/completions", r#"{"model": "base", "#.into(), 400, r#""param":"body.18","code":400"#),
        ("/v1/chat/completions", r#"{"messages": "x"}"#.into(), 400, "Input should be a valid list"),
        ("/v1/chat/completions", "{}".into(), 400, "Field required"),
        ("/v1/chat/completions", "[]".into(), 400, "valid dictionary"),
        ("/v1/chat/completions", long, 400, "maximum context length is 2048 tokens"),
        ("/v1/chat/completions", chat("base", 100_000, false).to_string(), 400, "max_tokens=100000 cannot be greater"),
        ("/nonexistent", "{}".into(), 404, r#"{"detail":"Not Found"}"#),
        ("/health", "{}".into(), 405, r#"{"detail":"Method Not Allowed"}"#),
    ] {
        let reply = try_call(&standin, "POST", path, JSON, &body).await.expect("an answer");
        assert_eq!(reply.status, status, "{path} {words}");
        assert!(reply.text().contains(words), "{words} not in {}", reply.text());
    }
}

#[tokio::test]
async fn no_model_or_an_empty_one_is_answered_by_the_base() {
    let standin = fast().await;
    let unnamed = json!({"messages": [], "max_tokens": 1});
    for body in [unnamed, chat("", 1, false)] {
        let reply = post(&standin, "/v1/chat/completions", body).await;
        assert_eq!((reply.status, reply.json()["model"].as_str()), (200, Some("base")));
    }
}

#[tokio::test]
async fn what_was_received_can_be_checked() {
    let standin = fast().await;
    let body = chat("base", 1, false).to_string();
    let headers = format!(
        "{JSON}x-standin-digest: 1\r\nx-standin-echo: traceparent, x-request-id\r\nx-request-id: id-7\r\ntraceparent: t\r\n"
    );
    let reply = try_call(&standin, "POST", "/v1/chat/completions", &headers, &body).await.expect("an answer");
    let hash = xxhash_rust::xxh3::xxh3_64(body.as_bytes());
    assert_eq!(reply.header("x-standin-body-xxh3"), Some(&*format!("{hash:016x}")));
    assert_eq!(reply.header("x-standin-echo-traceparent"), Some("t"));
    assert_eq!(reply.json()["id"], "chatcmpl-id-7");
    let received = &standin.requests()[0];
    assert_eq!((received.body_xxh3, received.body_length, received.ending), (hash, body.len(), Ending::Finished));
    assert_eq!((received.model.as_deref(), received.header("x-request-id")), (Some("base"), Some("id-7")));
}

#[tokio::test]
async fn the_load_report_is_given_to_whole_answers_that_ask() {
    let standin = fast().await;
    let headers = format!("{JSON}endpoint-load-metrics-format: TEXT\r\n");
    for (stream, report) in [(false, true), (true, false)] {
        let body = chat("base", 1, stream).to_string();
        let reply = try_call(&standin, "POST", "/v1/chat/completions", &headers, &body).await.expect("an answer");
        assert_eq!(reply.header("endpoint-load-metrics").is_some(), report, "stream {stream}");
    }
}
