//! What a failed try says of its replica, and whether the request may be tried on another one.
//!
//! Never after the first byte went to the client. Never because the client failed. Within the model's retry budget and
//! the configured number of tries.

use super::context::Context;
use super::error_response::Failure;
use crate::fleet::breaker::Severity;
use crate::fleet::call::Broken;
use crate::fleet::clock::now_ms;
use crate::fleet::snapshot::BreakerView;
use pingora::{Error, ErrorSource, ErrorType};
use std::borrow::Cow;

/// Why a try failed, as far as the replica is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nobody listens there.
    Refused,
    /// No connection within the time-out, or no route.
    Unreachable,
    /// The connection broke before the answer was complete.
    Broken,
    /// It was silent for too long.
    TimedOut(&'static str),
    /// It hangs, and this request had to leave it.
    Stalled,
    /// It answered 502, 503 or 504, or 500 while its health check says that it is dead.
    Status(u16),
}

impl Fault {
    /// `None` when the replica is not to blame.
    pub(super) fn of(error: &Error) -> Option<Self> {
        if *error.esource() != ErrorSource::Upstream {
            return None;
        }
        Some(match error.etype() {
            ErrorType::ConnectRefused => Self::Refused,
            ErrorType::ConnectTimedout
            | ErrorType::ConnectNoRoute
            | ErrorType::ConnectError
            | ErrorType::ConnectProxyFailure
            | ErrorType::SocketError
            | ErrorType::BindError => Self::Unreachable,
            ErrorType::ReadTimedout | ErrorType::WriteTimedout => Self::TimedOut("no answer in time"),
            ErrorType::HTTPStatus(status) => Self::Status(*status),
            _ => Self::Broken,
        })
    }

    /// How much it weighs for the breaker.
    pub(super) fn severity(&self) -> Severity {
        match self {
            Self::Refused | Self::Stalled | Self::Status(500) => Severity::Dead,
            _ => Severity::Suspect,
        }
    }

    /// A silent replica may still be at work on the request: sending it to another one would do the work twice.
    fn may_retry(&self) -> bool {
        !matches!(self, Self::TimedOut(_))
    }

    fn reason(&self) -> Cow<'static, str> {
        match self {
            Self::Refused => "connection refused".into(),
            Self::Unreachable => "no connection".into(),
            Self::Broken => "the connection broke".into(),
            Self::TimedOut(which) => (*which).into(),
            Self::Stalled => "it hangs".into(),
            Self::Status(status) => format!("it answered {status}").into(),
        }
    }
}

impl Context {
    /// Count a fault against the attempt's replica, name it as the failure, and say whether another try may follow.
    pub(super) fn attempt_failed(&mut self, fault: &Fault, answer_started: bool) -> bool {
        let (Some(job), Some(attempt)) = (&self.job, &self.attempt) else { return false };
        let replica = attempt.lease.replica();
        let was_well = replica.breaker_view(now_ms()) != BreakerView::Tripped;
        let policy = job.fleet.config.health.policy();
        if replica.breaker.failed(fault.severity(), &policy, now_ms()) {
            tracing::warn!(replica = %replica.name, reason = %fault.reason(), "replica tripped");
        }
        if *fault == Fault::Refused {
            // Nobody listens there: the health probe will say when somebody does.
            replica.set_reachable(false, now_ms());
        }
        let name = replica.name.clone();
        self.failure = Some(match fault {
            Fault::TimedOut(which) => Failure::ReplicaTimedOut { replica: name, which },
            _ if answer_started => Failure::ReplicaLost { replica: name },
            _ => Failure::ReplicaFailed { replica: name, reason: fault.reason() },
        });
        self.tried.push(attempt.member);
        if !answer_started
            && was_well
            && matches!(fault, Fault::Broken | Fault::Status(500))
            && let Some(failure) = self.blame_adapter(*fault == Fault::Status(500))
        {
            self.failure = Some(failure);
            return false;
        }
        !answer_started && fault.may_retry() && self.take_retry()
    }

    /// The watchdog broke the attempt off: why.
    pub(super) fn broken_off(&self) -> Option<Fault> {
        Some(match self.attempt.as_ref()?.call.as_ref()?.call().broken()? {
            Broken::FirstByte => Fault::TimedOut("no first byte within timeouts.first_byte"),
            Broken::BetweenBytes => Fault::TimedOut("no further byte within timeouts.between_bytes"),
            Broken::Total => Fault::TimedOut("not complete within timeouts.total"),
            Broken::Stalled => Fault::Stalled,
        })
    }

    /// A reused connection broke before a byte came: once a request this is taken for the engine's idle time-out.
    pub(super) fn forgive_stale_connection(&mut self) -> bool {
        self.stale_connections += 1;
        self.stale_connections == 1
    }

    /// Take one retry out of the budget, if there is one for this request.
    fn take_retry(&mut self) -> bool {
        let Some(job) = &self.job else { return false };
        let allowed = self.retries < job.fleet.config.retry.attempts && job.model().retry_budget.withdraw();
        self.retries += u32::from(allowed);
        allowed
    }
}
