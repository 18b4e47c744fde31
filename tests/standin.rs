//! The stand-in engine over real sockets: it answers as the engines were recorded, and misbehaves on order.

use pointsman::standin::{AdapterFiles, Dialect, Ending, HeadSent, Misbehaviour, Options, StandIn, StartAdapter};
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Beyond this something hangs; CI machines stall for seconds at times.
const DEADLINE: Duration = Duration::from_secs(20);

/// An answer, its chunks apart.
struct Reply {
    status: u16,
    head: String,
    chunks: Vec<String>,
}

impl Reply {
    fn text(&self) -> String {
        self.chunks.concat()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    fn header(&self, name: &str) -> Option<&str> {
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

fn dechunk(mut body: &str) -> Vec<String> {
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

fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

const JSON: &str = "content-type: application/json\r\n";

/// Send a request on a connection of its own.
async fn open(standin: &StandIn, text: &str) -> io::Result<TcpStream> {
    let mut stream = timeout(DEADLINE, TcpStream::connect(standin.address())).await.expect("connect in time")?;
    stream.write_all(text.as_bytes()).await?;
    Ok(stream)
}

/// Everything until the end of the connection.
async fn rest(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("an end in time")?;
    Ok(bytes)
}

async fn try_call(standin: &StandIn, method: &str, path: &str, headers: &str, body: &str) -> io::Result<Reply> {
    let headers = format!("connection: close\r\n{headers}");
    let mut stream = open(standin, &request(method, path, &headers, body)).await?;
    let bytes = rest(&mut stream).await?;
    if bytes.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Reply::parse(&bytes)) }
}

async fn get(standin: &StandIn, path: &str) -> Reply {
    try_call(standin, "GET", path, "", "").await.expect("an answer")
}

async fn post(standin: &StandIn, path: &str, body: Value) -> Reply {
    try_call(standin, "POST", path, JSON, &body.to_string()).await.expect("an answer")
}

async fn start(options: Options) -> StandIn {
    StandIn::start(options).await.expect("a free port")
}

async fn fast() -> StandIn {
    start(Options { name: "r1".into(), ..Options::fast() }).await
}

/// One seat, and tokens so slow that a request never ends by itself.
fn slow() -> Options {
    Options { tokens_per_second: Some(0.01), ..Options::fast() }
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn chat(model: &str, tokens: u64, stream: bool) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": tokens, "stream": stream})
}

fn chat_request(model: &str, tokens: u64, stream: bool) -> String {
    request("POST", "/v1/chat/completions", JSON, &chat(model, tokens, stream).to_string())
}

async fn load(standin: &StandIn, name: &str, path: &str) -> Reply {
    post(standin, "/v1/load_lora_adapter", json!({"lora_name": name, "lora_path": path})).await
}

fn event(chunk: &str) -> Value {
    let data = chunk.strip_prefix("data: ").and_then(|data| data.strip_suffix("\n\n")).expect("an event");
    serde_json::from_str(data).expect("JSON")
}

fn sample(metrics: &str, start: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(start))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn a_whole_chat_answer_says_who_gave_it() {
    let standin = fast().await;
    let reply = post(&standin, "/v1/chat/completions", chat("base", 3, false)).await;
    assert_eq!((reply.status, reply.header("server"), reply.header("x-standin")), (200, Some("uvicorn"), Some("r1")));
    let body = reply.json();
    assert_eq!(body["choices"][0]["message"]["content"], "stand-in r1, model base: one two");
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert_eq!(body["system_fingerprint"], "standin-r1");
    assert_eq!(body["usage"]["completion_tokens"], 3);
}

#[tokio::test]
async fn a_chat_stream_is_one_event_a_chunk_from_role_to_done() {
    let standin = fast().await;
    let reply = post(&standin, "/v1/chat/completions", chat("base", 3, true)).await;
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let (done, events) = reply.chunks.split_last().expect("chunks");
    assert_eq!(done, "data: [DONE]\n\n");
    let events: Vec<Value> = events.iter().map(|chunk| event(chunk)).collect();
    assert_eq!(events.len(), 4);
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(events[2]["choices"][0]["delta"]["content"], " one");
    assert_eq!(events[3]["choices"][0]["finish_reason"], "length");
    assert!(!reply.text().contains("usage"));
}

#[tokio::test]
async fn include_usage_adds_an_event_without_choices() {
    let standin = fast().await;
    for (path, prompt) in [("/v1/chat/completions", "messages"), ("/v1/completions", "prompt")] {
        let body =
            json!({prompt: ["hello"], "max_tokens": 2, "stream": true, "stream_options": {"include_usage": true}});
        let reply = post(&standin, path, body).await;
        let usage = event(&reply.chunks[reply.chunks.len() - 2]);
        assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(2)), "{path}");
    }
}

#[tokio::test]
async fn responses_and_messages_streams_end_without_done() {
    let standin = fast().await;
    let messages = post(&standin, "/v1/messages", chat("base", 3, true)).await;
    assert!(messages.chunks.last().expect("chunks").starts_with("event: message_stop\n"));
    let responses =
        post(&standin, "/v1/responses", json!({"input": "hello", "max_output_tokens": 3, "stream": true})).await;
    assert!(responses.chunks.last().expect("chunks").starts_with("event: response.completed\n"));
    let numbers: Vec<u64> = responses.chunks.iter().map(|chunk| sequence_number(chunk)).collect();
    assert_eq!(numbers, (0..11).collect::<Vec<u64>>());
    assert!(!(messages.text() + &responses.text()).contains("[DONE]"));
}

fn sequence_number(chunk: &str) -> u64 {
    let (_, data) = chunk.split_once("data: ").expect("data");
    let event: Value = serde_json::from_str(data).expect("JSON");
    event["sequence_number"].as_u64().expect("a number")
}

#[tokio::test]
async fn every_other_endpoint_answers() {
    let standin = fast().await;
    for (path, body) in [
        ("/v1/embeddings", json!({"input": ["a", "b"]})),
        ("/v1/rerank", json!({"query": "q", "documents": ["a", "b"]})),
        ("/v1/score", json!({"text_1": "q", "text_2": ["a", "b"]})),
        ("/pooling", json!({"input": "a"})),
        ("/classify", json!({"input": "a"})),
        ("/tokenize", json!({"prompt": "hello"})),
        ("/detokenize", json!({"tokens": [1]})),
        ("/v1/responses", json!({"input": "hello"})),
        ("/v1/messages", chat("base", 2, false)),
    ] {
        assert_eq!(post(&standin, path, body).await.status, 200, "{path}");
    }
    for path in ["/health", "/ping", "/version", "/load", "/metrics", "/v1/models", "/kv_event_sources"] {
        assert_eq!(get(&standin, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn speech_takes_its_model_from_the_form() {
    let standin = fast().await;
    let form =
        |model: &str| format!("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n--b--\r\n");
    let kind = "content-type: multipart/form-data; boundary=b\r\n";
    for (model, status) in [("base", 200), ("nope", 404)] {
        let reply =
            try_call(&standin, "POST", "/v1/audio/transcriptions", kind, &form(model)).await.expect("an answer");
        assert_eq!(reply.status, status, "{model}");
    }
}

#[tokio::test]
async fn refusals_have_the_recorded_codes_and_words() {
    let standin = start(Options { max_model_len: 2_048, ..Options::fast() }).await;
    let long = chat("base", 1, false).to_string().replace("hello", &"word ".repeat(4_000));
    for (path, body, status, words) in [
        (
            "/v1/chat/completions",
            chat("nope", 1, true).to_string(),
            404,
            "The model `nope` does not exist. Valid aliases: base.",
        ),
        ("/v1/messages", chat("nope", 1, false).to_string(), 404, r#"{"type":"error","error":{"type":"NotFoundError""#),
        ("/v1/chat/completions", r#"{"model": "base", "#.into(), 400, r#""param":"body.18","code":400"#),
        ("/v1/chat/completions", r#"{"messages": "x"}"#.into(), 400, "Input should be a valid list"),
        ("/v1/chat/completions", "{}".into(), 400, "Field required"),
        ("/v1/chat/completions", "[]".into(), 400, "valid dictionary"),
        ("/v1/chat/completions", long, 400, "maximum context length is 2048 tokens"),
        ("/v1/chat/completions", chat("base", 100_000, false).to_string(), 400, "max_tokens=100000 cannot be greater"),
        ("/nonexistent", "{}".into(), 404, r#"{"detail":"Not Found"}"#),
        ("/health", "{}".into(), 405, r#"{"detail":"Method Not Allowed"}"#),
    ] {
        let reply = try_call(&standin, "POST", path, JSON, &body).await.expect("an answer");
        assert_eq!(reply.status, status, "{path} {words}");
        assert!(reply.text().contains(words), "{words} not in {}", reply.text());
    }
}

#[tokio::test]
async fn no_model_or_an_empty_one_is_answered_by_the_base() {
    let standin = fast().await;
    let unnamed = json!({"messages": [], "max_tokens": 1});
    for body in [unnamed, chat("", 1, false)] {
        let reply = post(&standin, "/v1/chat/completions", body).await;
        assert_eq!((reply.status, reply.json()["model"].as_str()), (200, Some("base")));
    }
}

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
async fn a_client_that_leaves_frees_its_seat_and_its_place() {
    let standin = start(Options { max_running: 1, ..slow() }).await;
    let streaming = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
    eventually("one runs", || standin.stats().running == 1).await;
    let waiting = open(&standin, &chat_request("base", 9, false)).await.expect("sent");
    eventually("one waits", || standin.stats().waiting == 1).await;
    drop(waiting);
    eventually("none waits", || standin.stats().waiting == 0).await;
    drop(streaming);
    eventually("none runs", || standin.stats().running == 0).await;
    eventually("both are aborted", || standin.requests().iter().all(|one| one.ending == Ending::Aborted)).await;
    assert_eq!(standin.stats().aborted, 2);
}

#[tokio::test]
async fn requests_beyond_the_adapter_limit_are_told_as_deferred() {
    let names: Vec<String> = (1..=6).map(|number| format!("lora-{number}")).collect();
    let adapters = names.iter().map(|name| StartAdapter { name: name.clone(), path: "standin:".into() }).collect();
    let standin = start(Options { max_running: 4, max_loras: 2, adapters, ..slow() }).await;
    let mut streams = Vec::new();
    for (number, name) in names.iter().chain(&names).enumerate() {
        streams.push(open(&standin, &chat_request(name, 9, true)).await.expect("sent"));
        eventually("arrived", || standin.stats().running + standin.stats().waiting == number + 1).await;
    }
    let metrics = get(&standin, "/metrics").await.text();
    let gauge = |name: &str| sample(&metrics, &format!("vllm:{name}"));
    assert_eq!(gauge("num_requests_running{"), Some(4.0));
    assert_eq!(gauge("num_requests_waiting{"), Some(8.0));
    let reason = |reason: &str| {
        gauge(&format!("num_requests_waiting_by_reason{{engine=\"0\",model_name=\"base\",reason=\"{reason}\""))
    };
    assert_eq!((reason("capacity"), reason("deferred")), (Some(4.0), Some(4.0)));
    assert!(metrics.contains("max_lora=\"2\",running_lora_adapters=\"lora-1,lora-2\""));
}

#[tokio::test]
async fn tokens_held_show_in_the_cache_gauge() {
    let standin = start(Options { kv_tokens: 100, ..slow() }).await;
    let body = json!({"prompt": "x".repeat(200), "stream": true}).to_string();
    let _stream = open(&standin, &request("POST", "/v1/completions", JSON, &body)).await.expect("sent");
    eventually("runs", || standin.stats().generated_tokens == 1).await;
    let metrics = get(&standin, "/metrics").await.text();
    assert_eq!(sample(&metrics, "vllm:kv_cache_usage_perc"), Some(0.51));
}

#[tokio::test]
async fn a_rate_spreads_tokens_over_time() {
    let standin = start(Options { tokens_per_second: Some(100.0), ..Options::fast() }).await;
    for stream in [true, false] {
        let since = std::time::Instant::now();
        post(&standin, "/v1/chat/completions", chat("base", 11, stream)).await;
        assert!(since.elapsed() >= Duration::from_millis(100), "stream {stream}: {:?}", since.elapsed());
    }
}

#[tokio::test]
async fn the_head_of_a_queued_stream_leaves_as_told() {
    for (head_sent, expected) in [(HeadSent::AtOnce, true), (HeadSent::WithFirstToken, false)] {
        let standin = start(Options { max_running: 1, head_sent, ..slow() }).await;
        let _running = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
        eventually("one runs", || standin.stats().running == 1).await;
        let mut queued = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
        eventually("one waits", || standin.stats().waiting == 1).await;
        let wait = if expected { DEADLINE } else { Duration::from_millis(50) };
        let head = timeout(wait, queued.read_u8()).await;
        assert_eq!(head.is_ok(), expected, "{head_sent:?}");
    }
}

#[tokio::test]
async fn refused_connections_are_accepted_again_once_all_is_well() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::Refuse);
    eventually("refused", || std::net::TcpStream::connect(standin.address()).is_err()).await;
    standin.misbehave(Misbehaviour::Well);
    eventually("accepted", || std::net::TcpStream::connect(standin.address()).is_ok()).await;
    assert_eq!(get(&standin, "/health").await.status, 200);
}

#[tokio::test]
async fn reset_on_accept_gives_no_answer() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::ResetOnAccept);
    assert!(try_call(&standin, "GET", "/health", "", "").await.is_err());
}

#[tokio::test]
async fn a_hung_core_is_healthy_and_answers_once_it_goes_on() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::HungCore);
    let mut hung = open(&standin, &chat_request("base", 1, false)).await.expect("sent");
    eventually("it holds a seat", || standin.stats().running == 1).await;
    assert_eq!(get(&standin, "/health").await.status, 200);
    assert_eq!(sample(&get(&standin, "/metrics").await.text(), "vllm:num_requests_running"), Some(1.0));
    standin.misbehave(Misbehaviour::Well);
    timeout(DEADLINE, hung.read_u8()).await.expect("an answer in time").expect("an answer");
}

#[tokio::test]
async fn a_stalled_engine_answers_not_even_health() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::Stall);
    let mut health = open(&standin, &request("GET", "/health", "", "")).await.expect("sent");
    eventually("received", || standin.stats().received == 1).await;
    assert!(timeout(Duration::from_millis(30), health.read_u8()).await.is_err());
    standin.misbehave(Misbehaviour::Well);
    timeout(DEADLINE, health.read_u8()).await.expect("an answer in time").expect("an answer");
}

#[tokio::test]
async fn death_in_mid_stream_resets_after_the_tokens_were_sent() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::DieMidStream { after_tokens: 2 });
    let mut stream = open(&standin, &chat_request("base", 9, true)).await.expect("sent");
    let mut bytes = Vec::new();
    let end = timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("an end in time");
    assert_eq!(end.expect_err("a reset").kind(), io::ErrorKind::ConnectionReset);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert_eq!((text.matches("\"content\":\" one\"").count(), text.matches(" two").count()), (1, 0), "{text}");
    eventually("aborted", || standin.requests()[0].ending == Ending::Aborted).await;
}

#[tokio::test]
async fn death_before_a_whole_answer_gives_none() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::DieMidStream { after_tokens: 0 });
    let died = try_call(&standin, "POST", "/v1/chat/completions", JSON, &chat("base", 9, false).to_string()).await;
    assert!(died.is_err());
    eventually("the seat is free", || standin.stats().running == 0).await;
}

#[tokio::test]
async fn an_abort_in_mid_stream_has_a_clean_looking_tail() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::AbortMidStream { after_tokens: 2 });
    let reply = post(&standin, "/v1/chat/completions", chat("base", 9, true)).await;
    assert_eq!(reply.chunks.len(), 5);
    assert_eq!(event(&reply.chunks[3])["choices"][0]["finish_reason"], "abort");
    assert_eq!(reply.chunks[4], "data: [DONE]\n\n");
}

#[tokio::test]
async fn ordered_statuses_are_answered() {
    let standin = fast().await;
    for status in [429, 500, 503] {
        standin.misbehave(Misbehaviour::Answer { status });
        assert_eq!(post(&standin, "/v1/chat/completions", chat("base", 1, true)).await.status, status);
        assert_eq!(get(&standin, "/health").await.status, 200);
    }
    standin.misbehave(Misbehaviour::DeadCore);
    let dead = post(&standin, "/v1/chat/completions", chat("base", 1, false)).await;
    assert_eq!((dead.status, dead.text().contains("EngineCore")), (500, true));
    assert_eq!(get(&standin, "/health").await.status, 503);
}

#[tokio::test]
async fn metrics_lie_or_fail_on_order() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::LieInMetrics { running: 7.0, waiting: 9.0, kv: 0.5 });
    let metrics = get(&standin, "/metrics").await.text();
    assert_eq!(sample(&metrics, "vllm:num_requests_waiting{"), Some(9.0));
    assert_eq!(sample(&metrics, "vllm:kv_cache_usage_perc"), Some(0.5));
    standin.misbehave(Misbehaviour::FailMetrics { status: 500 });
    assert_eq!(get(&standin, "/metrics").await.status, 500);
}

#[tokio::test]
async fn loads_fail_on_order() {
    let standin = fast().await;
    standin.misbehave(Misbehaviour::FailLoads { status: 500 });
    assert_eq!(load(&standin, "sql", "standin:").await.status, 500);
    assert_eq!(get(&standin, "/v1/models").await.json()["data"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn slow_loads_and_slow_first_tokens_take_their_time() {
    let standin = fast().await;
    let since = std::time::Instant::now();
    standin.misbehave(Misbehaviour::SlowLoad { ms: 40 });
    load(&standin, "sql", "standin:").await;
    standin.misbehave(Misbehaviour::SlowFirstToken { ms: 40 });
    post(&standin, "/v1/chat/completions", chat("sql", 1, true)).await;
    assert!(since.elapsed() >= Duration::from_millis(80), "{:?}", since.elapsed());
}

#[tokio::test]
async fn misbehaviour_is_switched_over_http_for_a_while() {
    let standin = fast().await;
    let order = json!({"kind": "answer", "status": 503, "for_ms": 100});
    assert_eq!(post(&standin, "/standin/misbehave", order).await.status, 200);
    assert_eq!(post(&standin, "/v1/chat/completions", chat("base", 1, false)).await.status, 503);
    let wait = async { while post(&standin, "/v1/chat/completions", chat("base", 1, false)).await.status != 200 {} };
    timeout(DEADLINE, wait).await.expect("well again");
    assert_eq!(post(&standin, "/standin/misbehave", json!({"kind": "dance"})).await.status, 400);
}

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
async fn lost_adapters_look_like_a_restart() {
    let standin = fast().await;
    load(&standin, "sql", "standin:").await;
    standin.misbehave(Misbehaviour::LoseAdapters);
    assert_eq!(post(&standin, "/v1/chat/completions", chat("sql", 1, false)).await.status, 404);
    assert_eq!(load(&standin, "sql", "standin:").await.status, 200);
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
async fn what_was_received_can_be_checked() {
    let standin = fast().await;
    let body = chat("base", 1, false).to_string();
    let headers = format!(
        "{JSON}x-standin-digest: 1\r\nx-standin-echo: traceparent, x-request-id\r\nx-request-id: id-7\r\ntraceparent: t\r\n"
    );
    let reply = try_call(&standin, "POST", "/v1/chat/completions", &headers, &body).await.expect("an answer");
    let hash = xxhash_rust::xxh3::xxh3_64(body.as_bytes());
    assert_eq!(reply.header("x-standin-body-xxh3"), Some(&*format!("{hash:016x}")));
    assert_eq!(reply.header("x-standin-echo-traceparent"), Some("t"));
    assert_eq!(reply.json()["id"], "chatcmpl-id-7");
    let received = &standin.requests()[0];
    assert_eq!((received.body_xxh3, received.body_length, received.ending), (hash, body.len(), Ending::Finished));
    assert_eq!((received.model.as_deref(), received.header("x-request-id")), (Some("base"), Some("id-7")));
}

#[tokio::test]
async fn the_load_report_is_given_to_whole_answers_that_ask() {
    let standin = fast().await;
    let headers = format!("{JSON}endpoint-load-metrics-format: TEXT\r\n");
    for (stream, report) in [(false, true), (true, false)] {
        let body = chat("base", 1, stream).to_string();
        let reply = try_call(&standin, "POST", "/v1/chat/completions", &headers, &body).await.expect("an answer");
        assert_eq!(reply.header("endpoint-load-metrics").is_some(), report, "stream {stream}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_keep_alive() {
    let standin = start(Options { keep_alive: Duration::from_millis(50), ..Options::fast() }).await;
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

async fn llamacpp() -> StandIn {
    let adapter = |name: &str| StartAdapter { name: name.into(), path: format!("/adapters/{name}.gguf") };
    let adapters = vec![adapter("sql"), adapter("legal")];
    start(Options { name: "l1".into(), dialect: Dialect::LlamaCpp, max_running: 2, adapters, ..Options::fast() }).await
}

#[tokio::test]
async fn llamacpp_chooses_adapters_by_id_and_ignores_the_model() {
    let standin = llamacpp().await;
    let list = get(&standin, "/lora-adapters").await.json();
    assert_eq!((&list[1]["id"], &list[1]["path"]), (&json!(1), &json!("/adapters/legal.gguf")));
    for (lora, expected) in [
        (json!([{"id": 1, "scale": 1.0}]), "stand-in l1, model base, adapter legal:"),
        (json!([{"id": 99, "scale": 1.0}]), "stand-in l1, model base:"),
        (json!([]), "stand-in l1, model base:"),
    ] {
        let mut body = chat("nope", 1, false);
        body["lora"] = lora;
        let reply = post(&standin, "/v1/chat/completions", body).await;
        assert_eq!(reply.header("server"), Some("llama.cpp"));
        assert_eq!(reply.json()["choices"][0]["message"]["content"], expected);
    }
    let mut malformed = chat("base", 1, false);
    malformed["lora"] = json!("x");
    assert_eq!(post(&standin, "/v1/chat/completions", malformed).await.status, 400);
}

#[tokio::test]
async fn llamacpp_scales_hold_for_requests_that_choose_nothing() {
    let standin = llamacpp().await;
    assert_eq!(post(&standin, "/lora-adapters", json!([{"id": 0, "scale": 1}])).await.json(), json!({"success": true}));
    let reply = post(&standin, "/v1/chat/completions", chat("base", 1, false)).await.json();
    assert_eq!(reply["choices"][0]["message"]["content"], "stand-in l1, model base, adapter sql:");
}

#[tokio::test]
async fn llamacpp_streams_put_role_and_first_token_in_one_chunk() {
    let standin = llamacpp().await;
    let mut body = chat("base", 2, true);
    body["stream_options"] = json!({"include_usage": true});
    let reply = post(&standin, "/v1/chat/completions", body).await;
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.chunks.len(), 4);
    let pair: Vec<Value> = reply.chunks[0].split_inclusive("\n\n").map(event).collect();
    assert_eq!(pair[0]["choices"][0]["delta"], json!({"role": "assistant", "content": null}));
    assert_eq!(pair[1]["choices"][0]["delta"]["content"], "stand-in l1, model base:");
    let end: Vec<Value> = reply.chunks[2].split_inclusive("\n\n").map(event).collect();
    assert_eq!(end[0]["choices"][0]["finish_reason"], "length");
    assert_eq!(end[1]["usage"]["completion_tokens"], 2);
}

#[tokio::test]
async fn llamacpp_tells_its_load_in_its_own_names() {
    let standin = llamacpp().await;
    assert_eq!(get(&standin, "/health").await.json(), json!({"status": "ok"}));
    assert_eq!(sample(&get(&standin, "/metrics").await.text(), "llamacpp:requests_processing "), Some(0.0));
    assert_eq!(get(&standin, "/slots").await.json().as_array().map(Vec::len), Some(2));
    let unknown = post(&standin, "/v1/load_lora_adapter", json!({})).await;
    assert_eq!((unknown.status, unknown.text().contains("File Not Found")), (404, true));
}
