//! What a request holds of the ledger: a seat on a resident copy, or a wait for one. Both end by `Drop`, also on a panic
//! and when the client goes.

use super::failure::Refusal;
use super::ledger::Ledger;
use super::{AdapterId, Lease, Outcome, ReplicaId, Table, Ticket};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The answer to a claim.
#[derive(Debug)]
#[must_use]
pub enum Claim {
    /// The adapter is there.
    Ready(Seat),
    /// It is being loaded already.
    Coming {
        /// The wait.
        wait: Wait,
        /// Where.
        replica: ReplicaId,
    },
    /// Its load was begun for this request.
    Cold {
        /// The wait.
        wait: Wait,
        /// Where.
        replica: ReplicaId,
    },
    /// No slot can be had now.
    NoSlot {
        /// The wait.
        wait: Wait,
    },
    /// It cannot be had.
    Refused(Refusal),
}

/// One request's use of a resident copy: it is not evicted meanwhile.
#[derive(Debug)]
pub struct Seat {
    ledger: Arc<Ledger>,
    lease: Option<Lease>,
    replica: ReplicaId,
    adapter: AdapterId,
}

impl Seat {
    pub(super) fn new(ledger: Arc<Ledger>, lease: Lease) -> Self {
        let holding = lease.holding();
        Self { ledger, lease: Some(lease), replica: holding.replica, adapter: holding.adapter }
    }

    /// Where the copy is.
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// The engine does not have the adapter after all. Who asks anew causes one reload.
    pub fn lost(mut self) {
        if let Some(lease) = self.lease.take() {
            self.ledger.change(|table, now| table.lost(lease, now));
        }
    }

    /// Is this adapter to blame for the death of its replica? vLLM dies of an adapter whose files are gone when it reads
    /// them again. That it `died_answering` means that it said so itself before it went: its core was killed by some
    /// request, and if no other adapter was in use, by one for this. Otherwise the process may have been killed from
    /// outside; but not `deaths` times in a row.
    pub fn is_suspect(&self, died_answering: bool, deaths: u32) -> bool {
        deaths > 1 || self.ledger.files_are_gone(self.adapter) || died_answering && self.is_only_one()
    }

    fn is_only_one(&self) -> bool {
        let view = |table: &mut Table, now| table.view(self.adapter, self.replica, now);
        self.ledger.change(view).is_some_and(|view| view.distinct_leased == 1)
    }

    /// The request seems to have killed the replica: nobody gets the adapter for a while. Says for how long.
    pub fn quarantine(self) -> Duration {
        self.ledger.change(|table, now| {
            table.quarantine(self.adapter, now);
            let until = table.refusal(self.adapter, now).and_then(|refusal| refusal.retry_at);
            until.map_or(Duration::ZERO, |until| until.saturating_sub(now))
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.ledger.change(|table, now| table.release(lease, now));
        }
    }
}

/// A request's wait for its adapter.
#[derive(Debug)]
pub struct Wait {
    ledger: Arc<Ledger>,
    ticket: Ticket,
    answer: oneshot::Receiver<Outcome>,
    ended: bool,
}

impl Wait {
    pub(super) fn new(ledger: Arc<Ledger>, ticket: Ticket, answer: oneshot::Receiver<Outcome>) -> Self {
        Self { ledger, ticket, answer, ended: false }
    }

    /// A seat, or why there is none. `None` when the model is gone from the configuration. Dropped before its end, it
    /// gives up.
    pub async fn end(mut self) -> Option<Result<Seat, Refusal>> {
        let outcome = (&mut self.answer).await;
        self.ended = true;
        match outcome.ok()? {
            Outcome::Ready(lease) => Some(Ok(Seat::new(self.ledger.clone(), lease))),
            Outcome::Refused(refusal) => Some(Err(refusal)),
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if !self.ended {
            self.ledger.abandon(self.ticket, &mut self.answer);
        }
    }
}
