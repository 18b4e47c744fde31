//! The pieces of a name: which model, which adapter, which session a request asks for, as written.
//!
//! Only syntax. Whether `qwen2.5:7b` is one model or an adapter `7b` of a model `qwen2.5` is for whoever knows the
//! configured names: it gets the whole and the split, and tries the whole first.

use super::bad_request::BadRequest;
use super::field::{Field, Fields};
use http::{HeaderMap, HeaderValue};
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_64;

/// Header that names the adapter.
pub const ADAPTER_HEADER: &str = "x-lora-adapter";

/// Header that names the session.
pub const SESSION_HEADER: &str = "x-session-id";

/// The fields that name a session, the first that does wins; after [`SESSION_HEADER`].
const SESSION_FIELDS: [Field; 4] = [Field::SessionId, Field::PromptCacheKey, Field::PreviousResponseId, Field::User];

/// The `model` of a request. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName(Box<str>);

impl ModelName {
    /// The name as the client wrote it.
    pub fn whole(&self) -> &str {
        &self.0
    }

    /// Model and adapter if it is read as `model:adapter`: what stands before and after the last `:`, neither of them empty.
    pub fn split(&self) -> Option<(&str, &str)> {
        self.0.rsplit_once(':').filter(|(model, adapter)| !model.is_empty() && !adapter.is_empty())
    }
}

/// A hash of the client's session id: equal for equal ids, whichever header or field they came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey(pub u64);

impl SessionKey {
    /// The key of a session id.
    pub fn of(id: &[u8]) -> Self {
        Self(xxh3_64(id))
    }
}

/// The model; an empty name is none, as it is for vLLM.
pub(super) fn model(body: &[u8], fields: &Fields) -> Result<Option<ModelName>, BadRequest> {
    let name = required_text(body, fields, Field::Model, "model")?;
    Ok(name.filter(|name| !name.is_empty()).map(|name| ModelName(name.into())))
}

/// The adapter of the header or of `lora_path`. Both may name it if they agree: to prefer one would serve the other silently.
pub(super) fn adapter(headers: &HeaderMap, body: &[u8], fields: &Fields) -> Result<Option<Box<str>>, BadRequest> {
    let stated = if fields.get(Field::LoraPath).is_some() {
        required_text(body, fields, Field::LoraPath, "lora_path")?
    } else {
        None
    };
    let stated = stated.filter(|name| !name.is_empty());
    match (adapter_header(headers)?, stated) {
        (Some(header), Some(stated)) if header != stated => Err(BadRequest::ConflictingAdapter),
        (Some(header), _) => Ok(Some(header.into())),
        (None, stated) => Ok(stated.map(Into::into)),
    }
}

fn adapter_header(headers: &HeaderMap) -> Result<Option<&str>, BadRequest> {
    let mut values = headers.get_all(ADAPTER_HEADER).iter();
    let Some(name) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(BadRequest::DuplicateField { param: ADAPTER_HEADER, offset: None });
    }
    let text = std::str::from_utf8(name.as_bytes()).map_err(|_| BadRequest::InvalidType {
        param: ADAPTER_HEADER,
        expected: "UTF-8",
        offset: None,
    })?;
    Ok(Some(text).filter(|name| !name.is_empty()))
}

/// The session. Its header is opaque bytes, so it need not be UTF-8; an empty id, or one that is not a string, is none.
pub(super) fn session(headers: &HeaderMap, body: &[u8], fields: &Fields) -> Option<SessionKey> {
    let header = headers.get(SESSION_HEADER).map(HeaderValue::as_bytes).filter(|id| !id.is_empty());
    header.map(SessionKey::of).or_else(|| {
        let ids = SESSION_FIELDS.iter().filter_map(|&field| fields.get(field)?.text(body));
        ids.filter(|id| !id.is_empty()).map(|id| SessionKey::of(id.as_bytes())).next()
    })
}

/// The text of a field that decides where a request goes: there a value of another type is an error, `null` too.
fn required_text<'a>(
    body: &'a [u8],
    fields: &Fields,
    field: Field,
    param: &'static str,
) -> Result<Option<Cow<'a, str>>, BadRequest> {
    let Some(found) = fields.stated(field) else { return Ok(None) };
    let wrong = BadRequest::InvalidType { param, expected: "a string", offset: Some(found.span().start) };
    found.text(body).ok_or(wrong).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_at_its_last_colon() {
        for (whole, split) in [
            ("base", None),
            ("base:lora", Some(("base", "lora"))),
            ("qwen2.5:7b", Some(("qwen2.5", "7b"))),
            ("qwen2.5:7b:lora", Some(("qwen2.5:7b", "lora"))),
            ("meta/llama:org/lora", Some(("meta/llama", "org/lora"))),
            (":lora", None),
            ("base:", None),
            (":", None),
        ] {
            let name = ModelName(whole.into());
            assert_eq!((name.whole(), name.split()), (whole, split));
        }
    }
}
