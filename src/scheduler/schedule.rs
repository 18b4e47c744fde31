//! One decision: fixed rules, filters, weighted scorers, picker. Reads a snapshot and changes nothing.
//!
//! Two rules hold in every profile, before its filters: a replica on which the request's adapter failed is never asked, and
//! one that this request already tried is not asked again while another is usable.

use super::decision::{Affinity, Decision, Rejection};
use super::field::{Field, Kept, Scores};
use super::filter::{narrow, usable};
use super::profile::{Profile, Thresholds};
use super::request::Request;
use super::trace::{Silent, Step, Trace};
use crate::fleet::snapshot::{AdapterView, Candidate, Snapshot};
use rand::Rng;

/// Picks a replica of the snapshot for the request.
///
/// # Errors
/// When the snapshot has no replica, or none on which the request's adapter could be used.
pub fn schedule(
    request: &Request,
    snapshot: &Snapshot,
    profile: &Profile,
    thresholds: &Thresholds,
    rng: &mut impl Rng,
) -> Result<Decision, Rejection> {
    schedule_traced(request, snapshot, profile, thresholds, rng, &mut Silent)
}

/// The same as [`schedule`], and tells `trace` why.
///
/// # Errors
/// As [`schedule`].
pub fn schedule_traced(
    request: &Request,
    snapshot: &Snapshot,
    profile: &Profile,
    thresholds: &Thresholds,
    rng: &mut impl Rng,
    trace: &mut impl Trace,
) -> Result<Decision, Rejection> {
    let thresholds = thresholds.sanitized();
    let mut kept: Kept<'_> = snapshot.candidates.iter().collect();
    drop_failed(request, &mut kept, trace)?;
    drop_tried(&mut kept, trace);
    for &filter in &profile.filters {
        filter.apply(request, &thresholds, &mut kept, &mut |candidate| {
            trace.dropped(Step::Filter(filter), candidate);
        });
    }
    let field = Field::new(request, &thresholds, &kept, profile, rng);
    let totals = totals(&field, profile, trace);
    let picked = profile.picker.pick(&field, &totals, rng).and_then(|at| kept.get(at)).ok_or(Rejection::NoReplica)?;
    trace.picked(profile.picker, picked);
    decide(request, snapshot, picked, kept.len())
}

fn drop_failed<'a>(request: &Request, kept: &mut Kept<'a>, trace: &mut impl Trace) -> Result<(), Rejection> {
    let able = |candidate: &Candidate| !request.on_demand_adapter || candidate.adapter != AdapterView::Failed;
    let any = narrow(kept, able, &mut |candidate| trace.dropped(Step::AdapterFailed, candidate));
    match any {
        true => Ok(()),
        false if kept.is_empty() => Err(Rejection::NoReplica),
        false => Err(Rejection::AdapterFailedEverywhere),
    }
}

fn drop_tried<'a>(kept: &mut Kept<'a>, trace: &mut impl Trace) {
    if kept.iter().any(|candidate| !candidate.tried && usable(candidate)) {
        narrow(kept, |candidate| !candidate.tried, &mut |candidate| trace.dropped(Step::AlreadyTried, candidate));
    }
}

/// The weighted sum of all scores of each candidate.
fn totals(field: &Field<'_>, profile: &Profile, trace: &mut impl Trace) -> Scores {
    if let Some(named) = field.named().and_then(|at| field.kept.get(at)) {
        trace.named(named);
    }
    let mut totals = Scores::from_elem(0.0, field.kept.len());
    for &(scorer, weight) in &profile.scorers {
        let scores = scorer.scores(field);
        debug_assert_eq!(scores.len(), totals.len(), "{scorer} gives one score a candidate");
        for ((total, score), candidate) in totals.iter_mut().zip(&scores).zip(field.kept) {
            trace.scored(scorer, weight, candidate, *score);
            *total += weight * score;
        }
    }
    totals
}

fn decide(request: &Request, snapshot: &Snapshot, picked: &Candidate, left: usize) -> Result<Decision, Rejection> {
    let index = snapshot.candidates.iter().position(|candidate| std::ptr::eq(candidate, picked));
    Ok(Decision {
        index: index.ok_or(Rejection::NoReplica)?,
        member: picked.member,
        affinity: Affinity::of(request.session, picked.identity),
        adapter: picked.adapter,
        candidates_left: left,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::snapshot::BreakerView;
    use crate::scheduler::fixture::{candidate, decide_with, profile, snapshot};
    use crate::scheduler::request::Session;
    use crate::scheduler::trace::{Dropped, Explanation};
    use crate::scheduler::{filter::Filter, picker::Picker};
    use rand::{SeedableRng, rngs::StdRng};

    #[test]
    fn an_empty_snapshot_is_rejected() {
        for profile in Profile::builtin() {
            assert_eq!(
                decide_with(1, &profile, &Request::default(), &[]),
                Err(Rejection::NoReplica),
                "{}",
                profile.name
            );
        }
    }

    #[test]
    fn an_adapter_that_failed_everywhere_is_rejected_and_elsewhere_avoided() {
        let failed = |at| Candidate { adapter: AdapterView::Failed, ..candidate(at) };
        let request = Request { on_demand_adapter: true, ..Default::default() };
        for profile in Profile::builtin() {
            let rejected = decide_with(1, &profile, &request, &[failed(0), failed(1)]);
            assert_eq!(rejected, Err(Rejection::AdapterFailedEverywhere), "{}", profile.name);
            assert_eq!(decide_with(1, &profile, &request, &[failed(0), candidate(1)]).unwrap().index, 1);
            let base = Request { on_demand_adapter: false, ..request };
            assert!(decide_with(1, &profile, &base, &[failed(0)]).is_ok(), "{}", profile.name);
        }
    }

    #[test]
    fn a_tried_replica_is_avoided_while_another_is_usable() {
        let tried = Candidate { tried: true, ..candidate(0) };
        let tripped = Candidate { breaker: BreakerView::Tripped, ..candidate(1) };
        for profile in Profile::builtin() {
            let pick = |fleet: &[Candidate]| decide_with(1, &profile, &Request::default(), fleet).unwrap().member;
            assert_eq!(pick(&[tried, candidate(1)]), 1, "{}", profile.name);
            assert_eq!(pick(&[tried, tripped]), 0, "{}", profile.name);
            assert_eq!(pick(&[tried]), 0, "{}", profile.name);
        }
    }

    #[test]
    fn a_decision_tells_what_became_of_session_and_adapter() {
        let request = Request {
            on_demand_adapter: true,
            session: Some(Session { key: 1, remembered: Some(candidate(1).identity) }),
            ..Default::default()
        };
        let mut fleet = [candidate(0), candidate(1), candidate(2)];
        fleet[1].adapter = AdapterView::Resident;
        let decision = decide_with(1, &profile("chat"), &request, &fleet).unwrap();
        let expected = Decision {
            index: 1,
            member: 1,
            affinity: Affinity::Kept,
            adapter: AdapterView::Resident,
            candidates_left: 1,
        };
        assert_eq!(decision, expected);
    }

    #[test]
    fn a_session_stays_when_another_replica_is_only_a_little_better() {
        let session = Session { key: 1, remembered: Some(candidate(0).identity) };
        let request = Request { session: Some(session), ..Default::default() };
        let busy = Candidate { in_flight: 2.0, running: 2.0, kv: 0.5, ..candidate(0) };
        for seed in 0..50 {
            assert_eq!(
                decide_with(seed, &profile("chat"), &request, &[busy, candidate(1), candidate(2)]).unwrap().index,
                0
            );
        }
    }

    #[test]
    fn an_explanation_agrees_with_the_silent_decision() {
        let snapshot = snapshot(&[
            Candidate { breaker: BreakerView::Tripped, ..candidate(0) },
            Candidate { waiting: 4.0, ..candidate(1) },
            candidate(2),
            Candidate { tried: true, ..candidate(3) },
        ]);
        let (request, profile, thresholds) = (Request::default(), profile("batch"), Thresholds::default());
        let mut why = Explanation::default();
        let told = schedule_traced(&request, &snapshot, &profile, &thresholds, &mut StdRng::seed_from_u64(8), &mut why);
        let silent = schedule(&request, &snapshot, &profile, &thresholds, &mut StdRng::seed_from_u64(8));
        assert_eq!(told, silent);
        let dropped = [(Step::AlreadyTried, 3), (Step::Filter(Filter::BreakerOpen), 0)];
        assert_eq!(why.dropped, dropped.map(|(step, member)| Dropped { step, member }));
        assert_eq!(why.picked, Some((Picker::MaxScore, 2)));
        assert_eq!(why.total(2), 3.0 + 1.0 + 1.0 + 1.0 + 1.0);
        assert_eq!(why.total(1), 1.5 + 1.0 + 30.0 / 34.0 + 1.0 + 1.0);
        assert_eq!(why.scored.len(), 2 * profile.scorers.len());
    }
}
