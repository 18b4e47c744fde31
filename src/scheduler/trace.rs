//! Why a decision fell as it did, told by the code that decides. [`Silent`] costs nothing; [`Explanation`] records.

use super::filter::Filter;
use super::picker::Picker;
use super::scorer::Scorer;
use crate::fleet::snapshot::Candidate;
use std::fmt;

/// What dropped a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The request's adapter failed to load there and backs off.
    AdapterFailed,
    /// This request was tried there before, and another replica is usable.
    AlreadyTried,
    /// A filter of the profile.
    Filter(Filter),
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AdapterFailed => out.write_str("adapter-failed"),
            Self::AlreadyTried => out.write_str("already-tried"),
            Self::Filter(filter) => filter.fmt(out),
        }
    }
}

/// Listens to a decision.
pub trait Trace {
    /// `step` dropped the candidate.
    fn dropped(&mut self, _step: Step, _candidate: &Candidate) {}
    /// Affinity names the candidate.
    fn named(&mut self, _candidate: &Candidate) {}
    /// `scorer`, of this weight in the profile, gave the candidate this score, in [0,1].
    fn scored(&mut self, _scorer: Scorer, _weight: f64, _candidate: &Candidate, _score: f64) {}
    /// `picker` took the candidate.
    fn picked(&mut self, _picker: Picker, _candidate: &Candidate) {}
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Trace for Silent {}

/// A candidate that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// By what.
    pub step: Step,
    /// Its position in the model's list of members.
    pub member: usize,
}

/// A score that was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// By what.
    pub scorer: Scorer,
    /// The scorer's weight in the profile.
    pub weight: f64,
    /// The candidate's position in the model's list of members.
    pub member: usize,
    /// In [0,1].
    pub score: f64,
}

/// Everything one decision said, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// Who was dropped by what.
    pub dropped: Vec<Dropped>,
    /// The member that affinity named.
    pub named: Option<usize>,
    /// Every score.
    pub scored: Vec<Scored>,
    /// The picker and the member it took.
    pub picked: Option<(Picker, usize)>,
}

impl Explanation {
    /// The weighted total of a member.
    pub fn total(&self, member: usize) -> f64 {
        self.scored.iter().filter(|scored| scored.member == member).map(|scored| scored.weight * scored.score).sum()
    }
}

impl Trace for Explanation {
    fn dropped(&mut self, step: Step, candidate: &Candidate) {
        self.dropped.push(Dropped { step, member: candidate.member });
    }

    fn named(&mut self, candidate: &Candidate) {
        self.named = Some(candidate.member);
    }

    fn scored(&mut self, scorer: Scorer, weight: f64, candidate: &Candidate, score: f64) {
        self.scored.push(Scored { scorer, weight, member: candidate.member, score });
    }

    fn picked(&mut self, picker: Picker, candidate: &Candidate) {
        self.picked = Some((picker, candidate.member));
    }
}
