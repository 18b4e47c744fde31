//! `/v1/chat/completions` as llama.cpp tells it: the role and the first token in one chunk, the end and the usage in
//! another.

use super::answer::{Answer, DONE, Finish, data};
use super::chat::extend;
use bytes::Bytes;
use serde_json::{Value, json};

pub(super) const LEAD: &str = "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\"";

pub(super) fn token(answer: &Answer, index: u64) -> Bytes {
    let tail = tail(answer).to_string();
    let event = answer.around(index, &format!("\"}}}}],{}\n\n", tail.trim_start_matches('{')));
    if index > 0 {
        return event;
    }
    let role = chunk(answer, json!([choice(None, json!({"role": "assistant", "content": null}))]));
    Bytes::from([data(&role), event].concat())
}

pub(super) fn closing(answer: &Answer, sent: u64, finish: Finish) -> Vec<Bytes> {
    let mut last = chunk(answer, json!([choice(Some(finish), json!({}))]));
    if !answer.extent.include_usage {
        extend(&mut last, json!({"timings": timings(answer, sent)}));
        return vec![data(&last), DONE];
    }
    let mut usage_event = chunk(answer, json!([]));
    extend(&mut usage_event, json!({"usage": usage(answer, sent), "timings": timings(answer, sent)}));
    vec![Bytes::from([data(&last), data(&usage_event)].concat()), DONE]
}

fn choice(finish: Option<Finish>, delta: Value) -> Value {
    json!({"finish_reason": finish.map(Finish::reason), "index": 0, "delta": delta})
}

fn chunk(answer: &Answer, choices: Value) -> Value {
    let mut event = json!({ "choices": choices });
    extend(&mut event, tail(answer));
    event
}

fn tail(answer: &Answer) -> Value {
    json!({"created": answer.created, "id": format!("chatcmpl-{}", answer.id), "model": answer.model, "system_fingerprint": answer.fingerprint, "object": "chat.completion.chunk"})
}

pub(super) fn whole(answer: &Answer, sent: u64, finish: Finish) -> Value {
    let message = json!({"role": "assistant", "content": answer.text(sent)});
    json!({
        "choices": [{"finish_reason": finish.reason(), "index": 0, "message": message}], "created": answer.created,
        "model": answer.model, "system_fingerprint": answer.fingerprint, "object": "chat.completion",
        "usage": usage(answer, sent), "id": format!("chatcmpl-{}", answer.id), "timings": timings(answer, sent),
    })
}

fn usage(answer: &Answer, sent: u64) -> Value {
    let prompt = answer.extent.prompt_tokens;
    json!({"completion_tokens": sent, "prompt_tokens": prompt, "total_tokens": prompt + sent, "prompt_tokens_details": {"cached_tokens": 0}})
}

fn timings(answer: &Answer, sent: u64) -> Value {
    json!({"cache_n": 0, "prompt_n": answer.extent.prompt_tokens, "predicted_n": sent})
}
