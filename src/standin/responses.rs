//! `/v1/responses` as vLLM tells it: named, numbered events, and no `[DONE]`.

use super::answer::{Answer, Finish, inside_quotes, named};
use bytes::Bytes;
use serde_json::{Value, json};

/// Events before the first token; the tokens are numbered on from here.
const OPENING: u64 = 4;

pub(super) fn lead(answer: &Answer) -> String {
    // Unlike in the recording the text stands near the end, so that all before it is made once.
    format!(
        "event: response.output_text.delta\ndata: {{\"content_index\":0,\"item_id\":\"{}\",\"logprobs\":[],\"output_index\":0,\"type\":\"response.output_text.delta\",\"delta\":\"",
        inside_quotes(&item_id(answer))
    )
}

pub(super) fn opening(answer: &Answer) -> Vec<Bytes> {
    let item = json!({"id": item_id(answer), "content": [], "role": "assistant", "status": "in_progress", "type": "message", "phase": null});
    let part = json!({"annotations": [], "text": "", "type": "output_text", "logprobs": []});
    vec![
        numbered("response.created", 0, json!({"response": response(answer, "in_progress", None)})),
        numbered("response.in_progress", 1, json!({"response": response(answer, "in_progress", None)})),
        numbered("response.output_item.added", 2, json!({"item": item, "output_index": 0})),
        numbered(
            "response.content_part.added",
            3,
            json!({"content_index": 0, "item_id": item_id(answer), "output_index": 0, "part": part}),
        ),
    ]
}

pub(super) fn token(answer: &Answer, index: u64) -> Bytes {
    answer.around(index, &format!("\",\"sequence_number\":{}}}\n\n", OPENING + index))
}

pub(super) fn closing(answer: &Answer, sent: u64, finish: Finish) -> Vec<Bytes> {
    let (number, id) = (OPENING + sent, item_id(answer));
    let part = part(answer, sent);
    let text = json!({"content_index": 0, "item_id": id, "logprobs": [], "output_index": 0, "text": answer.text(sent)});
    let part = json!({"content_index": 0, "item_id": id, "output_index": 0, "part": part});
    vec![
        numbered("response.output_text.done", number, text),
        numbered("response.content_part.done", number + 1, part),
        numbered("response.output_item.done", number + 2, json!({"item": item(answer, sent), "output_index": 0})),
        numbered("response.completed", number + 3, json!({"response": whole(answer, sent, finish)})),
    ]
}

pub(super) fn whole(answer: &Answer, sent: u64, finish: Finish) -> Value {
    let reason = match finish {
        Finish::Length => "max_output_tokens",
        Finish::Abort => "abort",
    };
    response(answer, "incomplete", Some((sent, reason)))
}

fn item_id(answer: &Answer) -> String {
    format!("msg_{}", answer.id)
}

fn part(answer: &Answer, sent: u64) -> Value {
    json!({"annotations": [], "text": answer.text(sent), "type": "output_text", "logprobs": null})
}

fn item(answer: &Answer, sent: u64) -> Value {
    json!({"id": item_id(answer), "content": [part(answer, sent)], "role": "assistant", "status": "completed", "type": "message", "phase": null})
}

/// The response document; `end` is the number of tokens and why no more came.
fn response(answer: &Answer, status: &str, end: Option<(u64, &str)>) -> Value {
    let output: Vec<Value> = end.iter().map(|(sent, _)| item(answer, *sent)).collect();
    json!({
        "id": format!("resp_{}", answer.id), "created_at": answer.created,
        "incomplete_details": end.map(|(_, reason)| json!({"reason": reason})), "instructions": null, "metadata": null,
        "model": answer.model, "object": "response", "output": output, "parallel_tool_calls": true, "temperature": 1.0,
        "tool_choice": "none", "tools": [], "top_p": 1.0, "background": false,
        "max_output_tokens": answer.extent.max_tokens, "max_tool_calls": null, "previous_response_id": null,
        "prompt": null, "reasoning": null, "service_tier": "auto", "status": status, "text": null,
        "top_logprobs": null, "truncation": "disabled", "usage": end.map(|(sent, _)| usage(answer, sent)),
        "user": null, "presence_penalty": 0.0, "frequency_penalty": 0.0, "kv_transfer_params": null,
        "ec_transfer_params": null, "input_messages": null, "output_messages": null,
    })
}

fn usage(answer: &Answer, sent: u64) -> Value {
    let prompt = answer.extent.prompt_tokens;
    json!({
        "input_tokens": prompt, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": sent,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": prompt + sent,
    })
}

fn numbered(name: &str, number: u64, mut fields: Value) -> Bytes {
    super::chat::extend(&mut fields, json!({"sequence_number": number, "type": name}));
    named(name, &fields)
}
