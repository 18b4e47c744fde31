//! Why a request went where it went, as operators and clients are told: the real binary before stand-in engines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

#[path = "harness/mod.rs"]
mod harness;

use harness::{Pointsman, eventually};
use pointsman::standin::{Options, StandIn};
use serde_json::{Value, json};
use std::time::Duration;

/// Two replicas with two slots for adapters each.
async fn start(explain: Value) -> (Vec<StandIn>, Pointsman) {
    let mut engines = Vec::new();
    for number in 0..2 {
        let options = Options {
            name: format!("r{number}"),
            max_loras: 64,
            max_cpu_loras: 64,
            adapter_load: Duration::from_millis(100),
            ..Options::fast()
        };
        engines.push(StandIn::start(options).await.unwrap());
    }
    let replicas: Vec<_> = engines.iter().map(|engine| json!({ "url": engine.url() })).collect();
    let pointsman = Pointsman::with(json!({
        "explain": explain,
        "admission": { "hold_unavailable": "50ms" },
        "models": [{
            "name": "base", "engine": "vllm", "max_loaded_adapters": 2, "profile": "chat",
            "adapters": [{ "name": "sql", "path": "standin:sql" }],
            "pools": [{ "name": "edge", "replicas": replicas }],
        }],
    }))
    .await;
    (engines, pointsman)
}

fn ask(model: &str, stream: bool) -> Value {
    json!({
        "model": model, "stream": stream, "max_tokens": 4, "session_id": "s-1",
        "messages": [{ "role": "user", "content": "a secret prompt" }],
    })
}

async fn decisions(pointsman: &Pointsman, query: &str) -> Vec<Value> {
    let body = pointsman.http.get(&pointsman.admin, &format!("/decisions{query}")).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(!text.contains("secret") && !text.contains("s-1"), "no prompt and no session id: {text}");
    serde_json::from_str::<Value>(&text).unwrap()["decisions"].as_array().unwrap().clone()
}

/// The newest decision once it has ended: the client may have its answer before the line is filled in.
async fn last_ended(pointsman: &Pointsman) -> Value {
    eventually("the last request has ended", async || {
        decisions(pointsman, "?limit=1").await.first().is_some_and(|line| !line["outcome"].is_null())
    })
    .await;
    decisions(pointsman, "?limit=1").await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_tells_candidates_scores_pick_adapter_and_outcome() {
    let (_engines, pointsman) = start(json!({})).await;
    assert_eq!(decisions(&pointsman, "").await, Vec::<Value>::new());
    pointsman.send(&[("x-request-id", "first")], ask("sql", true)).await.unwrap();
    let cold = last_ended(&pointsman).await;
    assert_eq!(cold["request_id"], "first");
    assert_eq!((&cold["model"], &cold["adapter"], &cold["profile"]), (&"base".into(), &"sql".into(), &"chat".into()));
    assert_eq!((&cold["outcome"], &cold["status"]), (&"answered".into(), &200.into()));
    assert_eq!(cold["session"].as_str().unwrap().len(), 16);
    assert!(cold["first_token_ms"].as_f64().unwrap() > 0.0);
    let made = &cold["tries"][0];
    assert_eq!(cold["tries"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&made["adapter_use"], &made["session"], &made["picker"]),
        (&"cold".into(), &"new".into(), &"p2c".into())
    );
    assert!(made["adapter_wait_ms"].as_f64().unwrap() >= 90.0, "{made}");
    assert_eq!(made["replica"], made["picked"]);
    let candidates = made["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 2);
    for candidate in candidates {
        let scores = candidate["scores"].as_array().unwrap();
        let named: Vec<_> = scores.iter().map(|score| score["scorer"].as_str().unwrap()).collect();
        assert_eq!(named, ["session", "queue", "kv", "inflight", "weight", "prefix"]);
        let product = |score: &Value| score["weight"].as_f64().unwrap() * score["score"].as_f64().unwrap();
        let total: f64 = scores.iter().map(product).sum();
        assert!((total - candidate["total"].as_f64().unwrap()).abs() < 0.01, "{candidate}");
    }

    pointsman.send(&[], ask("sql", true)).await.unwrap();
    let warm = last_ended(&pointsman).await;
    let again = &warm["tries"][0];
    assert_eq!((&again["adapter_use"], &again["session"]), (&"resident".into(), &"kept".into()));
    assert_eq!(again["replica"], made["replica"], "the adapter is there");
    let other =
        again["candidates"].as_array().unwrap().iter().find(|other| other["replica"] != made["replica"]).unwrap();
    assert_eq!((&other["dropped_by"], &other["total"]), (&"adapter-affinity".into(), &Value::Null));
    assert_eq!(decisions(&pointsman, "?model=base&limit=9").await.len(), 2);
    assert_eq!(decisions(&pointsman, "?model=other").await.len(), 0);
}

/// Every GET path that the router tells of is answered, the page's own files too.
#[tokio::test(flavor = "multi_thread")]
async fn every_path_of_the_router_is_answered() {
    let (_engines, pointsman) = start(json!({})).await;
    for path in pointsman::admin::PATHS.iter().filter(|path| !path.ends_with("VERB") && **path != "/reload") {
        assert!(pointsman.http.get(&pointsman.admin, path).await.is_ok(), "{path}");
    }
    let page = pointsman.http.get(&pointsman.admin, "/").await.unwrap();
    let page = String::from_utf8(page.to_vec()).unwrap();
    for file in ["/page.css", "/page.js"] {
        assert!(page.contains(file) && pointsman.http.get(&pointsman.admin, file).await.is_ok(), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_in_the_terminal_shows_the_fleet() {
    let (engines, pointsman) = start(json!({})).await;
    pointsman.send(&[], ask("sql", true)).await.unwrap();
    let status = |arguments: &[&str]| {
        let command =
            std::process::Command::new(env!("CARGO_BIN_EXE_pointsman")).arg("status").args(arguments).output();
        let output = command.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, table, _) = status(&["--admin", &format!("http://{}/", pointsman.admin)]);
    assert_eq!(code, Some(0));
    for engine in &engines {
        assert!(table.contains(engine.url().trim_start_matches("http://")), "{table}");
    }
    assert!(table.contains("first token p50") && table.contains("1/2"), "{table}");
    let (code, text, _) = status(&["--json", "--admin", &pointsman.admin]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &json["models"][0]["name"]), (Some(0), &"base".into()));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (code, _, error) = status(&["--admin", &nobody]);
    assert_eq!(code, Some(1));
    assert!(error.contains(&nobody) && error.contains("--admin"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_and_a_failure_are_told() {
    let (engines, pointsman) = start(json!({})).await;
    decisions(&pointsman, "").await;
    for engine in &engines {
        engine.misbehave(pointsman::standin::Misbehaviour::Answer { status: 503 });
    }
    pointsman.send(&[], ask("base", false)).await.unwrap();
    let line = last_ended(&pointsman).await;
    let tries = line["tries"].as_array().unwrap();
    assert!(tries.len() >= 2, "{line}");
    assert_ne!(tries[0]["replica"], tries[1]["replica"]);
    let dropped = tries[1]["candidates"].as_array().unwrap().iter().find(|one| one["dropped_by"] == "already-tried");
    assert_eq!(dropped.unwrap()["replica"], tries[0]["replica"]);
    assert_ne!(line["outcome"], "answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_only_where_that_is_configured() {
    let asks = [("x-pointsman-explain", "1")];
    let (_engines, silent) = start(json!({})).await;
    let (_, headers, _) = silent.send(&asks, ask("base", true)).await.unwrap();
    let told: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with("x-pointsman")).collect();
    assert!(told.is_empty(), "{told:?}");

    let (_engines, open) = start(json!({ "on_request": true, "headers": true })).await;
    let (status, headers, body) = open.send(&asks, ask("base", true)).await.unwrap();
    assert_eq!(status, 200);
    assert!(body.trim_end().ends_with("data: [DONE]"), "the stream is the engine's own: {body}");
    let decision: Value = serde_json::from_slice(headers["x-pointsman-decision"].as_bytes()).unwrap();
    assert_eq!(decision["tries"][0]["replica"], headers["x-pointsman-replica"].to_str().unwrap());
    assert_eq!(decision["tries"][0]["candidates"].as_array().unwrap().len(), 2, "traced although nobody looks");
    assert!(headers["x-pointsman-queue-ms"].to_str().unwrap().parse::<u64>().is_ok());
    let (_, headers, _) = open.send(&[], ask("base", false)).await.unwrap();
    assert!(headers.contains_key("x-pointsman-replica") && !headers.contains_key("x-pointsman-decision"));
}
