//! `pointsman engine` as a process.

use crate::client::DEADLINE;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

fn engine(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .arg("engine")
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary runs")
}

async fn printed_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    timeout(DEADLINE, BufReader::new(stdout).read_line(&mut line)).await.expect("a line in time").expect("a line");
    line
}

#[tokio::test]
async fn it_prints_its_url_answers_and_ends_on_sigterm() {
    let mut child = engine(&["--port", "0", "--name", "r7", "--lora", "sql=standin:sql"]);
    let line = printed_line(&mut child).await;
    let address = line.trim().rsplit("http://").next().expect("a URL").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap_or_else(|error| panic!("{error}: {line}"));
    stream.write_all(b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut answer)).await.expect("in time").expect("an answer");
    assert!(answer.contains("x-standin: r7") && answer.contains("\"id\":\"sql\""), "{answer}");
    let pid = child.id().expect("a pid").to_string();
    std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
    assert!(timeout(DEADLINE, child.wait()).await.expect("an end in time").expect("an end").success());
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_and_fails() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let child = engine(&["--port", &port]);
    let output = timeout(DEADLINE, child.wait_with_output()).await.expect("an end in time").expect("an end");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{error}");
}
