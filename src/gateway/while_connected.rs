//! Waiting on behalf of a client: for a slot, a load, a replica. The wait ends when the client goes.
//!
//! To be used only after the whole request body was read. The work is dropped when the client goes, so whatever it holds
//! must end by `Drop`.

use pingora::protocols::http::ServerSession;
use pingora::{Error, Result};
use std::future::{Future, pending};

/// The work's result, or the error of a client that went before it came.
pub(super) async fn while_connected<T>(session: &mut ServerSession, work: impl Future<Output = T>) -> Result<T> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        error = client_gone(session) => Err(error),
    }
}

async fn client_gone(session: &mut ServerSession) -> Box<Error> {
    match session.read_body_or_idle(true).await {
        Ok(_) => pending().await,
        Err(error) => error.into_down(),
    }
}
