//! Watches an answer's body as it passes: the first token, the usage, the end.
//!
//! Fed with the chunks of an SSE stream or of a JSON answer, however they are cut; the observations are the same for any
//! cut. It copies no more than the unfinished line (its head and its last [`TAIL`] bytes), never changes the body, and
//! takes bad input for silence.
//!
//! Keys are found without parsing the JSON: inside a JSON string a quote is always written `\"`, so the bytes `"key":`
//! can only be a key.

use memchr::{memchr_iter, memmem};
use serde::Deserialize;
use std::sync::LazyLock;

/// How much of the end of a line, or of a JSON answer, is looked at, bytes. Usage comes last and is below 1 KiB.
pub const TAIL: usize = 8 << 10;
/// Start of a line that is kept to tell its field and event name, bytes.
const HEAD: usize = 64;

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its turn or met a stop string.
    Stop,
    /// A limit of tokens.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The engine gave up, as vLLM does when it shuts down: the answer is cut short although its end looks clean.
    Abort,
    /// Anything else.
    Other,
}

/// Counts of tokens; `None` where the engine gave none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: Option<u64>,
    /// Tokens generated.
    pub completion: Option<u64>,
    /// Tokens of the prompt that came from the engine's prefix cache.
    pub cached: Option<u64>,
}

/// What was seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// An event that carries generated text, reasoning or a tool call has passed. Always false for a JSON answer.
    pub first_token: bool,
    /// The last usage.
    pub usage: Usage,
    /// The last reason given.
    pub finish: Option<Finish>,
    /// The terminal marker has passed: `[DONE]`, `response.completed` (or `.incomplete`), `message_stop`.
    pub ended: bool,
    /// An error event has passed.
    pub error: bool,
}

/// The observer of one answer.
#[derive(Debug)]
pub struct StreamText {
    shape: Shape,
    head: Vec<u8>,
    tail: Vec<u8>,
    event: Event,
    seen: Seen,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Sse,
    Json,
}

/// What the last `event:` line announced for the next `data:` line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Unnamed,
    Token,
    Usage,
    End,
    Error,
    Quiet,
}

impl StreamText {
    /// For `text/event-stream`.
    pub fn sse() -> Self {
        Self::new(Shape::Sse)
    }

    /// For one JSON object; only its last [`TAIL`] bytes are looked at, when it ends.
    pub fn json() -> Self {
        Self::new(Shape::Json)
    }

    fn new(shape: Shape) -> Self {
        Self { shape, head: Vec::new(), tail: Vec::new(), event: Event::Unnamed, seen: Seen::default() }
    }

    /// Takes the next chunk; any cut will do.
    pub fn feed(&mut self, chunk: &[u8]) {
        if self.shape == Shape::Json {
            return self.carry(chunk);
        }
        let mut start = 0;
        for end in memchr_iter(b'\n', chunk) {
            self.end_line(chunk.get(start..end).unwrap_or_default());
            start = end + 1;
        }
        self.carry(chunk.get(start..).unwrap_or_default());
    }

    /// What has been seen so far.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// The body has ended, cleanly or not.
    pub fn finish(mut self) -> Seen {
        match self.shape {
            Shape::Sse => self.end_line(b""),
            Shape::Json => {
                let tail = std::mem::take(&mut self.tail);
                self.closing_fields(last(&tail, TAIL));
            }
        }
        self.seen
    }

    fn carry(&mut self, part: &[u8]) {
        if part.is_empty() {
            return;
        }
        let room = HEAD.saturating_sub(self.head.len());
        self.head.extend_from_slice(part.get(..room).unwrap_or(part));
        self.tail.extend_from_slice(last(part, TAIL));
        // Cut at twice the tail only, so that many small parts cost one move per TAIL bytes.
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }

    fn end_line(&mut self, rest: &[u8]) {
        if self.head.is_empty() {
            return self.line(rest, last(rest, TAIL));
        }
        self.carry(rest);
        let (mut head, mut tail) = (std::mem::take(&mut self.head), std::mem::take(&mut self.tail));
        self.line(&head, last(&tail, TAIL));
        head.clear();
        tail.clear();
        (self.head, self.tail) = (head, tail);
    }

    /// `head` is at least the first [`HEAD`] bytes of the line, `tail` its last [`TAIL`]; a short line is both.
    fn line(&mut self, head: &[u8], tail: &[u8]) {
        let head = head.get(..HEAD).unwrap_or(head);
        if head.starts_with(b"data:") {
            self.data(head.get(5..).unwrap_or_default().trim_ascii_start(), tail);
        } else if let Some(name) = head.strip_prefix(b"event:") {
            self.event = event_named(name.trim_ascii());
        } else if head.trim_ascii().is_empty() {
            self.event = Event::Unnamed;
        }
    }

    fn data(&mut self, head: &[u8], tail: &[u8]) {
        match self.event {
            Event::Unnamed if head.starts_with(b"[DONE]") => self.seen.ended = true,
            Event::Unnamed => self.unnamed(tail),
            Event::Token => self.seen.first_token = true,
            Event::Usage => self.closing_fields(tail),
            Event::End => {
                self.seen.ended = true;
                self.closing_fields(tail);
            }
            Event::Error => self.seen.error = true,
            Event::Quiet => {}
        }
    }

    /// An event of the chat or completions API. Most say nothing new, and those leave after one search.
    fn unnamed(&mut self, data: &[u8]) {
        if !self.seen.first_token {
            self.seen.first_token = data.len() >= TAIL || carries_token(data);
        }
        if says_nothing_new(data) {
            return;
        }
        self.seen.error |= value_of(data, b"\"error\"").is_some_and(|value| value.starts_with(b"{"));
        self.closing_fields(data);
    }

    fn closing_fields(&mut self, data: &[u8]) {
        self.seen.finish = finish_in(data).or(self.seen.finish);
        if let Some(usage) = last_object::<WireUsage>(data, USAGE) {
            self.seen.usage = usage.over(self.seen.usage);
        }
        if let Some(timings) = last_object::<WireTimings>(data, b"\"timings\"") {
            self.seen.usage.cached = timings.cache_n.or(self.seen.usage.cached);
        }
    }
}

const FINISH: &[u8] = b"\"finish_reason\"";
const USAGE: &[u8] = b"\"usage\"";
/// Built once: building a searcher costs more than searching one event.
static FINISH_FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(FINISH));
static USAGE_FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(USAGE));
/// Keys of a delta (or of a completions choice) that hold what the model generated.
const TOKEN_KEYS: [&[u8]; 5] =
    [b"\"content\"", b"\"text\"", b"\"reasoning\"", b"\"reasoning_content\"", b"\"tool_calls\""];

/// An event in the middle of generation: no reason to finish and no usage behind it. vLLM writes the reason last, so its
/// usual place is looked at first.
fn says_nothing_new(data: &[u8]) -> bool {
    let after = finish_value(last(data, 48)).or_else(|| finish_value(data));
    after.is_some_and(|after| after.starts_with(b"null") && USAGE_FINDER.find(after).is_none())
}

fn finish_value(data: &[u8]) -> Option<&[u8]> {
    let at = FINISH_FINDER.find(data)?;
    value_at(data, at + FINISH.len())
}

fn event_named(name: &[u8]) -> Event {
    match name {
        b"response.output_text.delta"
        | b"response.reasoning_text.delta"
        | b"response.function_call_arguments.delta" => Event::Token,
        b"content_block_delta" => Event::Token,
        b"message_start" | b"message_delta" => Event::Usage,
        b"response.completed" | b"response.incomplete" | b"message_stop" => Event::End,
        b"error" | b"response.failed" => Event::Error,
        _ => Event::Quiet,
    }
}

fn carries_token(data: &[u8]) -> bool {
    TOKEN_KEYS.iter().filter_map(|key| value_of(data, key)).any(|value| match value {
        [b'"', rest @ ..] => !rest.starts_with(b"\""),
        [b'[', rest @ ..] => !rest.starts_with(b"]"),
        _ => false,
    })
}

fn finish_in(data: &[u8]) -> Option<Finish> {
    [FINISH, b"\"stop_reason\""].iter().find_map(|key| {
        let word = value_of(data, key)?.strip_prefix(b"\"")?;
        let end = memchr::memchr(b'"', word)?;
        Some(match word.get(..end)? {
            b"stop" | b"end_turn" | b"stop_sequence" => Finish::Stop,
            b"length" | b"max_tokens" => Finish::Length,
            b"tool_calls" | b"tool_use" => Finish::ToolCalls,
            b"abort" => Finish::Abort,
            _ => Finish::Other,
        })
    })
}

/// What follows `"key":`, for the first place where `key` is a key and not a value.
fn value_of<'a>(data: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    memmem::find_iter(data, key).find_map(|at| value_at(data, at + key.len()))
}

fn value_at(data: &[u8], at: usize) -> Option<&[u8]> {
    Some(data.get(at..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())
}

/// The last object under `key`.
fn last_object<'a, T: Deserialize<'a>>(data: &'a [u8], key: &[u8]) -> Option<T> {
    memmem::rfind_iter(data, key).find_map(|at| {
        let value = value_at(data, at + key.len()).filter(|value| value.starts_with(b"{"))?;
        T::deserialize(&mut serde_json::Deserializer::from_slice(value)).ok()
    })
}

/// OpenAI's chat names, and those of Responses and Messages.
#[derive(Deserialize)]
struct WireUsage {
    #[serde(alias = "input_tokens")]
    prompt_tokens: Option<u64>,
    #[serde(alias = "output_tokens")]
    completion_tokens: Option<u64>,
    #[serde(alias = "input_tokens_details")]
    prompt_tokens_details: Option<WireDetails>,
    cache_read_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct WireDetails {
    cached_tokens: Option<u64>,
}

/// llama.cpp's own figures beside the usage.
#[derive(Deserialize)]
struct WireTimings {
    cache_n: Option<u64>,
}

impl WireUsage {
    fn over(self, before: Usage) -> Usage {
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens);
        Usage {
            prompt: self.prompt_tokens.or(before.prompt),
            completion: self.completion_tokens.or(before.completion),
            cached: cached.or(self.cache_read_input_tokens).or(before.cached),
        }
    }
}

fn last(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(count)..).unwrap_or_default()
}

#[cfg(test)]
#[path = "stream_text_tests.rs"]
mod tests;
