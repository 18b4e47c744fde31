//! Loads that fail, engines that forget, replicas that die.

use super::harness::{Pointsman, eventually};
use super::{ask, asked, config, engine, engines, loads, residency, state};
use pointsman::engine::client::CallError;
use pointsman::standin::{AdapterFiles, Misbehaviour, Options};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_cannot_succeed_is_answered_with_the_engines_reason_and_holds_up_nobody() {
    let options = || Options { adapter_files: AdapterFiles::OnDisk, ..Options::fast() };
    let engines = vec![engine(options()).await, engine(options()).await];
    let mut config = config(&engines, &["good", "bad"], 1);
    config["models"][0]["adapters"][1]["path"] = json!("/no/such/adapter");
    let pointsman = Pointsman::with(config).await;
    match pointsman.chat(ask("bad")).await {
        Err(CallError::Status { status: 424, message }) => {
            assert!(message.contains("`bad`") && message.contains("No adapter found"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    pointsman.chat(ask("good")).await.unwrap();
    let before = loads(&engines);
    assert!(pointsman.chat(ask("bad")).await.is_err());
    assert_eq!(loads(&engines), before, "it backs off");
    assert_eq!(state(&pointsman, 0, "bad").await, "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_refused_on_one_replica_is_made_on_another() {
    let engines = engines(2, Duration::ZERO).await;
    engines[0].misbehave(Misbehaviour::FailLoads { status: 500 });
    let pointsman = Pointsman::with(config(&engines, &["a", "b", "c", "d"], 4)).await;
    for name in ["a", "b", "c", "d"] {
        pointsman.chat(ask(name)).await.unwrap();
    }
    assert_eq!(engines[1].stats().loads, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_load_ends_at_its_deadline_and_delays_no_other_adapter() {
    let engines = engines(1, Duration::ZERO).await;
    let mut config = config(&engines, &["slow", "quick"], 2);
    config["timeouts"] = json!({ "adapter_load": "300ms", "adapter_wait": "1s" });
    let pointsman = Arc::new(Pointsman::with(config).await);
    pointsman.chat(ask("quick")).await.unwrap();
    engines[0].misbehave(Misbehaviour::SlowLoad { ms: 5_000 });
    let slow = tokio::spawn({
        let pointsman = pointsman.clone();
        async move { pointsman.chat(ask("slow")).await }
    });
    eventually("the load is under way", async || state(&pointsman, 0, "slow").await != "absent").await;
    let started = Instant::now();
    pointsman.chat(ask("quick")).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(300));
    let answer = slow.await.unwrap();
    assert!(matches!(&answer, Err(CallError::Status { status: 503 | 504, .. })), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_that_an_engine_lost_is_loaded_again_and_no_request_notices() {
    let engines = engines(1, Duration::from_millis(20)).await;
    let pointsman = Pointsman::with(config(&engines, &["a"], 1)).await;
    pointsman.chat(ask("a")).await.unwrap();
    for _ in 0..3 {
        engines[0].misbehave(Misbehaviour::LoseAdapters);
        pointsman.chat(ask("a")).await.unwrap();
    }
    assert_eq!(loads(&engines), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_unloaded_behind_our_back_is_loaded_once_for_all_who_want_it() {
    let engines = engines(1, Duration::from_millis(100)).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, &["a"], 1)).await);
    pointsman.chat(ask("a")).await.unwrap();
    let engine = engines[0].url().trim_start_matches("http://").to_owned();
    pointsman.http.post(&engine, "/v1/unload_lora_adapter", json!({ "lora_name": "a" }).to_string()).await.unwrap();
    let clients: Vec<_> = (0..10)
        .map(|_| {
            let pointsman = pointsman.clone();
            tokio::spawn(async move { pointsman.chat(ask("a")).await })
        })
        .collect();
    for client in clients {
        client.await.unwrap().unwrap();
    }
    assert_eq!(loads(&engines), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_engine_is_noticed_and_gets_its_adapters_again() {
    let engines = engines(2, Duration::ZERO).await;
    let pointsman = Pointsman::with(config(&engines, &["a", "b"], 2)).await;
    for name in ["a", "b", "a", "b"] {
        pointsman.chat(ask(name)).await.unwrap();
    }
    for engine in &engines {
        engine.kill().await;
        engine.restart().await.unwrap();
    }
    eventually("both serve again", async || {
        pointsman.chat(ask("a")).await.is_ok() && pointsman.chat(ask("b")).await.is_ok()
    })
    .await;
    for engine in &engines {
        assert!(engine.stats().most_registered <= 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_dies_while_it_loads_hands_its_waiters_to_another() {
    let engines = engines(2, Duration::from_millis(400)).await;
    let pointsman = Arc::new(Pointsman::with(config(&engines, &["a"], 1)).await);
    let waiting = tokio::spawn({
        let pointsman = pointsman.clone();
        async move { pointsman.chat(ask("a")).await }
    });
    let mut loading = None;
    eventually("the load is under way", async || {
        for replica in 0..2 {
            if state(&pointsman, replica, "a").await == "loading" {
                loading = Some(replica);
            }
        }
        loading.is_some()
    })
    .await;
    engines[loading.unwrap()].kill().await;
    waiting.await.unwrap().unwrap();
    assert_eq!(asked(&engines[1 - loading.unwrap()]), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_killed_a_replica_is_not_replayed_and_its_adapter_is_quarantined() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("adapter_config.json"), r#"{"r": 8}"#).unwrap();
        path
    };
    // As seen of vLLM: it keeps one adapter in memory, reads an evicted one again, and dies if its files are gone.
    let options = || Options { adapter_files: AdapterFiles::OnDisk, max_cpu_loras: 1, max_loras: 1, ..Options::fast() };
    let mut engines = Vec::new();
    for _ in 0..2 {
        engines.push(pointsman::standin::StandIn::start(options()).await.unwrap());
    }
    let mut config = config(&engines, &["a", "b"], 2);
    config["models"][0]["adapters"][0]["path"] = json!(write("a"));
    config["models"][0]["adapters"][1]["path"] = json!(write("b"));
    config["models"][0]["pools"] = json!([
        { "name": "edge", "replicas": [{ "url": engines[0].url() }] },
        { "name": "spare", "priority": 1, "replicas": [{ "url": engines[1].url() }] },
    ]);
    let pointsman = Pointsman::with(config).await;
    for name in ["a", "b"] {
        pointsman.chat(ask(name)).await.unwrap();
    }
    std::fs::remove_dir_all(folder.path().join("a")).unwrap();
    match pointsman.chat(ask("a")).await {
        Err(CallError::Status { status: 503, message }) => assert!(message.contains("quarantine"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(pointsman.chat(ask("a")).await, Err(CallError::Status { status: 503, .. })));
    assert!(asked(&engines[1]).is_empty(), "the other replica never saw it");
    eventually("b is served by the other replica", async || pointsman.chat(ask("b")).await.is_ok()).await;
    assert_eq!(residency(&pointsman).await["quarantines"], 1);
}
