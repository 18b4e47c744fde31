//! One life of a stand-in: what all its connections share, from one start to its stop or death. A restart makes a new
//! one, so nothing of the old is left: adapters, counters and start time are fresh.

use super::clock;
use super::journal::Journal;
use super::lora::{Adapter, Adapters, Presence};
use super::misbehave::Misbehaviour;
use super::options::Options;
use super::reply::Refusal;
use super::seats::{Limits, Name, Seats};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// How far a life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// Told to stop: streams end with finish_reason "abort", idle connections close.
    Stopping,
    /// Gone: every connection is reset.
    Killed,
}

#[derive(Debug)]
pub(super) struct Core {
    pub(super) options: Arc<Options>,
    pub(super) seats: Arc<Seats>,
    pub(super) adapters: Adapters,
    pub(super) journal: Arc<Journal>,
    pub(super) counters: Counters,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) misbehaviour: watch::Sender<Misbehaviour>,
    /// llama.cpp's scales of its adapters, by id.
    pub(super) scales: Mutex<Vec<f64>>,
    start_time: Mutex<f64>,
    dead: AtomicBool,
    next_id: AtomicU64,
}

/// Monotonic counts since the start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) prompt_tokens: AtomicU64,
    pub(super) generated_tokens: AtomicU64,
    pub(super) ended_by_length: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) open_connections: AtomicU64,
    pub(super) by_adapter: Mutex<BTreeMap<Name, u64>>,
}

impl Core {
    pub(super) fn new(options: Arc<Options>, journal: Arc<Journal>) -> Arc<Self> {
        let limits =
            Limits { max_running: options.max_running, max_loras: options.max_loras, kv_tokens: options.kv_tokens };
        Arc::new(Self {
            seats: Seats::new(limits),
            adapters: Adapters::new(&options),
            journal,
            counters: Counters::default(),
            phase: watch::Sender::new(Phase::Serving),
            misbehaviour: watch::Sender::new(Misbehaviour::Well),
            scales: Mutex::new(vec![0.0; options.adapters.len()]),
            start_time: Mutex::new(clock::unix_seconds()),
            dead: AtomicBool::new(false),
            next_id: AtomicU64::new(0),
            options,
        })
    }

    pub(super) fn start_time(&self) -> f64 {
        *self.start_time.lock()
    }

    /// Sixteen hexadecimal digits that no other request of this life has.
    pub(super) fn fresh_id(&self) -> String {
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), self.start_time().to_bits()))
    }

    pub(super) fn misbehaves(&self) -> Misbehaviour {
        *self.misbehaviour.borrow()
    }

    pub(super) fn misbehave(&self, order: Misbehaviour) {
        if order == Misbehaviour::LoseAdapters {
            self.adapters.lose();
            *self.start_time.lock() = clock::unix_seconds();
        } else {
            self.misbehaviour.send_replace(order);
        }
    }

    /// All is well again, unless something else was ordered meanwhile.
    pub(super) fn forgive(&self, order: Misbehaviour) {
        self.misbehaviour.send_if_modified(|now| {
            let still = *now == order;
            if still {
                *now = Misbehaviour::Well;
            }
            still
        });
    }

    /// Wait while a misbehaviour of this kind holds.
    pub(super) async fn while_it(&self, holds: fn(&Misbehaviour) -> bool) {
        if holds(&self.misbehaves()) {
            // The sender lives in `self`, so this cannot fail.
            let _ = self.misbehaviour.subscribe().wait_for(|now| !holds(now)).await;
        }
    }

    /// Wait so long; false if the stand-in is told to stop meanwhile.
    pub(super) async fn pause(&self, time: Duration) -> bool {
        if time.is_zero() {
            return true;
        }
        let mut phase = self.phase.subscribe();
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => false,
        }
    }

    /// Whether it was ended as by SIGKILL: nothing is said any more.
    pub(super) fn is_killed(&self) -> bool {
        *self.phase.borrow() == Phase::Killed
    }

    /// Whether the engine core is dead, by accident or on order.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire) || self.misbehaves() == Misbehaviour::DeadCore
    }

    /// Have the adapter in memory. Where that kills the engine, say what it says and go down a little later.
    pub(super) async fn bring_in(self: &Arc<Self>, adapter: &Adapter) -> Result<(), Refusal> {
        *self.counters.by_adapter.lock().entry(Arc::clone(&adapter.name)).or_default() += 1;
        match self.adapters.touch(adapter) {
            Presence::Resident => {}
            Presence::Reloaded => {
                self.pause(self.options.adapter_load).await;
            }
            Presence::Gone => {
                self.die();
                return Err(Refusal::dead_core());
            }
        }
        Ok(())
    }

    fn die(self: &Arc<Self>) {
        self.dead.store(true, Ordering::Release);
        let core = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(core.options.death_after).await;
            core.phase.send_replace(Phase::Killed);
        });
    }
}
