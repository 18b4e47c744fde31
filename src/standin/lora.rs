//! The adapters of a stand-in: which are registered (what `/v1/models` lists) and which the engine holds in memory
//! (least recently used ones leave). The two differ, as in vLLM: unloading only forgets the name.
//!
//! Reads adapter folders when told to ([`AdapterFiles::OnDisk`]); never writes.

use super::clock;
use super::options::{AdapterFiles, Options, StartAdapter};
use super::reply::Refusal;
use super::seats::Name;
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// A registered adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Adapter {
    pub(super) name: Name,
    pub(super) path: Arc<str>,
    /// Seconds since the epoch.
    pub(super) created: u64,
}

/// What a load does to an adapter of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDuplicate {
    Refuse,
    Replace,
}

/// How the engine finds an adapter that a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// In memory.
    Resident,
    /// It had been evicted and is read again.
    Reloaded,
    /// It had been evicted and its files are gone: the engine dies of it.
    Gone,
}

#[derive(Debug)]
pub(super) struct Adapters {
    base: String,
    max_cpu_loras: usize,
    max_rank: u64,
    files: AdapterFiles,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    registered: Vec<Adapter>,
    /// Least recently used first.
    resident: Vec<Name>,
    loads: u64,
    unloads: u64,
    most_registered: usize,
}

impl Adapters {
    /// The adapters of the options, registered without a look at their files.
    pub(super) fn new(options: &Options) -> Self {
        let adapters = Self {
            base: options.model.clone(),
            max_cpu_loras: options.max_cpu_loras.max(1),
            max_rank: options.max_lora_rank,
            files: options.adapter_files,
            state: Mutex::default(),
        };
        for StartAdapter { name, path } in &options.adapters {
            adapters.register(name, path);
        }
        adapters
    }

    /// Whether a load may start.
    pub(super) fn check(&self, name: &str, path: &str, on_duplicate: OnDuplicate) -> Result<(), Refusal> {
        self.check_name(name, path, on_duplicate)?;
        if self.needs_files(path) { self.check_files(name, path) } else { Ok(()) }
    }

    fn check_name(&self, name: &str, path: &str, on_duplicate: OnDuplicate) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::new(StatusCode::BAD_REQUEST, "InvalidUserInput", message));
        if name.is_empty() || path.is_empty() {
            return refuse("Both 'lora_name' and 'lora_path' must be provided.".into());
        }
        if name == self.base {
            return refuse(format!("The lora adapter '{name}' conflicts with a served base model."));
        }
        if on_duplicate == OnDuplicate::Refuse && self.find(name).is_some() {
            return refuse(format!(
                "The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True."
            ));
        }
        Ok(())
    }

    fn needs_files(&self, path: &str) -> bool {
        self.files == AdapterFiles::OnDisk && !path.starts_with("standin:")
    }

    fn check_files(&self, name: &str, path: &str) -> Result<(), Refusal> {
        let Some(rank) = rank_on_disk(path) else {
            // vLLM hides absolute paths in its answer.
            let shown = if path.starts_with('/') { "<path>" } else { path };
            let message = format!("Loading lora {name} failed: No adapter found for {shown}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "NotFoundError", message));
        };
        if rank > self.max_rank {
            let message = format!(
                "Call to add_lora method failed: Worker failed with error 'LoRA rank {rank} is greater than max_lora_rank {}.', please check the stack trace above for the root cause",
                self.max_rank
            );
            return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message));
        }
        Ok(())
    }

    /// Register an adapter that was checked; one of the same name is replaced.
    pub(super) fn register(&self, name: &str, path: &str) {
        let adapter = Adapter { name: name.into(), path: path.into(), created: clock::unix_whole_seconds() };
        let mut state = self.state.lock();
        state.loads += 1;
        state.make_resident(&adapter.name, self.max_cpu_loras);
        match state.registered.iter_mut().find(|known| known.name == adapter.name) {
            Some(known) => *known = adapter,
            None => state.registered.push(adapter),
        }
        state.most_registered = state.most_registered.max(state.registered.len());
    }

    /// Forget a name. What the engine holds of it stays in memory until it is evicted.
    pub(super) fn unload(&self, name: &str) -> Result<(), Refusal> {
        let mut state = self.state.lock();
        let before = state.registered.len();
        state.registered.retain(|known| &*known.name != name);
        if state.registered.len() == before {
            let message = format!("The lora adapter '{name}' cannot be found.");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "NotFoundError", message));
        }
        state.unloads += 1;
        Ok(())
    }

    pub(super) fn find(&self, name: &str) -> Option<Adapter> {
        self.state.lock().registered.iter().find(|known| &*known.name == name).cloned()
    }

    /// Bring an adapter that is about to run into memory.
    pub(super) fn touch(&self, adapter: &Adapter) -> Presence {
        let mut state = self.state.lock();
        let resident = state.resident.contains(&adapter.name);
        if !resident && self.needs_files(&adapter.path) && rank_on_disk(&adapter.path).is_none() {
            return Presence::Gone;
        }
        state.make_resident(&adapter.name, self.max_cpu_loras);
        if resident { Presence::Resident } else { Presence::Reloaded }
    }

    pub(super) fn registered(&self) -> Vec<Adapter> {
        self.state.lock().registered.clone()
    }

    /// Forget everything.
    pub(super) fn lose(&self) {
        let mut state = self.state.lock();
        state.registered.clear();
        state.resident.clear();
    }

    /// Most adapters registered at once since the start.
    pub(super) fn most_registered(&self) -> usize {
        self.state.lock().most_registered
    }

    /// Loads and unloads since the start.
    pub(super) fn moves(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.loads, state.unloads)
    }
}

impl State {
    fn make_resident(&mut self, name: &Name, limit: usize) {
        self.resident.retain(|known| known != name);
        self.resident.push(Arc::clone(name));
        if self.resident.len() > limit {
            self.resident.remove(0);
        }
    }
}

/// The rank that `adapter_config.json` tells, 0 if it tells none; `None` without such a file.
fn rank_on_disk(path: &str) -> Option<u64> {
    let text = std::fs::read(Path::new(path).join("adapter_config.json")).ok()?;
    let config: Value = serde_json::from_slice(&text).ok()?;
    Some(config.get("r").and_then(Value::as_u64).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapters(max_cpu_loras: usize, files: AdapterFiles) -> Adapters {
        Adapters::new(&Options { max_cpu_loras, adapter_files: files, ..Options::fast() })
    }

    #[test]
    fn the_least_recently_used_adapter_is_read_again() {
        let adapters = adapters(2, AdapterFiles::Imagined);
        for name in ["a", "b", "c"] {
            adapters.register(name, "/none");
        }
        let presence = |name| adapters.touch(&adapters.find(name).expect("registered"));
        assert_eq!([presence("c"), presence("a"), presence("c")], {
            [Presence::Resident, Presence::Reloaded, Presence::Resident]
        });
    }

    #[test]
    fn a_path_of_the_stand_ins_own_scheme_needs_no_files() {
        let adapters = adapters(2, AdapterFiles::OnDisk);
        assert_eq!(adapters.check("x", "standin:x", OnDuplicate::Refuse), Ok(()));
        let refusal = adapters.check("x", "/no/such/folder", OnDuplicate::Refuse).expect_err("no files");
        assert_eq!(refusal.status, StatusCode::NOT_FOUND);
    }
}
