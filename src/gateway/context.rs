//! What is known of one request, gathered phase by phase. Dropped at its end, however it ends: the lease goes with it.

use super::answer::Answer;
use super::buffered::Held;
use super::error_response::Failure;
use crate::admission::Permit;
use crate::fleet::call::InCall;
use crate::fleet::draining::Running;
use crate::fleet::{Fleet, Lease, Model, Target};
use crate::request::{Endpoint, ErrorDialect, PrefixBlocks, Wanted};
use crate::residency::seat::Seat;
use crate::scheduler::Profile;
use bytes::Bytes;
use http::HeaderValue;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One request from its header to its log line.
pub struct Context {
    /// When its header had been read.
    pub(super) started: Instant,
    /// Kept from the client or made here; sent upstream and returned.
    pub(super) request_id: HeaderValue,
    /// What the client asked for; `None` until the body was read, and for requests that are answered here.
    pub(super) job: Option<Job>,
    /// The endpoint, once the path was recognised.
    pub(super) endpoint: Option<Endpoint>,
    /// The process does not end without it.
    pub(super) running: Option<Running>,
    /// Let in, and not yet counted on a replica.
    pub(super) permit: Option<Permit>,
    /// How long it waited to be let in.
    pub(super) queue_wait: Duration,
    /// The try that runs now.
    pub(super) attempt: Option<Attempt>,
    /// Members that this request was sent to and that failed.
    pub(super) tried: SmallVec<[usize; 4]>,
    /// Tries after the first one.
    pub(super) retries: u32,
    /// Adapters that were loaded anew because an engine had lost them.
    pub(super) reloads: u32,
    /// Replicas that died with this request.
    pub(super) deaths: u32,
    /// How the request came to its adapter; of several tries the slowest way.
    pub(super) adapter_use: Option<AdapterUse>,
    /// How long it waited for its adapter.
    pub(super) adapter_wait: Duration,
    /// Why no engine answered, or why its answer broke off.
    pub(super) failure: Option<Failure>,
    /// Idle connections that the engine had closed under us.
    pub(super) stale_connections: u32,
    /// The number of its line among the decisions.
    pub(super) line: Option<u64>,
    /// The client asked for the decision, and may.
    pub(super) explain: bool,
    /// The engine's answer as it passes.
    pub(super) answer: Option<Answer>,
}

/// A request that is to be proxied.
pub(super) struct Job {
    /// The fleet at the time it came; a reload does not change it under way.
    pub(super) fleet: Arc<Fleet>,
    pub(super) target: Target,
    pub(super) profile: Arc<Profile>,
    pub(super) wanted: Wanted,
    /// As the client sent it.
    pub(super) body: Bytes,
    /// Its share of the memory for bodies, given back with the job.
    pub(super) _held: Held,
    /// Hashes of the prompt's leading blocks; empty where the profile has no use for them.
    pub(super) prefix_blocks: PrefixBlocks,
}

impl Job {
    pub(super) fn model(&self) -> &Arc<Model> {
        &self.target.model
    }
}

/// How a request came to its on-demand adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AdapterUse {
    /// It was there.
    Resident,
    /// It was being loaded for others.
    Waited,
    /// It was loaded for this request.
    Cold,
    /// It waited for a slot first.
    NoSlot,
}

impl AdapterUse {
    /// For logs and metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Waited => "waited",
            Self::Cold => "cold",
            Self::NoSlot => "no_slot",
        }
    }
}

/// One try on one replica.
pub(super) struct Attempt {
    /// Position of the replica in the model's members.
    pub(super) member: usize,
    /// Ends with the attempt.
    pub(super) lease: Lease,
    /// Keeps the adapter there; for adapters that are loaded on demand.
    pub(super) seat: Option<Seat>,
    /// The body for this replica.
    pub(super) body: Bytes,
    /// When it was handed to Pingora.
    pub(super) sent: Option<Instant>,
    /// Watched from then on.
    pub(super) call: Option<InCall>,
}

impl Context {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            request_id: HeaderValue::from_static(""),
            job: None,
            endpoint: None,
            running: None,
            permit: None,
            queue_wait: Duration::ZERO,
            attempt: None,
            tried: SmallVec::new(),
            retries: 0,
            stale_connections: 0,
            reloads: 0,
            deaths: 0,
            adapter_use: None,
            adapter_wait: Duration::ZERO,
            failure: None,
            line: None,
            explain: false,
            answer: None,
        }
    }

    /// The request id as text; ids that are not ASCII are not taken over, so this is never lossy.
    pub(super) fn request_id(&self) -> &str {
        self.request_id.to_str().unwrap_or_default()
    }

    /// How this client expects errors.
    pub(super) fn dialect(&self) -> ErrorDialect {
        self.endpoint.map_or(ErrorDialect::OpenAi, Endpoint::error_dialect)
    }
}
