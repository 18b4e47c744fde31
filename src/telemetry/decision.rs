//! One request's decisions as they are shown: who was a candidate, who was dropped by what, who scored what, who was picked,
//! and how it ended. Never a word of a prompt or an answer.

use super::Outcome;
use crate::fleet::snapshot::{AdapterView, BreakerView, Candidate};
use crate::scheduler::trace::{Explanation, Step};
use crate::scheduler::{Affinity, Rejection, scorer::Scorer};
use serde_json::{Value, json};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is known before the first decision.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When the request was ready to be placed.
    pub at: SystemTime,
    /// The request's id.
    pub request_id: Box<str>,
    /// The model's own name.
    pub model: Box<str>,
    /// The adapter, if one was asked for.
    pub adapter: Option<Box<str>>,
    /// A hash of its conversation's id.
    pub session: Option<u64>,
    /// The profile's name.
    pub profile: Arc<str>,
    /// How long it had waited to be let in.
    pub queue_wait: Duration,
}

/// One decision of a request: the first, or that of a further try.
#[derive(Clone, Debug, Default)]
pub struct Try {
    /// Everything the decision weighed; `None` where it was not traced.
    pub why: Option<Why>,
    /// Replicas that could be chosen from.
    pub candidates: usize,
    /// Those that the filters left.
    pub left: usize,
    /// What became of the session.
    pub affinity: Option<Affinity>,
    /// Why nobody was picked.
    pub rejected: Option<Rejection>,
    /// The replica that the scheduler picked.
    pub picked: Option<Arc<str>>,
    /// The replica that the request was sent to: another one, if the adapter became ready elsewhere first.
    pub replica: Option<Arc<str>>,
    /// How it came to its on-demand adapter: `resident`, `waited`, `cold` or `no_slot`.
    pub adapter_use: Option<&'static str>,
    /// How long it waited for that.
    pub waited: Duration,
}

/// What a decision weighed.
#[derive(Clone, Debug, Default)]
pub struct Why {
    candidates: Vec<Considered>,
    named: Option<Arc<str>>,
    picker: Option<Box<str>>,
}

#[derive(Clone, Debug)]
struct Considered {
    name: Arc<str>,
    seen: Candidate,
    dropped: Option<Step>,
    scores: SmallVec<[(Scorer, f64, f64); 6]>,
    total: f64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// The status sent; 0 if none was.
    pub status: u16,
    /// The failure's code, if it failed here.
    pub code: Option<&'static str>,
    /// Until the first token.
    pub first_token: Option<Duration>,
    /// From the header read to the end.
    pub duration: Duration,
    /// Tokens generated, as far as the engine told.
    pub tokens: Option<u64>,
}

impl Why {
    /// What a traced decision over these candidates said. Linear in what it said: fleets may be large.
    pub fn of(candidates: &[Candidate], told: &Explanation, name: impl Fn(usize) -> Arc<str>) -> Self {
        let blank = |seen: &Candidate| Considered {
            name: name(seen.member),
            seen: *seen,
            dropped: None,
            scores: SmallVec::new(),
            total: 0.0,
        };
        let mut considered: Vec<_> = candidates.iter().map(blank).collect();
        let mut positions = vec![usize::MAX; candidates.iter().map(|seen| seen.member + 1).max().unwrap_or(0)];
        for (position, seen) in candidates.iter().enumerate() {
            if let Some(slot) = positions.get_mut(seen.member) {
                *slot = position;
            }
        }
        let mut at = |member: usize, change: &dyn Fn(&mut Considered)| {
            if let Some(one) = positions.get(member).and_then(|position| considered.get_mut(*position)) {
                change(one);
            }
        };
        for dropped in &told.dropped {
            at(dropped.member, &|one| one.dropped = Some(dropped.step));
        }
        for scored in &told.scored {
            at(scored.member, &|one| {
                one.scores.push((scored.scorer, scored.weight, scored.score));
                one.total += scored.weight * scored.score;
            });
        }
        let picker = told.picked.map(|(picker, _)| picker.to_string().into());
        Self { candidates: considered, named: told.named.map(&name), picker }
    }

    fn json(&self) -> Value {
        json!({
            "candidates": self.candidates.iter().map(Considered::json).collect::<Vec<_>>(),
            "affinity_names": self.named.as_deref(),
            "picker": self.picker.as_deref(),
        })
    }
}

impl Considered {
    fn json(&self) -> Value {
        let score = |(scorer, weight, score): &(Scorer, f64, f64)| json!({ "scorer": scorer.to_string(), "weight": weight, "score": rounded(*score) });
        json!({
            "replica": &*self.name,
            "dropped_by": self.dropped.map(|step| step.to_string()),
            "total": self.dropped.is_none().then(|| rounded(self.total)),
            "scores": self.scores.iter().map(score).collect::<Vec<_>>(),
            "waiting": rounded(self.seen.waiting),
            "in_flight": rounded(self.seen.in_flight),
            "kv": rounded(self.seen.kv),
            "breaker": match self.seen.breaker {
                BreakerView::Healthy => "healthy",
                BreakerView::Tripped => "tripped",
                BreakerView::Probing => "probing",
            },
            "adapter": match self.seen.adapter {
                AdapterView::Absent => "absent",
                AdapterView::Loading => "loading",
                AdapterView::Resident => "resident",
                AdapterView::Failed => "failed",
            },
        })
    }
}

impl Try {
    fn json(&self) -> Value {
        let mut value = json!({
            "picked": self.picked.as_deref(),
            "replica": self.replica.as_deref(),
            "adapter_use": self.adapter_use,
            "adapter_wait_ms": self.adapter_use.map(|_| millis(self.waited)),
            "session": self.affinity.map(Affinity::as_str),
            "rejected": self.rejected.map(Rejection::as_str),
            "of": self.candidates,
            "left": self.left,
        });
        if let (Some(fields), Some(Value::Object(why))) = (value.as_object_mut(), self.why.as_ref().map(Why::json)) {
            fields.extend(why);
        }
        value
    }
}

/// A request in the ring.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) asked: Asked,
    pub(super) tries: SmallVec<[Try; 1]>,
    pub(super) end: Option<End>,
}

impl Entry {
    pub(super) fn json(&self) -> Value {
        let asked = &self.asked;
        json!({
            "number": self.number,
            "at": asked.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            "request_id": &*asked.request_id,
            "model": &*asked.model,
            "adapter": asked.adapter.as_deref(),
            "session": asked.session.map(|key| format!("{key:016x}")),
            "profile": &*asked.profile,
            "queue_ms": millis(asked.queue_wait),
            "tries": self.tries.iter().map(Try::json).collect::<Vec<_>>(),
            "outcome": self.end.map(|end| end.outcome.as_str()),
            "status": self.end.map(|end| end.status),
            "code": self.end.and_then(|end| end.code),
            "first_token_ms": self.end.and_then(|end| end.first_token).map(millis),
            "duration_ms": self.end.map(|end| millis(end.duration)),
            "completion_tokens": self.end.and_then(|end| end.tokens),
        })
    }
}

/// Milliseconds to a hundredth.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 100.0
}

/// To a thousandth: enough to see why, short enough to read.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
