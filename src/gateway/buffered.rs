//! How much of the machine's memory request bodies hold, all requests together, and the limit to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes held by all request bodies.
#[derive(Clone, Debug, Default)]
pub struct Buffered(Arc<AtomicUsize>);

/// One request's share; given back by `Drop`.
#[derive(Debug)]
pub(super) struct Held {
    all: Buffered,
    bytes: usize,
}

impl Buffered {
    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn hold(&self) -> Held {
        Held { all: self.clone(), bytes: 0 }
    }
}

impl Held {
    /// Make the share at least `bytes`; says whether all shares together stay within `limit`.
    pub(super) fn grow_to(&mut self, bytes: usize, limit: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let before = self.all.0.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
        before.saturating_add(more) <= limit
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_limit_and_come_back() {
        let all = Buffered::default();
        let (mut first, mut second) = (all.hold(), all.hold());
        assert!(first.grow_to(60, 100) && first.grow_to(50, 100) && !second.grow_to(41, 100));
        drop(second);
        assert_eq!(all.bytes(), 60);
        drop(first);
        assert_eq!(all.bytes(), 0);
    }
}
