//! `conf/` is documentation that cannot be wrong: it loads, shows every key and shows the true defaults.

use super::warnings;
use crate::config::Config;
use crate::config::checked::Admission;
use crate::config::finding::Report;
use crate::config::load::read_root;
use crate::config::raw::{self, Node, Value};
use std::collections::{BTreeMap, BTreeSet};

const FULL: &str = include_str!("../../../conf/pointsman.yaml");
const MINIMAL: &str = include_str!("../../../conf/minimal.yaml");

/// A key that nobody knows and that is near to none.
const STRANGER: &str = "zzzzzzzzzz";

/// Keys of each section, by the path of the section.
type Keys = BTreeMap<String, BTreeSet<String>>;

fn tree(text: &str) -> Node {
    raw::parse(text, &Report::new("x.yaml")).expect("YAML")
}

/// `models[0].pools[1]` to `models[].pools[]`: one section stands for its like.
fn without_indexes(path: &str) -> String {
    path.replace(|c: char| c.is_ascii_digit(), "")
}

/// Puts the stranger into each mapping.
fn add_stranger(node: &mut Node) {
    match &mut node.value {
        Value::Scalar { .. } => {}
        Value::List(items) => items.iter_mut().for_each(add_stranger),
        Value::Map(entries) => {
            entries.iter_mut().for_each(|(_, value)| add_stranger(value));
            let Value::Map(stranger) = tree(&format!("{STRANGER}: 1")).value else { unreachable!("a mapping") };
            entries.extend(stranger);
        }
    }
}

/// The keys that each section knows, as it tells when it meets a stranger.
fn known_keys() -> Keys {
    let mut root = tree(FULL);
    add_stranger(&mut root);
    let report = Report::new("x.yaml");
    let config = read_root(&root, &report);
    let errors = report.conclude(config).expect_err("strangers");
    let mut keys = Keys::new();
    for finding in errors.findings() {
        let section = finding.path.trim_end_matches(STRANGER).trim_end_matches('.');
        let Some(known) = finding.message.strip_prefix("unknown key; known are ") else { continue };
        keys.insert(without_indexes(section), known.split(", ").map(str::to_owned).collect());
    }
    keys
}

/// The keys that a file shows.
fn shown_keys(node: &Node, path: &str, keys: &mut Keys) {
    match &node.value {
        Value::Scalar { .. } => {}
        Value::List(items) => items.iter().for_each(|item| shown_keys(item, &format!("{path}[]"), keys)),
        Value::Map(entries) => {
            for (key, value) in entries {
                let Value::Scalar { text, .. } = &key.value else { unreachable!("a key is text") };
                keys.entry(path.to_owned()).or_default().insert(text.clone());
                shown_keys(value, format!("{path}.{text}").trim_start_matches('.'), keys);
            }
        }
    }
}

#[test]
fn the_full_file_shows_every_key_and_no_other() {
    let mut shown = Keys::new();
    shown_keys(&tree(FULL), "", &mut shown);
    // These mappings have names for keys, not words of ours.
    shown.retain(|path, _| path != "profiles" && !path.ends_with("scorers[]"));
    let known = known_keys();
    assert_eq!(shown, known);
    assert!(known.len() >= 12, "{known:?}");
}

#[test]
fn the_full_file_shows_the_defaults() {
    let full = Config::parse(FULL, "x.yaml").expect("loads");
    let minimal = Config::parse(MINIMAL, "x.yaml").expect("loads");
    assert_eq!(full.server, minimal.server);
    assert_eq!(full.thresholds, minimal.thresholds);
    assert_eq!(full.timeouts, minimal.timeouts);
    assert_eq!(full.health, minimal.health);
    assert_eq!(full.retry, minimal.retry);
    let admission = Admission { tenants: Vec::new(), ..full.admission.clone() };
    assert_eq!(admission, minimal.admission);
    assert_eq!(full.log, minimal.log);
    let (full, minimal) = (&full.models[0], &minimal.models[0]);
    assert_eq!(full.profile, minimal.profile);
    assert_eq!(full.pools[0].priority, minimal.pools[0].priority);
    assert_eq!(full.pools[0].replicas[0], minimal.pools[0].replicas[0]);
    assert_eq!((minimal.max_loaded_adapters, minimal.adapters.len(), minimal.aliases.len()), (None, 0, 0));
}

#[test]
fn the_files_give_no_warning() {
    assert_eq!(warnings(FULL), "");
    assert_eq!(warnings(MINIMAL), "");
}

#[test]
fn every_key_of_the_full_file_is_commented() {
    let bare =
        FULL.lines().filter(|line| !line.trim_start().starts_with('#') && line.contains(": ") && !line.contains('#'));
    let examples: Vec<_> = bare.filter(|line| !line.trim_start().starts_with("- {")).collect();
    assert_eq!(examples, ["default_model: qwen", "    max_loaded_adapters: 2"], "their comments stand above them");
}

/// The shape that users were promised.
#[test]
fn the_promised_shape_is_accepted() {
    let text = r#"
server: { listen: ["0.0.0.0:8080"], admin_listen: "127.0.0.1:9090", threads: auto, max_body: 32MiB }
scheduler: { target_waiting: 4, target_inflight: 8, kv_ceiling: 0.9, session_load_factor: 1.25 }
profiles:
  mine: { filters: [breaker-open, pool-priority, adapter-affinity], scorers: [{ queue: 2 }, { session: 3 }, { prefix: 2 }], picker: p2c }
models:
  - name: qwen
    engine: vllm                # vllm | llamacpp
    profile: chat               # chat | batch | long-context | debug | one of profiles
    aliases: [gpt-4o-mini]
    max_loaded_adapters: 2      # absent: adapters are registered at the engine's start
    adapters: [{ name: sql, path: /srv/adapters/sql }, { name: legal, path: /srv/adapters/legal, pinned: true }]
    pools:
      - { name: edge, priority: 0, replicas: [{ url: "http://127.0.0.1:8001" }, { url: "http://127.0.0.1:8002", weight: 2 }] }
      - { name: overflow, priority: 1, replicas: [{ url: "http://127.0.0.1:8003" }] }
"#;
    let promised = Config::parse(text, "x.yaml").expect("is accepted");
    // What the full file shows beyond that shape.
    let mut full = Config { default_model: None, ..Config::parse(FULL, "x.yaml").expect("loads") };
    full.admission.tenants = Vec::new();
    full.models[0].adapters_dir = None;
    full.models[0].adapters[0].revision = None;
    assert_eq!(promised, full);
}
