//! Who chooses the replica, and how its slots are kept: ours, and what others do.

use crate::fleet::Model;
use crate::fleet::snapshot::Snapshot;
use crate::residency::{self, Pick, Reach, ReplicaId};
use crate::scheduler::{Request, schedule};
use rand::rngs::StdRng;

/// A way to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// One after the other, blind to everything; the adapter is loaded wherever the request lands.
    RoundRobin,
    /// The one with the fewest requests in flight; the adapter is loaded wherever the request lands.
    LeastRequest,
    /// Always the same replica for an adapter, by hash. Plain LRU there.
    PlainAffinity,
    /// The profile `chat` and the residency table as in production.
    Pointsman,
}

impl Policy {
    /// Those of the table.
    pub const ALL: [Self; 4] = [Self::RoundRobin, Self::LeastRequest, Self::PlainAffinity, Self::Pointsman];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::LeastRequest => "least-request",
            Self::PlainAffinity => "plain-affinity",
            Self::Pointsman => "pointsman",
        }
    }

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// How the slots are kept.
    pub(super) fn residency(self) -> residency::Policy {
        match self {
            Self::Pointsman => residency::Policy::default(),
            _ => residency::Policy::plain_lru(),
        }
    }

    /// The pick for one request.
    pub(super) fn pick(self, ask: &Ask<'_>, random: &mut StdRng) -> Option<Picked> {
        let candidates = &ask.snapshot.candidates;
        let bound = |member: usize| Some(Picked { member, reach: Reach::One });
        match self {
            Self::RoundRobin => bound(ask.request.turn as usize % candidates.len().max(1)),
            Self::LeastRequest => bound(candidates.iter().min_by(|a, b| a.in_flight.total_cmp(&b.in_flight))?.member),
            Self::PlainAffinity => {
                bound(xxhash_rust::xxh3::xxh3_64(&ask.adapter.to_le_bytes()) as usize % candidates.len().max(1))
            }
            Self::Pointsman => {
                let model = ask.model;
                let decision = schedule(&ask.request, ask.snapshot, &model.profile, &model.thresholds, random).ok()?;
                Some(Picked { member: decision.member, reach: Reach::of(candidates, decision.adapter) })
            }
        }
    }
}

/// A member, and how far the request may reach beyond it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picked {
    pub(super) member: usize,
    reach: Reach,
}

impl Picked {
    pub(super) fn at(self, replica: ReplicaId) -> Pick {
        Pick { replica, reach: self.reach }
    }
}

/// What is known when a replica is chosen.
pub(super) struct Ask<'a> {
    pub(super) request: Request,
    pub(super) adapter: usize,
    pub(super) snapshot: &'a Snapshot,
    pub(super) model: &'a Model,
}
