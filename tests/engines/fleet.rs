//! The replicas that all scenarios of an engine share.

use crate::replica::{Engine, Replica};
use crate::wait::until;
use futures_util::future::join_all;
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

/// Replicas of each engine.
const SIZE: usize = 2;

/// Engines stay up from scenario to scenario, for a start takes most of a minute; their guards end them with the process.
static FLEETS: Mutex<Fleets> = Mutex::const_new(Fleets { vllm: Vec::new(), llama_cpp: Vec::new() });

struct Fleets {
    vllm: Vec<Replica>,
    llama_cpp: Vec<Replica>,
}

/// The replicas of one engine, all healthy and idle at first, for one scenario. No other scenario runs meanwhile, on the
/// other engine neither: they would take the CPU from each other. A scenario that fails shows the replicas' logs.
pub struct Fleet(MappedMutexGuard<'static, Vec<Replica>>);

impl Fleet {
    /// Wait for the turn, and start what does not run.
    pub async fn of(engine: Engine) -> Self {
        let mut fleet = Self(MutexGuard::map(FLEETS.lock().await, |fleets| match engine {
            Engine::Vllm => &mut fleets.vllm,
            Engine::LlamaCpp => &mut fleets.llama_cpp,
        }));
        fleet.complete(engine).await;
        fleet.settle(engine).await;
        fleet
    }

    async fn complete(&mut self, engine: Engine) {
        for place in (0..self.len()).rev() {
            if !self[place].is_healthy().await {
                self.remove(place);
            }
        }
        let started = join_all((self.len()..SIZE).map(|_| Replica::start(engine))).await;
        self.extend(started);
    }

    async fn settle(&self, engine: Engine) {
        for replica in self.iter() {
            let idle = async || (replica.busy(engine).await == 0.0).then_some(());
            until("the last scenario's requests end", Duration::from_secs(60), idle).await;
        }
    }
}

impl Deref for Fleet {
    type Target = Vec<Replica>;
    fn deref(&self) -> &Vec<Replica> {
        &self.0
    }
}

impl DerefMut for Fleet {
    fn deref_mut(&mut self) -> &mut Vec<Replica> {
        &mut self.0
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.iter().for_each(Replica::show);
        }
    }
}
