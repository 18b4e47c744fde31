//! `pointsman simulate`: the scheduler and the residency table of production over simulated replicas, in virtual time.
//!
//! What is real: snapshots of [`crate::fleet::Model`] from read-outs of the configured age, [`crate::scheduler::schedule`],
//! [`crate::residency::Table`] with its plans. What is simulated: the engines ([`engine`]) and the clients ([`workload`]).
//! There is no waiting room in it: every request goes to an engine at once. Equal options and seed give equal results.

pub mod engine;
pub mod policy;
pub mod report;
pub mod run;
pub mod workload;

pub use policy::Policy;
pub use report::Report;
pub use run::{Options, simulate};
pub use workload::Workload;
