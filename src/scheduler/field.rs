//! The candidates that the filters left, with what scorers and pickers may know of the request.

use super::request::Request;
use super::scorer::{prefix, session};
use super::{Profile, profile::Thresholds, scorer::Scorer};
use crate::fleet::snapshot::Candidate;
use rand::Rng;
use smallvec::SmallVec;

/// Candidates still in play, in the snapshot's order. On the stack up to 16.
pub type Kept<'a> = SmallVec<[&'a Candidate; 16]>;

/// One score a candidate, parallel to the kept ones. On the stack up to 16.
pub type Scores = SmallVec<[f64; 16]>;

/// What is scored and picked from.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The request.
    pub request: &'a Request,
    /// Valid thresholds.
    pub thresholds: &'a Thresholds,
    /// What the filters left.
    pub kept: &'a [&'a Candidate],
    /// Position of the replica that the session should use, where the profile scores sessions.
    pub home: Option<usize>,
    /// Position of the replica that has most of the request's prefix, where the profile scores prefixes.
    pub favourite: Option<usize>,
}

impl<'a> Field<'a> {
    /// Finds the replicas that the profile's affinities name.
    pub fn new(
        request: &'a Request,
        thresholds: &'a Thresholds,
        kept: &'a [&'a Candidate],
        profile: &Profile,
        rng: &mut impl Rng,
    ) -> Self {
        let mut field = Self { request, thresholds, kept, home: None, favourite: None };
        if profile.values(Scorer::Session) {
            field.home = session::home(&field);
        }
        if profile.values(Scorer::Prefix) {
            field.favourite = prefix::favourite(&field, rng);
        }
        field
    }

    /// The replica that affinity names: the session's, else the prefix's. A session id is the client's statement, a prefix
    /// match only our guess.
    pub fn named(&self) -> Option<usize> {
        self.home.or(self.favourite)
    }

    /// One score for each candidate.
    pub(crate) fn score(&self, score: impl Fn(&Candidate) -> f64) -> Scores {
        self.kept.iter().map(|candidate| score(candidate)).collect()
    }
}
