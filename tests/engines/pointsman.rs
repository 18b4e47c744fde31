//! The real Pointsman, as its users start it, in front of a fleet.

use crate::guarded::Guarded;
use crate::http;
use crate::replica::{Engine, Replica, adapters};
use crate::wait::until;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// From its start to its readiness in front of healthy replicas, on a busy machine.
const READY: Duration = Duration::from_secs(30);

/// A running Pointsman.
pub struct Pointsman {
    pub clients: SocketAddr,
    pub admin: SocketAddr,
    process: Guarded,
    _config: TempDir,
}

/// The name of the model that the engine serves, which is also its name in front.
pub fn model(engine: Engine) -> &'static str {
    match engine {
        Engine::Vllm => "base",
        Engine::LlamaCpp => "gemma",
    }
}

impl Pointsman {
    /// Start it in front of the replicas, with all adapters registered at the engines' start, and wait until it is ready.
    pub async fn before(engine: Engine, replicas: &[Replica]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the configuration");
        let file = folder.path().join("pointsman.yaml");
        std::fs::write(&file, config(engine, replicas).to_string()).expect("the configuration written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
        command.arg("serve").arg("-c").arg(&file);
        let mut process = Guarded::start("pointsman", &command);
        let clients = told_address(&mut process, "listening on").await;
        let admin = told_address(&mut process, "admin on").await;
        let pointsman = Self { clients, admin, process, _config: folder };
        let ready =
            async || http::try_get(admin, "/readyz").await.is_ok_and(|answer| answer.status == 200).then_some(());
        until("Pointsman is ready", READY, ready).await;
        pointsman
    }

    /// What `/status` says of each replica, in the order of the configuration.
    pub async fn replicas(&self) -> Vec<Value> {
        let status = http::get(self.admin, "/status").await.json();
        let pools = status["models"][0]["pools"].as_array().unwrap_or_else(|| panic!("no pools in {status}"));
        pools.iter().flat_map(|pool| pool["replicas"].as_array().cloned().unwrap_or_default()).collect()
    }
}

impl Drop for Pointsman {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.process.show();
        }
    }
}

/// The address that Pointsman's log tells after `words`.
async fn told_address(process: &mut Guarded, words: &str) -> SocketAddr {
    let told = until(words, READY, async || {
        let address = address_after(&process.output(), &format!("{words} http://"));
        if address.is_none() && process.ended() { Some(None) } else { address.map(Some) }
    });
    told.await.unwrap_or_else(|| {
        process.show();
        panic!("`pointsman serve` ended before it told what it is {words}");
    })
}

fn address_after(log: &str, words: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once(words)?;
    let address: String = rest.chars().take_while(|c| c.is_ascii_hexdigit() || ".:[]".contains(*c)).collect();
    address.parse().ok().filter(|_| rest.len() > address.len())
}

/// JSON is YAML, too.
fn config(engine: Engine, replicas: &[Replica]) -> Value {
    let kind = match engine {
        Engine::Vllm => "vllm",
        Engine::LlamaCpp => "llamacpp",
    };
    let adapters: Vec<Value> =
        adapters(engine).iter().map(|(name, path)| json!({"name": name, "path": path})).collect();
    let urls: Vec<Value> =
        replicas.iter().map(|replica| json!({"url": format!("http://{}", replica.address)})).collect();
    json!({
        "server": {"listen": ["127.0.0.1:0"], "admin_listen": "127.0.0.1:0"},
        "models": [{
            "name": model(engine),
            "engine": kind,
            "aliases": ["gpt-4o-mini"],
            "adapters": adapters,
            "pools": [{"name": "edge", "replicas": urls}],
        }],
    })
}
