//! Metrics and the access log: one [`Record`] for each request, written when it has ended.

pub mod decision;
pub mod decisions;
pub mod metrics;
pub mod recent;
mod residency;

use crate::engine::stream_text::Usage;
use crate::fleet::clock;
use decisions::Decisions;
use metrics::Metrics;
use recent::Recent;
use std::time::Duration;

/// How a request ended; a label in metrics, so there are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered in full, by an engine or by us.
    Answered,
    /// We refused it: the client's mistake.
    Refused,
    /// The engine answered it with an error of its own.
    EngineError,
    /// No engine answered.
    Failed,
    /// The engine was lost in the middle of its answer.
    ReplicaLost,
    /// The client left first.
    ClientGone,
}

impl Outcome {
    /// Is it something that an operator should see?
    pub fn is_trouble(self) -> bool {
        !matches!(self, Self::Answered | Self::ClientGone)
    }

    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::EngineError => "engine_error",
            Self::Failed => "failed",
            Self::ReplicaLost => "replica_lost",
            Self::ClientGone => "client_gone",
        }
    }
}

/// One request that has ended. No text of a prompt or an answer.
#[derive(Debug)]
pub struct Record<'a> {
    /// The request's id.
    pub request_id: &'a str,
    /// The model's own name; empty if none was found.
    pub model: &'a str,
    /// The adapter, if one was asked for.
    pub adapter: Option<&'a str>,
    /// Which endpoint, or `other`.
    pub endpoint: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// The status sent; 0 if none was.
    pub status: u16,
    /// The failure's code, if it failed here.
    pub code: Option<&'static str>,
    /// The last replica it was sent to.
    pub replica: Option<&'a str>,
    /// Tries after the first one.
    pub retries: u32,
    /// How long it waited to be let in.
    pub queue_wait: Duration,
    /// How it came to its on-demand adapter; `None` where it has none.
    pub adapter_use: Option<&'static str>,
    /// How long it waited for that.
    pub adapter_wait: Duration,
    /// Until the first token, from the last try's start.
    pub first_token: Option<Duration>,
    /// From the header read to the end.
    pub duration: Duration,
    /// Tokens, as far as the engine told.
    pub usage: Usage,
}

/// Where records go.
#[derive(Debug)]
pub struct Telemetry {
    /// The counters.
    pub metrics: Metrics,
    /// The last requests and why they went where they went.
    pub decisions: Decisions,
    /// The last minute.
    pub recent: Recent,
    access_log: AccessLog,
}

/// Whether requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// One line for each request.
    Every,
    /// None.
    Off,
}

impl Telemetry {
    /// Fresh counters.
    ///
    /// # Errors
    /// A metric that cannot be registered, which is a fault of ours.
    pub fn new(access_log: AccessLog) -> prometheus::Result<Self> {
        let (metrics, decisions, recent) = (Metrics::new()?, Decisions::default(), Recent::default());
        Ok(Self { metrics, decisions, recent, access_log })
    }

    /// Count a request and log it.
    pub fn record(&self, record: &Record<'_>) {
        self.metrics.record(record);
        let tokens = record.usage.completion.unwrap_or(0);
        self.recent.ended(clock::now().as_secs(), record.outcome.is_trouble(), record.first_token, tokens);
        if self.access_log == AccessLog::Every {
            tracing::info!(
                target: "pointsman::access",
                request_id = record.request_id,
                model = record.model,
                adapter = record.adapter,
                endpoint = record.endpoint,
                outcome = record.outcome.as_str(),
                status = record.status,
                code = record.code,
                replica = record.replica,
                retries = record.retries,
                queue_ms = record.queue_wait.as_secs_f64() * 1e3,
                adapter_use = record.adapter_use,
                adapter_wait_ms = record.adapter_use.map(|_| record.adapter_wait.as_secs_f64() * 1e3),
                first_token_ms = record.first_token.map(|time| time.as_secs_f64() * 1e3),
                duration_ms = record.duration.as_secs_f64() * 1e3,
                prompt_tokens = record.usage.prompt,
                completion_tokens = record.usage.completion,
            );
        }
    }
}
