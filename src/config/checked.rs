//! The configuration after every check: what the rest of the program may rely on.

use crate::engine::EngineKind;
use crate::scheduler::{Profile, profile::Thresholds};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A configuration that passed all checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Listeners and their limits.
    pub server: Server,
    /// Shared thresholds of the scheduler.
    pub thresholds: Thresholds,
    /// How long to wait for whom.
    pub timeouts: Timeouts,
    /// Probes, read-outs and the breaker.
    pub health: Health,
    /// Retries before the first byte.
    pub retry: Retry,
    /// What is logged and how.
    pub log: Log,
    /// The built-in profiles and those of the file, by name.
    pub profiles: BTreeMap<String, Arc<Profile>>,
    /// The models, in the file's order.
    pub models: Vec<Model>,
    /// The model that answers a request without `model`; without one such a request is refused.
    pub default_model: Option<String>,
}

/// Listeners and their limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Addresses for clients. At least one. Default `0.0.0.0:8080`.
    pub listen: Vec<SocketAddr>,
    /// Address for operators; must not clash with one of `listen`. Default `127.0.0.1:9090`.
    pub admin_listen: SocketAddr,
    /// Worker threads of the data path; `auto` (the default) is the number of CPUs.
    pub threads: NonZeroUsize,
    /// Largest request body, bytes. Default 32 MiB.
    pub max_body: usize,
    /// How long an idle client connection is kept. Default 60 s.
    pub keepalive: Duration,
    /// How long a client may take to send its whole body. Default 60 s.
    pub body_timeout: Duration,
    /// How long a stop waits for running requests. Default 60 s.
    pub drain_timeout: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8080))],
            admin_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            max_body: 32 << 20,
            keepalive: Duration::from_secs(60),
            body_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(60),
        }
    }
}

/// Time-outs towards the engines.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeouts {
    /// For the TCP connection to a replica. Default 2 s.
    pub connect: Duration,
    /// From the request sent to the first byte of the answer. Until the two are watched apart, each wait for bytes may take
    /// the longer of `first_byte` and `between_bytes`. Default 300 s (a long prompt on a CPU is slow).
    pub first_byte: Duration,
    /// Between two reads of an answer. Default 120 s.
    pub between_bytes: Duration,
    /// How long a request may wait for its adapter: for a slot and for the load. Default 60 s.
    pub adapter_wait: Duration,
    /// For one load or unload order to an engine. Default 60 s.
    pub adapter_load: Duration,
    /// How long an idle connection to a replica is kept; below the engines' keep-alive of 5 s. Default 4 s.
    pub upstream_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(300),
            between_bytes: Duration::from_secs(120),
            adapter_wait: Duration::from_secs(60),
            adapter_load: Duration::from_secs(60),
            upstream_idle: Duration::from_secs(4),
        }
    }
}

/// Probes, read-outs and the breaker.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// Between two read-outs of a replica's metrics, jittered by ±10 %. Default 250 ms.
    pub readout_interval: Duration,
    /// Age at which a read-out counts for nothing. Default 2 s.
    pub readout_max_age: Duration,
    /// Between two health probes of a replica. Default 1 s.
    pub probe_interval: Duration,
    /// For one probe or read-out. Default 3 s: engines were seen to stall 2.4 s on a busy CPU.
    pub probe_timeout: Duration,
    /// Consecutive failures that trip the breaker. Default 3.
    pub trip_after: u32,
    /// How long a tripped replica rests the first time; doubles up to 30 s. Default 1 s.
    pub trip_for: Duration,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            readout_interval: Duration::from_millis(250),
            readout_max_age: Duration::from_secs(2),
            probe_interval: Duration::from_secs(1),
            probe_timeout: Duration::from_secs(3),
            trip_after: 3,
            trip_for: Duration::from_secs(1),
        }
    }
}

/// Retries before the first byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Tries after the first one. Default 2.
    pub attempts: u32,
    /// Retries allowed as a share of recent requests, 0 to 1. Default 0.2.
    pub budget: f64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 2, budget: 0.2 }
    }
}

/// What is logged and how, on standard error.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// A `tracing` filter such as `info` or `pointsman=debug`. Default `info`.
    pub level: String,
    /// The form of a line. Default pretty.
    pub format: LogFormat,
    /// One line for each request. Default off.
    pub access: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Pretty, access: false }
    }
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// A base model and the replicas that serve it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The name clients ask for and the engines serve.
    pub name: String,
    /// What its replicas run.
    pub engine: EngineKind,
    /// How its requests are scheduled, unless the request names another profile.
    pub profile: Arc<Profile>,
    /// Other names for the same model; unique over all names.
    pub aliases: Vec<String>,
    /// Slots for on-demand adapters on each replica; `None`: all adapters are registered at the engine's start.
    pub max_loaded_adapters: Option<NonZeroUsize>,
    /// Its LoRA adapters; names are unique over all names.
    pub adapters: Vec<Adapter>,
    /// A folder whose sub-folders are adapters too, watched; only with `max_loaded_adapters`.
    pub adapters_dir: Option<PathBuf>,
    /// Its pools, by rising priority.
    pub pools: Vec<Pool>,
}

/// A LoRA adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The name clients ask for.
    pub name: String,
    /// Where the engine finds it: a folder, a GGUF file (llama.cpp) or a hub id.
    pub path: PathBuf,
    /// Never evicted. Default no.
    pub pinned: bool,
    /// The operator's name for its weights: a new one makes the replicas load them anew. Default none.
    pub revision: Option<String>,
}

/// Replicas of one priority.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its name in status and metrics; unique within the model.
    pub name: String,
    /// 0 is used first. Default 0.
    pub priority: u32,
    /// At least one.
    pub replicas: Vec<Replica>,
}

/// One engine process.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// Host name or address, without brackets for IPv6.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Share of the work relative to its neighbours, above 0. Default 1.
    pub weight: f64,
}

impl Replica {
    /// `host:port`, the replica's name everywhere: logs, metrics, status.
    pub fn name(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl Health {
    /// When the breaker trips and for how long.
    pub fn policy(&self) -> crate::fleet::breaker::Policy {
        crate::fleet::breaker::Policy { trip_after: self.trip_after, trip_for: self.trip_for }
    }
}
