//! A small HTTP client that shows raw answers, and builders of stand-ins and requests.

use pointsman::standin::{Options, StandIn};
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Beyond this something hangs; CI machines stall for seconds at times.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// An answer, its chunks apart.
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub chunks: Vec<String>,
}

impl Reply {
    pub fn text(&self) -> String {
        self.chunks.concat()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let chunks = if chunked { dechunk(body) } else { vec![body.to_owned()] };
        Self { status, head: head.to_owned(), chunks }
    }
}

pub fn dechunk(mut body: &str) -> Vec<String> {
    let mut chunks = Vec::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        if size == 0 {
            break;
        }
        chunks.push(rest[..size].to_owned());
        body = &rest[size + 2..];
    }
    chunks
}

pub fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

pub const JSON: &str = "content-type: application/json\r\n";

/// Send a request on a connection of its own.
pub async fn open(standin: &StandIn, text: &str) -> io::Result<TcpStream> {
    let mut stream = timeout(DEADLINE, TcpStream::connect(standin.address())).await.expect("connect in time")?;
    stream.write_all(text.as_bytes()).await?;
    Ok(stream)
}

/// Everything until the end of the connection.
pub async fn rest(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("an end in time")?;
    Ok(bytes)
}

pub async fn try_call(standin: &StandIn, method: &str, path: &str, headers: &str, body: &str) -> io::Result<Reply> {
    let headers = format!("connection: close\r\n{headers}");
    let mut stream = open(standin, &request(method, path, &headers, body)).await?;
    let bytes = rest(&mut stream).await?;
    if bytes.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Reply::parse(&bytes)) }
}

pub async fn get(standin: &StandIn, path: &str) -> Reply {
    try_call(standin, "GET", path, "", "").await.expect("an answer")
}

pub async fn post(standin: &StandIn, path: &str, body: Value) -> Reply {
    try_call(standin, "POST", path, JSON, &body.to_string()).await.expect("an answer")
}

pub async fn start(options: Options) -> StandIn {
    StandIn::start(options).await.expect("a free port")
}

pub async fn fast() -> StandIn {
    start(Options { name: "r1".into(), ..Options::fast() }).await
}

/// One seat, and tokens so slow that a request never ends by itself.
pub fn slow() -> Options {
    Options { tokens_per_second: Some(0.01), ..Options::fast() }
}

pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub fn chat(model: &str, tokens: u64, stream: bool) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": tokens, "stream": stream})
}

pub fn chat_request(model: &str, tokens: u64, stream: bool) -> String {
    request("POST", "/v1/chat/completions", JSON, &chat(model, tokens, stream).to_string())
}

pub async fn load(standin: &StandIn, name: &str, path: &str) -> Reply {
    post(standin, "/v1/load_lora_adapter", json!({"lora_name": name, "lora_path": path})).await
}

pub fn event(chunk: &str) -> Value {
    let data = chunk.strip_prefix("data: ").and_then(|data| data.strip_suffix("\n\n")).expect("an event");
    serde_json::from_str(data).expect("JSON")
}

pub fn sample(metrics: &str, start: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(start))?;
    line.rsplit(' ').next()?.parse().ok()
}
