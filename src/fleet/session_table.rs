//! Which replica a session used last: its KV cache is there.
//!
//! A hint, never the truth: bounded and forgetful. Rendezvous hashing finds the same replica again for a forgotten session
//! unless it had moved.

use super::clock::to_ms;
use quick_cache::sync::Cache;
use std::time::Duration;

/// Sessions remembered for each model. Guess: 64k conversations at 16 bytes are 1 MiB.
const CAPACITY: usize = 65_536;

/// How long an idle session is remembered. Guess: an engine's KV cache has long been overwritten after half an hour.
pub const SESSION_TTL: Duration = Duration::from_secs(30 * 60);

#[derive(Clone, Copy, Debug)]
struct LastUse {
    identity: u64,
    at_ms: u64,
}

/// The sessions of one model.
#[derive(Debug)]
pub struct SessionTable {
    last_use: Cache<u64, LastUse>,
}

impl Default for SessionTable {
    fn default() -> Self {
        Self { last_use: Cache::new(CAPACITY) }
    }
}

impl SessionTable {
    /// The identity of the replica that this session used last, unless that is too long ago.
    pub fn replica_of(&self, session: u64, now_ms: u64) -> Option<u64> {
        let last = self.last_use.get(&session)?;
        (now_ms.saturating_sub(last.at_ms) <= to_ms(SESSION_TTL)).then_some(last.identity)
    }

    /// The session uses this replica now.
    pub fn remember(&self, session: u64, identity: u64, now_ms: u64) {
        self.last_use.insert(session, LastUse { identity, at_ms: now_ms });
    }

    /// Sessions remembered, forgotten ones among them until they are overwritten.
    pub fn len(&self) -> usize {
        self.last_use.len()
    }

    /// Nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.last_use.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_remembered_until_its_time_is_up() {
        let table = SessionTable::default();
        table.remember(7, 42, 1_000);
        let ttl = to_ms(SESSION_TTL);
        assert_eq!(table.replica_of(7, 1_000 + ttl), Some(42));
        assert_eq!(table.replica_of(7, 1_001 + ttl), None);
        assert_eq!(table.replica_of(8, 1_000), None);
    }

    #[test]
    fn a_moved_session_is_remembered_where_it_went() {
        let table = SessionTable::default();
        table.remember(7, 42, 1);
        table.remember(7, 43, 2);
        assert_eq!(table.replica_of(7, 3), Some(43));
    }

    #[test]
    fn the_table_is_bounded() {
        let table = SessionTable::default();
        for session in 0..3 * CAPACITY as u64 {
            table.remember(session, 1, 1);
        }
        assert!(table.len() <= CAPACITY, "{}", table.len());
    }
}
