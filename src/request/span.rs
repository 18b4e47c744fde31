//! A piece of a body, by position. It holds no bytes, so a reading outlives the borrow of the body it came from.

/// The bytes `start..end` of a body; `start <= end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// The bytes of `body` it names; none if `body` is not the one it was read from and too short.
    pub fn of(self, body: &[u8]) -> &[u8] {
        body.get(self.start..self.end).unwrap_or_default()
    }

    /// Length, bytes.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Names no byte.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}
