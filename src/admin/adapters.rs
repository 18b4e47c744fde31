//! `POST /adapters/{name}/load|unload|pin|unpin`: an operator's hand on the residency of one adapter.

use crate::fleet::{Fleet, OnDemand};
use crate::residency::ledger::{ByHand, Entry};
use http::StatusCode;
use serde_json::{Value, json};

/// Carry out an order; `rest` is the path after `/adapters/`. A name may hold slashes, as hub ids do.
pub(super) fn order(fleet: &Fleet, rest: &str) -> (StatusCode, Value) {
    let Some((name, verb)) = rest.rsplit_once('/') else { return refuse(StatusCode::NOT_FOUND, USAGE) };
    let Some((on_demand, entry)) = find(fleet, name) else {
        return refuse(StatusCode::NOT_FOUND, &format!("no adapter `{name}` is loaded on demand"));
    };
    let ledger = &on_demand.ledger;
    match verb {
        "load" if ledger.load(entry.id) => done(StatusCode::ACCEPTED, name, "there, or being loaded"),
        "load" => refuse(StatusCode::CONFLICT, "no replica has a slot for it now, or its last load failed"),
        "unload" => match ledger.unload(entry.id) {
            ByHand::Done(copies) => done(StatusCode::ACCEPTED, name, &format!("{copies} copies go once they are idle")),
            ByHand::Pinned => refuse(StatusCode::CONFLICT, "it is pinned: unpin it first"),
        },
        "pin" => {
            ledger.pin_by_hand(entry.id);
            done(StatusCode::OK, name, "pinned")
        }
        "unpin" => {
            ledger.unpin_by_hand(entry.id);
            done(StatusCode::OK, name, "not pinned by hand any more")
        }
        _ => refuse(StatusCode::NOT_FOUND, USAGE),
    }
}

const USAGE: &str = "POST /adapters/NAME/load, unload, pin or unpin";

fn find<'a>(fleet: &'a Fleet, name: &str) -> Option<(&'a OnDemand, &'a Entry)> {
    fleet.models().iter().find_map(|model| {
        let position = model.adapters.iter().position(|adapter| adapter.name == name)?;
        let on_demand = model.on_demand.as_ref()?;
        Some((on_demand, on_demand.entry(position)?))
    })
}

fn done(status: StatusCode, name: &str, result: &str) -> (StatusCode, Value) {
    (status, json!({ "adapter": name, "result": result }))
}

fn refuse(status: StatusCode, message: &str) -> (StatusCode, Value) {
    (status, json!({ "error": { "message": message } }))
}
