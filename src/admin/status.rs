//! `GET /status`: models, pools and replicas as they are now.

use crate::admission::Class;
use crate::fleet::clock::now_ms;
use crate::fleet::snapshot::BreakerView;
use crate::fleet::{Fleet, Member, Model};
use crate::residency::ledger::Ledger;
use crate::residency::overview::{AdapterLine, CellLine, Overview, ReplicaLine};
use serde_json::{Value, json};

/// The whole fleet.
pub(super) fn of(fleet: &Fleet) -> Value {
    json!({ "version": env!("CARGO_PKG_VERSION"), "models": fleet.models().iter().map(|model| self::model(model)).collect::<Vec<_>>() })
}

fn model(model: &Model) -> Value {
    let now = now_ms();
    let pools = model.members.chunk_by(|a, b| a.pool == b.pool).map(|members| {
        let first = members.first();
        json!({
            "name": first.map(|member| &*member.pool),
            "priority": first.map(|member| member.priority),
            "replicas": members.iter().map(|member| replica(member, now)).collect::<Vec<_>>(),
        })
    });
    json!({
        "name": model.name,
        "aliases": model.aliases,
        "profile": &*model.profile.name,
        "adapters": model.adapters.iter().map(|adapter| &adapter.name).collect::<Vec<_>>(),
        "pools": pools.collect::<Vec<_>>(),
        "queue": queue(model),
        "residency": model.on_demand.as_ref().map(|on_demand| residency(&on_demand.ledger)),
    })
}

/// Who waits to be let in.
fn queue(model: &Model) -> Value {
    let (classes, bytes) = model.room.occupancy();
    let of = |class: Class| (class.as_str().to_owned(), classes.get(class as usize).copied().into());
    let classes: serde_json::Map<_, _> = Class::ALL.into_iter().map(of).collect();
    json!({ "waiting": model.room.waiting(), "by_priority": classes, "bytes": bytes })
}

/// Which adapter is where; `null` for a model whose adapters are registered at the engine's start.
fn residency(ledger: &Ledger) -> Value {
    let Overview { slots, waiting, adapters, replicas } = ledger.overview();
    let adapter = |line: AdapterLine| {
        json!({
            "name": line.name,
            "wire_name": &*line.wire,
            "pinned": line.pinned,
            "retired": line.retired,
            "rank": line.rank,
            "requests_per_second": line.demand,
            "last_error": line.complaint.map(|complaint| {
                json!({ "replica": &*complaint.replica, "reason": &*complaint.reason })
            }),
        })
    };
    let cell = |cell: CellLine| json!({ "adapter": cell.adapter, "wire_name": &*cell.wire, "state": cell.state, "leases": cell.leases });
    let replica = |line: ReplicaLine| {
        json!({
            "name": &*line.name,
            "slots_in_use": line.slots_in_use,
            "listed": line.listed,
            "adapters": line.cells.into_iter().map(cell).collect::<Vec<_>>(),
        })
    };
    let counters = ledger.counters();
    json!({
        "slots": slots,
        "waiting": waiting,
        "adapters": adapters.into_iter().map(adapter).collect::<Vec<_>>(),
        "replicas": replicas.into_iter().map(replica).collect::<Vec<_>>(),
        "hits": { "resident": counters.hits_resident, "waited": counters.hits_waited, "cold": counters.hits_cold },
        "loads": { "started": counters.loads_started, "ok": counters.loads_ok, "failed": counters.loads_failed },
        "evictions": counters.evictions,
        "adopted": counters.adopted,
        "lost": counters.lost,
        "quarantines": counters.quarantines,
    })
}

fn replica(member: &Member, now: u64) -> Value {
    let replica = &member.replica;
    let readout = replica.last_readout(now);
    json!({
        "name": &*replica.name,
        "weight": member.weight,
        "breaker": breaker(replica.breaker_view(now)),
        "stalled": replica.is_stalled(),
        "draining": replica.is_draining(),
        "in_flight": replica.in_flight(),
        "requests": replica.picked(),
        "waiting": readout.map(|(readout, _)| readout.waiting),
        "running": readout.map(|(readout, _)| readout.running),
        "kv": readout.map(|(readout, _)| readout.kv),
        "readout_age_ms": readout.map(|(_, age)| crate::fleet::clock::to_ms(age)),
        "first_token_p50_ms": replica.first_token_median().map(|time| time.as_secs_f64() * 1e3),
        "first_token_ms": replica.first_token().map(|time| time.as_secs_f64() * 1e3),
    })
}

fn breaker(view: BreakerView) -> &'static str {
    match view {
        BreakerView::Healthy => "healthy",
        BreakerView::Tripped => "tripped",
        BreakerView::Probing => "probing",
    }
}
