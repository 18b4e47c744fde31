//! What a request body asks for, and how to splice it. Pure: no I/O, no clock, no task.
//!
//! Input: the endpoint, the headers, the buffered body. Output: [`Wanted`], or [`BadRequest`] for a client's mistake. The
//! body is read once, without a tree; a [`Splice`] later cuts and adds bytes and never writes the JSON anew.
//!
//! What counts when a client says something twice or oddly?
//! - `model` twice, also with escapes in its key, is refused; so is a `model` that is no string. An empty one is none.
//! - Any other field twice: the last counts, as in the engines.
//! - `lora_path` that is neither a string nor `null` is refused, as is one that contradicts the header `x-lora-adapter`;
//!   that header twice, or not in UTF-8, is refused as well.
//! - The other fields are hints. `null` is none; a wrong type is none too, for the engine to judge. Of several headers
//!   `x-session-id` the first counts; it may be any bytes.
//!
//! It never asks whether a model or an adapter exists.

mod bad_request;
mod endpoint;
mod field;
mod layout;
mod multipart;
mod params;
mod prefix;
mod reading;
mod scan;
mod span;
mod splice;
mod target;

pub use bad_request::{BadRequest, Malformed};
pub use endpoint::{BodyKind, Endpoint, ErrorDialect};
pub use prefix::{MAX_PREFIX_BLOCKS, PREFIX_BLOCK_BYTES, PrefixBlocks, prefix_blocks};
pub use scan::{MAX_DEPTH, Syntax, SyntaxError};
pub use span::Span;
pub use splice::{AdapterFields, Splice};
pub use target::{ADAPTER_HEADER, ModelName, SESSION_HEADER, SessionKey};

use field::{Field, Fields};
use http::HeaderMap;
use layout::Layout;
use reading::Reading;
use smallvec::SmallVec;

/// What a request asks for. It borrows nothing: spans refer to the body that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The model's name; `None` if there is none or an empty one.
    pub model: Option<ModelName>,
    /// The adapter named by header or `lora_path`; one may also stand in the model's name.
    pub adapter: Option<Box<str>>,
    /// The conversation.
    pub session: Option<SessionKey>,
    /// The answer is to be streamed.
    pub stream: bool,
    /// Most tokens that each answer may have: `max_completion_tokens`, else `max_tokens`, else `max_output_tokens`.
    pub max_tokens: Option<u32>,
    /// How many answers are asked for (`n`).
    pub answers: Option<u32>,
    /// Where the prompt lies in the body: `system`, `messages`, `prompt`, `input`, those that exist, in this order.
    pub prompt: SmallVec<[Span; 2]>,
    /// Length of the prompt as written, bytes.
    pub prompt_bytes: usize,
    layout: Layout,
}

impl Wanted {
    /// Where the value of `model` lies in the body, in JSON with its quotes; also that of an empty one.
    pub fn model_value_span(&self) -> Option<Span> {
        self.layout.model
    }

    /// The hashes of the prompt's leading blocks; `seed` stands for (model, adapter, revision).
    pub fn prefix_blocks(&self, body: &[u8], seed: u64) -> PrefixBlocks {
        prefix_blocks(body, &self.prompt, seed)
    }
}

/// Reads what a request asks for.
pub fn read(endpoint: Endpoint, headers: &HeaderMap, body: &[u8]) -> Result<Wanted, BadRequest> {
    let Reading { fields, layout } = match endpoint.body_kind() {
        BodyKind::Json => Reading::json(body)?,
        BodyKind::Multipart => Reading::multipart(body, multipart::boundary(headers)?)?,
    };
    let prompt = prompt(&fields);
    Ok(Wanted {
        model: target::model(body, &fields)?,
        adapter: target::adapter(headers, body, &fields)?,
        session: target::session(headers, body, &fields),
        stream: fields.get(Field::Stream).is_some_and(|found| found.is_set(body)),
        max_tokens: max_tokens(body, &fields),
        answers: fields.get(Field::N).and_then(|found| found.count(body)),
        prompt_bytes: prompt.iter().map(|span| span.len()).sum(),
        prompt,
        layout,
    })
}

fn prompt(fields: &Fields) -> SmallVec<[Span; 2]> {
    let pieces = [Field::System, Field::Messages, Field::Prompt, Field::Input];
    pieces.iter().filter_map(|&field| fields.get(field)).map(|found| found.span()).collect()
}

fn max_tokens(body: &[u8], fields: &Fields) -> Option<u32> {
    let limits = [Field::MaxCompletionTokens, Field::MaxTokens, Field::MaxOutputTokens];
    limits.iter().find_map(|&field| fields.get(field)?.count(body))
}

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod tests;
