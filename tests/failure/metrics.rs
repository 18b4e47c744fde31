//! Engines whose metrics lie or fail: no herd, no starvation.

use super::harness::{CHAT, Pointsman};
use super::{ask, config, engines};
use pointsman::standin::{Misbehaviour, Options, StandIn};
use serde_json::json;
use std::sync::Arc;

async fn shares(lie: Misbehaviour) -> Vec<usize> {
    let engines = engines(3, Options { tokens_per_second: Some(200.0), ..Options::fast() }).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, json!({ "admission": "off" }))).await);
    engines[0].misbehave(lie);
    let clients: Vec<_> = (0..24)
        .map(|_| {
            let pointsman = pointsman.clone();
            tokio::spawn(async move {
                for _ in 0..12 {
                    pointsman.chat(ask(10)).await.unwrap();
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let asked = |engine: &StandIn| engine.requests().iter().filter(|request| request.path == CHAT).count();
    engines.iter().map(asked).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_always_claims_to_be_idle_does_not_draw_the_herd() {
    let shares = shares(Misbehaviour::LieInMetrics { running: 0.0, waiting: 0.0, kv: 0.0 }).await;
    assert!(shares[0] < 288 * 6 / 10, "{shares:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_metrics_is_neither_idle_nor_full() {
    let shares = shares(Misbehaviour::FailMetrics { status: 500 }).await;
    assert!((288 / 6..288 * 6 / 10).contains(&shares[0]), "{shares:?}");
}
