//! The background service that opens the door of each model's waiting room while somebody waits there.

use super::saturation;
use crate::fleet::Model;
use crate::fleet::clock;
use crate::fleet::model::LiveFleet;
use async_trait::async_trait;
use pingora::server::ShutdownWatch;
use pingora::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Between two looks at the replicas while somebody waits. A look takes microseconds; a seat must not stay empty for long.
const LOOK: Duration = Duration::from_millis(2);

/// Lets in who waits.
pub struct Pump {
    fleet: LiveFleet,
}

impl Pump {
    /// Over this fleet.
    pub fn new(fleet: LiveFleet) -> Self {
        Self { fleet }
    }

    /// Until another fleet takes the place of this one.
    async fn run(&self) {
        let fleet = self.fleet.load_full();
        let mut tasks = JoinSet::new();
        for model in fleet.models() {
            tasks.spawn(serve(model.clone()));
        }
        while Arc::ptr_eq(&fleet, &self.fleet.load()) {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[async_trait]
impl BackgroundService for Pump {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        loop {
            tokio::select! {
                () = self.run() => {}
                _ = shutdown.changed() => return,
            }
        }
    }
}

async fn serve(model: Arc<Model>) {
    loop {
        model.room.occupied().await;
        model.room.pump(clock::now(), |entering, most| {
            let snapshot = model.snapshot(&[], &[], clock::now_ms());
            saturation::room(&snapshot, &model.thresholds, entering + most).saturating_sub(entering)
        });
        // What was let in shows in the engines' own counts only after a read-out: ask for one before its time.
        for member in &model.members {
            member.replica.want_readout();
        }
        sleep(LOOK).await;
    }
}
