//! The configuration after every check: what the rest of the program may rely on.

use crate::admission::Class;
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
    /// Who may enter, and who must wait.
    pub admission: Admission,
    /// Retries before the first byte.
    pub retry: Retry,
    /// What is logged and how.
    pub log: Log,
    /// What clients are told of how their requests were placed.
    pub explain: Explain,
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
    /// Request bodies held in memory at once, over all requests, bytes. Default 512 MiB.
    pub max_buffered: usize,
    /// Client connections at once, over all listeners; further ones are closed. Default 16,384.
    pub max_connections: usize,
    /// How long a client may take to send a whole header, from the connection or from the first byte of a further request
    /// on it. Default 10 s.
    pub header_timeout: Duration,
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
            max_buffered: 512 << 20,
            max_connections: 16_384,
            header_timeout: Duration::from_secs(10),
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
    /// From the request sent to the first byte of the answer's body. Default 300 s (a long prompt on a CPU is slow).
    pub first_byte: Duration,
    /// Between two reads of an answer. Default 120 s.
    pub between_bytes: Duration,
    /// From the request sent to the last byte of an answer that is not streamed. Default none.
    pub total: Option<Duration>,
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
            total: None,
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
    /// A replica that has requests, sends no byte to any and moves none of its counters for so long hangs: it is taken
    /// out, and who waits for a first byte there goes elsewhere. Default 15 s.
    pub stall_timeout: Duration,
    /// A replica that is new or back again gets its full share only after so long. 0: at once. Default 10 s.
    pub slow_start: Duration,
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
            stall_timeout: Duration::from_secs(15),
            slow_start: Duration::from_secs(10),
        }
    }
}

/// Who may enter, and who must wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// Whether requests wait here while the replicas are full. Default on; off, all go to the engines at once.
    pub on: bool,
    /// Requests that may wait for one model. Default 256.
    pub max_waiting: usize,
    /// Their bodies together, bytes. Default 64 MiB.
    pub max_waiting_bytes: usize,
    /// How long one may wait, unless its header `x-request-timeout-ms` says less. Default 30 s.
    pub max_wait: Duration,
    /// How long a request is held while no replica of its model can be reached. Default 10 s.
    pub hold_unavailable: Duration,
    /// Who is known by key.
    pub tenants: Vec<Tenant>,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            on: true,
            max_waiting: 256,
            max_waiting_bytes: 64 << 20,
            max_wait: Duration::from_secs(30),
            hold_unavailable: Duration::from_secs(10),
            tenants: Vec::new(),
        }
    }
}

impl Admission {
    /// The limits of one model's waiting room.
    pub fn limits(&self) -> crate::admission::queue::Limits {
        crate::admission::queue::Limits { count: self.max_waiting, bytes: self.max_waiting_bytes }
    }
}

/// Somebody who shares the replicas with others.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its name; unique.
    pub name: String,
    /// The API keys that it uses, as they stand in `Authorization: Bearer` or `x-api-key`.
    pub keys: Vec<String>,
    /// The most urgent class that it may claim, and the one it gets when it claims none. Default `default`.
    pub priority: Class,
    /// Its share relative to others, above 0. Default 1.
    pub weight: f64,
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

/// What clients are told of how their requests were placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explain {
    /// A client that sends `x-pointsman-explain: 1` gets the decision. Default no: it names replicas and their load.
    pub on_request: bool,
    /// Every answer says which replica gave it and how long it was queued. Default no.
    pub headers: bool,
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
