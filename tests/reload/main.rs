//! Hot reload of the real binary in front of stand-in engines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

mod house;

use house::{House, config, engine, eventually};
use pointsman::engine::client::CallError;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::tempdir;

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_and_every_way_to_replace_the_file_reload_it() {
    let (engine, folder) = (engine(None).await, tempdir().unwrap());
    let path = |name: &str| folder.path().join(name);
    for version in ["v1", "v2"] {
        fs::create_dir(path(version)).unwrap();
        fs::write(path(version).join("p.yaml"), config(&[&engine], &[version])).unwrap();
    }
    symlink("v1", path("data")).unwrap();
    symlink("data/p.yaml", path("p.yaml")).unwrap();
    let house = House::of(&path("p.yaml")).await;
    house.aliases_become(&["v1"]).await;

    symlink("v2", path("next")).unwrap();
    fs::rename(path("next"), path("data")).unwrap();
    house.aliases_become(&["v2"]).await;

    fs::write(path("p.yaml.swp"), config(&[&engine], &["renamed"])).unwrap();
    fs::rename(path("p.yaml.swp"), &house.file).unwrap();
    house.aliases_become(&["renamed"]).await;

    fs::write(&house.file, config(&[&engine], &["in place"])).unwrap();
    house.aliases_become(&["in place"]).await;

    // The watcher has taken the file, so only the signal reads it again.
    assert!(!house.metrics().await.contains("outcome=\"unchanged\""));
    house.hang_up();
    let unchanged = "pointsman_reloads_total{outcome=\"unchanged\"} 1";
    eventually("the signal is acted upon", async || house.metrics().await.contains(unchanged)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_or_missing_file_changes_nothing_and_is_told() {
    let (engine, folder) = (engine(None).await, tempdir().unwrap());
    let file = folder.path().join("p.yaml");
    fs::write(&file, config(&[&engine], &["good"])).unwrap();
    let house = House::of(&file).await;
    fs::write(&file, "models:\n  - nmae: x\n").unwrap();
    let refused = house.reload("").await;
    assert!(matches!(refused, Err(CallError::Status { status: 422, .. })), "{refused:?}");
    let status = house.status().await;
    let errors = status["config"]["last_reload"]["errors"].to_string();
    assert!(errors.contains("p.yaml:2:"), "{errors}");
    assert_eq!((&status["config"]["generation"], &status["models"][0]["aliases"][0]), (&1.into(), &"good".into()));
    assert!(house.metrics().await.contains("pointsman_reloads_total{outcome=\"refused\"}"));
    fs::remove_file(&file).unwrap();
    let refused = house.reload("").await;
    assert!(matches!(refused, Err(CallError::Status { status: 422, .. })), "{refused:?}");
    house.ask("good", 2).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_changes_and_settings_that_need_a_restart_and_changes_nothing() {
    let (engine, folder) = (engine(None).await, tempdir().unwrap());
    let file = folder.path().join("p.yaml");
    fs::write(&file, config(&[&engine], &[])).unwrap();
    let house = House::of(&file).await;
    let report = house.reload("?dry_run=1").await.unwrap();
    assert_eq!((&report["outcome"], &report["dry_run"]), (&"unchanged".into(), &true.into()));
    let new = config(&[&engine], &["x"]).replace("\"server\":{", "\"server\":{\"threads\":7,");
    fs::write(&file, new).unwrap();
    let report = house.reload("?dry_run=1").await.unwrap();
    assert!(report["needs_restart"][0].as_str().unwrap().starts_with("server.threads: "), "{report}");
    house.aliases_become(&["x"]).await;
    let status = house.status().await;
    assert!(status["config"]["needs_restart"][0].as_str().unwrap().starts_with("server.threads: "), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_replica_finishes_its_streams_and_a_new_one_gets_traffic() {
    let (slow, fresh, folder) = (engine(Some(50.0)).await, engine(None).await, tempdir().unwrap());
    let file = folder.path().join("p.yaml");
    fs::write(&file, config(&[&slow], &[])).unwrap();
    let house = Arc::new(House::of(&file).await);
    let asking = house.clone();
    let stream = tokio::spawn(async move { asking.ask("base", 60).await });
    eventually("the stream runs", async || slow.stats().generated_tokens > 0).await;
    fs::write(&file, config(&[&fresh], &[])).unwrap();
    house.reload("").await.unwrap();
    house.ask("base", 2).await.unwrap();
    assert!(fresh.stats().generated_tokens > 0, "the new replica answered");
    assert!(!stream.is_finished(), "the stream outlived the reload");
    let streamed = stream.await.unwrap().unwrap();
    assert!(streamed.contains("[DONE]"), "{streamed}");
    eventually("the removed replica is asked no more", async || {
        let (removed, asked) = (slow.requests().len(), fresh.requests().len());
        eventually("the new one is read out", async || fresh.requests().len() > asked + 2).await;
        slow.requests().len() == removed
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_reloads_under_load_fail_no_request_and_keep_the_counters() {
    let (kept, other, folder) = (engine(None).await, engine(None).await, tempdir().unwrap());
    let file = folder.path().join("p.yaml");
    fs::write(&file, config(&[&kept, &other], &[])).unwrap();
    let house = Arc::new(House::of(&file).await);
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (house, stop) = (house.clone(), stop.clone());
            tokio::spawn(async move {
                let mut answered = 0_u64;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    house.ask("base", 4).await.unwrap();
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    for number in 0..100 {
        let engines: &[_] = if number % 2 == 0 { &[&kept] } else { &[&kept, &other] };
        fs::write(&file, config(engines, &[])).unwrap();
        house.reload("").await.unwrap();
    }
    fs::write(&file, config(&[&kept], &[])).unwrap();
    house.reload("").await.unwrap();
    let picked = async || house.status().await["models"][0]["pools"][0]["replicas"][0]["requests"].as_u64().unwrap();
    let before = picked().await;
    assert!(before > 0);
    fs::write(&file, config(&[&kept], &["late"])).unwrap();
    house.reload("").await.unwrap();
    assert!(picked().await >= before, "an unchanged replica keeps its counter");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for client in clients {
        assert!(client.await.unwrap() > 0, "each client was answered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_soon() {
    let (engine, folder) = (engine(None).await, tempdir().unwrap());
    let file = folder.path().join("p.yaml");
    fs::write(&file, config(&[&engine], &[])).unwrap();
    let started = Instant::now();
    let _house = House::of(&file).await;
    let took = started.elapsed();
    println!("ready after {took:?}");
    // The goal is 300 ms; this bound is ten times that, for an unoptimized build on a busy machine.
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_taken_admin_port_ends_it_with_a_clear_error() {
    let (engine, folder) = (engine(None).await, tempdir().unwrap());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = folder.path().join("p.yaml");
    let admin = "\"admin_listen\":\"127.0.0.1:0\"";
    let text = config(&[&engine], &[]).replace(admin, &format!("\"admin_listen\":\"{address}\""));
    fs::write(&file, text).unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_pointsman")).arg("serve").arg("-c").arg(&file).output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains(&format!("cannot listen on {address}")), "{told}");
}

#[tokio::test]
async fn check_tells_what_changes_between_two_files() {
    let (engine, folder) = (engine(None).await, tempdir().unwrap());
    let (running, new) = (folder.path().join("running.yaml"), folder.path().join("new.yaml"));
    fs::write(&running, config(&[&engine], &[])).unwrap();
    fs::write(&new, config(&[&engine], &["x"])).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    let told = check.arg("check").arg("--diff").arg(&running).arg("-c").arg(&new).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("model base: aliases: [] -> [\"x\"]"), "{told}");
}
