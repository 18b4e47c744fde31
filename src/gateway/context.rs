//! What is known of one request, gathered phase by phase. Dropped at its end, however it ends: the lease goes with it.

use super::answer::Answer;
use super::error_response::Failure;
use crate::fleet::{Fleet, Lease, Model, Target};
use crate::request::{Endpoint, ErrorDialect, PrefixBlocks, Wanted};
use crate::scheduler::Profile;
use bytes::Bytes;
use http::HeaderValue;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

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
    /// The try that runs now.
    pub(super) attempt: Option<Attempt>,
    /// Members that this request was sent to and that failed.
    pub(super) tried: SmallVec<[usize; 4]>,
    /// Tries after the first one.
    pub(super) retries: u32,
    /// Why no engine answered, or why its answer broke off.
    pub(super) failure: Option<Failure>,
    /// Idle connections that the engine had closed under us.
    pub(super) stale_connections: u32,
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
    /// Hashes of the prompt's leading blocks; empty where the profile has no use for them.
    pub(super) prefix_blocks: PrefixBlocks,
}

impl Job {
    pub(super) fn model(&self) -> &Arc<Model> {
        &self.target.model
    }
}

/// One try on one replica.
pub(super) struct Attempt {
    /// Position of the replica in the model's members.
    pub(super) member: usize,
    /// Ends with the attempt.
    pub(super) lease: Lease,
    /// The body for this replica.
    pub(super) body: Bytes,
    pub(super) started: Instant,
}

impl Context {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            request_id: HeaderValue::from_static(""),
            job: None,
            endpoint: None,
            attempt: None,
            tried: SmallVec::new(),
            retries: 0,
            stale_connections: 0,
            failure: None,
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
