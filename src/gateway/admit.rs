//! The door: a request whose body was read goes in, waits in its model's room, or is sent away.

use super::context::{Context, Job};
use super::error_response::Failure;
use super::while_connected::while_connected;
use crate::admission::queue::Arrival;
use crate::admission::room::{Entry, Refused};
use crate::admission::{Permit, Room, priority, saturation};
use crate::fleet::clock;
use crate::request::Endpoint;
use http::HeaderMap;
use pingora::Result;
use pingora::protocols::http::ServerSession;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the client is ready to wait, milliseconds.
const TIMEOUT_HEADER: &str = "x-request-timeout-ms";
/// A rule of thumb for English text.
const BYTES_PER_TOKEN: usize = 4;
/// Assumed length of an answer whose request sets no limit. Guess; only compares requests with each other.
const ANSWER_TOKENS: u32 = 256;

impl Context {
    /// Let the job in. The inner result is what the client is told; the outer error means that it has gone.
    pub(super) async fn admit(&mut self, client: &mut ServerSession) -> Result<std::result::Result<(), Failure>> {
        let Some(job) = &self.job else { return Ok(Ok(())) };
        let Some(room) = job.room(self.endpoint) else { return Ok(Ok(())) };
        let arrival = match job.arrival(&client.req_header().headers) {
            Ok(arrival) => arrival,
            Err(failure) => return Ok(Err(failure)),
        };
        let started = Instant::now();
        let entered = enter(job, &room, arrival, client).await?;
        self.queue_wait = started.elapsed();
        Ok(match entered {
            Ok(permit) => {
                self.permit = Some(permit);
                Ok(())
            }
            Err(refused) => Err(Failure::Saturated {
                model: job.model().name.clone(),
                full: refused == Refused::Full,
                retry_after: room.retry_after(),
            }),
        })
    }
}

async fn enter(
    job: &Job,
    room: &Arc<Room>,
    arrival: Arrival,
    client: &mut ServerSession,
) -> Result<std::result::Result<Permit, Refused>> {
    let model = job.model();
    let has_room = |entering: usize| {
        let snapshot = model.snapshot(&[], &[], clock::now_ms());
        saturation::of(&snapshot, &model.thresholds, entering) < 1.0
    };
    match room.enter(arrival, has_room) {
        Entry::In(permit) => Ok(Ok(permit)),
        Entry::Full => Ok(Err(Refused::Full)),
        Entry::Wait(wait) => while_connected(client, wait.end()).await,
    }
}

impl Job {
    /// Where it has to wait, if at all: what takes no seat of the engine goes by.
    fn room(&self, endpoint: Option<Endpoint>) -> Option<Arc<Room>> {
        let takes_a_seat = !matches!(endpoint, Some(Endpoint::Tokenize | Endpoint::Detokenize));
        (takes_a_seat && self.fleet.config.admission.on).then(|| self.model().room.clone())
    }

    fn arrival(&self, headers: &HeaderMap) -> std::result::Result<Arrival, Failure> {
        let admission = &self.fleet.config.admission;
        let asker = priority::asker(headers, &admission.tenants).map_err(Failure::UnknownPriority)?;
        let patience = timeout(headers)?.map_or(admission.max_wait, |limit| limit.min(admission.max_wait));
        let answer = self.wanted.max_tokens.unwrap_or(ANSWER_TOKENS).saturating_mul(self.wanted.answers.unwrap_or(1));
        let prompt = u32::try_from(self.wanted.prompt_bytes / BYTES_PER_TOKEN).unwrap_or(u32::MAX);
        Ok(Arrival {
            asker,
            tokens: prompt.saturating_add(answer),
            bytes: self.body.len(),
            deadline: clock::now() + patience,
        })
    }
}

fn timeout(headers: &HeaderMap) -> std::result::Result<Option<Duration>, Failure> {
    let Some(value) = headers.get(TIMEOUT_HEADER) else { return Ok(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    text.trim().parse().map(|ms| Some(Duration::from_millis(ms))).map_err(|_| Failure::BadTimeout(text.into_owned()))
}
