//! `POST /reload` and the configuration's part of `/status`, as JSON.

use crate::fleet::reload::{Outcome, Reloader, Report, State};
use http::StatusCode;
use serde_json::{Value, json};
use std::time::UNIX_EPOCH;

/// Reload, or with `dry_run=1` tell what would change. 422 for a file that cannot be used.
pub(super) fn order(reloader: &Reloader, query: Option<&str>) -> (StatusCode, Value) {
    let dry = query.is_some_and(|query| query.split('&').any(|pair| pair == "dry_run=1"));
    let told = if dry { reloader.dry_run() } else { reloader.reload() };
    let status = if told.outcome == Outcome::Refused { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let mut answer = report(&told);
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("dry_run".to_owned(), dry.into());
    }
    (status, answer)
}

/// Generation, last reload, and what waits for a restart.
pub(super) fn state(state: &State) -> Value {
    json!({
        "generation": state.generation,
        "needs_restart": state.restart,
        "last_reload": state.last.as_ref().map(report),
    })
}

fn report(report: &Report) -> Value {
    json!({
        "outcome": report.outcome.as_str(),
        "at": report.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        "changes": report.changes.applied,
        "needs_restart": report.changes.restart,
        "errors": report.errors,
    })
}
