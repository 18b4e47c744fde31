//! A client that goes away frees its seat in vLLM, at once.

use crate::chat;
use crate::fleet::Fleet;
use crate::http;
use crate::pointsman::Pointsman;
use crate::replica::Engine;
use crate::wait::until;
use std::time::Duration;

/// What the issue asks for; the engine itself was seen to take 0.1 to 0.2 s.
const FREED: Duration = Duration::from_secs(2);
/// Long enough to still run when the client goes.
const TOKENS: u32 = 1900;

async fn running(fleet: &Fleet) -> f64 {
    fleet[0].metric("vllm:num_requests_running").await + fleet[1].metric("vllm:num_requests_running").await
}

async fn generated(fleet: &Fleet) -> f64 {
    fleet[0].metric("vllm:generation_tokens_total").await + fleet[1].metric("vllm:generation_tokens_total").await
}

/// Asserts that the seat taken by one request is given back soon, and long before its answer would have been complete.
async fn seat_is_freed(fleet: &Fleet, generated_before: f64) {
    until("the seat is freed", FREED, async || (running(fleet).await == 0.0).then_some(())).await;
    let generated = generated(fleet).await - generated_before;
    assert!(generated < f64::from(TOKENS), "the engine finished the answer that nobody waits for");
}

#[tokio::test]
async fn a_client_that_leaves_its_stream_frees_the_seat() {
    let fleet = Fleet::of(Engine::Vllm).await;
    let pointsman = Pointsman::before(Engine::Vllm, &fleet).await;
    let before = generated(&fleet).await;
    let request = chat::streamed(chat::request("base", "Tell me all.", TOKENS));
    let mut stream = http::begin(pointsman.clients, chat::PATH, &request).await.expect("a stream");
    stream.event().await.expect("a first event");
    until("the seat is taken", FREED, async || (running(&fleet).await == 1.0).then_some(())).await;
    drop(stream);
    seat_is_freed(&fleet, before).await;
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_byte_frees_the_seat() {
    let fleet = Fleet::of(Engine::Vllm).await;
    let pointsman = Pointsman::before(Engine::Vllm, &fleet).await;
    let before = generated(&fleet).await;
    let request = chat::request("base", "Tell me all.", TOKENS);
    tokio::select! {
        answer = http::try_post(pointsman.clients, chat::PATH, &request) => panic!("{answer:?} came too soon"),
        () = until("the seat is taken", FREED, async || (running(&fleet).await == 1.0).then_some(())) => {}
    }
    seat_is_freed(&fleet, before).await;
}
