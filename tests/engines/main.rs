//! Pointsman in front of real engines: vLLM on the CPU and llama.cpp's server.
//!
//! Run by `make test-engines`, which installs the engines first; left out of a plain `cargo test`. Two replicas of an engine
//! are started once and shared by its scenarios, which run one after another and leave them idle; each scenario has a
//! Pointsman of its own. A replica that a scenario killed is started again for the next one.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests fail by panicking"
)]
#![allow(unreachable_pub, reason = "a test crate has no outside")]

mod chat;
mod fleet;
mod guarded;
mod http;
mod llama;
mod openai_client;
mod pointsman;
mod replica;
mod vllm;
mod vllm_abort;
mod vllm_killed;
mod wait;
