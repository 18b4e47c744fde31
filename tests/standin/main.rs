//! The stand-in engine over real sockets: it answers as the engines were recorded, and misbehaves on order.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]
#![allow(unreachable_pub, reason = "a test crate has no outside")]

mod adapters;
mod api;
mod client;
mod command;
mod life;
mod llamacpp;
mod misbehaviour;
mod seats;
