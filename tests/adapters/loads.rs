//! Loads and evictions when nothing fails.

use super::harness::{Pointsman, eventually};
use super::{ask, asked, config, engine, engines, loads, residency, state};
use pointsman::engine::client::CallError;
use pointsman::standin::{Misbehaviour, Options, StartAdapter};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SLOW: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_for_a_cold_adapter_cause_one_load_and_all_are_answered() {
    let engines = engines(3, SLOW).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, &["a", "b"], 1)).await);
    let clients: Vec<_> = (0..30)
        .map(|_| {
            let pointsman = pointsman.clone();
            tokio::spawn(async move { pointsman.chat(ask("a")).await })
        })
        .collect();
    for client in clients {
        client.await.unwrap().unwrap();
    }
    assert_eq!(loads(&engines), 1);
    let hits = residency(&pointsman).await["hits"].clone();
    assert_eq!((hits["cold"].as_u64(), hits["waited"].as_u64().is_some_and(|n| n > 0)), (Some(1), true), "{hits}");
    let metrics = pointsman.metrics().await;
    assert!(
        metrics.contains(r#"pointsman_adapter_requests_total{adapter="a",model="base",use="cold"} 1"#),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_first_answer_takes_the_load_and_little_more() {
    let engines = engines(1, SLOW).await;
    let pointsman = Pointsman::with(config(&engines, &["a"], 1)).await;
    let started = Instant::now();
    pointsman.chat(ask("a")).await.unwrap();
    let took = started.elapsed();
    // The goal is the load and 50 ms; a busy test machine is given ten times that.
    assert!(took >= SLOW && took < SLOW + Duration::from_millis(500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_unused_idle_adapter_goes_and_a_pinned_one_never() {
    let engines = engines(1, Duration::ZERO).await;
    let mut config = config(&engines, &["a", "b", "c", "pinned"], 3);
    config["models"][0]["adapters"][3]["pinned"] = json!(true);
    let pointsman = Pointsman::with(config).await;
    eventually("the pinned one is loaded unasked", async || state(&pointsman, 0, "pinned").await == "resident").await;
    for name in ["a", "b", "a", "c"] {
        pointsman.chat(ask(name)).await.unwrap();
    }
    for (name, expected) in [("pinned", "resident"), ("a", "resident"), ("b", "absent"), ("c", "resident")] {
        assert_eq!(state(&pointsman, 0, name).await, expected, "{name}");
    }
    assert_eq!(engines[0].stats().most_registered, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_over_the_slots_never_exceeds_them_and_loses_nobody() {
    let engines = engines(2, Duration::from_millis(5)).await;
    let names = ["a", "b", "c", "d", "e", "f"];
    let pointsman = Arc::new(Pointsman::with(config(&engines, &names, 2)).await);
    let clients: Vec<_> = (0..24)
        .map(|client| {
            let pointsman = pointsman.clone();
            tokio::spawn(async move {
                for turn in 0..15 {
                    let name = names[(client * 7 + turn * 5 + client * turn) % names.len()];
                    let answer = pointsman.chat(ask(name)).await.unwrap();
                    assert!(answer.contains(&format!(r#""model":"{name}""#)), "asked for {name}: {answer}");
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    for engine in &engines {
        assert!(engine.stats().most_registered <= 2, "{:?}", engine.stats());
    }
    let residency = residency(&pointsman).await;
    assert_eq!(residency["waiting"], 0);
    let leases = |replica: usize| residency["replicas"][replica]["adapters"].as_array().unwrap().clone();
    for cell in leases(0).iter().chain(&leases(1)) {
        assert_eq!(cell["leases"], 0, "{residency}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_slot_in_time_the_answer_is_adapter_capacity() {
    let engines = vec![engine(Options { tokens_per_second: Some(2.0), ..Options::fast() }).await];
    let mut config = config(&engines, &["a", "b"], 1);
    config["timeouts"] = json!({ "adapter_wait": "300ms" });
    let pointsman = Arc::new(Pointsman::with(config).await);
    let long = tokio::spawn({
        let pointsman = pointsman.clone();
        async move { pointsman.chat(ask("a")).await }
    });
    eventually("the slot is in use", async || engines[0].stats().running == 1).await;
    match pointsman.chat(ask("b")).await {
        Err(CallError::Status { status: 503, message }) => assert!(message.contains("`b`"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(residency(&pointsman).await["waiting"], 0);
    long.await.unwrap().unwrap();
    assert_eq!(loads(&engines), 1, "nobody waits for b any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_while_its_adapter_loads_leaves_nothing_behind() {
    let engines = engines(1, SLOW).await;
    let pointsman = Pointsman::with(config(&engines, &["a"], 1)).await;
    let impatient = pointsman.http.within(Duration::from_millis(50));
    let gone = impatient.post(&pointsman.clients, super::CHAT, ask("a").to_string()).await;
    assert_eq!(gone.unwrap_err(), CallError::TimedOut);
    eventually("nobody waits", async || residency(&pointsman).await["waiting"] == 0).await;
    eventually("the load goes on", async || state(&pointsman, 0, "a").await == "resident").await;
    let status = pointsman.status().await;
    assert_eq!(status["models"][0]["pools"][0]["replicas"][0]["in_flight"], 0);
    assert!(asked(&engines[0]).is_empty(), "the request was never sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_engine_has_already_is_adopted_and_other_names_are_left_alone() {
    let adapters = ["a", "theirs"].map(|name| StartAdapter { name: name.into(), path: format!("standin:{name}") });
    let engines = vec![engine(Options { adapters: adapters.to_vec(), ..Options::fast() }).await];
    let pointsman = Pointsman::with(config(&engines, &["a", "b"], 1)).await;
    eventually("a is adopted", async || state(&pointsman, 0, "a").await == "resident").await;
    pointsman.chat(ask("a")).await.unwrap();
    assert_eq!(loads(&engines), 2, "those of the start");
    pointsman.chat(ask("b")).await.unwrap();
    assert_eq!(engines[0].stats().unloads, 1, "a made room for b");
    let list = pointsman.http.get(engines[0].url().trim_start_matches("http://"), "/v1/models").await.unwrap();
    assert!(String::from_utf8_lossy(&list).contains("theirs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_in_demand_spreads_to_a_second_replica_within_two_seconds() {
    let slow = || Options { max_running: 2, tokens_per_second: Some(10.0), ..Options::fast() };
    let engines = vec![engine(slow()).await, engine(slow()).await];
    let pointsman = Arc::new(Pointsman::with(config(&engines, &["a", "b"], 2)).await);
    pointsman.chat(ask("a")).await.unwrap();
    let started = Instant::now();
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let pointsman = pointsman.clone();
            tokio::spawn(async move {
                while started.elapsed() < Duration::from_secs(4) {
                    pointsman.chat(ask("a")).await.unwrap();
                }
            })
        })
        .collect();
    eventually("there are two holders", async || {
        state(&pointsman, 0, "a").await == "resident" && state(&pointsman, 1, "a").await == "resident"
    })
    .await;
    let took = started.elapsed();
    assert!(took < Duration::from_secs(3), "the goal is 2 s, found {took:?}");
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(loads(&engines), 2, "no flapping");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_base_model_is_not_touched_by_residency() {
    let engines = engines(2, SLOW).await;
    engines[0].misbehave(Misbehaviour::FailLoads { status: 500 });
    engines[1].misbehave(Misbehaviour::FailLoads { status: 500 });
    let pointsman = Pointsman::with(config(&engines, &["a"], 1)).await;
    pointsman.chat(ask("base")).await.unwrap();
    assert_eq!(loads(&engines), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_loads_unloads_and_pins_by_hand() {
    let engines = engines(1, Duration::ZERO).await;
    let pointsman = Pointsman::with(config(&engines, &["a", "b", "c"], 2)).await;
    eventually("the replica is known", async || residency(&pointsman).await["replicas"][0]["listed"] == true).await;
    let order = async |path: &str| pointsman.http.post(&pointsman.admin, path, String::new()).await;
    order("/adapters/a/load").await.unwrap();
    eventually("a is there", async || state(&pointsman, 0, "a").await == "resident").await;
    order("/adapters/a/pin").await.unwrap();
    assert!(matches!(order("/adapters/a/unload").await, Err(CallError::Status { status: 409, .. })));
    for name in ["b", "c", "b"] {
        pointsman.chat(ask(name)).await.unwrap();
    }
    assert_eq!(state(&pointsman, 0, "a").await, "resident");
    order("/adapters/a/unpin").await.unwrap();
    order("/adapters/a/unload").await.unwrap();
    eventually("a is gone", async || state(&pointsman, 0, "a").await == "absent").await;
    for path in ["/adapters/nobody/load", "/adapters/a/dance", "/adapters/a"] {
        assert!(matches!(order(path).await, Err(CallError::Status { status: 404, .. })), "{path}");
    }
}
