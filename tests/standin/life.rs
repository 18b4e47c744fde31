//! Connections, kill, restart and stop.

use crate::client::{chat, chat_request, eventually, fast, get, load, open, post, request, rest, sample, slow, start};
use pointsman::standin::Options;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_killed_stand_in_resets_its_streams_and_refuses() {
    let standin = start(slow()).await;
    let mut stream = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
    eventually("one runs", || standin.stats().running == 1).await;
    standin.kill().await;
    assert_eq!(rest(&mut stream).await.expect_err("a reset").kind(), io::ErrorKind::ConnectionReset);
    assert!(TcpStream::connect(standin.address()).await.is_err());
    assert_eq!((standin.stats().running, standin.stats().open_connections), (0, 0));
}

#[tokio::test]
async fn a_restart_keeps_the_port_and_forgets_the_adapters() {
    let standin = fast().await;
    load(&standin, "sql", "standin:").await;
    let started = async || sample(&get(&standin, "/metrics").await.text(), "process_start_time_seconds ");
    let before = started().await;
    standin.restart().await.expect("the same port");
    assert!(started().await > before);
    assert_eq!(post(&standin, "/v1/chat/completions", chat("sql", 1, false)).await.status, 404);
}

#[tokio::test]
async fn a_stop_ends_streams_with_an_abort() {
    let standin = start(slow()).await;
    let mut stream = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
    eventually("the first token is out", || standin.stats().generated_tokens == 1).await;
    standin.stop().await;
    let text = String::from_utf8_lossy(&rest(&mut stream).await.expect("a clean end")).into_owned();
    assert!(text.contains("\"finish_reason\":\"abort\"") && text.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{text}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_keep_alive() {
    let standin = start(Options { keep_alive: Duration::from_millis(500), ..Options::fast() }).await;
    let mut stream = open(&standin, &request("GET", "/health", "", "")).await.expect("sent");
    assert!(rest(&mut stream).await.expect("a clean end").starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let standin = fast().await;
    let two = chat_request("base", 2, true) + &chat_request("base", 2, false);
    let last = request("GET", "/health", "connection: close\r\n", "");
    let mut stream = open(&standin, &(two + &last)).await.expect("sent");
    let text = String::from_utf8_lossy(&rest(&mut stream).await.expect("an end")).into_owned();
    assert_eq!((text.matches("HTTP/1.1 200 OK").count(), standin.stats().connections), (3, 1));
}
