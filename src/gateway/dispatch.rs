//! From a job to a replica: take the snapshot, ask the scheduler, claim the adapter, count the lease, write the body for it.

use super::Gateway;
use super::accept::resolve;
use super::adapter::{Choice, Placed};
use super::context::{Attempt, Context, Job};
use super::error_response::Failure;
use super::explain::Told;
use super::while_connected::while_connected;
use crate::engine::EngineKind;
use crate::fleet::Replica;
use crate::fleet::clock::now_ms;
use crate::fleet::model::LiveFleet;
use crate::fleet::snapshot::Snapshot;
use crate::request::{AdapterFields, Splice};
use crate::scheduler::{Decision, Request, Session};
use bytes::Bytes;
use pingora::Error;
use pingora::protocols::http::ServerSession;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A rule of thumb for English text; only used to compare requests with each other.
const BYTES_PER_TOKEN: usize = 4;

/// Between two looks at whether a replica is back.
const LOOK: Duration = Duration::from_millis(20);

/// Why a request was not sent to a replica.
pub(super) enum Stop {
    /// The client is to be told.
    Failure(Failure),
    /// The client went while the request waited.
    ClientGone(Box<Error>),
    /// A reload took the adapter away, perhaps for another revision of it.
    Outdated,
}

impl Context {
    /// Choose a replica for the next try, wait for the adapter there if need be, and count the request.
    pub(super) async fn dispatch(&mut self, gateway: &Gateway, client: &mut ServerSession) -> Result<(), Stop> {
        self.open_line(&gateway.telemetry.decisions);
        let placed = match self.place(gateway, client).await {
            Err(Stop::Outdated) if self.job.as_mut().is_some_and(|job| job.renew(&gateway.fleet)) => {
                self.place(gateway, client).await?
            }
            placed => placed?,
        };
        self.note_placed(&gateway.telemetry.decisions, &placed);
        let Some(job) = &self.job else { return Err(Stop::Failure(Failure::Internal)) };
        let Placed { member, lease, seat, adapter_use, waited } = placed;
        job.remember(lease.replica().identity, member, now_ms());
        let body = job.body_for(lease.replica()).map_err(Stop::Failure)?;
        self.adapter_use = self.adapter_use.max(adapter_use);
        self.adapter_wait += waited;
        self.attempt = Some(Attempt { member, lease, seat, body, sent: None, call: None });
        Ok(())
    }

    /// What the client is told.
    pub(super) fn failure_of(&self, stop: Stop) -> Failure {
        match stop {
            Stop::Failure(failure) => failure,
            Stop::ClientGone(_) => Failure::Internal,
            Stop::Outdated => {
                let name = self.job.as_ref().and_then(|job| job.target.adapter()).map(|adapter| adapter.name.clone());
                Failure::UnknownModel(name.unwrap_or_default())
            }
        }
    }

    async fn place(&mut self, gateway: &Gateway, client: &mut ServerSession) -> Result<Placed, Stop> {
        let Some(job) = &self.job else { return Err(Stop::Failure(Failure::Internal)) };
        job.hold_unavailable(client).await?;
        let mut told = self.told(&gateway.telemetry.decisions);
        let choice = job.choose(&self.tried, &mut told);
        self.note_decided(&gateway.telemetry.decisions, told, choice.as_ref().ok());
        let choice = choice.map_err(Stop::Failure)?;
        // It counts on a replica now, or waits for an adapter: either way it no longer stands in the door.
        self.permit = None;
        job.settle(choice, client).await
    }
}

impl Job {
    /// Look the names up again in the fleet that runs now. Says whether they mean something there.
    fn renew(&mut self, live: &LiveFleet) -> bool {
        let fleet = live.load_full();
        let Ok(target) = resolve(&fleet, &self.wanted) else { return false };
        (self.fleet, self.target) = (fleet, target);
        true
    }

    /// While no replica can be reached at all, as in a restart of the only one, wait for one to come back.
    async fn hold_unavailable(&self, client: &mut ServerSession) -> Result<(), Stop> {
        let reachable = || self.model().members.iter().any(|member| member.replica.is_reachable());
        if reachable() {
            return Ok(());
        }
        let back = async {
            while !reachable() {
                sleep(LOOK).await;
            }
        };
        let limit = self.fleet.config.admission.hold_unavailable;
        let held = while_connected(client, timeout(limit, back)).await.map_err(Stop::ClientGone)?;
        held.map_err(|_| Stop::Failure(Failure::NoReplica { model: self.model().name.clone() }))
    }

    /// Ask the scheduler, and claim the adapter where it is loaded on demand.
    fn choose(&self, tried: &[usize], told: &mut Told) -> Result<Choice, Failure> {
        let now = now_ms();
        let mut snapshot = self.model().snapshot(&self.prefix_blocks, tried, now);
        if let Some((on_demand, entry)) = self.on_demand() {
            return on_demand.ledger.decide(|desk| self.claim(desk, on_demand, entry, &mut snapshot, (now, told)));
        }
        self.drop_replicas_without_adapter(&mut snapshot)?;
        self.place(self.decide(&snapshot, now, told)?.member, None)
    }

    pub(super) fn decide(&self, snapshot: &Snapshot, now: u64, told: &mut Told) -> Result<Decision, Failure> {
        let model = self.model();
        let request = Request {
            on_demand_adapter: self.on_demand().is_some(),
            session: self
                .wanted
                .session
                .map(|key| Session { key: key.0, remembered: model.sessions.replica_of(key.0, now) }),
            affinity_key: self.prefix_blocks.first().copied(),
            prefix_blocks: u32::try_from(self.prefix_blocks.len()).unwrap_or(u32::MAX),
            prompt_tokens: u32::try_from(self.wanted.prompt_bytes / BYTES_PER_TOKEN).unwrap_or(u32::MAX),
            turn: model.next_turn(),
        };
        told.schedule(&request, snapshot, &self.profile, &model.thresholds)
            .map_err(|_| Failure::NoReplica { model: model.name.clone() })
    }

    /// llama.cpp keeps the adapters it was started with and answers others from base weights without a word: such a
    /// replica must never see the request.
    fn drop_replicas_without_adapter(&self, snapshot: &mut Snapshot) -> Result<(), Failure> {
        let (EngineKind::LlamaCpp, Some(adapter)) = (self.model().engine, self.target.adapter()) else { return Ok(()) };
        let holds = |member: usize| {
            self.model().members.get(member).is_some_and(|member| member.replica.adapter_id(&adapter.name).is_some())
        };
        snapshot.candidates.retain(|candidate| holds(candidate.member));
        if snapshot.candidates.is_empty() {
            return Err(Failure::AdapterNotServed(self.target.wire_name().to_owned()));
        }
        Ok(())
    }

    /// The session's and the prompt's cache will be there.
    fn remember(&self, identity: u64, member: usize, now: u64) {
        let model = self.model();
        if let Some(session) = self.wanted.session {
            model.sessions.remember(session.0, identity, now);
        }
        model.prefixes.insert(&self.prefix_blocks, member);
    }

    /// The client's body with the names that this replica's engine knows.
    fn body_for(&self, replica: &Replica) -> Result<Bytes, Failure> {
        let splice = match (self.model().engine, self.target.adapter()) {
            (EngineKind::Vllm, _) => Splice { model: Some(self.target.wire_name()), adapter: AdapterFields::Remove },
            (EngineKind::LlamaCpp, None) if self.model().adapters.is_empty() => {
                Splice { model: None, adapter: AdapterFields::Remove }
            }
            (EngineKind::LlamaCpp, None) => Splice { model: None, adapter: AdapterFields::SelectNone },
            (EngineKind::LlamaCpp, Some(adapter)) => {
                let gone = || Failure::AdapterNotServed(adapter.name.clone());
                let id = replica.adapter_id(&adapter.name).ok_or_else(gone)?;
                Splice { model: None, adapter: AdapterFields::Select { id } }
            }
        };
        Ok(splice.apply(&self.body, &self.wanted))
    }
}
