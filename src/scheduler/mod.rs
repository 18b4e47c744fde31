//! Which replica answers a request. Pure: no I/O, no clock, no lock, no async; randomness comes in as an argument.
//!
//! [`schedule()`] reads one snapshot, drops candidates ([`filter`]), scores the rest ([`scorer`]) and picks one
//! ([`picker`]), as the [`Profile`] says. It never changes anything: the caller takes the lease. Why a decision fell as it
//! did is told to a [`trace::Trace`] by the same code that decides.

pub mod decision;
pub mod filter;
pub mod picker;
pub mod profile;
pub mod request;
pub mod schedule;
pub mod scorer;
pub mod trace;

mod best;
mod field;
mod load;
mod name;
mod rendezvous;

#[cfg(test)]
mod conformance;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod simulation;

pub use decision::{Affinity, Decision, Rejection};
pub use field::{Field, Kept, Scores};
pub use profile::Profile;
pub use request::{Request, Session};
pub use schedule::{schedule, schedule_traced};
