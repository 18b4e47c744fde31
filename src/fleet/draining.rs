//! The process is about to end: requests that run may finish, new connections should go elsewhere. And how many run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Off until the process is told to end; shared by all who must know.
#[derive(Clone, Debug, Default)]
pub struct Draining(Arc<State>);

#[derive(Debug, Default)]
struct State {
    on: AtomicBool,
    requests: AtomicUsize,
}

/// A request that the process must not end without; ends by `Drop`.
#[derive(Debug)]
pub struct Running(Arc<State>);

impl Draining {
    /// The process is about to end.
    pub fn is_on(&self) -> bool {
        self.0.on.load(Ordering::Relaxed)
    }

    /// From now on it is.
    pub fn start(&self) {
        self.0.on.store(true, Ordering::Relaxed);
    }

    /// A request begins: its body is read next. It counts wherever it waits or runs, also on a replica that a reload has
    /// taken out of the fleet.
    pub fn request(&self) -> Running {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        Running(self.0.clone())
    }

    /// Requests that have begun and not ended.
    pub fn requests(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
