//! The residency table of one model behind its lock, with the names that the table does not know: of replicas, adapters and
//! their revisions, and the channels of the requests that wait.
//!
//! The lock is short and never held over an await. A decision is made under it ([`Ledger::decide`]), so that nothing changes
//! between the look and the claim. What must be done towards the engines is left to `reconcile`, which [`Ledger::due`]
//! wakes.

use super::failure::Refusal;
use super::revision::{self, Revision};
use super::seat::{Claim, Seat, Wait};
use super::{Acquired, AdapterId, Counters, Holding, Outcome, Pick, Policy, ReplicaId, Table, Ticket, View};
use crate::fleet::adapter::{Adapter, Files};
use crate::fleet::clock;
use crate::fleet::{Member, Replica};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// The truth about one model's on-demand adapters; shared by all workers and kept over reloads.
#[derive(Debug)]
pub struct Ledger {
    pub(super) books: Mutex<Books>,
    due: Notify,
}

/// An adapter as a fleet knows it: its place in the table and the name that the engines see.
#[derive(Clone, Debug)]
pub struct Entry {
    /// In the table.
    pub id: AdapterId,
    /// `name`, or `name@revision`.
    pub wire: Arc<str>,
}

/// What a fleet needs to find its members and adapters in the ledger.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// In the order of the model's members.
    pub replicas: Vec<ReplicaId>,
    /// In the order of the model's adapters.
    pub adapters: Vec<Entry>,
}

#[derive(Debug)]
pub(super) struct Books {
    pub(super) table: Table,
    pub(super) adapters: Vec<Known>,
    pub(super) replicas: Vec<Place>,
    waits: HashMap<Ticket, oneshot::Sender<Outcome>>,
}

/// An adapter of the table; a retired one until its last copy has gone.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) id: AdapterId,
    pub(super) wire: Arc<str>,
    pub(super) source: Adapter,
    pub(super) retired: bool,
    /// Pinned by an operator, whatever the configuration says.
    pub(super) pinned_by_hand: bool,
    /// Where it last failed and what the engine said.
    pub(super) complaint: Option<Complaint>,
}

impl Known {
    pub(super) fn is_pinned(&self) -> bool {
        self.source.pinned || self.pinned_by_hand
    }
}

/// What came of an operator's order to unload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByHand {
    /// So many copies go.
    Done(usize),
    /// It is pinned.
    Pinned,
}

/// What an engine said about a load that failed.
#[derive(Clone, Debug)]
pub struct Complaint {
    /// The replica.
    pub replica: Arc<str>,
    /// Its words.
    pub reason: Arc<str>,
}

/// A replica of the table.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) id: ReplicaId,
    pub(super) replica: Arc<Replica>,
    /// What it holds has been read since it was last unreachable. Until then it gets no copies: it may be full.
    pub(super) listed: bool,
    pub(super) suspended: bool,
}

impl Ledger {
    /// An empty ledger with `limit` slots on each replica.
    pub fn new(limit: NonZeroUsize) -> Self {
        let table = Table::new(Policy::default(), limit);
        let books = Books { table, adapters: Vec::new(), replicas: Vec::new(), waits: HashMap::new() };
        Self { books: Mutex::new(books), due: Notify::new() }
    }

    /// Take over what a configuration says: who is there and what may be loaded. Says where to find it.
    pub fn take_over(&self, limit: NonZeroUsize, adapters: &[Adapter], members: &[Member]) -> Index {
        let now = clock::now();
        let mut books = self.books.lock();
        books.table.set_limit(limit, now);
        let index = Index { replicas: books.join(members, now), adapters: books.configure(adapters, now) };
        books.settle(now);
        drop(books);
        self.due.notify_one();
        index
    }

    /// Decide about a request under the lock: look at the views, pick, claim.
    pub fn decide<R>(self: &Arc<Self>, decision: impl FnOnce(&mut Desk<'_>) -> R) -> R {
        let now = clock::now();
        let mut books = self.books.lock();
        let mut desk = Desk { ledger: self, books: &mut books, now };
        let result = decision(&mut desk);
        books.settle(now);
        drop(books);
        result
    }

    /// Change the table and hand out what follows from it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Table, Duration) -> R) -> R {
        let now = clock::now();
        let mut books = self.books.lock();
        let result = change(&mut books.table, now);
        books.settle(now);
        drop(books);
        self.due.notify_one();
        result
    }

    /// Ends when orders may be due.
    pub(super) async fn due(&self) {
        self.due.notified().await;
    }

    /// A wait is dropped: give it up, or return what it had been given but nobody fetched. Under the lock the answer
    /// cannot come in between.
    pub(super) fn abandon(&self, ticket: Ticket, answer: &mut oneshot::Receiver<Outcome>) {
        let now = clock::now();
        let mut books = self.books.lock();
        match answer.try_recv() {
            Ok(Outcome::Ready(lease)) => books.table.release(lease, now),
            Ok(Outcome::Refused(_)) => {}
            Err(_) => {
                books.waits.remove(&ticket);
                books.table.give_up(ticket, now);
            }
        }
        books.settle(now);
        drop(books);
        self.due.notify_one();
    }

    /// Note what an engine said about a load, for the errors that follow from it.
    pub(super) fn complain(&self, holding: Holding, replica: &Arc<str>, reason: &str) {
        let mut books = self.books.lock();
        if let Some(known) = books.adapters.iter_mut().find(|known| known.id == holding.adapter) {
            known.complaint = Some(Complaint { replica: replica.clone(), reason: reason.into() });
        }
    }

    /// The last complaint about an adapter.
    pub fn complaint(&self, adapter: AdapterId) -> Option<Complaint> {
        self.books.lock().adapters.iter().find(|known| known.id == adapter)?.complaint.clone()
    }

    /// Could the adapter's files be read here once, and can no longer?
    pub(super) fn files_are_gone(&self, adapter: AdapterId) -> bool {
        let source = self.books.lock().known(adapter).map(|known| known.source.clone());
        source.is_some_and(|source| source.files.is_some() && Files::read(&source.path).is_none())
    }

    /// An operator wants it to be there. Says whether it is, or is coming.
    pub fn load(&self, adapter: AdapterId) -> bool {
        self.change(|table, now| table.load(adapter, now))
    }

    /// An operator wants it gone.
    pub fn unload(&self, adapter: AdapterId) -> ByHand {
        if self.books.lock().known(adapter).is_some_and(Known::is_pinned) {
            return ByHand::Pinned;
        }
        ByHand::Done(self.change(|table, now| table.unload(adapter, now)))
    }

    /// Pinned from now on, over reloads too, whatever the configuration says.
    pub fn pin_by_hand(&self, adapter: AdapterId) {
        self.set_pin(adapter, true);
    }

    /// Pinned only if the configuration says so.
    pub fn unpin_by_hand(&self, adapter: AdapterId) {
        self.set_pin(adapter, false);
    }

    fn set_pin(&self, adapter: AdapterId, by_hand: bool) {
        let now = clock::now();
        let mut books = self.books.lock();
        let Some(known) = books.adapters.iter_mut().find(|known| known.id == adapter) else { return };
        known.pinned_by_hand = by_hand;
        let pinned = known.is_pinned();
        books.pin(adapter, pinned, now);
        books.settle(now);
        drop(books);
        self.due.notify_one();
    }

    /// The counters of the table.
    pub fn counters(&self) -> Counters {
        self.books.lock().table.counters()
    }

    /// Requests that wait for an adapter now.
    pub fn waiting(&self) -> usize {
        self.books.lock().table.waiting()
    }
}

/// What a decision may do under the lock.
pub struct Desk<'a> {
    ledger: &'a Arc<Ledger>,
    books: &'a mut Books,
    now: Duration,
}

impl Desk<'_> {
    /// See [`Table::view`].
    pub fn view(&self, adapter: AdapterId, replica: ReplicaId) -> Option<View> {
        self.books.table.view(adapter, replica, self.now)
    }

    /// Why the adapter cannot be had now, if it cannot.
    pub fn refusal(&self, adapter: AdapterId) -> Option<Refusal> {
        self.books.table.refusal(adapter, self.now)
    }

    /// See [`Table::acquire`].
    pub fn acquire(&mut self, adapter: AdapterId, pick: Pick) -> Claim {
        match self.books.table.acquire(adapter, pick, self.now) {
            Acquired::Ready(lease) => Claim::Ready(Seat::new(self.ledger.clone(), lease)),
            Acquired::AwaitLoad { ticket, replica } => Claim::Coming { wait: self.wait(ticket), replica },
            Acquired::Started { ticket, replica } => {
                self.ledger.due.notify_one();
                Claim::Cold { wait: self.wait(ticket), replica }
            }
            Acquired::AwaitSlot(ticket) => Claim::NoSlot { wait: self.wait(ticket) },
            Acquired::Refused(refusal) => Claim::Refused(refusal),
        }
    }

    fn wait(&mut self, ticket: Ticket) -> Wait {
        let (sender, answer) = oneshot::channel();
        self.books.waits.insert(ticket, sender);
        Wait::new(self.ledger.clone(), ticket, answer)
    }
}

impl Books {
    /// Hand the answers to those who wait. One who has gone in the meantime had a lease that must come back, which may
    /// wake others in turn.
    pub(super) fn settle(&mut self, now: Duration) {
        loop {
            let woken = self.table.drain_woken();
            if woken.is_empty() {
                break;
            }
            for answer in woken {
                let unheard = match self.waits.remove(&answer.ticket) {
                    Some(sender) => sender.send(answer.outcome).err(),
                    None => Some(answer.outcome),
                };
                if let Some(Outcome::Ready(lease)) = unheard {
                    self.table.release(lease, now);
                }
            }
        }
        let table = &self.table;
        self.adapters.retain(|known| table.knows(known.id));
    }

    /// The replicas of the table become these.
    fn join(&mut self, members: &[Member], now: Duration) -> Vec<ReplicaId> {
        let stays = |place: &Place| members.iter().any(|member| Arc::ptr_eq(&member.replica, &place.replica));
        let gone: Vec<_> = self.replicas.iter().filter(|place| !stays(place)).map(|place| place.id).collect();
        self.replicas.retain(stays);
        for replica in gone {
            self.table.remove_replica(replica, now);
        }
        members.iter().map(|member| self.place_of(&member.replica, now)).collect()
    }

    fn place_of(&mut self, replica: &Arc<Replica>, now: Duration) -> ReplicaId {
        if let Some(place) = self.replicas.iter().find(|place| Arc::ptr_eq(&place.replica, replica)) {
            return place.id;
        }
        let id = self.table.add_replica(now);
        self.table.suspend(id, now);
        self.replicas.push(Place { id, replica: replica.clone(), listed: false, suspended: true });
        id
    }

    /// The adapters of the table become these. New weights of a known name are a new adapter; the old one is retired.
    fn configure(&mut self, adapters: &[Adapter], now: Duration) -> Vec<Entry> {
        let is_current = |known: &Known| adapters.iter().any(|adapter| !revision::is_new(&known.source, adapter));
        let old = self.adapters.iter_mut().filter(|known| !known.retired && !is_current(known));
        let old = old.map(|known| {
            known.retired = true;
            known.id
        });
        let old = old.collect::<Vec<_>>();
        for adapter in old {
            self.table.retire(adapter, now);
        }
        adapters.iter().map(|adapter| self.entry_of(adapter, now)).collect()
    }

    fn entry_of(&mut self, adapter: &Adapter, now: Duration) -> Entry {
        let current = |known: &&mut Known| !known.retired && !revision::is_new(&known.source, adapter);
        if let Some(known) = self.adapters.iter_mut().find(current) {
            known.source.clone_from(adapter);
            let entry = Entry { id: known.id, wire: known.wire.clone() };
            let pinned = known.is_pinned();
            self.pin(entry.id, pinned, now);
            return entry;
        }
        let revision = if self.adapters.iter().any(|known| known.source.name == adapter.name) {
            Revision::Later
        } else {
            Revision::First
        };
        let taken = |wire: &str| self.adapters.iter().any(|known| &*known.wire == wire);
        let wire: Arc<str> = revision::wire_name(adapter, revision, taken).into();
        let id = self.table.add_adapter();
        self.adapters.push(Known {
            id,
            wire: wire.clone(),
            source: adapter.clone(),
            retired: false,
            pinned_by_hand: false,
            complaint: None,
        });
        self.pin(id, adapter.pinned, now);
        Entry { id, wire }
    }

    pub(super) fn pin(&mut self, adapter: AdapterId, pinned: bool, now: Duration) {
        if pinned {
            self.table.pin(adapter);
        } else {
            self.table.unpin(adapter, now);
        }
    }

    pub(super) fn place(&self, id: ReplicaId) -> Option<&Place> {
        self.replicas.iter().find(|place| place.id == id)
    }

    pub(super) fn known(&self, id: AdapterId) -> Option<&Known> {
        self.adapters.iter().find(|known| known.id == id)
    }
}
