//! Why a request went where it went: kept for the operator, and told to a client that may ask.

use super::adapter::{Choice, Placed};
use super::context::{AdapterUse, Context};
use crate::fleet::Replica;
use crate::fleet::snapshot::{Candidate, Snapshot};
use crate::scheduler::profile::Thresholds;
use crate::scheduler::trace::Explanation;
use crate::scheduler::{Decision, Profile, Rejection, Request, schedule, schedule_traced};
use crate::telemetry::Record;
use crate::telemetry::decision::{Asked, End, Try, Why};
use crate::telemetry::decisions::Decisions;
use http::HeaderMap;
use pingora::Result;
use pingora::http::ResponseHeader;
use std::sync::Arc;
use std::time::SystemTime;

/// A client asks for the decision.
const EXPLAIN_HEADER: &str = "x-pointsman-explain";
/// The decision, as JSON in ASCII.
const DECISION_HEADER: &str = "x-pointsman-decision";
/// Which replica answered.
const REPLICA_HEADER: &str = "x-pointsman-replica";
/// How long the request waited to be let in, milliseconds.
const QUEUE_HEADER: &str = "x-pointsman-queue-ms";

/// Longest decision in a header, bytes: many clients and proxies take 8 KiB for all headers together.
const LONGEST: usize = 4096;

/// What a decision said, if it is to be kept.
pub(super) struct Told {
    traced: Option<(Vec<Candidate>, Explanation)>,
    candidates: usize,
    decision: Option<std::result::Result<Decision, Rejection>>,
}

impl Told {
    /// Ask the scheduler and listen.
    pub(super) fn schedule(
        &mut self,
        request: &Request,
        snapshot: &Snapshot,
        profile: &Profile,
        thresholds: &Thresholds,
    ) -> std::result::Result<Decision, Rejection> {
        let rng = &mut rand::rng();
        let decision = match &mut self.traced {
            None => schedule(request, snapshot, profile, thresholds, rng),
            Some((candidates, why)) => {
                candidates.extend_from_slice(&snapshot.candidates);
                schedule_traced(request, snapshot, profile, thresholds, rng, why)
            }
        };
        self.candidates = snapshot.candidates.len();
        self.decision = Some(decision);
        decision
    }
}

impl Context {
    /// Does the client want to know, and may it?
    pub(super) fn may_explain(&self, headers: &HeaderMap) -> bool {
        let asks = headers.get(EXPLAIN_HEADER).is_some_and(|value| value == "1");
        asks && self.job.as_ref().is_some_and(|job| job.fleet.config.explain.on_request)
    }

    /// Begin the request's line, once.
    pub(super) fn open_line(&mut self, decisions: &Decisions) {
        let (Some(job), None) = (&self.job, self.line) else { return };
        self.line = Some(decisions.open(Asked {
            at: SystemTime::now(),
            request_id: self.request_id().into(),
            model: job.model().name.clone(),
            adapter: job.target.adapter().map(|adapter| adapter.name.as_str().into()),
            session: job.wanted.session.map(|session| session.0),
            profile: job.profile.name.clone(),
            queue_wait: self.queue_wait,
        }));
    }

    /// Ready to listen to a decision.
    pub(super) fn told(&self, decisions: &Decisions) -> Told {
        let traces = self.explain || self.line.is_some_and(|line| decisions.traces(line));
        Told { traced: traces.then(Default::default), candidates: 0, decision: None }
    }

    /// The scheduler has spoken.
    pub(super) fn note_decided(&self, decisions: &Decisions, told: Told, choice: Option<&Choice>) {
        let (Some(line), Some(job)) = (self.line, &self.job) else { return };
        let members = &job.model().members;
        let name = |member: usize| members.get(member).map_or_else(|| Arc::from("?"), |at| at.replica.name.clone());
        let decision = told.decision.and_then(std::result::Result::ok);
        decisions.decided(
            line,
            Try {
                why: told.traced.map(|(candidates, why)| Why::of(&candidates, &why, name)),
                candidates: told.candidates,
                left: decision.map_or(0, |decision| decision.candidates_left),
                affinity: decision.map(|decision| decision.affinity),
                rejected: told.decision.and_then(std::result::Result::err),
                picked: decision.map(|decision| name(decision.member)),
                adapter_use: match choice {
                    Some(Choice::Wait { adapter_use, .. }) => Some(adapter_use.as_str()),
                    _ => None,
                },
                ..Try::default()
            },
        );
    }

    /// Its replica has all that it needs.
    pub(super) fn note_placed(&self, decisions: &Decisions, placed: &Placed) {
        let Some(line) = self.line else { return };
        decisions.placed(line, |made| {
            made.replica = Some(placed.lease.replica().name.clone());
            made.adapter_use = placed.adapter_use.map(AdapterUse::as_str);
            made.waited = placed.waited;
        });
    }

    /// It is over.
    pub(super) fn note_ended(&self, decisions: &Decisions, record: &Record<'_>) {
        let Some(line) = self.line else { return };
        decisions.ended(
            line,
            End {
                outcome: record.outcome,
                status: record.status,
                code: record.code,
                first_token: record.first_token,
                duration: record.duration,
                tokens: record.usage.completion,
            },
        );
    }

    /// Tell the client in the answer's header: a body, and more so a stream, belongs to the engine.
    pub(super) fn explain_in(&self, header: &mut ResponseHeader, decisions: &Decisions) -> Result<()> {
        let Some(job) = &self.job else { return Ok(()) };
        if job.fleet.config.explain.headers {
            if let Some(replica) = self.attempt.as_ref().map(|attempt| attempt.lease.replica()) {
                header.insert_header(REPLICA_HEADER, name_of(replica))?;
            }
            header.insert_header(QUEUE_HEADER, self.queue_wait.as_millis().to_string())?;
        }
        if self.explain
            && let Some(decision) = self.line.and_then(|line| decisions.line(line))
        {
            header.insert_header(DECISION_HEADER, in_a_header(decision))?;
        }
        Ok(())
    }
}

fn name_of(replica: &Replica) -> &str {
    &replica.name
}

/// The decision in ASCII; one that is too long loses what its tries weighed.
fn in_a_header(mut decision: serde_json::Value) -> String {
    let whole = ascii(&decision.to_string());
    if whole.len() <= LONGEST {
        return whole;
    }
    for made in decision.get_mut("tries").and_then(serde_json::Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = made.as_object_mut() {
            fields.remove("candidates");
            fields.insert("shortened".to_owned(), true.into());
        }
    }
    ascii(&decision.to_string())
}

/// JSON with everything beyond ASCII escaped; control characters are escaped already.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() && character != '\x7f' {
            text.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                text += &format!("\\u{unit:04x}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_decision_in_a_header_is_ascii_and_the_same_json() {
        let decision = json!({ "adapter": "schön \u{7f}🚂\n\"x\"" });
        let text = in_a_header(decision.clone());
        assert!(text.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), decision);
    }

    #[test]
    fn a_long_decision_loses_its_candidates_and_says_so() {
        let decision = json!({ "tries": [{ "replica": "r", "candidates": vec!["long"; 1000] }] });
        let short: serde_json::Value = serde_json::from_str(&in_a_header(decision)).unwrap();
        assert_eq!(short, json!({ "tries": [{ "replica": "r", "shortened": true }] }));
    }
}
