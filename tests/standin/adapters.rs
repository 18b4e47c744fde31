//! Loading, using and losing adapters.

use crate::client::{DEADLINE, chat, eventually, fast, get, load, post, start};
use pointsman::standin::{AdapterFiles, Misbehaviour, Options};
use serde_json::json;
use tokio::time::timeout;

#[tokio::test]
async fn adapters_are_loaded_listed_used_and_unloaded() {
    let standin = fast().await;
    let loaded = load(&standin, "sql", "/adapters/sql").await;
    assert_eq!(loaded.text(), "Success: LoRA adapter 'sql' added successfully.");
    assert_eq!(loaded.header("content-type"), None);
    let list = get(&standin, "/v1/models").await.json();
    assert_eq!((&list["data"][1]["id"], &list["data"][1]["parent"]), (&json!("sql"), &json!("base")));
    let answer = post(&standin, "/v1/chat/completions", chat("sql", 1, false)).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "stand-in r1, model base, adapter sql:");
    let gone = post(&standin, "/v1/unload_lora_adapter", json!({"lora_name": "sql"})).await;
    assert_eq!(gone.text(), "Success: LoRA adapter 'sql' removed successfully.");
    assert_eq!(post(&standin, "/v1/chat/completions", chat("sql", 1, false)).await.status, 404);
    let stats = standin.stats();
    assert_eq!((stats.loads, stats.unloads, stats.by_adapter["sql"]), (1, 1, 1));
}

#[tokio::test]
async fn bad_loads_have_the_recorded_codes_and_words() {
    let folder = adapter_folder(32);
    let rank32 = folder.path().to_str().expect("a path");
    let standin = start(Options { adapter_files: AdapterFiles::OnDisk, ..Options::fast() }).await;
    load(&standin, "held", "standin:held").await;
    for (body, status, words) in [
        (json!({"lora_name": "held", "lora_path": "standin:other"}), 400, "has already been loaded"),
        (json!({"lora_name": "held", "lora_path": "standin:x", "load_inplace": true}), 200, "added successfully"),
        (json!({"lora_name": "base", "lora_path": "standin:x"}), 400, "conflicts with a served base model"),
        (json!({"lora_name": "x"}), 400, "body.lora_path"),
        (json!({"lora_name": "x", "lora_path": ""}), 400, "must be provided"),
        (json!({"lora_name": "x", "lora_path": "/no/such"}), 404, "No adapter found for <path>"),
        (json!({"lora_name": "x", "lora_path": "org/lora"}), 404, "No adapter found for org/lora"),
        (json!({"lora_name": "x", "lora_path": rank32}), 500, "LoRA rank 32 is greater than max_lora_rank 16."),
    ] {
        let reply = post(&standin, "/v1/load_lora_adapter", body).await;
        assert_eq!(reply.status, status, "{words}");
        assert!(reply.text().contains(words), "{words} not in {}", reply.text());
    }
    let unknown = post(&standin, "/v1/unload_lora_adapter", json!({"lora_name": "base"})).await;
    assert_eq!((unknown.status, unknown.text().contains("cannot be found")), (404, true));
}

fn adapter_folder(rank: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("adapter_config.json"), json!({"r": rank}).to_string()).expect("a file");
    folder
}

#[tokio::test]
async fn an_evicted_adapter_without_files_kills_the_engine() {
    let options = Options { max_cpu_loras: 1, adapter_files: AdapterFiles::OnDisk, ..Options::fast() };
    let standin = start(options).await;
    let folder = adapter_folder(8);
    load(&standin, "doomed", folder.path().to_str().expect("a path")).await;
    load(&standin, "other", "standin:other").await;
    folder.close().expect("deleted");
    let reply = post(&standin, "/v1/chat/completions", chat("doomed", 1, false)).await;
    assert_eq!((reply.status, reply.text().contains("EngineCore encountered an issue")), (500, true));
    timeout(DEADLINE, standin.gone()).await.expect("the death");
    eventually("refused", || std::net::TcpStream::connect(standin.address()).is_err()).await;
}

#[tokio::test]
async fn loads_fail_on_order() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::FailLoads { status: 500 });
    assert_eq!(load(&standin, "sql", "standin:").await.status, 500);
    assert_eq!(get(&standin, "/v1/models").await.json()["data"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn lost_adapters_look_like_a_restart() {
    let standin = fast().await;
    load(&standin, "sql", "standin:").await;
    standin.misbehave(Misbehaviour::LoseAdapters);
    assert_eq!(post(&standin, "/v1/chat/completions", chat("sql", 1, false)).await.status, 404);
    assert_eq!(load(&standin, "sql", "standin:").await.status, 200);
}
