//! `/v1/chat/completions` as vLLM tells it.

use super::answer::{Answer, DONE, Finish, data, inside_quotes};
use bytes::Bytes;
use serde_json::{Value, json};

pub(super) fn lead(answer: &Answer) -> String {
    format!(
        r#"data: {{"id":"chatcmpl-{}","object":"chat.completion.chunk","created":{},"model":"{}","choices":[{{"index":0,"delta":{{"content":""#,
        inside_quotes(&answer.id),
        answer.created,
        inside_quotes(&answer.model)
    )
}

pub(super) fn opening(answer: &Answer) -> Vec<Bytes> {
    let delta = json!({"role": "assistant", "content": ""});
    let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
    let mut event = chunk(answer, json!([choice]));
    extend(&mut event, json!({"prompt_token_ids": null, "prompt_text": null}));
    vec![data(&event)]
}

pub(super) fn token(answer: &Answer, index: u64, finish: Option<Finish>) -> Bytes {
    match finish {
        None => answer.around(index, "\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n"),
        Some(finish) => answer.around(index, &last_tail(answer, finish)),
    }
}

fn last_tail(answer: &Answer, finish: Finish) -> String {
    let fingerprint = if answer.extent.include_usage {
        String::new()
    } else {
        format!(r#","system_fingerprint":"{}""#, inside_quotes(&answer.fingerprint))
    };
    format!(
        "\"}},\"logprobs\":null,\"finish_reason\":\"{}\",\"stop_reason\":null,\"token_ids\":null}}]{fingerprint}}}\n\n",
        finish.reason()
    )
}

pub(super) fn closing(answer: &Answer, sent: u64, finish: Finish) -> Vec<Bytes> {
    let mut events = Vec::with_capacity(3);
    if finish == Finish::Abort {
        let choice = json!({"index": 0, "delta": {"content": ""}, "logprobs": null, "finish_reason": finish.reason(), "stop_reason": null, "token_ids": null});
        events.push(data(&chunk(answer, json!([choice]))));
    }
    if answer.extent.include_usage {
        let mut event = chunk(answer, json!([]));
        extend(&mut event, json!({"usage": usage(answer, sent), "system_fingerprint": answer.fingerprint}));
        events.push(data(&event));
    }
    events.push(DONE);
    events
}

fn chunk(answer: &Answer, choices: Value) -> Value {
    json!({"id": format!("chatcmpl-{}", answer.id), "object": "chat.completion.chunk", "created": answer.created, "model": answer.model, "choices": choices})
}

/// The usage of a stream's last event.
pub(super) fn usage(answer: &Answer, sent: u64) -> Value {
    let prompt = answer.extent.prompt_tokens;
    json!({"prompt_tokens": prompt, "total_tokens": prompt + sent, "completion_tokens": sent})
}

/// The usage of an answer that is whole.
pub(super) fn whole_usage(answer: &Answer, sent: u64) -> Value {
    let mut usage = usage(answer, sent);
    extend(&mut usage, json!({"prompt_tokens_details": null, "completion_tokens_details": null}));
    usage
}

/// Append the fields of `more`.
pub(super) fn extend(value: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (value, more) {
        fields.extend(more);
    }
}

pub(super) fn whole(answer: &Answer, sent: u64, finish: Finish) -> Value {
    let message = json!({"role": "assistant", "content": answer.text(sent), "refusal": null, "annotations": null, "audio": null, "function_call": null, "reasoning": null});
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish.reason(), "stop_reason": null, "token_ids": null, "routed_experts": null});
    json!({
        "id": format!("chatcmpl-{}", answer.id), "object": "chat.completion", "created": answer.created,
        "model": answer.model, "choices": [choice], "service_tier": null, "system_fingerprint": answer.fingerprint,
        "usage": whole_usage(answer, sent), "prompt_logprobs": null, "prompt_token_ids": null, "prompt_text": null,
        "kv_transfer_params": null, "ec_transfer_params": null, "metrics": null,
    })
}
