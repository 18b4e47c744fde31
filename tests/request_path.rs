//! Requests through the real binary to stand-in engines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

use pointsman::engine::client::{CallError, Client};
use pointsman::standin::{AdapterFiles, Misbehaviour, Options, StandIn, StartAdapter};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHAT: &str = "/v1/chat/completions";
const DEADLINE: Duration = Duration::from_secs(20);

/// Pointsman as its own process; killed when dropped.
struct Pointsman {
    process: Child,
    clients: String,
    admin: String,
    http: Client,
    _folder: tempfile::TempDir,
}

impl Pointsman {
    async fn before(engines: &[StandIn]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pointsman.yaml");
        std::fs::write(&file, config(engines).to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
        let mut process = command.arg("serve").arg("-c").arg(&file).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut told = |what: &str| {
            let line = lines.find(|line| line.contains(what)).expect("an address is told");
            line.rsplit("http://").next().unwrap().trim().to_owned()
        };
        let (clients, admin) = (told("listening on"), told("admin on"));
        std::thread::spawn(move || lines.for_each(drop));
        let it = Self { process, clients, admin, http: Client::new(DEADLINE), _folder: folder };
        eventually("Pointsman is ready", async || it.http.get(&it.admin, "/readyz").await.is_ok()).await;
        it
    }

    async fn chat(&self, body: Value) -> Result<String, CallError> {
        let body = self.http.post(&self.clients, CHAT, body.to_string()).await?;
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }
}

impl Drop for Pointsman {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn config(engines: &[StandIn]) -> Value {
    let replicas: Vec<_> = engines.iter().map(|engine| json!({ "url": engine.url() })).collect();
    json!({
        "server": { "listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0" },
        "admission": { "hold_unavailable": "500ms" },
        "models": [{
            "name": "base", "engine": "vllm", "aliases": ["gpt-4o-mini"],
            "adapters": [{ "name": "sql", "path": "standin:sql" }],
            "pools": [{ "name": "edge", "priority": 0, "replicas": replicas }],
        }],
    })
}

async fn engines<const N: usize>() -> Vec<StandIn> {
    let mut engines = Vec::new();
    for number in 0..N {
        let adapters = vec![StartAdapter { name: "sql".to_owned(), path: "standin:sql".to_owned() }];
        let name = format!("r{number}");
        let options = Options { name, adapters, adapter_files: AdapterFiles::Imagined, ..Options::fast() };
        engines.push(StandIn::start(options).await.unwrap());
    }
    engines
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < deadline, "in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn ask(model: &str) -> Value {
    json!({ "model": model, "max_tokens": 4, "messages": [{ "role": "user", "content": "Hello" }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_and_adapters_reach_the_engine_under_its_own_names() {
    let engines = engines::<1>().await;
    let pointsman = Pointsman::before(&engines).await;
    for (asked, named) in [("gpt-4o-mini", "base"), ("base:sql", "sql"), ("sql", "sql"), ("gpt-4o-mini:sql", "sql")] {
        pointsman.chat(ask(asked)).await.unwrap();
        let last = engines[0].requests().into_iter().rfind(|request| request.path == CHAT).unwrap();
        assert_eq!(last.model.as_deref(), Some(named), "asked for {asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_every_size_arrive_whole() {
    let engines = engines::<1>().await;
    let pointsman = Pointsman::before(&engines).await;
    for size in [1, 1_000, 65_300, 65_536, 66_000, 300_000, 8 << 20] {
        let body = json!({ "model": "base", "prompt": "x", "pad": "y".repeat(size) }).to_string();
        let hash = xxhash_rust::xxh3::xxh3_64(body.as_bytes());
        let answer = pointsman.http.post(&pointsman.clients, "/v1/completions", body.clone()).await;
        let last = engines[0].requests().into_iter().rfind(|request| request.path == "/v1/completions").unwrap();
        assert_eq!((last.body_length, last.body_xxh3), (body.len(), hash), "{size}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_killed_under_load_loses_no_request_that_had_no_byte() {
    let engines = engines::<3>().await;
    let pointsman = Arc::new(Pointsman::before(&engines).await);
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let pointsman = pointsman.clone();
            tokio::spawn(async move {
                for _ in 0..25 {
                    pointsman.chat(ask("base")).await.unwrap();
                }
            })
        })
        .collect();
    eventually("the first replica was used", async || engines[0].stats().generated_tokens > 40).await;
    engines[0].kill().await;
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_503_is_tried_elsewhere_and_passes_when_there_is_no_elsewhere() {
    let engines = engines::<2>().await;
    let pointsman = Pointsman::before(&engines).await;
    engines[0].misbehave(Misbehaviour::Answer { status: 503 });
    for _ in 0..5 {
        pointsman.chat(ask("base")).await.unwrap();
    }
    engines[1].misbehave(Misbehaviour::Answer { status: 503 });
    let refused = pointsman.chat(ask("base")).await;
    assert!(matches!(&refused, Err(CallError::Status { status: 503, .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_replica_dies_ends_with_an_error_event() {
    let engines = engines::<1>().await;
    let pointsman = Pointsman::before(&engines).await;
    engines[0].misbehave(Misbehaviour::DieMidStream { after_tokens: 2 });
    let mut request = ask("base");
    request["stream"] = json!(true);
    // A cut answer would be an error of the client: the stream has a proper end.
    let stream = pointsman.chat(request).await.unwrap();
    assert!(stream.contains("event: error") && stream.contains("replica_lost"), "{stream}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_its_replica() {
    let engines = engines::<3>().await;
    let pointsman = Pointsman::before(&engines).await;
    let mut request = ask("base");
    request["session_id"] = json!("conversation 1");
    for _ in 0..20 {
        pointsman.chat(request.clone()).await.unwrap();
    }
    let asked = |engine: &StandIn| engine.requests().iter().filter(|request| request.path == CHAT).count();
    let most = engines.iter().map(asked).max().unwrap();
    assert!(most >= 19, "one replica got {most} of 20");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_get_errors_that_say_why() {
    let engines = engines::<1>().await;
    let pointsman = Pointsman::before(&engines).await;
    let cases = [
        (CHAT, "{", 400, "invalid JSON"),
        (CHAT, r#"{"model":"base","model":"x"}"#, 400, "more than once"),
        (CHAT, r#"{"messages":[]}"#, 400, "names no model"),
        (CHAT, r#"{"model":"nope"}"#, 404, "does not exist"),
        ("/v1/nothing", "{}", 404, "no such path"),
    ];
    for (path, body, status, why) in cases {
        match pointsman.http.post(&pointsman.clients, path, body.to_owned()).await {
            Err(CallError::Status { status: told, message }) => {
                assert!(told == status && message.contains(why), "{body}: {told} {message}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    assert!(engines[0].requests().iter().all(|request| request.path != CHAT), "none reached the engine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_was_down_serves_again() {
    let engines = engines::<2>().await;
    let pointsman = Pointsman::before(&engines).await;
    for engine in &engines {
        engine.kill().await;
    }
    let refused = pointsman.chat(ask("base")).await;
    assert!(matches!(&refused, Err(CallError::Status { status: 502 | 503, .. })), "{refused:?}");
    engines[1].restart().await.unwrap();
    eventually("it serves again", async || pointsman.chat(ask("base")).await.is_ok()).await;
}
