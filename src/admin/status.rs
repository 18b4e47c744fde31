//! `GET /status`: models, pools and replicas as they are now.

use crate::fleet::clock::now_ms;
use crate::fleet::snapshot::BreakerView;
use crate::fleet::{Fleet, Member, Model};
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
    })
}

fn replica(member: &Member, now: u64) -> Value {
    let replica = &member.replica;
    let readout = replica.last_readout(now);
    json!({
        "name": &*replica.name,
        "weight": member.weight,
        "breaker": breaker(replica.breaker_view(now)),
        "in_flight": replica.in_flight(),
        "requests": replica.picked(),
        "waiting": readout.map(|(readout, _)| readout.waiting),
        "running": readout.map(|(readout, _)| readout.running),
        "kv": readout.map(|(readout, _)| readout.kv),
        "readout_age_ms": readout.map(|(_, age)| crate::fleet::clock::to_ms(age)),
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
