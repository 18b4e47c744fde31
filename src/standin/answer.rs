//! What one generation says, apart from when: the text, and the events or the document that carry it in each API.

use super::engine_core::Core;
use super::{chat, completion, llamacpp_chat, messages, responses};
use bytes::Bytes;
use serde_json::Value;

/// The API in which a generation is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Completion,
    Responses,
    Messages,
    LlamaCppChat,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// All tokens asked for were made.
    Length,
    /// The engine gave up.
    Abort,
}

impl Finish {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Abort => "abort",
        }
    }
}

/// What is asked of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) prompt_tokens: u64,
    pub(super) max_tokens: u64,
    pub(super) include_usage: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) api: Api,
    /// The part of the id after its prefix.
    pub(super) id: String,
    /// Seconds since the epoch.
    pub(super) created: u64,
    /// The model that the answer names: the adapter, if one was asked for.
    pub(super) model: String,
    pub(super) fingerprint: String,
    pub(super) extent: Extent,
    /// The first token: who answers.
    intro: String,
    /// The same as it stands inside a JSON string.
    quoted_intro: String,
    /// Everything of a token's event before its text.
    lead: String,
}

const WORDS: [&str; 8] = [" one", " two", " three", " four", " five", " six", " seven", " eight"];

impl Answer {
    pub(super) fn new(core: &Core, api: Api, id: String, model: String, adapter: Option<&str>, extent: Extent) -> Self {
        let options = &core.options;
        let intro = match adapter {
            Some(adapter) => format!("stand-in {}, model {}, adapter {adapter}:", options.name, options.model),
            None => format!("stand-in {}, model {}:", options.name, options.model),
        };
        let mut answer = Self {
            api,
            id,
            created: super::clock::unix_whole_seconds(),
            model,
            fingerprint: format!("standin-{}", options.name),
            extent,
            quoted_intro: inside_quotes(&intro),
            intro,
            lead: String::new(),
        };
        answer.lead = answer.make_lead();
        answer
    }

    fn make_lead(&self) -> String {
        match self.api {
            Api::Chat => chat::lead(self),
            Api::Completion => completion::lead(self),
            Api::Responses => responses::lead(self),
            Api::Messages => messages::LEAD.to_owned(),
            Api::LlamaCppChat => llamacpp_chat::LEAD.to_owned(),
        }
    }

    /// Events before the first token.
    pub(super) fn opening(&self) -> Vec<Bytes> {
        match self.api {
            Api::Chat => chat::opening(self),
            Api::Responses => responses::opening(self),
            Api::Messages => messages::opening(self),
            Api::Completion | Api::LlamaCppChat => Vec::new(),
        }
    }

    /// The event of token `index`; the last one of a full answer tells the end.
    pub(super) fn token(&self, index: u64) -> Bytes {
        let last = index + 1 == self.extent.max_tokens;
        match self.api {
            Api::Chat => chat::token(self, index, last.then_some(Finish::Length)),
            Api::Completion => completion::token(self, index, last.then_some(Finish::Length)),
            Api::Responses => responses::token(self, index),
            Api::Messages => messages::token(self, index),
            Api::LlamaCppChat => llamacpp_chat::token(self, index),
        }
    }

    /// Events after the last of `sent` tokens.
    pub(super) fn closing(&self, sent: u64, finish: Finish) -> Vec<Bytes> {
        match self.api {
            Api::Chat => chat::closing(self, sent, finish),
            Api::Completion => completion::closing(self, sent, finish),
            Api::Responses => responses::closing(self, sent, finish),
            Api::Messages => messages::closing(self, sent, finish),
            Api::LlamaCppChat => llamacpp_chat::closing(self, sent, finish),
        }
    }

    /// The answer as one document.
    pub(super) fn whole(&self, sent: u64, finish: Finish) -> Value {
        match self.api {
            Api::Chat => chat::whole(self, sent, finish),
            Api::Completion => completion::whole(self, sent, finish),
            Api::Responses => responses::whole(self, sent, finish),
            Api::Messages => messages::whole(self, sent, finish),
            Api::LlamaCppChat => llamacpp_chat::whole(self, sent, finish),
        }
    }

    /// The text of the first `tokens` tokens.
    pub(super) fn text(&self, tokens: u64) -> String {
        (0..tokens).map(|index| self.word(index)).collect()
    }

    fn word(&self, index: u64) -> &str {
        following_word(index).unwrap_or(&self.intro)
    }

    /// The lead, the token's text inside its quotes, then `tail`.
    pub(super) fn around(&self, index: u64, tail: &str) -> Bytes {
        let text = following_word(index).unwrap_or(&self.quoted_intro);
        Bytes::from([&self.lead, text, tail].concat())
    }
}

/// The text of a token after the first; it needs no escapes in JSON.
fn following_word(index: u64) -> Option<&'static str> {
    let turn = index.checked_sub(1)? % WORDS.len() as u64;
    WORDS.get(usize::try_from(turn).ok()?).copied()
}

/// A text as it stands between the quotes of a JSON string.
pub(super) fn inside_quotes(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// An event of only data.
pub(super) fn data(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

/// An event with a name.
pub(super) fn named(name: &str, value: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {value}\n\n"))
}

/// The end of OpenAI's older streams.
pub(super) const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");
