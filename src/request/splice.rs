//! Changes a body for the engine by cutting and adding bytes; all others stay as the client wrote them.
//!
//! Input: the body, what was read from it, and the wanted change. Output: a new body, allocated once in its exact size, or the
//! same one if nothing changes. It never parses and never fails.

use super::Wanted;
use super::layout::{Form, Layout};
use super::span::Span;
use bytes::Bytes;
use serde_json::Value;
use smallvec::SmallVec;
use std::borrow::Cow;

/// A change to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splice<'a> {
    /// The name that `model` is to have; the field is added if there is none. `None`: stays as it is.
    pub model: Option<&'a str>,
    /// What becomes of the fields that choose an adapter.
    pub adapter: AdapterFields,
}

/// What becomes of `lora_path` and `lora`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterFields {
    /// They stay.
    Keep,
    /// They are taken out, however often they stand there.
    Remove,
    /// They are taken out, and llama.cpp is told to use one adapter fully: `"lora":[{"id":3,"scale":1.0}]`. In a form,
    /// where llama.cpp has no such field, they are only taken out.
    Select {
        /// The adapter's id in the engine.
        id: u32,
    },
    /// They are taken out, and llama.cpp is told to use none: `"lora":[{"id":0,"scale":0.0}]`. A request without `lora`
    /// makes it drop the adapter but keep the prompt that the adapter left in its cache, and answer the base from that (seen
    /// with b11434).
    SelectNone,
}

/// These bytes in the place of that span.
type Edit<'a> = (Span, Cow<'a, str>);

/// At most one insertion and one replacement, and mostly at most two cuts.
type Edits<'a> = SmallVec<[Edit<'a>; 4]>;

impl Splice<'_> {
    /// The changed body. `wanted` must have been read from this `body`.
    pub fn apply(&self, body: &Bytes, wanted: &Wanted) -> Bytes {
        let edits = self.edits(body, &wanted.layout);
        if edits.is_empty() { body.clone() } else { Bytes::from(assemble(body, &edits)) }
    }

    /// Rising and not overlapping.
    fn edits(&self, body: &[u8], layout: &Layout) -> Edits<'_> {
        let mut edits = self.insertion(body, layout).into_iter().collect::<Edits<'_>>();
        edits.extend(self.replacement(body, layout));
        if self.adapter != AdapterFields::Keep {
            edits.extend(layout.adapter_fields.iter().map(|&cut| (cut, Cow::Borrowed(""))));
        }
        edits.sort_by_key(|(span, _)| span.start);
        edits
    }

    fn replacement(&self, body: &[u8], layout: &Layout) -> Option<Edit<'_>> {
        let (span, name) = (layout.model?, self.model?);
        let written = match layout.form {
            Form::Json { .. } => Cow::Owned(Value::from(name).to_string()),
            Form::Multipart { .. } => Cow::Borrowed(name),
        };
        (span.of(body) != written.as_bytes()).then_some((span, written))
    }

    fn insertion(&self, body: &[u8], layout: &Layout) -> Option<Edit<'_>> {
        let missing_model = self.model.filter(|_| layout.model.is_none());
        match layout.form {
            Form::Json { open, kept } => {
                let others =
                    kept.is_some() || (self.adapter == AdapterFields::Keep && !layout.adapter_fields.is_empty());
                let members = self.members(missing_model, others)?;
                Some((Span { start: open, end: open }, Cow::Owned(members)))
            }
            Form::Multipart { delimiter } => {
                let part = form_part(&String::from_utf8_lossy(delimiter.of(body)), missing_model?);
                Some((Span { start: delimiter.start, end: delimiter.start }, Cow::Owned(part)))
            }
        }
    }

    /// The JSON members to add behind the opening brace.
    fn members(&self, model: Option<&str>, others: bool) -> Option<String> {
        let model = model.map(|name| format!("\"model\":{}", Value::from(name)));
        let lora = match self.adapter {
            AdapterFields::Select { id } => Some(format!("\"lora\":[{{\"id\":{id},\"scale\":1.0}}]")),
            AdapterFields::SelectNone => Some("\"lora\":[{\"id\":0,\"scale\":0.0}]".to_owned()),
            AdapterFields::Keep | AdapterFields::Remove => None,
        };
        let added: SmallVec<[String; 2]> = model.into_iter().chain(lora).collect();
        let comma = if others { "," } else { "" };
        (!added.is_empty()).then(|| added.join(",") + comma)
    }
}

fn form_part(delimiter: &str, model: &str) -> String {
    format!("{delimiter}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n")
}

fn assemble(body: &[u8], edits: &[Edit<'_>]) -> Vec<u8> {
    let cut: usize = edits.iter().map(|(span, _)| span.len()).sum();
    let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let size = body.len().saturating_sub(cut) + added;
    let mut spliced = Vec::with_capacity(size);
    let mut at = 0;
    for (span, text) in edits {
        spliced.extend_from_slice(Span { start: at, end: span.start }.of(body));
        spliced.extend_from_slice(text.as_bytes());
        at = span.end;
    }
    spliced.extend_from_slice(Span { start: at, end: body.len() }.of(body));
    debug_assert_eq!(spliced.len(), size, "the edits rise, do not overlap, and lie within the body");
    spliced
}

#[cfg(test)]
mod tests;
