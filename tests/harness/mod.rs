//! The real binary as its own process, for the tests that go over the wire.

#![allow(dead_code, reason = "each test binary uses its own part")]

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::TokioExecutor;
use pointsman::engine::client::{CallError, Client};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Pointsman as its own process; killed when dropped.
pub(crate) struct Pointsman {
    pub(crate) process: Child,
    pub(crate) clients: String,
    pub(crate) admin: String,
    pub(crate) file: PathBuf,
    pub(crate) http: Client,
    log: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Pointsman {
    /// With this configuration (listeners are added), once it is ready.
    pub(crate) async fn with(mut config: Value) -> Self {
        config["server"]["listen"] = "127.0.0.1:0".into();
        config["server"]["admin_listen"] = "127.0.0.1:0".into();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pointsman.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
        let mut process = command.arg("serve").arg("-c").arg(&file).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut told = |what: &str| {
            let line = lines.by_ref().find(|line| line.contains(what)).expect("an address is told");
            line.rsplit("http://").next().unwrap().trim().to_owned()
        };
        let (clients, admin) = (told("listening on"), told("admin on"));
        let kept = log.clone();
        std::thread::spawn(move || lines.for_each(|line| kept.lock().unwrap().push(line)));
        let it = Self { process, clients, admin, file, http: Client::new(DEADLINE), log, _folder: folder };
        eventually("Pointsman is ready", async || it.http.get(&it.admin, "/readyz").await.is_ok()).await;
        it
    }

    pub(crate) async fn chat(&self, body: Value) -> Result<String, CallError> {
        let body = self.http.post(&self.clients, CHAT, body.to_string()).await?;
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }

    pub(crate) async fn status(&self) -> Value {
        let body = self.http.get(&self.admin, "/status").await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    pub(crate) async fn metrics(&self) -> String {
        String::from_utf8(self.http.get(&self.admin, "/metrics").await.unwrap().to_vec()).unwrap()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Pointsman {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            for line in self.log() {
                eprintln!("pointsman: {line}");
            }
        }
    }
}

/// An answer: status, headers, body.
pub(crate) type Answer = (u16, http::HeaderMap, String);

impl Pointsman {
    /// A chat request with headers, on a connection of its own. After a stream that ended with an error event Pointsman
    /// closes the connection, which a client that reuses it at once could take for a failure.
    pub(crate) async fn send(&self, headers: &[(&str, &str)], body: Value) -> Result<Answer, String> {
        let url = format!("http://{}{CHAT}", self.clients);
        let mut request = http::Request::post(url).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(bytes::Bytes::from(body.to_string()))).unwrap();
        let client = Http::builder(TokioExecutor::new()).build_http::<Full<bytes::Bytes>>();
        let (head, body) = client.request(request).await.map_err(|error| format!("{error:?}"))?.into_parts();
        let body = body.collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
        Ok((head.status.as_u16(), head.headers, String::from_utf8_lossy(&body).into_owned()))
    }
}

/// Wait until something holds; fail after [`DEADLINE`].
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < deadline, "in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
