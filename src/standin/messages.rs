//! `/v1/messages` (Anthropic's API) as vLLM tells it: named events, and no `[DONE]`.

use super::answer::{Answer, Finish, named};
use bytes::Bytes;
use serde_json::{Value, json};

pub(super) const LEAD: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"";

pub(super) fn opening(answer: &Answer) -> Vec<Bytes> {
    let usage = json!({"input_tokens": answer.extent.prompt_tokens, "output_tokens": 0});
    let message = json!({"id": format!("chatcmpl-{}", answer.id), "type": "message", "role": "assistant", "content": [], "model": answer.model, "stop_reason": null, "stop_sequence": null, "usage": usage});
    let block = json!({"type": "content_block_start", "content_block": {"type": "text", "text": ""}, "index": 0});
    vec![
        named("message_start", &json!({"type": "message_start", "message": message})),
        named("content_block_start", &block),
    ]
}

pub(super) fn token(answer: &Answer, index: u64) -> Bytes {
    answer.around(index, "\"},\"index\":0}\n\n")
}

pub(super) fn closing(answer: &Answer, sent: u64, finish: Finish) -> Vec<Bytes> {
    let delta = json!({"stop_reason": stop_reason(finish), "stop_sequence": null});
    vec![
        named("content_block_stop", &json!({"type": "content_block_stop", "index": 0})),
        named("message_delta", &json!({"type": "message_delta", "delta": delta, "usage": usage(answer, sent)})),
        named("message_stop", &json!({"type": "message_stop"})),
    ]
}

pub(super) fn whole(answer: &Answer, sent: u64, finish: Finish) -> Value {
    json!({
        "id": format!("chatcmpl-{}", answer.id), "type": "message", "role": "assistant",
        "content": [{"type": "text", "text": answer.text(sent)}], "model": answer.model,
        "stop_reason": stop_reason(finish), "usage": usage(answer, sent),
    })
}

fn usage(answer: &Answer, sent: u64) -> Value {
    json!({"input_tokens": answer.extent.prompt_tokens, "output_tokens": sent})
}

/// How an abort looks in this API was not recorded; it is told as it is elsewhere.
fn stop_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "max_tokens",
        Finish::Abort => "abort",
    }
}
