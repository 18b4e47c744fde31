//! Why a request cannot be understood: always the client's fault, always status 400.
//!
//! No text of the body gets into a message, so messages may be logged.

use super::scan::SyntaxError;
use std::fmt;

/// A request that was refused before anybody was asked where it should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// The body is not a well-formed JSON object.
    InvalidJson(SyntaxError),
    /// A field that may stand once stands twice: the engine would read the last, an access rule perhaps the first.
    DuplicateField {
        /// The field or header.
        param: &'static str,
        /// Where its second value starts in the body, bytes; `None` for a header.
        offset: Option<usize>,
    },
    /// A value of the wrong type.
    InvalidType {
        /// The field or header.
        param: &'static str,
        /// What it must be, to be read after "must be".
        expected: &'static str,
        /// Where its value starts in the body, bytes; `None` for a header.
        offset: Option<usize>,
    },
    /// Header and body name different adapters.
    ConflictingAdapter,
    /// The endpoint takes `multipart/form-data` and the content type is another.
    InvalidContentType,
    /// The content type has no `boundary`, or none that RFC 2046 allows.
    MissingBoundary,
    /// The body is not well-formed `multipart/form-data`.
    InvalidMultipart {
        /// What is wrong.
        what: Malformed,
        /// Where, bytes.
        offset: usize,
    },
}

/// The ways in which a multipart body can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It does not begin with the boundary.
    NoOpening,
    /// It ends without the closing boundary.
    NoClosing,
    /// The header of a part is not one.
    Header,
    /// A part has no name, or more than one.
    Name,
}

impl BadRequest {
    /// A stable word for programs, in the place of OpenAI's `code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidJson(_) => "invalid_json",
            Self::DuplicateField { .. } => "duplicate_field",
            Self::InvalidType { .. } => "invalid_type",
            Self::ConflictingAdapter => "conflicting_adapter",
            Self::InvalidContentType => "invalid_content_type",
            Self::MissingBoundary => "missing_boundary",
            Self::InvalidMultipart { .. } => "invalid_multipart",
        }
    }

    /// The field or header that is to blame, if it is one.
    pub fn param(&self) -> Option<&'static str> {
        match self {
            Self::DuplicateField { param, .. } | Self::InvalidType { param, .. } => Some(param),
            Self::ConflictingAdapter => Some("lora_path"),
            Self::InvalidContentType | Self::MissingBoundary => Some("content-type"),
            Self::InvalidJson(_) | Self::InvalidMultipart { .. } => None,
        }
    }

    /// Where in the body, bytes from its start.
    pub fn offset(&self) -> Option<usize> {
        match self {
            Self::InvalidJson(error) => Some(error.offset),
            Self::DuplicateField { offset, .. } | Self::InvalidType { offset, .. } => *offset,
            Self::InvalidMultipart { offset, .. } => Some(*offset),
            Self::ConflictingAdapter | Self::InvalidContentType | Self::MissingBoundary => None,
        }
    }
}

impl From<SyntaxError> for BadRequest {
    fn from(error: SyntaxError) -> Self {
        Self::InvalidJson(error)
    }
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidJson(error) => write!(f, "invalid JSON: {}", error.what)?,
            Self::DuplicateField { param, .. } => write!(f, "`{param}` is given more than once")?,
            Self::InvalidType { param, expected, .. } => write!(f, "`{param}` must be {expected}")?,
            Self::ConflictingAdapter => f.write_str("`x-lora-adapter` and `lora_path` name different adapters")?,
            Self::InvalidContentType => f.write_str("the content type must be multipart/form-data")?,
            Self::MissingBoundary => f.write_str("the content type has no valid boundary")?,
            Self::InvalidMultipart { what, .. } => write!(f, "invalid multipart body: {what}")?,
        }
        self.offset().map_or(Ok(()), |offset| write!(f, " (byte {offset})"))
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOpening => "it does not begin with the boundary",
            Self::NoClosing => "it ends without the closing boundary",
            Self::Header => "a part has a malformed header",
            Self::Name => "a part has no name or more than one",
        })
    }
}

impl std::error::Error for BadRequest {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::scan::Syntax;

    #[test]
    fn an_error_says_what_who_and_where() {
        let error = BadRequest::InvalidJson(SyntaxError { what: Syntax::Truncated, offset: 12 });
        assert_eq!(error.to_string(), "invalid JSON: the JSON ends early (byte 12)");
        assert_eq!((error.code(), error.param(), error.offset()), ("invalid_json", None, Some(12)));

        let error = BadRequest::InvalidType { param: "model", expected: "a string", offset: None };
        assert_eq!(error.to_string(), "`model` must be a string");
        assert_eq!((error.code(), error.param(), error.offset()), ("invalid_type", Some("model"), None));
    }
}
