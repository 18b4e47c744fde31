//! A vLLM replica is killed under load: no request fails that had not received a byte, and those cut are told.

use crate::chat::{self, Ending};
use crate::fleet::Fleet;
use crate::http;
use crate::pointsman::Pointsman;
use crate::replica::{Engine, Replica};
use crate::vllm::WORDS;
use crate::wait::until;
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Clients at once; both replicas together have as many seats.
const CLIENTS: usize = 8;
/// Short requests, unless `POINTSMAN_ENGINES_REQUESTS` says how many.
const REQUESTS: usize = 1000;
/// For a breaker to trip after its replica is gone: three refused probes, one a second, on a busy machine.
const TRIPPED: Duration = Duration::from_secs(15);

async fn shown_tripped(pointsman: &Pointsman, place: usize) {
    until("the killed replica is shown tripped", TRIPPED, async || {
        let shown = pointsman.replicas().await[place]["breaker"].as_str().map(str::to_lowercase);
        shown.is_some_and(|breaker| breaker.starts_with("tripped")).then_some(())
    })
    .await;
}

fn lost(endings: &[Ending]) -> Vec<&str> {
    endings.iter().filter_map(|ending| if let Ending::Lost(why) = ending { Some(why.as_str()) } else { None }).collect()
}

fn cut(endings: &[Ending]) -> usize {
    endings.iter().filter(|ending| matches!(ending, Ending::CutWithError)).count()
}

#[tokio::test]
async fn streams_cut_by_a_killed_replica_are_told_and_no_other_request_fails() {
    let mut fleet = Fleet::of(Engine::Vllm).await;
    let pointsman = Pointsman::before(Engine::Vllm, &fleet).await;
    let stop = AtomicBool::new(false);
    let clients = join_all((0..CLIENTS).map(|_| stream_until(&stop, pointsman.clients)));
    let killing = async {
        under_way(&fleet[0]).await;
        under_way(&fleet[1]).await;
        fleet[0].kill();
        shown_tripped(&pointsman, 0).await;
        stop.store(true, Relaxed);
    };
    let (endings, ()) = tokio::join!(clients, killing);
    let endings: Vec<Ending> = endings.into_iter().flatten().collect();
    assert!(lost(&endings).is_empty(), "{:?}", lost(&endings));
    assert!((1..=CLIENTS).contains(&cut(&endings)), "{} of {} streams were cut", cut(&endings), endings.len());
}

/// Wait until streams of a replica have some of their tokens: a request that runs may not have given a byte yet.
async fn under_way(replica: &Replica) {
    let generated = async || replica.metric("vllm:generation_tokens_total").await;
    let before = generated().await;
    until("streams are under way", Duration::from_secs(30), async || {
        let running = replica.metric("vllm:num_requests_running").await > 0.0;
        (running && generated().await > before + 100.0).then_some(())
    })
    .await;
}

/// Ask for one stream after another until `stop`, and for one more.
async fn stream_until(stop: &AtomicBool, to: SocketAddr) -> Vec<Ending> {
    let request = chat::streamed(chat::request("base", "Tell me of the river.", 300));
    let mut endings = Vec::new();
    while !stop.load(Relaxed) {
        endings.push(chat::stream(to, &request).await);
    }
    endings.push(chat::stream(to, &request).await);
    endings
}

#[tokio::test]
async fn short_requests_survive_the_loss_of_a_replica_half_way() {
    let mut fleet = Fleet::of(Engine::Vllm).await;
    let pointsman = Pointsman::before(Engine::Vllm, &fleet).await;
    let requests =
        std::env::var("POINTSMAN_ENGINES_REQUESTS").map_or(REQUESTS, |count| count.parse().expect("a count"));
    let next = AtomicUsize::new(0);
    let clients = join_all((0..CLIENTS).map(|_| short_requests(&next, requests, pointsman.clients)));
    let killing = async {
        let half_way = async || (next.load(Relaxed) >= requests / 2).then_some(());
        until("half of the requests are sent", Duration::from_secs(600), half_way).await;
        fleet[1].kill();
        shown_tripped(&pointsman, 1).await;
    };
    let (endings, ()) = tokio::join!(clients, killing);
    let endings: Vec<Ending> = endings.into_iter().flatten().collect();
    assert_eq!(endings.len(), requests);
    assert!(lost(&endings).is_empty(), "{:?}", lost(&endings));
    assert!(cut(&endings) <= CLIENTS, "{} streams were cut", cut(&endings));
}

/// Send requests, each with the next number, until all are sent.
async fn short_requests(next: &AtomicUsize, count: usize, to: SocketAddr) -> Vec<Ending> {
    let mut endings = Vec::new();
    loop {
        let number = next.fetch_add(1, Relaxed);
        if number >= count {
            return endings;
        }
        endings.push(short_request(number, to).await);
    }
}

/// A request to an adapter, streamed or not, by its number; lost if other weights answered.
///
/// None goes to the base: vLLM 0.32.0 on a CPU gives a base request that shares a batch with an adapter's the weights of the
/// last adapter slot (its index for "no adapter" is -1), whoever sends it.
async fn short_request(number: usize, to: SocketAddr) -> Ending {
    const TOKENS: usize = 4;
    let adapter = number % WORDS.len();
    let request = chat::request(&format!("lora-{}", adapter + 1), &format!("Train {number}?"), TOKENS as u32);
    let streamed = (number / WORDS.len()).is_multiple_of(2);
    let ending = if streamed { chat::stream(to, &chat::streamed(request)).await } else { at_once(to, &request).await };
    match &ending {
        Ending::Whole { text, .. } if *text != WORDS[adapter].repeat(TOKENS) => {
            Ending::Lost(format!("lora-{} said {text:?}", adapter + 1))
        }
        _ => ending,
    }
}

async fn at_once(to: SocketAddr, request: &serde_json::Value) -> Ending {
    match http::try_post(to, chat::PATH, request).await {
        Ok(answer) if answer.status == 200 => {
            Ending::Whole { text: chat::text_of(&answer.json()["choices"][0]), pieces: 1 }
        }
        Ok(answer) => Ending::Lost(format!("{answer:?}")),
        Err(error) => Ending::Lost(error.to_string()),
    }
}
