//! A request's on-demand adapter: claimed under the ledger's lock together with the decision, waited for while the client
//! is there, and given up with the request.

use super::context::{AdapterUse, Context, Job};
use super::dispatch::Stop;
use super::error_response::Failure;
use super::explain::Told;
use super::while_connected::while_connected;
use crate::engine::client::Client;
use crate::engine::vllm::Vllm;
use crate::fleet::snapshot::Snapshot;
use crate::fleet::{Lease, OnDemand, clock};
use crate::residency::ledger::{Desk, Entry};
use crate::residency::seat::{Claim, Seat, Wait};
use crate::residency::{Pick, Reach, Reason, Refusal, ReplicaId};
use pingora::protocols::http::ServerSession;
use std::time::{Duration, Instant};

/// A replica with everything on it that the request needs.
pub(super) struct Placed {
    pub(super) member: usize,
    pub(super) lease: Lease,
    pub(super) seat: Option<Seat>,
    pub(super) adapter_use: Option<AdapterUse>,
    /// For the adapter.
    pub(super) waited: Duration,
}

/// What came of a decision.
pub(super) enum Choice {
    /// The request can be sent.
    Go(Box<Placed>),
    /// Its adapter has to be waited for. The lease counts it where the adapter will probably be.
    Wait { wait: Wait, lease: Option<Lease>, adapter_use: AdapterUse },
    /// Its adapter cannot be had.
    Refused(Refusal),
}

impl Job {
    /// The request's adapter, if it is loaded on demand.
    pub(super) fn on_demand(&self) -> Option<(&OnDemand, &Entry)> {
        let on_demand = self.model().on_demand.as_ref()?;
        Some((on_demand, on_demand.entry(self.target.adapter?)?))
    }

    /// Decide and claim, with nothing in between.
    pub(super) fn claim(
        &self,
        desk: &mut Desk<'_>,
        on_demand: &OnDemand,
        entry: &Entry,
        snapshot: &mut Snapshot,
        (now, told): (u64, &mut Told),
    ) -> Result<Choice, Failure> {
        for candidate in &mut snapshot.candidates {
            let replica = on_demand.index.replicas.get(candidate.member);
            if let Some(view) = replica.and_then(|replica| desk.view(entry.id, *replica)) {
                candidate.adapter = view.adapter;
                candidate.free_slots = view.free_slots;
            }
        }
        let picked = match (self.decide(snapshot, now, told), desk.refusal(entry.id)) {
            (_, Some(refusal)) => return Ok(Choice::Refused(refusal)),
            (decision, None) => decision?,
        };
        let Some(replica) = on_demand.index.replicas.get(picked.member) else { return Err(Failure::Internal) };
        let pick = Pick { replica: *replica, reach: Reach::of(&snapshot.candidates, picked.adapter) };
        match desk.acquire(entry.id, pick) {
            Claim::Ready(seat) => self.place(self.member_at(seat.replica())?, Some((seat, AdapterUse::Resident))),
            Claim::Coming { wait, replica } => self.await_there(wait, replica, AdapterUse::Waited),
            Claim::Cold { wait, replica } => self.await_there(wait, replica, AdapterUse::Cold),
            Claim::NoSlot { wait } => Ok(Choice::Wait { wait, lease: None, adapter_use: AdapterUse::NoSlot }),
            Claim::Refused(refusal) => Ok(Choice::Refused(refusal)),
        }
    }

    /// Count the request on a member, with what it holds there.
    pub(super) fn place(&self, member: usize, seat: Option<(Seat, AdapterUse)>) -> Result<Choice, Failure> {
        let Some(found) = self.model().members.get(member) else { return Err(Failure::Internal) };
        let lease = Lease::take(&found.replica);
        let (seat, adapter_use) = seat.unzip();
        Ok(Choice::Go(Box::new(Placed { member, lease, seat, adapter_use, waited: Duration::ZERO })))
    }

    /// A load under way counts for its replica: the next decision must see who will come.
    fn await_there(&self, wait: Wait, replica: ReplicaId, adapter_use: AdapterUse) -> Result<Choice, Failure> {
        let member = self.model().members.get(self.member_at(replica)?);
        Ok(Choice::Wait { wait, lease: member.map(|member| Lease::take(&member.replica)), adapter_use })
    }

    /// The member that the table knows as `replica`. Fails when a reload took it away.
    fn member_at(&self, replica: ReplicaId) -> Result<usize, Failure> {
        let replicas = self.on_demand().map(|(on_demand, _)| &on_demand.index.replicas);
        replicas
            .and_then(|replicas| replicas.iter().position(|known| *known == replica))
            .ok_or_else(|| Failure::NoReplica { model: self.model().name.clone() })
    }

    /// Wait for what a choice still lacks.
    pub(super) async fn settle(&self, choice: Choice, client: &mut ServerSession) -> Result<Placed, Stop> {
        match choice {
            Choice::Go(placed) => Ok(*placed),
            Choice::Refused(refusal) => Err(self.refused(refusal)),
            Choice::Wait { wait, lease, adapter_use } => {
                let started = Instant::now();
                let seat = self.await_seat(wait, adapter_use, client).await?;
                let member = self.member_at(seat.replica()).map_err(Stop::Failure)?;
                let Some(found) = self.model().members.get(member) else {
                    return Err(Stop::Failure(Failure::Internal));
                };
                let counted = lease.filter(|lease| lease.replica().identity == found.replica.identity);
                let lease = counted.unwrap_or_else(|| Lease::take(&found.replica));
                let waited = started.elapsed();
                Ok(Placed { member, lease, seat: Some(seat), adapter_use: Some(adapter_use), waited })
            }
        }
    }

    async fn await_seat(&self, wait: Wait, adapter_use: AdapterUse, client: &mut ServerSession) -> Result<Seat, Stop> {
        let limit = self.fleet.config.timeouts.adapter_wait;
        let ended = while_connected(client, tokio::time::timeout(limit, wait.end())).await.map_err(Stop::ClientGone)?;
        let adapter = || self.target.wire_name().to_owned();
        Err(match ended {
            Ok(Some(Ok(seat))) => return Ok(seat),
            Ok(Some(Err(refusal))) => self.refused(refusal),
            Ok(None) => Stop::Outdated,
            Err(_) if adapter_use == AdapterUse::NoSlot => {
                Stop::Failure(Failure::AdapterCapacity { adapter: adapter(), limit })
            }
            Err(_) => Stop::Failure(Failure::AdapterTimedOut { adapter: adapter(), limit }),
        })
    }

    /// Why there is no adapter.
    fn refused(&self, refusal: Refusal) -> Stop {
        let adapter = self.target.adapter().map_or_else(String::new, |adapter| adapter.name.clone());
        let retry_after = refusal.retry_at.map(|at| at.saturating_sub(clock::now()));
        Stop::Failure(match refusal.reason {
            Reason::Retired => return Stop::Outdated,
            Reason::Quarantined => {
                Failure::AdapterQuarantined { adapter, retry_after: retry_after.unwrap_or_default() }
            }
            Reason::Failed(kind) => Failure::AdapterFailed {
                adapter,
                permanent: kind.is_permanent(),
                complaint: self.on_demand().and_then(|(on_demand, entry)| on_demand.ledger.complaint(entry.id)),
                retry_after: retry_after.unwrap_or_default(),
            },
        })
    }
}

impl Context {
    /// The engine answered 404 to a request for an adapter that it should have. If it does not list it, it was unloaded
    /// behind our back: the copy is given up, and one try more is in order.
    pub(super) async fn adapter_was_lost(&mut self, engines: &Client) -> bool {
        let (Some(job), Some(attempt)) = (&self.job, &mut self.attempt) else { return false };
        if self.reloads > 0 || attempt.seat.is_none() {
            return false;
        }
        let Ok(listed) = Vllm.models(engines, &attempt.lease.replica().name).await else { return false };
        if listed.iter().any(|model| model.id == job.target.wire_name()) {
            return false;
        }
        tracing::warn!(adapter = job.target.wire_name(), replica = %attempt.lease.replica().name, "adapter lost");
        if let Some(seat) = attempt.seat.take() {
            seat.lost();
        }
        self.reloads += 1;
        true
    }

    /// The attempt's replica died. If the request's adapter is to blame, it is put under quarantine: the request must not
    /// kill the next one.
    pub(super) fn blame_adapter(&mut self, died_answering: bool) -> Option<Failure> {
        let (Some(job), Some(attempt)) = (&self.job, &mut self.attempt) else { return None };
        self.deaths += 1;
        let to_blame = attempt.seat.as_ref()?.is_suspect(died_answering, self.deaths);
        let seat = attempt.seat.take().filter(|_| to_blame)?;
        let (adapter, replica) = (job.target.adapter()?.name.clone(), attempt.lease.replica().name.clone());
        tracing::error!(adapter, %replica, "the replica died with a request for this adapter: quarantined");
        let retry_after = seat.quarantine();
        Some(Failure::AdapterQuarantined { adapter, retry_after })
    }
}
