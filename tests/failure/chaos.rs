//! Everything at once, by a seed: each request ends in exactly one of a complete answer, a typed error, or a stream with an
//! error event; and when all is quiet nothing is left.
//!
//! `POINTSMAN_CHAOS_SECONDS` makes it longer, `POINTSMAN_CHAOS_SEED` repeats one.

use super::harness::{Answer, Pointsman, eventually};
use super::{ask, config, engines, stream};
use pointsman::standin::{Misbehaviour, Options, StandIn};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// How a request ended, or the text of an end that must not be. `None` is a client that left.
fn judge(streamed: bool, answer: Option<Result<Answer, String>>) -> Result<&'static str, String> {
    match answer {
        None => Ok("left"),
        Some(Ok((200, _, body))) if streamed && body.contains("event: error") => Ok("error event"),
        Some(Ok((200, _, body))) if streamed && body.contains("[DONE]") => Ok("complete"),
        Some(Ok((200, _, body))) if !streamed && serde_json::from_str::<Value>(&body).is_ok() => Ok("complete"),
        Some(Ok((429 | 500 | 502 | 503 | 504, _, body))) if body.contains(r#""error""#) => Ok("typed error"),
        Some(Ok((status, _, body))) => Err(format!("{status}: {body:?}")),
        Some(Err(broken)) => Err(broken),
    }
}

async fn disturb(engines: &[StandIn], random: &mut StdRng) {
    let engine = &engines[random.random_range(0..engines.len())];
    match random.random_range(0..10) {
        0 => {
            engine.kill().await;
            tokio::time::sleep(Duration::from_millis(random.random_range(50..800))).await;
            engine.restart().await.unwrap();
        }
        1 => engine.misbehave(Misbehaviour::HungCore),
        2 => engine.misbehave(Misbehaviour::Refuse),
        3 => engine.misbehave(Misbehaviour::DieMidStream { after_tokens: random.random_range(0..5) }),
        4 => engine.misbehave(Misbehaviour::AbortMidStream { after_tokens: 2 }),
        5 => engine.misbehave(Misbehaviour::Answer { status: [429, 500, 503][random.random_range(0..3)] }),
        6 => engine.misbehave(Misbehaviour::LieInMetrics { running: 0.0, waiting: 0.0, kv: 0.0 }),
        7 => engine.misbehave(Misbehaviour::SlowFirstToken { ms: 400 }),
        8 => engine.misbehave(Misbehaviour::ResetOnAccept),
        _ => {}
    }
    tokio::time::sleep(Duration::from_millis(random.random_range(100..700))).await;
    engine.misbehave(Misbehaviour::Well);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_every_request_ends_well_and_nothing_is_left() {
    let seed = number("POINTSMAN_CHAOS_SEED").unwrap_or_else(rand::random);
    let time = Duration::from_secs(number("POINTSMAN_CHAOS_SECONDS").unwrap_or(20));
    println!("seed {seed}");
    let options = Options { max_running: 6, tokens_per_second: Some(100.0), ..Options::fast() };
    let engines = Arc::new(engines(3, options).await);
    let more = json!({
        "admission": { "max_waiting": 40, "max_wait": "2s", "hold_unavailable": "1s" },
        "health": { "stall_timeout": "700ms", "trip_for": "200ms", "slow_start": "1s" },
        "timeouts": { "first_byte": "4s", "between_bytes": "2s" },
    });
    let pointsman = Arc::new(Pointsman::with(config(&engines, more)).await);
    let ends = Arc::new(Mutex::new(BTreeMap::<&str, u64>::new()));
    let started = Instant::now();
    // 36 clients on 18 seats: twice what they can take.
    let clients: Vec<_> = (0..36)
        .map(|client| {
            let (pointsman, ends) = (pointsman.clone(), ends.clone());
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(client));
            tokio::spawn(async move {
                while started.elapsed() < time {
                    let streamed = random.random_bool(0.6);
                    let tokens = random.random_range(1..30);
                    let body = if streamed { stream(tokens) } else { ask(tokens) };
                    let patience = if random.random_bool(0.1) { 150 } else { 20_000 };
                    let asked = Instant::now();
                    let answer = tokio::time::timeout(Duration::from_millis(patience), pointsman.send(&[], body)).await;
                    assert!(asked.elapsed() < Duration::from_secs(15), "an answer took {:?}", asked.elapsed());
                    let end = judge(streamed, answer.ok())
                        .unwrap_or_else(|wrong| panic!("seed {seed}, streamed {streamed}: {wrong}"));
                    *ends.lock().unwrap().entry(end).or_default() += 1;
                }
            })
        })
        .collect();
    let mut random = StdRng::seed_from_u64(seed);
    while started.elapsed() < time {
        disturb(&engines, &mut random).await;
    }
    for client in clients {
        client.await.unwrap();
    }
    println!("{:?}", ends.lock().unwrap());
    assert!(ends.lock().unwrap()["complete"] > 100, "most of it works");
    eventually("leases and queue are empty", async || {
        let status = pointsman.status().await;
        let model = &status["models"][0];
        let replicas = model["pools"][0]["replicas"].as_array().unwrap();
        model["queue"]["waiting"] == 0 && replicas.iter().all(|replica| replica["in_flight"] == 0)
    })
    .await;
    eventually("the engines' seats are free", async || engines.iter().all(|engine| engine.stats().running == 0)).await;
    eventually("it serves as before", async || pointsman.chat(ask(1)).await.is_ok()).await;
}
