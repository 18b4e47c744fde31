//! `/v1/completions` as vLLM tells it.

use super::answer::{Answer, DONE, Finish, data, inside_quotes};
use super::chat::{extend, usage, whole_usage};
use bytes::Bytes;
use serde_json::{Value, json};

pub(super) fn lead(answer: &Answer) -> String {
    format!(
        r#"data: {{"id":"cmpl-{}","object":"text_completion","created":{},"model":"{}","choices":[{{"index":0,"text":""#,
        inside_quotes(&answer.id),
        answer.created,
        inside_quotes(&answer.model)
    )
}

pub(super) fn token(answer: &Answer, index: u64, finish: Option<Finish>) -> Bytes {
    let reason = finish.map_or("null".to_owned(), |finish| format!("\"{}\"", finish.reason()));
    let tail = format!(
        "\",\"logprobs\":null,\"finish_reason\":{reason},\"stop_reason\":null,\"prompt_token_ids\":null,\"token_ids\":null}}]}}\n\n"
    );
    answer.around(index, &tail)
}

pub(super) fn closing(answer: &Answer, sent: u64, finish: Finish) -> Vec<Bytes> {
    let mut events = Vec::with_capacity(3);
    if finish == Finish::Abort {
        let choice = json!({"index": 0, "text": "", "logprobs": null, "finish_reason": finish.reason(), "stop_reason": null, "prompt_token_ids": null, "token_ids": null});
        events.push(data(&document(answer, json!([choice]))));
    }
    if answer.extent.include_usage {
        let mut event = document(answer, json!([]));
        extend(&mut event, json!({"usage": usage(answer, sent), "system_fingerprint": answer.fingerprint}));
        events.push(data(&event));
    }
    events.push(DONE);
    events
}

fn document(answer: &Answer, choices: Value) -> Value {
    json!({"id": format!("cmpl-{}", answer.id), "object": "text_completion", "created": answer.created, "model": answer.model, "choices": choices})
}

pub(super) fn whole(answer: &Answer, sent: u64, finish: Finish) -> Value {
    let choice = json!({"index": 0, "text": answer.text(sent), "logprobs": null, "finish_reason": finish.reason(), "stop_reason": null, "token_ids": null, "prompt_logprobs": null, "prompt_token_ids": null, "routed_experts": null});
    let mut whole = document(answer, json!([choice]));
    extend(
        &mut whole,
        json!({"service_tier": null, "system_fingerprint": answer.fingerprint, "usage": whole_usage(answer, sent), "kv_transfer_params": null, "ec_transfer_params": null, "metrics": null}),
    );
    whole
}
