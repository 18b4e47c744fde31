//! The background service that makes the wanted residency so: it sends the orders that the table has planned, keeps the
//! table's view of each engine true, and watches the adapters' files.

use super::ledger::{Books, Ledger};
use super::{listing, orders, plan};
use crate::engine::client::Client;
use crate::fleet::adapter::{self, Adapter};
use crate::fleet::model::{LiveFleet, rebuild};
use crate::fleet::snapshot::BreakerView;
use crate::fleet::{Fleet, Model, clock};
use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Between two passes when nothing calls for one: back-offs, turns and rests end by time.
const TICK: Duration = Duration::from_millis(50);
/// Between two passes at least: what a thousand requests a second wake is done together.
const LEAST: Duration = Duration::from_millis(1);
/// Between two looks at the adapters' folders and files.
const FILES: Duration = Duration::from_secs(1);

/// Reconciles the replicas of all models with their tables.
pub struct Reconciler {
    fleet: LiveFleet,
    engines: Client,
}

impl Reconciler {
    /// Over this fleet.
    pub fn new(fleet: LiveFleet, engines: Client) -> Self {
        Self { fleet, engines }
    }

    /// Reconcile one fleet until another takes its place. Orders on their way go on meanwhile: each is a task of its own.
    async fn reconcile(&self) {
        let fleet = self.fleet.load_full();
        let mut tasks = JoinSet::new();
        for model in fleet.models() {
            let Some(on_demand) = &model.on_demand else { continue };
            let engines = self.engines.within(fleet.config.timeouts.adapter_load);
            tasks.spawn(send_orders(on_demand.ledger.clone(), engines));
            for member in &model.members {
                let (replica, engines) = (member.replica.clone(), self.engines.clone());
                tasks.spawn(listing::keep_true(on_demand.ledger.clone(), replica, engines));
            }
        }
        tasks.spawn(watch_files(self.fleet.clone()));
        while Arc::ptr_eq(&fleet, &self.fleet.load()) {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[async_trait]
impl BackgroundService for Reconciler {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        loop {
            tokio::select! {
                () = self.reconcile() => {}
                _ = shutdown.changed() => return,
            }
        }
    }
}

/// Plan and send, for ever.
async fn send_orders(ledger: Arc<Ledger>, engines: Client) {
    loop {
        let actions = ledger.next_orders();
        for action in actions {
            tokio::spawn(orders::carry_out(ledger.clone(), action, engines.clone()));
        }
        sleep(LEAST).await;
        let _ = timeout(TICK, ledger.due()).await;
    }
}

impl Ledger {
    /// What is to be done now, noted as sent.
    fn next_orders(&self) -> Vec<super::Action> {
        let now = clock::now();
        let mut books = self.books.lock();
        books.suspend_unusable(now);
        books.table.tick(now);
        books.settle(now);
        let actions = plan(&books.table, now);
        books.table.start(&actions, now);
        actions
    }
}

impl Books {
    /// Replicas that are down, or whose holdings are not known, get no copies.
    fn suspend_unusable(&mut self, now: Duration) {
        let now_ms = clock::to_ms(now);
        for place in &mut self.replicas {
            place.listed &= place.replica.is_reachable();
            let usable = place.listed && place.replica.breaker_view(now_ms) != BreakerView::Tripped;
            if place.suspended == usable {
                place.suspended = !usable;
                if usable {
                    self.table.resume(place.id, now);
                } else {
                    self.table.suspend(place.id, now);
                }
            }
        }
    }
}

/// Build the fleet anew when adapters came, went or changed, for ever. A change counts once two looks agree on it: files
/// are not written in an instant.
async fn watch_files(fleet: LiveFleet) {
    let mut before = None;
    loop {
        sleep(FILES).await;
        let current = fleet.load_full();
        let config = current.config.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || adapter::of_models(&config)).await else { return };
        let changed = found.iter().zip(current.models()).any(|(found, model)| differs(found, model));
        if changed && before.as_ref() == Some(&found) {
            tracing::info!("the adapters' files changed");
            rebuild(&fleet, |current| Fleet::new(current.config.clone(), Some(current)));
        }
        before = Some(found);
    }
}

/// Files that vanished from under a configured adapter are no change: copies of it may live on in the engines.
fn differs(found: &[Adapter], model: &Model) -> bool {
    model.on_demand.is_some()
        && (found.len() != model.adapters.len()
            || found.iter().zip(&model.adapters).any(|(found, known)| super::revision::is_new(known, found)))
}
