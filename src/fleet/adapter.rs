//! A model's adapters as they are at one moment: those of the configuration's list and those found in its folder, with a
//! fingerprint of their files where these can be read here.
//!
//! Reads the disk, so never on the request path: when a fleet is built, and now and then by the watcher of the folders.

use crate::config::checked;
use serde::Deserialize;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use xxhash_rust::xxh3::Xxh3;

/// The file that makes a folder an adapter (PEFT's format, which vLLM reads).
const CONFIG_FILE: &str = "adapter_config.json";

/// A LoRA adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The name clients ask for.
    pub name: String,
    /// Where the engine finds it: a folder, a GGUF file (llama.cpp) or a hub id.
    pub path: PathBuf,
    /// Never evicted.
    pub pinned: bool,
    /// The operator's name for its weights.
    pub revision: Option<String>,
    /// What its files are like, where they can be read here.
    pub files: Option<Files>,
}

/// What can be told of an adapter's files without reading the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// A hash of the configuration file, and of the names, sizes and times of all files.
    pub fingerprint: u64,
    /// When the newest file was last written.
    pub modified: SystemTime,
    /// The rank, as the configuration file says.
    pub rank: Option<u32>,
}

impl Adapter {
    fn of(adapter: &checked::Adapter) -> Self {
        Self {
            name: adapter.name.clone(),
            path: adapter.path.clone(),
            pinned: adapter.pinned,
            revision: adapter.revision.clone(),
            files: Files::read(&adapter.path),
        }
    }
}

impl Files {
    /// `None` when `path` is no folder that holds an adapter, as seen from here.
    pub fn read(path: &Path) -> Option<Self> {
        #[derive(Deserialize)]
        struct Config {
            r: Option<u32>,
        }
        if !path.is_absolute() {
            return None;
        }
        let config = fs::read(path.join(CONFIG_FILE)).ok()?;
        let mut entries: Vec<_> = fs::read_dir(path).ok()?.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut hash = Xxh3::new();
        hash.update(&config);
        let mut modified = SystemTime::UNIX_EPOCH;
        for entry in entries {
            // Follows links: a model hub's cache is made of them.
            let Ok(metadata) = fs::metadata(entry.path()) else { continue };
            let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            hash.update(entry.file_name().as_encoded_bytes());
            hash.update(&metadata.len().to_le_bytes());
            let age = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            hash.update(&age.as_nanos().to_le_bytes());
            modified = modified.max(written);
        }
        let rank = serde_json::from_slice(&config).ok().and_then(|config: Config| config.r);
        Some(Self { fingerprint: hash.digest(), modified, rank })
    }
}

/// The adapters of each model now: its list, then what its folder holds under names that are still free.
pub fn of_models(config: &checked::Config) -> Vec<Vec<Adapter>> {
    let listed = |model: &checked::Model| model.adapters.iter().map(Adapter::of).collect::<Vec<_>>();
    let mut adapters: Vec<_> = config.models.iter().map(listed).collect();
    let mut taken: HashSet<String> = config.models.iter().flat_map(names_of).map(str::to_owned).collect();
    for (model, adapters) in config.models.iter().zip(&mut adapters) {
        for found in model.adapters_dir.iter().flat_map(|folder| in_folder(folder)) {
            if taken.insert(found.name.clone()) {
                adapters.push(found);
            } else {
                tracing::debug!(adapter = found.name, "its name is taken; the folder is left alone");
            }
        }
    }
    adapters
}

fn names_of(model: &checked::Model) -> impl Iterator<Item = &str> {
    let adapters = model.adapters.iter().map(|adapter| &adapter.name);
    std::iter::once(&model.name).chain(&model.aliases).chain(adapters).map(String::as_str)
}

/// Sub-folders with an adapter in them, by name. Hidden ones are somebody's temporary files.
fn in_folder(folder: &Path) -> Vec<Adapter> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = entries.flatten().filter_map(|entry| in_entry(&entry)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn in_entry(entry: &fs::DirEntry) -> Option<Adapter> {
    let name = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
    let path = entry.path();
    let files = Files::read(&path)?;
    Some(Adapter { name, path, pinned: false, revision: None, files: Some(files) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, config: &str) {
        let adapter = folder.join(name);
        fs::create_dir_all(&adapter).unwrap();
        fs::write(adapter.join(CONFIG_FILE), config).unwrap();
        fs::write(adapter.join("adapter_model.safetensors"), "weights").unwrap();
    }

    #[test]
    fn a_folder_with_a_configuration_is_an_adapter_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "sql", r#"{"r": 16}"#);
        write(folder.path(), ".sql.tmp", "{}");
        write(folder.path(), "taken", "{}");
        fs::create_dir(folder.path().join("notes")).unwrap();
        fs::write(folder.path().join("README"), "").unwrap();
        let text = format!(
            "models: [{{ name: taken, engine: vllm, max_loaded_adapters: 1, adapters_dir: {:?}, \
             pools: [{{ name: a, replicas: [{{ url: \"http://127.0.0.1:1\" }}] }}] }}]",
            folder.path()
        );
        let config = crate::config::Checked::parse(&text, "test.yaml").unwrap().config;
        let found = of_models(&config).remove(0);
        assert_eq!(found.iter().map(|adapter| adapter.name.as_str()).collect::<Vec<_>>(), ["sql"]);
        assert_eq!(found[0].files.and_then(|files| files.rank), Some(16));
    }

    #[test]
    fn new_weights_change_the_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "sql", "{}");
        let path = folder.path().join("sql");
        let before = Files::read(&path).unwrap();
        assert_eq!(Files::read(&path), Some(before));
        fs::write(path.join("adapter_model.safetensors"), "other weights").unwrap();
        assert_ne!(Files::read(&path).unwrap().fingerprint, before.fingerprint);
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(Files::read(&path), None);
    }
}
