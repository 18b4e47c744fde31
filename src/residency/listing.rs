//! What an engine says it holds, compared with the ledger: at the start, after each restart of the engine, and now and then.

use super::ledger::{Books, Ledger};
use super::state::State;
use super::{AdapterId, Listing, ReplicaId, revision};
use crate::engine::client::{CallError, Client};
use crate::engine::vllm::{Model, Vllm};
use crate::fleet::adapter::Adapter;
use crate::fleet::{Replica, clock};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep};

/// Between two lists of a healthy replica. Guess: what changes behind our back is also found by the 404 of the first
/// request that meets it.
const INTERVAL: Duration = Duration::from_secs(5);
/// Between two looks at whether the engine restarted, and between two tries to get the first list.
const LOOK: Duration = Duration::from_millis(50);

/// Keep the ledger's view of one replica true, for ever.
pub(super) async fn keep_true(ledger: Arc<Ledger>, replica: Arc<Replica>, engines: Client) {
    loop {
        let started = replica.start_time();
        let listed = list(&ledger, &replica, &engines, started).await;
        if let Err(error) = &listed {
            tracing::debug!(replica = %replica.name, %error, "no list of adapters");
        }
        let due = Instant::now() + if listed.is_ok() { INTERVAL } else { LOOK };
        while Instant::now() < due && replica.start_time() == started && (listed.is_err() || ledger.is_listed(&replica))
        {
            sleep(LOOK).await;
        }
    }
}

async fn list(
    ledger: &Ledger,
    replica: &Arc<Replica>,
    engines: &Client,
    start_time: Option<f64>,
) -> Result<(), CallError> {
    let asked_at = clock::now();
    let listed = Vllm.models(engines, &replica.name).await?;
    let Some((id, found)) = ledger.compare(replica, &listed, start_time) else { return Ok(()) };
    for name in found.outdated {
        tracing::info!(adapter = name, replica = %replica.name, "unloading outdated weights");
        let _ = Vllm.unload_adapter(engines, &replica.name, name).await;
    }
    ledger.observe(id, Listing { adapters: &found.current, start_time, asked_at });
    Ok(())
}

/// Our adapters on an engine's list. Names that are not ours are nobody's business.
struct Found<'a> {
    current: Vec<AdapterId>,
    outdated: Vec<&'a str>,
}

impl Ledger {
    fn compare<'a>(
        &self,
        replica: &Arc<Replica>,
        listed: &'a [Model],
        start_time: Option<f64>,
    ) -> Option<(ReplicaId, Found<'a>)> {
        let books = self.books.lock();
        let place = books.replicas.iter().find(|place| Arc::ptr_eq(&place.replica, replica))?.id;
        let mut found = Found { current: Vec::new(), outdated: Vec::new() };
        for model in listed {
            let known = books.adapters.iter().find(|known| *known.wire == *model.id);
            match known {
                Some(known) if books.is_held(known.id, place) || is_same(model, &known.source, start_time) => {
                    found.current.push(known.id);
                }
                None if !books.adapters.iter().any(|known| revision::is_of(&model.id, &known.source.name)) => {}
                _ => found.outdated.push(&model.id),
            }
        }
        Some((place, found))
    }

    fn observe(&self, replica: ReplicaId, listing: Listing<'_>) {
        self.change(|table, now| table.observe(replica, listing, now));
        if let Some(place) = self.books.lock().replicas.iter_mut().find(|place| place.id == replica) {
            place.listed = true;
        }
    }

    fn is_listed(&self, replica: &Arc<Replica>) -> bool {
        self.books.lock().replicas.iter().any(|place| place.listed && Arc::ptr_eq(&place.replica, replica))
    }
}

impl Books {
    /// Does the table count on this copy? Then it was loaded, or judged, by this process.
    fn is_held(&self, adapter: AdapterId, replica: ReplicaId) -> bool {
        self.table.state(adapter, replica).is_some_and(State::occupies)
    }
}

/// Is what an engine lists what we would load? It must come from the same path, and its files must be older than the
/// engine: if they were written since, nobody knows which weights the engine has.
fn is_same(listed: &Model, source: &Adapter, start_time: Option<f64>) -> bool {
    let from_there = listed.root.as_deref().is_none_or(|root| root == source.path.to_string_lossy());
    from_there && !is_newer(source.files.map(|files| files.modified), start_time)
}

fn is_newer(modified: Option<SystemTime>, start_time: Option<f64>) -> bool {
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    modified.zip(start_time).is_some_and(|(modified, started)| modified.as_secs_f64() > started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::adapter::Files;

    #[test]
    fn a_copy_from_another_path_or_older_than_its_files_is_not_adopted() {
        let modified = UNIX_EPOCH + Duration::from_secs(1_000);
        let source = |files| Adapter { name: "sql".into(), path: "/a".into(), pinned: false, revision: None, files };
        let here = source(Some(Files { fingerprint: 1, modified, rank: None }));
        let listed = |root: &str| Model { id: "sql".into(), root: Some(root.into()), parent: Some("base".into()) };
        assert!(is_same(&listed("/a"), &here, Some(2_000.0)));
        assert!(!is_same(&listed("/a"), &here, Some(500.0)), "files written after the engine's start");
        assert!(!is_same(&listed("/b"), &here, Some(2_000.0)));
        assert!(is_same(&listed("/a"), &source(None), Some(500.0)), "files that cannot be read here");
    }
}
