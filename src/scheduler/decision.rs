//! What scheduling answers: a decision, or a typed rejection. Both have few values, fit for metrics.

use super::request::Session;
use crate::fleet::snapshot::AdapterView;
use std::fmt;

/// The replica that gets the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its position in the snapshot's candidates.
    pub index: usize,
    /// Its position in the model's list of members.
    pub member: usize,
    /// What became of the request's session.
    pub affinity: Affinity,
    /// The state of the request's adapter there.
    pub adapter: AdapterView,
    /// Candidates that the filters left, at least 1.
    pub candidates_left: usize,
}

/// What a decision means for the request's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Affinity {
    /// The request has no session.
    None,
    /// The session has no remembered replica yet.
    New,
    /// It stays on the replica that it used last.
    Kept,
    /// It goes elsewhere than last time.
    Moved,
}

impl Affinity {
    /// What it means for `session` that the replica of this identity was picked.
    pub(crate) fn of(session: Option<Session>, picked: u64) -> Self {
        match session.map(|session| session.remembered) {
            None => Self::None,
            Some(None) => Self::New,
            Some(Some(last)) if last == picked => Self::Kept,
            Some(Some(_)) => Self::Moved,
        }
    }

    /// The metrics label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::New => "new",
            Self::Kept => "kept",
            Self::Moved => "moved",
        }
    }
}

/// Why no replica can get the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// The model has no replica at all.
    NoReplica,
    /// The request's adapter failed to load on every replica and backs off there.
    AdapterFailedEverywhere,
}

impl Rejection {
    /// The metrics label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoReplica => "no_replica",
            Self::AdapterFailedEverywhere => "adapter_failed_everywhere",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NoReplica => "the model has no replica",
            Self::AdapterFailedEverywhere => "the adapter failed to load on every replica",
        })
    }
}

impl std::error::Error for Rejection {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_compares_the_pick_with_the_remembered_replica() {
        let session = |remembered| Some(Session { key: 1, remembered });
        assert_eq!(Affinity::of(None, 7), Affinity::None);
        assert_eq!(Affinity::of(session(None), 7), Affinity::New);
        assert_eq!(Affinity::of(session(Some(7)), 7), Affinity::Kept);
        assert_eq!(Affinity::of(session(Some(8)), 7), Affinity::Moved);
    }
}
