//! Pointsman, a load balancer for LLM engines (vLLM, llama.cpp) on edge nodes.
//!
//! The rooms, in the order in which a request meets them. Arrows run one way: `gateway` asks `request` what the body wants,
//! `scheduler` where it should go (over a snapshot that `fleet` took), and `residency` whether the adapter is there;
//! `engine` alone knows the engines' wire names.
//!
//! - [`cli`]: one file a command.
//! - [`config`]: YAML to a checked configuration.
//! - [`gateway`]: the only room that knows Pingora's proxy: the phases of a request.
//! - [`request`]: pure: what a request body asks for, and how to splice it.
//! - [`scheduler`]: pure: filters, weighted scorers, picker.
//! - [`fleet`]: the replicas, how loaded they are, snapshots and leases.
//! - [`residency`]: which adapter is on which replica.
//! - [`admission`]: who may enter now, and who waits.
//! - [`simulator`]: the same scheduler and table over simulated engines.
//! - [`engine`]: what vLLM and llama.cpp speak.
//! - [`telemetry`]: metrics and the access log.
//! - [`admin`]: the operator's listener.
//! - [`standin`]: a stand-in engine for the demo, the tests and the benches.

pub mod admin;
pub mod admission;
pub mod cli;
pub mod config;
pub mod engine;
pub mod fleet;
pub mod gateway;
pub mod request;
pub mod residency;
pub mod scheduler;
pub mod simulator;
pub mod standin;
pub mod telemetry;
