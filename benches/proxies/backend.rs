//! A backend that costs as little as possible: it answers by the request's body with bytes prepared beforehand.
//!
//! It speaks just enough of vLLM's control plane that a balancer takes it for an idle engine.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Ports, each a replica to the balancers.
const PORTS: usize = 3;
/// Tokens of a stream.
const TOKENS: usize = 100;

/// The running backend.
pub(crate) struct Backend {
    process: Child,
    pub(crate) addresses: Vec<String>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Start it as a process of its own on core 1.
pub(crate) fn start() -> Backend {
    let mut command = Command::new("taskset");
    command.args(["-c", "1"]).arg(std::env::current_exe().unwrap()).arg("backend").stdout(Stdio::piped());
    let mut process = command.spawn().expect("taskset starts the backend");
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let addresses = (0..PORTS).map(|_| lines.next().unwrap().unwrap()).collect();
    Backend { process, addresses }
}

/// Serve until killed.
pub(crate) fn run(_arguments: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut listeners = Vec::new();
        for _ in 0..PORTS {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            println!("{}", listener.local_addr().unwrap());
            listeners.push(tokio::spawn(accept(listener)));
        }
        for listener in listeners {
            listener.await.unwrap();
        }
    });
}

async fn accept(listener: TcpListener) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        tokio::spawn(serve(socket));
    }
}

async fn serve(mut socket: TcpStream) {
    let mut buffer = Vec::with_capacity(64 * 1024);
    loop {
        let Some((header, whole)) = complete(&buffer) else {
            match socket.read_buf(&mut buffer).await {
                Ok(1..) => continue,
                _ => return,
            }
        };
        let kind = Kind::of(&buffer[..header]);
        buffer.drain(..whole);
        if answer(&mut socket, kind).await.is_err() {
            return;
        }
    }
}

/// Lengths of the first request's header and of all of it, once it is there.
fn complete(buffer: &[u8]) -> Option<(usize, usize)> {
    let header = memchr::memmem::find(buffer, b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..header]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let whole = header + length.unwrap_or(0);
    (buffer.len() >= whole).then_some((header, whole))
}

#[derive(Clone, Copy)]
enum Kind {
    Json,
    StreamAtOnce,
    StreamInChunks,
    Metrics,
    Control,
}

impl Kind {
    fn of(header: &[u8]) -> Self {
        let path = header.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        match path {
            b"/v1/chat/completions?at-once" => Self::StreamAtOnce,
            b"/v1/chat/completions?chunks" => Self::StreamInChunks,
            b"/v1/chat/completions" => Self::Json,
            b"/metrics" => Self::Metrics,
            _ => Self::Control,
        }
    }
}

async fn answer(socket: &mut TcpStream, kind: Kind) -> std::io::Result<()> {
    static JSON: LazyLock<Vec<u8>> = LazyLock::new(|| whole("application/json", &completion()));
    static METRICS: LazyLock<Vec<u8>> = LazyLock::new(|| {
        whole(
            "text/plain",
            "vllm:num_requests_running 0.0\nvllm:num_requests_waiting 0.0\nvllm:kv_cache_usage_perc 0.0\n",
        )
    });
    static CONTROL: LazyLock<Vec<u8>> = LazyLock::new(|| whole("application/json", r#"{"object":"list","data":[]}"#));
    static CHUNKS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| (0..TOKENS).map(chunk).collect());
    static STREAM: LazyLock<Vec<u8>> = LazyLock::new(|| [HEAD.as_bytes(), &CHUNKS.concat(), END.as_bytes()].concat());
    match kind {
        Kind::Json => socket.write_all(&JSON).await,
        Kind::Metrics => socket.write_all(&METRICS).await,
        Kind::Control => socket.write_all(&CONTROL).await,
        Kind::StreamAtOnce => socket.write_all(&STREAM).await,
        Kind::StreamInChunks => {
            socket.write_all(HEAD.as_bytes()).await?;
            for chunk in CHUNKS.iter() {
                socket.write_all(chunk).await?;
                // Others get their turn, so that the chunks do arrive one by one.
                tokio::task::yield_now().await;
            }
            socket.write_all(END.as_bytes()).await
        }
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const END: &str = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

fn whole(content_type: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
}

/// About 1 KiB, of vLLM's shape.
fn completion() -> String {
    let content = "word ".repeat(150);
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"base","choices":[{{"index":0,"message":{{"role":"assistant","content":"{content}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":16,"total_tokens":25}}}}"#
    )
}

fn chunk(number: usize) -> Vec<u8> {
    let event = format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"base\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" token{number}\"}},\"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
    );
    format!("{:x}\r\n{event}\r\n", event.len()).into()
}
