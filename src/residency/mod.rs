//! Which adapters a replica holds: a pure core and the shell around it.
//!
//! One [`Table`] per model with on-demand adapters is the only owner of that truth. Whoever decides about a request does it
//! under the table's lock: look at the [`Table::view`] of each replica, pick one, [`Table::acquire`]. So nothing can change
//! between the look and the claim, and k requests for a cold adapter cause one load. The lock is short and never held over
//! an await: what must be done towards the engines comes out of [`plan`], is noted with [`Table::start`], done by the
//! shell, and its result handed in. Requests that wait hold a [`Ticket`]; [`Table::drain_woken`] tells which have got their
//! answer.
//!
//! Nothing here reads a clock, waits or does I/O: `now` is the time since any fixed instant. The simulator runs this same
//! code in virtual time.
//!
//! When does a copy's stay end? When it is unloaded, or known to be gone. Leases of an ended stay count for nothing.
//!
//! - `state`: the states of one adapter on one replica.
//! - `acquire`: what a request does: acquire, release, give up.
//! - `place`: where a copy goes, and who goes for it.
//! - `results`: what the engines answered, and what was found on them.
//! - `plan`: orders to the engines, and housekeeping.
//! - `fleet_change`: replicas and adapters come and go.
//!
//! Around the core stands the shell, which has names, a lock and engines:
//!
//! - `ledger`: the table behind its lock, with the names of things and those who wait.
//! - `seat`: what a request holds of it, ended by `Drop`.
//! - `reconcile`: the background service: sends the orders (`orders`), compares with the engines' lists (`listing`),
//!   watches the files.
//! - `overview`: what it says to people and to metrics.
//! - `revision`: when files are new weights, and their name then.

mod acquire;
mod arena;
pub mod demand;
mod failure;
mod fleet_change;
mod invariants;
pub mod ledger;
mod listing;
mod orders;
pub mod overview;
mod place;
mod plan;
mod policy;
pub mod reconcile;
mod replica;
mod results;
mod revision;
pub mod seat;
pub mod state;
mod table;

pub use acquire::{Acquired, Outcome, Pick, Reach, Woken};
pub use arena::Key;
pub use failure::{LoadFailure, Reason, Refusal, Setback};
pub use plan::{Action, plan};
pub use policy::{Eviction, Policy};
pub use replica::{AdapterMark, Holding, Lease, ReplicaMark, TicketMark};
pub use results::{Listing, UnloadFailure};
pub use table::{Counters, Table, View};

/// A replica of the table.
pub type ReplicaId = Key<ReplicaMark>;
/// An adapter of the table.
pub type AdapterId = Key<AdapterMark>;
/// A request that waits for an adapter.
pub type Ticket = Key<TicketMark>;

#[cfg(test)]
mod tests {
    /// The core must run in the simulator's virtual time and under a lock that is never held over an await.
    #[test]
    fn the_core_reads_no_clock_waits_for_nothing_and_locks_nothing() {
        let files = [
            include_str!("acquire.rs"),
            include_str!("arena.rs"),
            include_str!("demand.rs"),
            include_str!("failure.rs"),
            include_str!("fleet_change.rs"),
            include_str!("place.rs"),
            include_str!("plan.rs"),
            include_str!("policy.rs"),
            include_str!("replica.rs"),
            include_str!("results.rs"),
            include_str!("state.rs"),
            include_str!("table.rs"),
        ];
        for (file, word) in files
            .iter()
            .flat_map(|file| ["tokio", "pingora", "Instant", "SystemTime", "Mutex", "async "].map(|word| (file, word)))
        {
            assert!(!file.contains(word), "{word} in the file that begins {:?}", file.lines().next());
        }
    }
}
