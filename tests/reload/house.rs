//! Pointsman as its own process with a configuration file that a test rewrites.

use pointsman::engine::client::{CallError, Client};
use pointsman::standin::{Options, StandIn};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Killed when dropped.
pub(crate) struct House {
    process: Child,
    clients: String,
    admin: String,
    http: Client,
    pub(crate) file: PathBuf,
}

impl House {
    /// Serves `file`, which exists.
    pub(crate) async fn of(file: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
        let mut process = command.arg("serve").arg("-c").arg(file).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut told = |what: &str| {
            let line = lines.find(|line| line.contains(what)).expect("an address is told");
            line.rsplit("http://").next().unwrap().trim().to_owned()
        };
        let (clients, admin) = (told("listening on"), told("admin on"));
        std::thread::spawn(move || lines.for_each(drop));
        let house = Self { process, clients, admin, http: Client::new(DEADLINE), file: file.to_owned() };
        eventually("ready", async || house.http.get(&house.admin, "/readyz").await.is_ok()).await;
        house
    }

    pub(crate) async fn reload(&self, query: &str) -> Result<Value, CallError> {
        let body = self.http.post(&self.admin, &format!("/reload{query}"), String::new()).await?;
        Ok(serde_json::from_slice(&body).unwrap())
    }

    pub(crate) async fn status(&self) -> Value {
        serde_json::from_slice(&self.http.get(&self.admin, "/status").await.unwrap()).unwrap()
    }

    pub(crate) async fn metrics(&self) -> String {
        String::from_utf8(self.http.get(&self.admin, "/metrics").await.unwrap().to_vec()).unwrap()
    }

    pub(crate) async fn ask(&self, model: &str, tokens: u32) -> Result<String, CallError> {
        let body = json!({ "model": model, "max_tokens": tokens, "stream": true, "messages": [{ "role": "user", "content": "Hello" }] });
        let answer = self.http.post(&self.clients, "/v1/chat/completions", body.to_string()).await?;
        Ok(String::from_utf8(answer.to_vec()).unwrap())
    }

    pub(crate) fn hang_up(&self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    pub(crate) async fn aliases_become(&self, aliases: &[&str]) {
        eventually("the aliases are taken", async || self.status().await["models"][0]["aliases"] == json!(aliases))
            .await;
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < deadline, "in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn config(engines: &[&StandIn], aliases: &[&str]) -> String {
    let replicas: Vec<_> = engines.iter().map(|engine| json!({ "url": engine.url() })).collect();
    let config = json!({
        "server": { "listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0" },
        "models": [{ "name": "base", "engine": "vllm", "aliases": aliases, "pools": [{ "name": "edge", "replicas": replicas }] }],
    });
    config.to_string()
}

pub(crate) async fn engine(tokens_per_second: Option<f64>) -> StandIn {
    StandIn::start(Options { tokens_per_second, ..Options::fast() }).await.unwrap()
}
