//! Chat requests, greedy so that the same weights always say the same, and what their answers say.

use crate::http::{self, Broken};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Where chats go.
pub const PATH: &str = "/v1/chat/completions";

/// A chat of one question, answered with exactly `tokens` tokens.
pub fn request(model: &str, question: &str, tokens: u32) -> Value {
    let messages = json!([{"role": "user", "content": question}]);
    json!({"model": model, "messages": messages, "max_tokens": tokens, "temperature": 0, "ignore_eos": true})
}

/// The same request, with the fields of `more` as well.
pub fn with(mut request: Value, more: Value) -> Value {
    let (Some(fields), Value::Object(more)) = (request.as_object_mut(), more) else { panic!("objects") };
    fields.extend(more);
    request
}

/// The same request, answered as a stream.
pub fn streamed(request: Value) -> Value {
    with(request, json!({"stream": true}))
}

/// The text of the answer to a request that must succeed.
pub async fn say(to: SocketAddr, request: &Value) -> String {
    let answer = http::post(to, PATH, request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    text_of(&answer.json()["choices"][0])
}

/// The text of the streamed answer to a request that must succeed, and in how many pieces it came.
pub async fn say_streamed(to: SocketAddr, request: &Value) -> (String, usize) {
    match stream(to, request).await {
        Ending::Whole { text, pieces } => (text, pieces),
        other => panic!("{other:?} instead of a whole stream"),
    }
}

/// How a request ended.
#[derive(Debug)]
pub enum Ending {
    /// With an answer that is complete.
    Whole { text: String, pieces: usize },
    /// Some of the answer had come, then an event told of the failure and the body ended in order.
    CutWithError,
    /// In any other way: what must never happen.
    Lost(String),
}

/// Ask for a stream and follow it to its end, whatever it is.
pub async fn stream(to: SocketAddr, request: &Value) -> Ending {
    let mut text = String::new();
    let mut pieces = 0;
    follow(to, request, |piece| {
        text.push_str(piece);
        pieces += 1;
    })
    .await
    .map_or_else(
        |error| Ending::Lost(error.to_string()),
        |whole| if whole { Ending::Whole { text, pieces } } else { Ending::CutWithError },
    )
}

/// Whether the stream is whole; an error if it ended otherwise than by an error event.
async fn follow(to: SocketAddr, request: &Value, mut piece: impl FnMut(&str)) -> Result<bool, Broken> {
    let mut stream = http::begin(to, PATH, request).await?;
    if stream.status != 200 {
        return Err(format!("{:?}", stream.rest().await?).into());
    }
    let mut finished = None;
    let mut failed = false;
    while let Some(event) = stream.event().await? {
        if event == "[DONE]" {
            return whole(finished, failed);
        }
        let event: Value = serde_json::from_str(&event)?;
        failed |= event.get("error").is_some();
        let choice = &event["choices"][0];
        finished = choice["finish_reason"].as_str().map(str::to_owned).or(finished);
        piece(choice["delta"]["content"].as_str().unwrap_or_default());
    }
    if failed { Ok(false) } else { Err("the stream ended without [DONE] and without an error event".into()) }
}

fn whole(finished: Option<String>, failed: bool) -> Result<bool, Broken> {
    match finished.as_deref() {
        _ if failed => Ok(false),
        Some("length" | "stop") => Ok(true),
        other => Err(format!("[DONE] after finish_reason {other:?}").into()),
    }
}

/// The text of a choice of a chat or a completion.
pub fn text_of(choice: &Value) -> String {
    let text = choice["message"]["content"].as_str().or(choice["text"].as_str());
    text.unwrap_or_else(|| panic!("no text in {choice}")).to_owned()
}
