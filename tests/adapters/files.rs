//! Adapters that come, go and change on disk.

use super::harness::{Pointsman, eventually};
use super::{ask, asked, config, engine, state};
use pointsman::engine::client::CallError;
use pointsman::standin::{AdapterFiles, Options};
use serde_json::json;
use std::path::Path;

fn write(folder: &Path, name: &str, weights: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("adapter_model.safetensors"), weights).unwrap();
    std::fs::write(path.join("adapter_config.json"), r#"{"r": 8}"#).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn adapters_in_the_folder_come_and_go_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "first", "1");
    let engines = vec![engine(Options { adapter_files: AdapterFiles::OnDisk, ..Options::fast() }).await];
    let mut config = config(&engines, &[], 2);
    config["models"][0]["adapters_dir"] = json!(folder.path());
    let pointsman = Pointsman::with(config).await;
    pointsman.chat(ask("first")).await.unwrap();
    assert!(matches!(pointsman.chat(ask("second")).await, Err(CallError::Status { status: 404, .. })));
    write(folder.path(), "second", "2");
    eventually("second is served", async || pointsman.chat(ask("second")).await.is_ok()).await;
    let list = pointsman.http.get(&pointsman.clients, "/v1/models").await.unwrap();
    assert!(String::from_utf8_lossy(&list).contains("second"));
    std::fs::remove_dir_all(folder.path().join("first")).unwrap();
    eventually("first is gone", async || {
        matches!(pointsman.chat(ask("first")).await, Err(CallError::Status { status: 404, .. }))
    })
    .await;
    eventually("its copy is unloaded", async || state(&pointsman, 0, "first").await == "absent").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_weights_under_the_same_name_are_loaded_under_a_revision() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "sql", "old");
    let engines = vec![engine(Options { adapter_files: AdapterFiles::OnDisk, ..Options::fast() }).await];
    let mut config = config(&engines, &["sql"], 2);
    config["models"][0]["adapters"][0]["path"] = json!(folder.path().join("sql"));
    let pointsman = Pointsman::with(config).await;
    pointsman.chat(ask("sql")).await.unwrap();
    write(folder.path(), "sql", "new weights");
    eventually("a revision is asked for", async || {
        pointsman.chat(ask("sql")).await.unwrap();
        asked(&engines[0]).last().unwrap().starts_with("sql@")
    })
    .await;
    eventually("the old weights are unloaded", async || engines[0].stats().unloads == 1).await;
}
