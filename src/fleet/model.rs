//! A base model, its members in their pools, and the memory its decisions share.

use super::adapter::Adapter;
use super::clock::now_ms;
use super::retry_budget::RetryBudget;
use super::session_table::SessionTable;
use super::snapshot::{Candidate, Snapshot};
use super::{Fleet, Replica, prefix_index, prefix_index::PrefixIndex};
use crate::admission::Room;
use crate::config::checked::{self, Config, Health};
use crate::engine::EngineKind;
use crate::residency::ledger::{Entry, Index, Ledger};
use crate::scheduler::Profile;
use crate::scheduler::profile::Thresholds;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A replica's place in its model.
#[derive(Clone, Debug)]
pub struct Member {
    /// The process itself; kept over a reload.
    pub replica: Arc<Replica>,
    /// The name of its pool.
    pub pool: Arc<str>,
    /// The pool's priority; 0 comes first.
    pub priority: u32,
    /// Share of the work, above 0.
    pub weight: f64,
}

/// A base model and the replicas that serve it.
#[derive(Debug)]
pub struct Model {
    /// The name that the engines serve.
    pub name: Box<str>,
    /// Other names for it.
    pub aliases: Vec<Box<str>>,
    /// What its replicas run.
    pub engine: EngineKind,
    /// How its requests are scheduled.
    pub profile: Arc<Profile>,
    /// The scheduler's thresholds.
    pub thresholds: Thresholds,
    /// Its replicas, by rising pool priority.
    pub members: Vec<Member>,
    /// Its adapters: the configuration's, then those found in its folder.
    pub adapters: Vec<Adapter>,
    /// Where its adapters are loaded on demand; `None`: they are registered at the engine's start.
    pub on_demand: Option<OnDemand>,
    /// Which replica each session used last.
    pub sessions: Arc<SessionTable>,
    /// Which replica probably holds which prefix.
    pub prefixes: Arc<PrefixIndex>,
    /// Where its requests wait while the replicas are full; kept over a reload.
    pub room: Arc<Room>,
    /// Retries that may still be made.
    pub retry_budget: RetryBudget,
    health: Health,
    turn: AtomicU64,
}

/// On-demand adapters of a model.
#[derive(Debug)]
pub struct OnDemand {
    /// The truth about them; kept over a reload.
    pub ledger: Arc<Ledger>,
    /// Where this fleet's members and adapters stand in it.
    pub index: Index,
}

impl OnDemand {
    fn new(model: &checked::Model, adapters: &[Adapter], members: &[Member], previous: Option<&Self>) -> Option<Self> {
        let limit = model.max_loaded_adapters?;
        let ledger = previous.map_or_else(|| Arc::new(Ledger::new(limit)), |previous| previous.ledger.clone());
        let index = ledger.take_over(limit, adapters, members);
        Some(Self { ledger, index })
    }

    /// The adapter at this position of the model's list.
    pub fn entry(&self, adapter: usize) -> Option<&Entry> {
        self.index.adapters.get(adapter)
    }
}

impl Model {
    /// The model of the configuration with these adapters, with the replicas and the memory of `previous` where they are the same.
    pub fn new(model: &checked::Model, adapters: Vec<Adapter>, config: &Config, previous: Option<&Arc<Self>>) -> Self {
        let keep = |name: &str| {
            let kept = previous?.members.iter().find(|member| &*member.replica.name == name)?;
            (kept.replica.engine.kind() == model.engine).then(|| kept.replica.clone())
        };
        let members: Vec<_> = model.pools.iter().flat_map(|pool| members_of(pool, model.engine, keep)).collect();
        if let Some(previous) = previous {
            let is_old = |new: &&Member| previous.members.iter().any(|old| Arc::ptr_eq(&old.replica, &new.replica));
            members.iter().filter(|new| !is_old(new)).for_each(|new| new.replica.set_fresh(now_ms()));
        }
        let same_members = |previous: &&Arc<Self>| {
            previous.members.iter().map(|member| &member.replica.name).eq(members.iter().map(|m| &m.replica.name))
        };
        Self {
            name: model.name.as_str().into(),
            aliases: model.aliases.iter().map(|alias| alias.as_str().into()).collect(),
            engine: model.engine,
            profile: model.profile.clone(),
            thresholds: config.thresholds,
            sessions: previous.map(|previous| previous.sessions.clone()).unwrap_or_default(),
            // The index names members by position: it is only right for the same list of members.
            prefixes: previous.filter(same_members).map(|previous| previous.prefixes.clone()).unwrap_or_default(),
            room: room(config, previous),
            retry_budget: RetryBudget::new(config.retry.budget),
            on_demand: OnDemand::new(
                model,
                &adapters,
                &members,
                previous.and_then(|previous| previous.on_demand.as_ref()),
            ),
            adapters,
            health: config.health.clone(),
            turn: AtomicU64::new(0),
            members,
        }
    }

    /// All members at this instant. `blocks` are the request's prefix blocks (empty where its profile has no use for
    /// them), `tried` the members that this request was already sent to.
    pub fn snapshot(&self, blocks: &[u64], tried: &[usize], now_ms: u64) -> Snapshot {
        let drained = |member: &Member| member.replica.is_draining();
        let all_drain = self.members.iter().all(drained);
        let mut snapshot = Snapshot {
            candidates: self
                .members
                .iter()
                .enumerate()
                .filter(|(_, member)| all_drain || !drained(member))
                .map(|(index, member)| Candidate {
                    priority: member.priority,
                    weight: member.weight,
                    tried: tried.contains(&index),
                    ..member.replica.candidate(index, &self.thresholds, &self.health, now_ms)
                })
                .collect(),
        };
        snapshot.start_slowly(self.thresholds.target_waiting);
        for holders in self.prefixes.holders(blocks) {
            for candidate in &mut snapshot.candidates {
                if prefix_index::bit(candidate.member).is_some_and(|bit| holders & bit != 0) {
                    candidate.prefix_blocks += 1;
                }
            }
        }
        snapshot
    }

    /// The next turn of this model's round robin.
    pub fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}

fn room(config: &Config, previous: Option<&Arc<Model>>) -> Arc<Room> {
    let limits = config.admission.limits();
    let Some(previous) = previous else { return Arc::new(Room::new(limits)) };
    previous.room.set_limits(limits);
    previous.room.clone()
}

fn members_of(
    pool: &checked::Pool,
    engine: EngineKind,
    keep: impl Fn(&str) -> Option<Arc<Replica>> + Copy,
) -> impl Iterator<Item = Member> {
    let name: Arc<str> = pool.name.as_str().into();
    pool.replicas.iter().map(move |replica| {
        let replica_name = replica.name();
        let fresh = || Arc::new(Replica::new(&replica.host, replica.port, &replica_name, engine));
        Member {
            replica: keep(&replica_name).unwrap_or_else(fresh),
            pool: name.clone(),
            priority: pool.priority,
            weight: replica.weight,
        }
    })
}

/// Whom a request's name means.
#[derive(Clone, Debug)]
pub struct Target {
    /// The base model.
    pub model: Arc<Model>,
    /// Position in the model's `adapters`; `None` for the base model itself.
    pub adapter: Option<usize>,
}

impl Target {
    /// The same model with the adapter of this name, if the model has it.
    pub fn with_adapter(&self, adapter: &str) -> Option<Self> {
        let index = self.model.adapters.iter().position(|known| known.name == adapter)?;
        Some(Self { model: self.model.clone(), adapter: Some(index) })
    }

    /// The adapter, if one is meant.
    pub fn adapter(&self) -> Option<&Adapter> {
        self.model.adapters.get(self.adapter?)
    }

    /// The name that the engine must see: the adapter's, else the model's.
    pub fn wire_name(&self) -> &str {
        let entry = || self.model.on_demand.as_ref()?.entry(self.adapter?);
        match (entry(), self.adapter()) {
            (Some(entry), _) => &entry.wire,
            (None, Some(adapter)) => &adapter.name,
            (None, None) => &self.model.name,
        }
    }
}

/// Where requests find the fleet: swapped whole by [`rebuild`].
pub type LiveFleet = Arc<arc_swap::ArcSwap<Fleet>>;

/// Put another fleet in the place of the running one. One at a time: building one changes what both share (ledgers, rooms),
/// so two that build at once could leave that in the state of the one that lost.
pub fn rebuild(live: &LiveFleet, build: impl FnOnce(&Fleet) -> Fleet) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let next = build(&live.load());
    live.store(Arc::new(next));
}
