//! The life of one generation: queue for a seat, bring the adapter in, prefill, then tokens when they are due.
//!
//! When are tokens sent? Token n is due n/rate after the prefill. Those that are due go out at once; only then is one
//! timer set for the next, so a rate above the timer's resolution comes in batches. Without a rate no timer is set.

use super::answer::{Answer, DONE, Finish, data};
use super::ask::Ask;
use super::engine_core::Core;
use super::journal::Visit;
use super::lora::Adapter;
use super::misbehave::Misbehaviour;
use super::options::HeadSent;
use super::reply::{Body, Refusal, Tongue, ok};
use super::seats::{Name, Seat};
use super::server::Wire;
use bytes::Bytes;
use futures_util::stream::unfold;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// What one generation needs.
pub(super) struct Job {
    pub(super) core: Arc<Core>,
    pub(super) wire: Arc<Wire>,
    pub(super) visit: Arc<Visit>,
    pub(super) answer: Answer,
    pub(super) adapter: Option<Adapter>,
    /// What shares a batch with what: vLLM's adapter, llama.cpp's set of adapters.
    pub(super) batch: Option<Name>,
}

/// How an answer is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// As one document.
    Whole,
    /// As events.
    Stream(HeadSent),
}

impl Manner {
    /// What the request asks for; streams send their head as told.
    pub(super) fn of(ask: &Ask, head_sent: HeadSent) -> Self {
        if ask.stream { Self::Stream(head_sent) } else { Self::Whole }
    }
}

/// Hold a seat through the prefill of a request that generates nothing.
pub(super) async fn prefill_only(core: &Arc<Core>, adapter: Option<&Adapter>, tokens: u64) -> Result<(), Refusal> {
    let batch = adapter.map(|adapter| Arc::clone(&adapter.name));
    prefill(core, adapter, batch, tokens).await.map(drop)
}

async fn prefill(
    core: &Arc<Core>,
    adapter: Option<&Adapter>,
    batch: Option<Name>,
    tokens: u64,
) -> Result<Seat, Refusal> {
    let seat = core.seats.take(batch, tokens).await;
    core.while_it(|now| *now == Misbehaviour::HungCore).await;
    if let Some(adapter) = adapter {
        core.bring_in(adapter).await?;
    }
    let time = core.options.prefill_tokens_per_second.map_or(Duration::ZERO, |rate| span(tokens, rate));
    core.pause(time + core.misbehaves().first_token_delay()).await;
    core.counters.prompt_tokens.fetch_add(tokens, Ordering::Relaxed);
    Ok(seat)
}

/// How long `tokens` take; a rate that is no positive number takes no time.
fn span(tokens: u64, rate: f64) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    Duration::try_from_secs_f64(tokens as f64 / rate).unwrap_or(Duration::ZERO)
}

impl Job {
    async fn prefill(&self) -> Result<Seat, Refusal> {
        prefill(&self.core, self.adapter.as_ref(), self.batch.clone(), self.answer.extent.prompt_tokens).await
    }

    /// Answer in the manner asked for.
    pub(super) async fn answer(self, manner: Manner) -> Result<Response<Body>, Refusal> {
        let Manner::Stream(head_sent) = manner else { return self.whole().await };
        if self.outlook() == (0, None) {
            let _seat = self.prefill().await?;
            return self.die().await;
        }
        let mut talk = Talk::new(self);
        if head_sent == HeadSent::WithFirstToken {
            talk.begin().await?;
        }
        Ok(respond(talk))
    }

    /// One document, after the time that its tokens take.
    async fn whole(self) -> Result<Response<Body>, Refusal> {
        let mut seat = self.prefill().await?;
        let (mut tokens, mut end) = self.outlook();
        if !self.generate(tokens).await {
            (tokens, end) = (0, (!self.core.is_killed()).then_some(Finish::Abort));
        }
        let Some(finish) = end else { return self.die().await };
        seat.hold(tokens);
        self.count_end(finish);
        Ok(ok(&self.answer.whole(tokens, finish)))
    }

    /// Take the time that the tokens take, and count each when it is due; false if the stand-in stops first.
    async fn generate(&self, tokens: u64) -> bool {
        let Some(rate) = self.core.options.tokens_per_second else {
            self.core.counters.generated_tokens.fetch_add(tokens, Ordering::Relaxed);
            return true;
        };
        let since = Instant::now();
        for token in 1..=tokens {
            let due = since + span(token, rate);
            if !self.core.pause(due.saturating_duration_since(Instant::now())).await {
                return false;
            }
            self.core.counters.generated_tokens.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// How many tokens will come, and how it ends: `None` means by a reset.
    fn outlook(&self) -> (u64, Option<Finish>) {
        let all = self.answer.extent.max_tokens;
        match self.core.misbehaves() {
            Misbehaviour::DieMidStream { after_tokens } if after_tokens < all => (after_tokens, None),
            Misbehaviour::AbortMidStream { after_tokens } if after_tokens < all => (after_tokens, Some(Finish::Abort)),
            _ => (all, Some(Finish::Length)),
        }
    }

    /// Reset the connection; nothing is answered any more.
    async fn die<T>(&self) -> T {
        self.wire.cut();
        std::future::pending().await
    }

    /// vLLM does not count aborts.
    fn count_end(&self, finish: Finish) {
        if finish == Finish::Length {
            self.core.counters.ended_by_length.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn respond(talk: Talk) -> Response<Body> {
    let events = unfold(talk, |mut talk| async move {
        let event = talk.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(event)), talk))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    response
}

/// A generation that is being told.
struct Talk {
    job: Job,
    stage: Stage,
    ready: VecDeque<Bytes>,
    sent: u64,
}

enum Stage {
    Queued,
    Telling { seat: Seat, since: Instant },
    Over,
}

impl Talk {
    fn new(job: Job) -> Self {
        Self { job, stage: Stage::Queued, ready: VecDeque::new(), sent: 0 }
    }

    async fn begin(&mut self) -> Result<(), Refusal> {
        let seat = self.job.prefill().await?;
        self.ready.extend(self.job.answer.opening());
        self.stage = Stage::Telling { seat, since: Instant::now() };
        Ok(())
    }

    /// The next event; `None` is the end.
    async fn next(&mut self) -> Option<Bytes> {
        if matches!(self.stage, Stage::Queued)
            && let Err(refusal) = self.begin().await
        {
            self.fail(&refusal);
        }
        if let Some(event) = self.pop_ready() {
            return Some(event);
        }
        match self.stage {
            Stage::Over => None,
            _ => self.token().await.or_else(|| self.pop_ready()),
        }
    }

    /// The next event that is ready. The last one of all ends the visit.
    fn pop_ready(&mut self) -> Option<Bytes> {
        let event = self.ready.pop_front()?;
        if self.ready.is_empty() && matches!(self.stage, Stage::Over) {
            self.job.visit.finish();
        }
        Some(event)
    }

    /// The next token's event, or `None` where the answer ended instead.
    async fn token(&mut self) -> Option<Bytes> {
        match self.job.outlook() {
            (tokens, None) if self.sent >= tokens => self.job.die().await,
            (tokens, Some(Finish::Abort)) if self.sent >= tokens => return self.end(Finish::Abort),
            _ => {}
        }
        if !self.due().await {
            return if self.job.core.is_killed() { self.job.die().await } else { self.end(Finish::Abort) };
        }
        let event = self.job.answer.token(self.sent);
        self.note_token();
        Some(event)
    }

    /// Wait until the next token is due; false if the stand-in stops first.
    async fn due(&self) -> bool {
        match (&self.stage, self.job.core.options.tokens_per_second) {
            (Stage::Telling { since, .. }, Some(rate)) => {
                let due = *since + span(self.sent, rate);
                self.job.core.pause(due.saturating_duration_since(Instant::now())).await
            }
            _ => true,
        }
    }

    fn note_token(&mut self) {
        self.sent += 1;
        self.job.core.counters.generated_tokens.fetch_add(1, Ordering::Relaxed);
        if let Stage::Telling { seat, .. } = &mut self.stage {
            seat.hold(1);
        }
        if self.sent == self.job.answer.extent.max_tokens {
            self.end(Finish::Length);
        }
    }

    /// Leave the seat and line up the closing events.
    fn end(&mut self, finish: Finish) -> Option<Bytes> {
        self.stage = Stage::Over;
        self.job.count_end(finish);
        self.ready.extend(self.job.answer.closing(self.sent, finish));
        None
    }

    /// Too late for a status: the error is an event.
    fn fail(&mut self, refusal: &Refusal) {
        self.stage = Stage::Over;
        self.ready.extend([data(&refusal.value(Tongue::OpenAi)), DONE]);
    }
}
