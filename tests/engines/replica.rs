//! One engine process: how it is started, how one knows that it is up, what it counts.

use crate::guarded::Guarded;
use crate::http;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// A cold start of vLLM took 123 s with a compiler beside it.
const START: Duration = Duration::from_secs(240);
/// Between two looks at an engine that starts.
const LOOK: Duration = Duration::from_millis(200);
/// What engines say when another process was faster to take the port.
const PORT_TAKEN: [&str; 2] = ["ddress already in use", "couldn't bind"];

/// The engine a replica runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Vllm,
    LlamaCpp,
}

/// Adapters that each replica has from its start.
pub fn adapters(engine: Engine) -> Vec<(String, PathBuf)> {
    let (count, folder, ending) = match engine {
        Engine::Vllm => (4, "tiny", ""),
        Engine::LlamaCpp => (3, "gemma", ".gguf"),
    };
    (1..=count).map(|k| (format!("lora-{k}"), cached(&format!("{folder}/lora-{k}{ending}")))).collect()
}

/// A path in the engines' cache; panics with what to do if nothing is there.
pub fn cached(path: &str) -> PathBuf {
    let root = std::env::var_os("POINTSMAN_ENGINES").map(PathBuf::from).unwrap_or_else(|| {
        std::env::home_dir().expect("a home folder, or POINTSMAN_ENGINES").join(".cache/pointsman-engines")
    });
    let path = root.join(path);
    assert!(path.exists(), "{} is missing: `make engines` installs the engines", path.display());
    path
}

/// A running engine.
pub struct Replica {
    pub address: SocketAddr,
    process: Guarded,
}

impl Replica {
    /// Start an engine and wait until it is healthy.
    pub async fn start(engine: Engine) -> Self {
        loop {
            let address = free_address();
            let process = Guarded::start(&format!("{engine:?}-{}", address.port()), &command(engine, address.port()));
            let mut replica = Self { address, process };
            if replica.comes_up().await {
                return replica;
            }
        }
    }

    /// True once healthy, false if the port was taken; panics on any other end or delay.
    async fn comes_up(&mut self) -> bool {
        let start = Instant::now();
        while !self.is_healthy().await {
            let ended = self.process.ended();
            if ended && PORT_TAKEN.iter().any(|words| self.process.output().contains(words)) {
                return false;
            }
            if ended || start.elapsed() > START {
                self.process.show();
                panic!("the engine did not come up, its log is above");
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    /// Whether the process lives and says that it is well.
    pub async fn is_healthy(&mut self) -> bool {
        !self.process.ended() && http::try_get(self.address, "/health").await.is_ok_and(|answer| answer.status == 200)
    }

    /// Kill all processes of the engine, at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// The sum of a metric's series.
    pub async fn metric(&self, name: &str) -> f64 {
        let answer = http::get(self.address, "/metrics").await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let values: Vec<f64> = text.lines().filter_map(|line| value(line, name)).collect();
        assert!(!values.is_empty(), "no metric {name} in {text}");
        values.iter().sum()
    }

    /// Requests that the engine works on or holds back.
    pub async fn busy(&self, engine: Engine) -> f64 {
        let [running, waiting] = match engine {
            Engine::Vllm => ["vllm:num_requests_running", "vllm:num_requests_waiting"],
            Engine::LlamaCpp => ["llamacpp:requests_processing", "llamacpp:requests_deferred"],
        };
        self.metric(running).await + self.metric(waiting).await
    }

    /// Write the end of the engine's log to standard error.
    pub fn show(&self) {
        self.process.show();
    }
}

fn value(line: &str, name: &str) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    let of_this_name = rest.starts_with('{') || rest.starts_with(' ');
    of_this_name.then(|| rest.rsplit(' ').next()?.parse().ok())?
}

fn free_address() -> SocketAddr {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    socket.local_addr().expect("its address")
}

fn command(engine: Engine, port: u16) -> Command {
    let mut command = match engine {
        Engine::Vllm => vllm(),
        Engine::LlamaCpp => llama_cpp(),
    };
    command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    command
}

/// The tiny model in float32, so that answers do not depend on what else runs; small, so that two fit into 2 cores and 8 GB.
fn vllm() -> Command {
    let mut command = Command::new(cached("vllm/bin/vllm"));
    command.arg("serve").arg(cached("tiny/base")).args(["--served-model-name", "base", "--dtype", "float32"]);
    command.args(["--max-model-len", "2048", "--max-num-seqs", "4", "--kv-cache-memory-bytes", "67108864"]);
    command.args(["--block-size", "32", "--enforce-eager", "--enable-prefix-caching", "--disable-uvicorn-access-log"]);
    command.args(["--enable-lora", "--max-loras", "2", "--max-cpu-loras", "4", "--max-lora-rank", "8"]);
    command.arg("--lora-modules");
    command.args(adapters(Engine::Vllm).iter().map(|(name, path)| format!("{name}={}", path.display())));
    command.envs([("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "True"), ("VLLM_HOST_IP", "127.0.0.1")]);
    command.envs([("VLLM_CPU_OMP_THREADS_BIND", "nobind"), ("OMP_NUM_THREADS", "1")]);
    command.envs([("HF_HUB_OFFLINE", "1"), ("VLLM_NO_USAGE_STATS", "1"), ("DO_NOT_TRACK", "1")]);
    command
}

/// `--lora-scaled FILE:0` and not `--lora`: an adapter must change nothing until a request names it.
fn llama_cpp() -> Command {
    let adapters: Vec<String> =
        adapters(Engine::LlamaCpp).iter().map(|(_, path)| format!("{}:0", path.display())).collect();
    let mut command = Command::new(cached("llama-server/llama-server"));
    command.arg("--model").arg(cached("gemma/base.gguf")).args([
        "--alias",
        "gemma",
        "--lora-scaled",
        &adapters.join(","),
    ]);
    command.args([
        "--parallel",
        "2",
        "--ctx-size",
        "4096",
        "--threads",
        "1",
        "--metrics",
        "--slots",
        "--cache-ram",
        "0",
    ]);
    command
}
