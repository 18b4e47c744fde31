//! What can be wrong with JSON, in words for the client.

use std::fmt;

/// What is wrong with the JSON and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong.
    pub what: Syntax,
    /// Offset of the byte that cannot be there, or the length of the body if it ends early.
    pub offset: usize,
}

/// The ways in which JSON can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// The body ends within the object.
    Truncated,
    /// The body does not begin with `{`.
    NotAnObject,
    /// The body begins with a byte order mark.
    ByteOrderMark,
    /// A byte that is not UTF-8.
    InvalidUtf8,
    /// Something else than a string where a key belongs.
    ExpectedKey,
    /// No `:` after a key.
    ExpectedColon,
    /// Neither `,` nor the closing bracket after a value.
    ExpectedComma,
    /// Something that begins no value.
    ExpectedValue,
    /// A number that is not one, such as `1.` or `-`.
    InvalidNumber,
    /// A misspelt `true`, `false` or `null`.
    InvalidLiteral,
    /// An unknown escape in a string.
    InvalidEscape,
    /// A bare control character in a string.
    ControlCharacter,
    /// More than [`MAX_DEPTH`](super::MAX_DEPTH) containers open at once.
    TooDeep,
    /// Bytes after the object.
    TrailingBytes,
}

impl fmt::Display for Syntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the JSON ends early",
            Self::NotAnObject => "not a JSON object",
            Self::ByteOrderMark => "a byte order mark is not allowed",
            Self::InvalidUtf8 => "not UTF-8",
            Self::ExpectedKey => "expected a key in double quotes",
            Self::ExpectedColon => "expected ':' after a key",
            Self::ExpectedComma => "expected ',' or a closing bracket",
            Self::ExpectedValue => "expected a value",
            Self::InvalidNumber => "invalid number",
            Self::InvalidLiteral => "invalid literal",
            Self::InvalidEscape => "invalid escape in a string",
            Self::ControlCharacter => "control character in a string",
            Self::TooDeep => "nested too deep",
            Self::TrailingBytes => "bytes after the JSON object",
        })
    }
}
