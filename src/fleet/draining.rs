//! The process is about to end: requests that run may finish, new connections should go elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Off until the process is told to end; shared by all who must know.
#[derive(Clone, Debug, Default)]
pub struct Draining(Arc<AtomicBool>);

impl Draining {
    /// The process is about to end.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// From now on it is.
    pub fn start(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
