//! The last requests as they arrived, for tests of integrity. When does a request end? At its last byte handed to the
//! connection (`Finished`), or when the client leaves or the stand-in cuts it before that (`Aborted`).

use bytes::Bytes;
use http::request::Parts;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Still worked on.
    Open,
    /// Answered to the end.
    Finished,
    /// Left by the client, or cut.
    Aborted,
}

/// One request as the stand-in received it.
#[derive(Clone, Debug, Serialize)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Header names in lower case, and values, in order.
    pub headers: Vec<(String, String)>,
    /// The model that the body named, as written.
    pub model: Option<String>,
    /// Length of the body in bytes.
    pub body_length: usize,
    /// xxh3 (64 bits) of the body.
    pub body_xxh3: u64,
    /// How it stands.
    pub ending: Ending,
}

impl Received {
    /// The first value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug)]
struct Entry {
    arrived: Received,
    ending: AtomicU8,
    model: Mutex<Option<String>>,
}

impl Entry {
    fn read(&self) -> Received {
        let ending = match self.ending.load(Ordering::Acquire) {
            FINISHED => Ending::Finished,
            ABORTED => Ending::Aborted,
            _ => Ending::Open,
        };
        Received { ending, model: self.model.lock().clone(), ..self.arrived.clone() }
    }
}

const OPEN: u8 = 0;
const FINISHED: u8 = 1;
const ABORTED: u8 = 2;

/// The last `keep` requests.
#[derive(Debug)]
pub(super) struct Journal {
    keep: usize,
    entries: Mutex<VecDeque<Arc<Entry>>>,
    aborted: AtomicU64,
    received: AtomicU64,
}

impl Journal {
    pub(super) fn new(keep: usize) -> Self {
        Self { keep, entries: Mutex::default(), aborted: AtomicU64::new(0), received: AtomicU64::new(0) }
    }

    /// Note a request. Its end is told by the visit.
    pub(super) fn enter(self: &Arc<Self>, parts: &Parts, body: &Bytes) -> Arc<Visit> {
        self.received.fetch_add(1, Ordering::Relaxed);
        let entry = (self.keep > 0).then(|| self.remember(parts, body));
        Arc::new(Visit { journal: Arc::clone(self), entry, ending: AtomicU8::new(OPEN) })
    }

    fn remember(&self, parts: &Parts, body: &Bytes) -> Arc<Entry> {
        let entry =
            Arc::new(Entry { arrived: received(parts, body), ending: AtomicU8::new(OPEN), model: Mutex::new(None) });
        let mut entries = self.entries.lock();
        if entries.len() == self.keep {
            entries.pop_front();
        }
        entries.push_back(Arc::clone(&entry));
        entry
    }

    pub(super) fn requests(&self) -> Vec<Received> {
        self.entries.lock().iter().map(|entry| entry.read()).collect()
    }

    pub(super) fn aborted(&self) -> u64 {
        self.aborted.load(Ordering::Relaxed)
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

fn received(parts: &Parts, body: &Bytes) -> Received {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Received {
        method: parts.method.to_string(),
        path: parts.uri.path_and_query().map_or_else(|| parts.uri.path().to_owned(), ToString::to_string),
        headers: parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        model: None,
        body_length: body.len(),
        body_xxh3: xxh3_64(body),
        ending: Ending::Open,
    }
}

/// One request's stay. Dropped before [`Visit::finish`], it counts as aborted.
#[derive(Debug)]
pub(super) struct Visit {
    journal: Arc<Journal>,
    entry: Option<Arc<Entry>>,
    ending: AtomicU8,
}

impl Visit {
    /// Note which model the body named.
    pub(super) fn asked_for(&self, model: Option<&str>) {
        if let Some(entry) = &self.entry {
            *entry.model.lock() = model.map(str::to_owned);
        }
    }

    /// The whole answer was handed over.
    pub(super) fn finish(&self) {
        self.end(FINISHED);
    }

    fn end(&self, ending: u8) {
        self.ending.store(ending, Ordering::Release);
        if let Some(entry) = &self.entry {
            entry.ending.store(ending, Ordering::Release);
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.ending.load(Ordering::Acquire) == OPEN {
            self.journal.aborted.fetch_add(1, Ordering::Relaxed);
            self.end(ABORTED);
        }
    }
}
