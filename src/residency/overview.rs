//! What the ledger says to people and to metrics: which adapter is where, in which state, used by how many.

use super::ledger::{Complaint, Ledger};
use super::state::State;
use crate::fleet::clock;
use std::sync::Arc;

/// One model's residency at one moment.
#[derive(Clone, Debug)]
pub struct Overview {
    /// Slots on each replica.
    pub slots: usize,
    /// Requests that wait for an adapter.
    pub waiting: usize,
    /// The adapters; a retired one until its last copy has gone.
    pub adapters: Vec<AdapterLine>,
    /// The replicas.
    pub replicas: Vec<ReplicaLine>,
}

/// One adapter.
#[derive(Clone, Debug)]
pub struct AdapterLine {
    /// The name clients ask for.
    pub name: String,
    /// The name the engines see.
    pub wire: Arc<str>,
    /// Never evicted.
    pub pinned: bool,
    /// No longer configured; its copies drain.
    pub retired: bool,
    /// Its rank, where its files can be read here.
    pub rank: Option<u32>,
    /// Requests per second, recent ones counting most.
    pub demand: f64,
    /// What an engine last said about a load that failed.
    pub complaint: Option<Complaint>,
}

/// One replica.
#[derive(Clone, Debug)]
pub struct ReplicaLine {
    /// `host:port`.
    pub name: Arc<str>,
    /// Slots taken.
    pub slots_in_use: usize,
    /// What it holds has been read.
    pub listed: bool,
    /// Where the adapters stand there, those that are absent left out.
    pub cells: Vec<CellLine>,
}

/// One adapter on one replica.
#[derive(Clone, Debug)]
pub struct CellLine {
    /// The name clients ask for.
    pub adapter: String,
    /// The name the engine sees.
    pub wire: Arc<str>,
    /// Its state's name.
    pub state: &'static str,
    /// Requests that use it now.
    pub leases: u32,
}

/// The names of the states of a copy that is not absent.
pub const STATES: [&str; 6] = ["promised", "loading", "resident", "draining", "evicting", "failed"];

fn name_of(state: State) -> Option<&'static str> {
    Some(match state {
        State::Absent => return None,
        State::Promised => "promised",
        State::Loading(_) => "loading",
        State::Resident => "resident",
        State::Draining => "draining",
        State::Evicting { .. } => "evicting",
        State::Failed(_) => "failed",
    })
}

impl Ledger {
    /// Everything at this moment.
    pub fn overview(&self) -> Overview {
        let now = clock::now();
        let books = self.books.lock();
        let adapters = books.adapters.iter().map(|known| AdapterLine {
            name: known.source.name.clone(),
            wire: known.wire.clone(),
            pinned: known.is_pinned(),
            retired: known.retired,
            rank: known.source.files.and_then(|files| files.rank),
            demand: books.table.demand(known.id, now),
            complaint: known.complaint.clone(),
        });
        let replicas = books.replicas.iter().map(|place| ReplicaLine {
            name: place.replica.name.clone(),
            slots_in_use: books.table.slots_in_use(place.id),
            listed: place.listed,
            cells: (books.adapters.iter())
                .filter_map(|known| {
                    Some(CellLine {
                        adapter: known.source.name.clone(),
                        wire: known.wire.clone(),
                        state: name_of(books.table.state(known.id, place.id)?)?,
                        leases: books.table.leases(known.id, place.id),
                    })
                })
                .collect(),
        });
        Overview {
            slots: books.table.limit(),
            waiting: books.table.waiting(),
            adapters: adapters.collect(),
            replicas: replicas.collect(),
        }
    }
}
