//! `POST /replicas/{name}/drain|undrain`: take a replica out for a while, or let it in again.

use crate::fleet::Fleet;
use http::StatusCode;
use serde_json::{Value, json};

/// Carry out an order; `rest` is the path after `/replicas/`.
pub(super) fn order(fleet: &Fleet, rest: &str) -> (StatusCode, Value) {
    let (name, draining) = match rest.rsplit_once('/') {
        Some((name, "drain")) => (name, true),
        Some((name, "undrain")) => (name, false),
        _ => return refuse(StatusCode::NOT_FOUND, "POST /replicas/NAME/drain or undrain"),
    };
    let mut requests = None;
    for (_, member) in fleet.members().filter(|(_, member)| &*member.replica.name == name) {
        member.replica.set_draining(draining);
        *requests.get_or_insert(0) += member.replica.in_flight();
    }
    match requests {
        Some(requests) => (StatusCode::OK, json!({ "replica": name, "draining": draining, "in_flight": requests })),
        None => refuse(StatusCode::NOT_FOUND, &format!("no replica `{name}`")),
    }
}

fn refuse(status: StatusCode, message: &str) -> (StatusCode, Value) {
    (status, json!({ "error": { "message": message } }))
}
