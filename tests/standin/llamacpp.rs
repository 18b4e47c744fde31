//! The second dialect: llama.cpp's.

use crate::client::{chat, event, get, post, sample, start};
use pointsman::standin::{Dialect, Options, StandIn, StartAdapter};
use serde_json::{Value, json};

async fn llamacpp() -> StandIn {
    let adapter = |name: &str| StartAdapter { name: name.into(), path: format!("/adapters/{name}.gguf") };
    let adapters = vec![adapter("sql"), adapter("legal")];
    start(Options { name: "l1".into(), dialect: Dialect::LlamaCpp, max_running: 2, adapters, ..Options::fast() }).await
}

#[tokio::test]
async fn llamacpp_chooses_adapters_by_id_and_ignores_the_model() {
    let standin = llamacpp().await;
    let list = get(&standin, "/lora-adapters").await.json();
    assert_eq!((&list[1]["id"], &list[1]["path"]), (&json!(1), &json!("/adapters/legal.gguf")));
    for (lora, expected) in [
        (json!([{"id": 1, "scale": 1.0}]), "stand-in l1, model base, adapter legal:"),
        (json!([{"id": 99, "scale": 1.0}]), "stand-in l1, model base:"),
        (json!([]), "stand-in l1, model base:"),
    ] {
        let mut body = chat("nope", 1, false);
        body["lora"] = lora;
        let reply = post(&standin, "/v1/chat/completions", body).await;
        assert_eq!(reply.header("server"), Some("llama.cpp"));
        assert_eq!(reply.json()["choices"][0]["message"]["content"], expected);
    }
    let mut malformed = chat("base", 1, false);
    malformed["lora"] = json!("x");
    assert_eq!(post(&standin, "/v1/chat/completions", malformed).await.status, 400);
}

#[tokio::test]
async fn llamacpp_scales_hold_for_requests_that_choose_nothing() {
    let standin = llamacpp().await;
    assert_eq!(post(&standin, "/lora-adapters", json!([{"id": 0, "scale": 1}])).await.json(), json!({"success": true}));
    let reply = post(&standin, "/v1/chat/completions", chat("base", 1, false)).await.json();
    assert_eq!(reply["choices"][0]["message"]["content"], "stand-in l1, model base, adapter sql:");
}

#[tokio::test]
async fn llamacpp_streams_put_role_and_first_token_in_one_chunk() {
    let standin = llamacpp().await;
    let mut body = chat("base", 2, true);
    body["stream_options"] = json!({"include_usage": true});
    let reply = post(&standin, "/v1/chat/completions", body).await;
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.chunks.len(), 4);
    let pair: Vec<Value> = reply.chunks[0].split_inclusive("\n\n").map(event).collect();
    assert_eq!(pair[0]["choices"][0]["delta"], json!({"role": "assistant", "content": null}));
    assert_eq!(pair[1]["choices"][0]["delta"]["content"], "stand-in l1, model base:");
    let end: Vec<Value> = reply.chunks[2].split_inclusive("\n\n").map(event).collect();
    assert_eq!(end[0]["choices"][0]["finish_reason"], "length");
    assert_eq!(end[1]["usage"]["completion_tokens"], 2);
}

#[tokio::test]
async fn llamacpp_tells_its_load_in_its_own_names() {
    let standin = llamacpp().await;
    assert_eq!(get(&standin, "/health").await.json(), json!({"status": "ok"}));
    assert_eq!(sample(&get(&standin, "/metrics").await.text(), "llamacpp:requests_processing "), Some(0.0));
    assert_eq!(get(&standin, "/slots").await.json().as_array().map(Vec::len), Some(2));
    let unknown = post(&standin, "/v1/load_lora_adapter", json!({})).await;
    assert_eq!((unknown.status, unknown.text().contains("File Not Found")), (404, true));
}
