//! OpenAI's own Python client, unchanged, through Pointsman.

use crate::fleet::Fleet;
use crate::guarded::Guarded;
use crate::pointsman::{Pointsman, model};
use crate::replica::{Engine, adapters, cached};
use crate::vllm::WORDS;
use crate::wait::until;
use std::process::Command;
use std::time::Duration;

#[tokio::test]
async fn openais_client_chats_streams_lists_models_and_understands_errors() {
    let fleet = Fleet::of(Engine::Vllm).await;
    let pointsman = Pointsman::before(Engine::Vllm, &fleet).await;
    let mut command = Command::new(cached("client/bin/python"));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engines/openai_client.py"));
    command.arg(format!("http://{}", pointsman.clients)).args([
        model(Engine::Vllm),
        &adapters(Engine::Vllm)[0].0,
        WORDS[0],
    ]);
    let mut client = Guarded::start("openai-client", &command);
    until("the client is done", Duration::from_secs(120), async || client.ended().then_some(())).await;
    let said = client.output();
    let done = ["chat", "stream", "models", "errors"].map(|scenario| said.contains(&format!("{scenario}: ok")));
    assert!(done.iter().all(|done| *done), "{said}");
}
