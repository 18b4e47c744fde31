//! Clients that trickle, crowd, smuggle and babble.

use super::harness::{CHAT, Pointsman, eventually};
use super::{ask, config, engines};
use pointsman::standin::Options;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn started(server: serde_json::Value) -> (Pointsman, Vec<pointsman::standin::StandIn>) {
    let engines = engines(1, Options::fast()).await;
    (Pointsman::with(config(&engines, json!({ "server": server }))).await, engines)
}

/// Everything the server says until it closes.
async fn until_closed(mut socket: TcpStream) -> String {
    let mut text = Vec::new();
    let _ = tokio::time::timeout(super::harness::DEADLINE, socket.read_to_end(&mut text)).await.expect("it is closed");
    String::from_utf8_lossy(&text).into_owned()
}

async fn say(pointsman: &Pointsman, text: &str) -> TcpStream {
    let mut socket = TcpStream::connect(&pointsman.clients).await.unwrap();
    socket.write_all(text.as_bytes()).await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_trickles_is_cut_off_in_time_and_others_are_served_meanwhile() {
    let (pointsman, _engines) = started(json!({ "header_timeout": "1s" })).await;
    let started = Instant::now();
    let mut socket = say(&pointsman, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n").await;
    let trickle = async {
        while socket.write_all(b"X-A: b\r\n").await.is_ok() && started.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        started.elapsed()
    };
    let (took, answer) = tokio::join!(trickle, pointsman.chat(ask(1)));
    answer.unwrap();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_or_junk_is_closed_in_time() {
    let (pointsman, _engines) = started(json!({ "header_timeout": "500ms" })).await;
    for text in ["", "\0\0\0", "GET / HTTP/1.0\r\n", &"\u{1}".repeat(100)] {
        let started = Instant::now();
        until_closed(say(&pointsman, text).await).await;
        assert!(started.elapsed() < Duration::from_secs(3), "{text:?}: {:?}", started.elapsed());
    }
    pointsman.chat(ask(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_may_rest_and_a_slow_answer_is_no_late_header() {
    let engines = engines(1, Options { tokens_per_second: Some(5.0), ..Options::fast() }).await;
    let server = json!({ "server": { "header_timeout": "300ms", "keepalive": "5s" } });
    let pointsman = Pointsman::with(config(&engines, server)).await;
    let body = ask(5).to_string();
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut socket = say(&pointsman, &request).await;
    let mut answer = vec![0; 64 * 1024];
    for _ in 0..2 {
        let length = socket.read(&mut answer).await.unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..length]));
        let rested = Instant::now();
        eventually("a pause above header_timeout", async || rested.elapsed() > Duration::from_millis(600)).await;
        socket.write_all(request.as_bytes()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_limit_are_closed_and_those_below_go_on() {
    let (pointsman, _engines) = started(json!({ "max_connections": 5 })).await;
    let mut kept = Vec::new();
    for _ in 0..4 {
        kept.push(say(&pointsman, "GET /v1/models HTTP/1.1\r\n").await);
    }
    eventually("four are open", async || pointsman.metrics().await.contains("pointsman_connections 4")).await;
    let _fifth = say(&pointsman, "GET /v1/models HTTP/1.1\r\n").await;
    eventually("five are open", async || pointsman.metrics().await.contains("pointsman_connections 5")).await;
    assert_eq!(until_closed(say(&pointsman, "GET /v1/models HTTP/1.1\r\n\r\n").await).await, "");
    for mut socket in kept {
        socket.write_all(b"Host: x\r\nConnection: close\r\n\r\n").await.unwrap();
        assert!(until_closed(socket).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_two_lengths_reaches_no_engine_twice() {
    let (pointsman, engines) = started(json!({})).await;
    let body = ask(1).to_string();
    let smuggled = format!("{:x}\r\n{body}\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: x\r\n\r\n", body.len());
    let text = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\
         Transfer-Encoding: chunked\r\n\r\n{smuggled}"
    );
    let answer = until_closed(say(&pointsman, &text).await).await;
    assert!(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(engines[0].requests().iter().all(|request| request.path != "/admin"));
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_before_its_answer_frees_the_engines_seat() {
    let engines = engines(1, Options { tokens_per_second: Some(1.0), ..Options::fast() }).await;
    let pointsman = Pointsman::with(config(&engines, json!({}))).await;
    for stream in [false, true] {
        let mut body = ask(100);
        body["stream"] = json!(stream);
        let impatient = pointsman.http.within(Duration::from_millis(300));
        let _ = impatient.post(&pointsman.clients, CHAT, body.to_string()).await;
        eventually("the seat is free", async || engines[0].stats().running == 0).await;
    }
    assert_eq!(super::replica(&pointsman, 0).await["in_flight"], 0);
}
