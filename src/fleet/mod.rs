//! What exists and how loaded it is: models, pools, replicas, their shared atomics, snapshots and leases.
//!
//! A [`Fleet`] is immutable; a reload builds a new one that takes the unchanged [`Replica`]s over, with their load and
//! breaker, and swaps it in. Requests in flight keep the fleet they started with.

pub mod adapter;
pub mod breaker;
pub mod call;
pub mod clock;
pub mod discovery;
pub mod draining;
pub mod health;
mod last_times;
pub mod lease;
pub mod model;
pub mod prefix_index;
pub mod reload;
pub mod replica;
pub mod retry_budget;
pub mod session_table;
pub mod snapshot;
pub mod watchdog;

pub use lease::Lease;
pub use model::{Member, Model, OnDemand, Target};
pub use replica::Replica;

use crate::config::Config;
use std::collections::HashMap;
use std::sync::Arc;

/// All models and the names under which they and their adapters are asked for.
#[derive(Debug)]
pub struct Fleet {
    /// The configuration it was built from.
    pub config: Arc<Config>,
    models: Vec<Arc<Model>>,
    names: HashMap<Box<str>, Target>,
    default_model: Option<Target>,
}

impl Fleet {
    /// The fleet of a configuration. Replicas that `previous` has under the same model and name are kept, load and all.
    pub fn new(config: Arc<Config>, previous: Option<&Self>) -> Self {
        let before = |name: &str| previous.and_then(|previous| previous.model(name));
        for folder in config.models.iter().filter_map(|model| model.adapters_dir.as_ref()) {
            if let Err(error) = std::fs::read_dir(folder) {
                tracing::warn!(folder = %folder.display(), %error, "the adapters' folder cannot be read now");
            }
        }
        let models = config.models.iter().zip(adapter::of_models(&config));
        let models: Vec<_> = models
            .map(|(model, adapters)| Arc::new(Model::new(model, adapters, &config, before(&model.name))))
            .collect();
        let mut names = HashMap::new();
        for model in &models {
            for name in std::iter::once(&model.name).chain(&model.aliases) {
                names.insert(name.clone(), Target { model: model.clone(), adapter: None });
            }
            for (index, adapter) in model.adapters.iter().enumerate() {
                names.insert(adapter.name.as_str().into(), Target { model: model.clone(), adapter: Some(index) });
            }
        }
        let default_model = config.default_model.as_deref().and_then(|name| names.get(name).cloned());
        Self { config, models, names, default_model }
    }

    /// The models in the configuration's order.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.models
    }

    /// The model of this name, not of an alias.
    pub fn model(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.iter().find(|model| &*model.name == name)
    }

    /// Whom a name means: a model, an alias, an adapter, or `model:adapter`.
    ///
    /// The whole name is tried first, since names may hold a colon themselves (`qwen2.5:7b`).
    pub fn resolve(&self, name: &str) -> Option<Target> {
        if let Some(target) = self.names.get(name) {
            return Some(target.clone());
        }
        let (model, adapter) = name.rsplit_once(':')?;
        self.names.get(model)?.with_adapter(adapter)
    }

    /// Who answers a request that names no model, if the configuration says so.
    pub fn default_model(&self) -> Option<&Target> {
        self.default_model.as_ref()
    }

    /// Every member of every model.
    pub fn members(&self) -> impl Iterator<Item = (&Arc<Model>, &Member)> {
        self.models.iter().flat_map(|model| model.members.iter().map(move |member| (model, member)))
    }
}
