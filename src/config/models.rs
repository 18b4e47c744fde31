//! The models with their adapters, pools and replicas.

use super::address;
use super::at::At;
use super::checked::{Adapter, Model, Pool, Replica};
use super::names::{Names, Role, name};
use super::profiles::{Profiles, above_zero};
use crate::engine::EngineKind;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The profile of a model that names none.
const DEFAULT_PROFILE: &str = "chat";

const ENGINES: &[(&str, EngineKind)] = &[("vllm", EngineKind::Vllm), ("llamacpp", EngineKind::LlamaCpp)];

/// Reads all models; the names they claim are left in `names`.
pub(crate) fn models<'a>(at: &At<'a>, profiles: &Profiles, names: &mut Names<'a>) -> Option<Vec<Model>> {
    let mut replicas = HashMap::new();
    let mut index = 0..;
    let models = at.each_of_some(|at| {
        let mut reader = Reader { index: index.next()?, profiles, names: &mut *names, replicas: &mut replicas };
        reader.model(&at)
    });
    names.refuse_ambiguous();
    models
}

/// What the reader of one model must know of the rest of the file.
struct Reader<'r, 'a> {
    /// Position of the model in the file.
    index: usize,
    profiles: &'r Profiles,
    names: &'r mut Names<'a>,
    /// Model and line of each replica so far, by name.
    replicas: &'r mut HashMap<String, (usize, usize)>,
}

impl<'a> Reader<'_, 'a> {
    fn model(&mut self, at: &At<'a>) -> Option<Model> {
        let index = self.index;
        at.section(|s| {
            let name =
                s.require("name", "the name that clients ask for", |at| self.names.claim(at, Role::Model, index));
            self.names.incomplete |= name.is_none();
            let engine = s.require("engine", "vllm or llamacpp", |at| at.choice(ENGINES));
            let profile = s.find("profile");
            let aliases = s.read("aliases", |at| at.each(|at| self.names.claim(&at, Role::Alias, index)));
            let slots = s.find("max_loaded_adapters");
            let adapters = s.read("adapters", |at| at.each(|at| self.adapter(&at)));
            let folder = s.find("adapters_dir");
            let pools = s.require("pools", "at least one pool with a replica", |at| self.pools(at));
            let profile = match profile {
                Some(at) => self.profiles.find(&at),
                None => self.profiles.known.get(DEFAULT_PROFILE).cloned(),
            };
            let adapters = adapters.unwrap_or_default();
            let max_loaded_adapters = slots.as_ref().and_then(|at| slots_for(at, engine, &adapters));
            let adapters_dir = folder.and_then(|at| folder_of(&at, slots.is_some()));
            let aliases = aliases.unwrap_or_default();
            let (name, engine, profile, pools) = (name?, engine?, profile?, pools?);
            Some(Model { name, engine, profile, aliases, max_loaded_adapters, adapters, adapters_dir, pools })
        })?
    }

    fn adapter(&mut self, at: &At<'a>) -> Option<Adapter> {
        at.section(|s| {
            let index = self.index;
            let name =
                s.require("name", "the name that clients ask for", |at| self.names.claim(at, Role::Adapter, index));
            let path = s.require("path", "a folder, a GGUF file (llama.cpp) or a hub id", At::text).map(PathBuf::from);
            let pinned = s.read("pinned", At::flag).unwrap_or(false);
            let revision = s.read("revision", revision);
            Some(Adapter { name: name?, path: path?, pinned, revision })
        })?
    }

    /// Pools by rising priority, those of one priority in the file's order.
    fn pools(&mut self, at: &At<'a>) -> Option<Vec<Pool>> {
        let mut lines = HashMap::new();
        let mut pools = at.each_of_some(|at| self.pool(&at, &mut lines))?;
        pools.sort_by_key(|pool| pool.priority);
        if pools.first().is_some_and(|pool| pool.priority != 0) {
            at.warn("no pool has priority 0, which is used first");
        }
        Some(pools)
    }

    fn pool(&mut self, at: &At<'a>, lines: &mut HashMap<&'a str, usize>) -> Option<Pool> {
        at.section(|s| {
            let name = s.require("name", "a name for status and metrics", |at| {
                let name = name(at)?;
                match lines.insert(name, at.line()) {
                    Some(line) => at.fail(format!("the model has a pool of this name already (line {line})")),
                    None => Some(name.to_owned()),
                }
            });
            let priority = s.read("priority", At::whole).unwrap_or(0);
            let hint = "a list such as [{ url: \"http://127.0.0.1:8000\" }]";
            let replicas = s.require("replicas", hint, |at| at.each_of_some(|at| self.replica(&at)));
            Some(Pool { name: name?, priority, replicas: replicas? })
        })?
    }

    fn replica(&mut self, at: &At<'a>) -> Option<Replica> {
        at.section(|s| {
            let replica = s.require("url", "a URL such as http://127.0.0.1:8000", |at| self.address(at));
            let weight = s.read("weight", above_zero).unwrap_or(1.0);
            Some(Replica { weight, ..replica? })
        })?
    }

    /// A replica that the model does not have yet.
    fn address(&mut self, at: &At<'_>) -> Option<Replica> {
        let replica = address::replica(at)?;
        match self.replicas.insert(replica.name(), (self.index, at.line())) {
            Some((model, line)) if model == self.index => {
                return at.fail(format!("the model has the replica {} already (line {line})", replica.name()));
            }
            Some((_, line)) => at.warn(format!(
                "another model has the replica {} too (line {line}): the load of each is counted apart",
                replica.name()
            )),
            None => {}
        }
        Some(replica)
    }
}

/// A folder of adapters: absolute, since the engines must find the same path, and only where they are loaded on demand.
fn folder_of(at: &At<'_>, on_demand: bool) -> Option<PathBuf> {
    if !on_demand {
        return at.fail("needs max_loaded_adapters: what is found there is loaded on demand");
    }
    let folder = PathBuf::from(at.text()?);
    if !folder.is_absolute() {
        return at.expected("an absolute path: the engines must find the adapters under the same one");
    }
    Some(folder)
}

/// A revision: it becomes part of the name `adapter@revision` that the engines see.
fn revision(at: &At<'_>) -> Option<String> {
    let text = at.text()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if text.len() > 64 || !text.chars().all(is_plain) {
        return at.expected("letters, digits, `.`, `_` and `-`, 64 at most");
    }
    Some(text.to_owned())
}

/// Slots for on-demand adapters: only where the engine can load them, and not fewer than the pinned ones need.
fn slots_for(at: &At<'_>, engine: Option<EngineKind>, adapters: &[Adapter]) -> Option<NonZeroUsize> {
    if engine == Some(EngineKind::LlamaCpp) {
        return at.fail("must be left out for llamacpp: llama.cpp keeps all its adapters from the start");
    }
    let slots = at.whole()? as usize;
    let most = NonZeroUsize::new(slots)
        .or_else(|| at.expected("at least 1, or left out when adapters are registered at start"))?;
    let pinned = adapters.iter().filter(|adapter| adapter.pinned).count();
    if pinned > slots {
        return at.fail(format!("must be at least {pinned}, the number of pinned adapters, found {slots}"));
    }
    if pinned == slots && pinned < adapters.len() {
        at.warn("leaves no slot for the adapters that are not pinned");
    }
    Some(most)
}
