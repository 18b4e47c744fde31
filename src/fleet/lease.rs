//! A count on a replica that ends by `Drop`: also on a panic, an abort and an upgrade.

use super::Replica;
use std::sync::Arc;

/// One request in flight on a replica. Taken at the pick, before anything is sent, so that the next decision sees it.
#[derive(Debug)]
pub struct Lease {
    replica: Arc<Replica>,
}

impl Lease {
    /// Count one request.
    pub fn take(replica: &Arc<Replica>) -> Self {
        replica.count_pick();
        Self { replica: replica.clone() }
    }

    /// On whom it counts.
    pub fn replica(&self) -> &Arc<Replica> {
        &self.replica
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.replica.count_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineKind;

    #[test]
    fn a_lease_ends_when_its_task_panics() {
        let replica = Arc::new(Replica::new("127.0.0.1", 1, "127.0.0.1:1", EngineKind::Vllm));
        let held = replica.clone();
        let task = std::thread::spawn(move || {
            let lease = Lease::take(&held);
            assert_eq!(lease.replica().in_flight(), 1);
            std::panic::resume_unwind(Box::new("the request's task died"));
        });
        assert!(task.join().is_err());
        assert_eq!(replica.in_flight(), 0);
    }
}
