//! The residency table from outside: behaviours, random life, and a storm of requests in virtual time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout)] // Tests may.

mod accidents;
mod house;
mod model;
mod placement;
mod storm;
mod world;
