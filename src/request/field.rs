//! The body fields that matter here, and their values as found: by JSON's rules or by a form's.
//!
//! Decides which keys are wanted and how a value is read as text, count or flag. It never refuses: a value that cannot be
//! read as what is asked for is `None`, and its user decides what that means.

use super::scan::{Kind, Value};
use super::span::Span;
use std::borrow::Cow;

/// A wanted key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Model,
    Stream,
    SessionId,
    PromptCacheKey,
    PreviousResponseId,
    User,
    LoraPath,
    Lora,
    MaxTokens,
    MaxCompletionTokens,
    MaxOutputTokens,
    N,
    System,
    Messages,
    Prompt,
    Input,
}

impl Field {
    const COUNT: usize = Self::Input as usize + 1;

    /// Length of the longest key as it may be written in JSON: each of its characters as `\uXXXX`, and two quotes.
    const LONGEST_WRITTEN: usize = "max_completion_tokens".len() * 6 + 2;

    /// The field of a key, written without escapes.
    pub(super) fn named(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"model" => Self::Model,
            b"stream" => Self::Stream,
            b"session_id" => Self::SessionId,
            b"prompt_cache_key" => Self::PromptCacheKey,
            b"previous_response_id" => Self::PreviousResponseId,
            b"user" => Self::User,
            b"lora_path" => Self::LoraPath,
            b"lora" => Self::Lora,
            b"max_tokens" => Self::MaxTokens,
            b"max_completion_tokens" => Self::MaxCompletionTokens,
            b"max_output_tokens" => Self::MaxOutputTokens,
            b"n" => Self::N,
            b"system" => Self::System,
            b"messages" => Self::Messages,
            b"prompt" => Self::Prompt,
            b"input" => Self::Input,
            _ => return None,
        })
    }

    /// The field of a JSON key, decoded: `"mod\u0065l"` is `model` to every engine, so it is here.
    pub(super) fn of_key(body: &[u8], key: Value) -> Option<Self> {
        match key.kind {
            Kind::PlainString => Self::named(inside(key.span).of(body)),
            _ if key.span.len() > Self::LONGEST_WRITTEN => None,
            _ => Self::named(decode(key.span.of(body))?.as_bytes()),
        }
    }

    /// It chooses an adapter, and must not reach an engine that was told which one to use.
    pub(super) fn chooses_adapter(self) -> bool {
        matches!(self, Self::LoraPath | Self::Lora)
    }
}

/// A wanted value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A JSON value.
    Json(Value),
    /// The content of a form field.
    Form(Span),
    /// A file where a form field belongs.
    File(Span),
}

impl Found {
    /// All of its bytes, for JSON with quotes or brackets.
    pub(super) fn span(self) -> Span {
        match self {
            Self::Json(value) => value.span,
            Self::Form(span) | Self::File(span) => span,
        }
    }

    pub(super) fn is_null(self) -> bool {
        matches!(self, Self::Json(Value { kind: Kind::Null, .. }))
    }

    /// Its text, decoded; `None` unless it is a string, and one without lone surrogates.
    pub(super) fn text(self, body: &[u8]) -> Option<Cow<'_, str>> {
        match self {
            Self::Json(Value { span, kind: Kind::PlainString }) => borrowed(inside(span).of(body)),
            Self::Json(Value { span, kind: Kind::EscapedString }) => decode(span.of(body)).map(Cow::Owned),
            Self::Form(span) => borrowed(span.of(body)),
            Self::Json(_) | Self::File(_) => None,
        }
    }

    /// Its number; `None` unless it is a whole one of at least 0. Above `u32::MAX` it is `u32::MAX`.
    pub(super) fn count(self, body: &[u8]) -> Option<u32> {
        let digits = match self {
            Self::Json(Value { span, kind: Kind::Number }) | Self::Form(span) => span.of(body),
            Self::Json(_) | Self::File(_) => return None,
        };
        let count = std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
        Some(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// It says yes: `true` in JSON, `true` or `1` in a form.
    pub(super) fn is_set(self, body: &[u8]) -> bool {
        match self {
            Self::Json(value) => value.kind == Kind::True,
            Self::Form(span) => span.of(body).eq_ignore_ascii_case(b"true") || span.of(body) == b"1",
            Self::File(_) => false,
        }
    }
}

/// The wanted values of one body; of a field that stands several times the last, which is what the engines read.
#[derive(Default)]
pub(super) struct Fields([Option<Found>; Field::COUNT]);

impl Fields {
    /// The value, unless it is `null`: to the engines that is the same as none.
    pub(super) fn get(&self, field: Field) -> Option<Found> {
        self.stated(field).filter(|found| !found.is_null())
    }

    /// The value, also if it is `null`.
    pub(super) fn stated(&self, field: Field) -> Option<Found> {
        self.0.get(field as usize).copied().flatten()
    }

    pub(super) fn set(&mut self, field: Field, found: Found) {
        if let Some(slot) = self.0.get_mut(field as usize) {
            *slot = Some(found);
        }
    }
}

/// A string's span without its quotes.
fn inside(quoted: Span) -> Span {
    Span { start: quoted.start + 1, end: quoted.end.saturating_sub(1) }
}

fn borrowed(bytes: &[u8]) -> Option<Cow<'_, str>> {
    std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
}

fn decode(quoted: &[u8]) -> Option<String> {
    serde_json::from_slice(quoted).ok()
}
