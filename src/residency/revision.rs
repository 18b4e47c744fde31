//! When do files under a known name count as new weights, and under which name do the engines get them?
//!
//! A reload under the same name would meet the prefix cache of the old weights in the engine, and running requests would
//! change weights midway. So new weights get a name of their own, `name@revision`, and the old name is drained.

use crate::fleet::adapter::{Adapter, Files};
use xxhash_rust::xxh3::xxh3_64;

/// Which weights of a name these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revision {
    /// The first ones that this process knows: the engines see the plain name.
    First,
    /// They replace others.
    Later,
}

/// Does `after` mean other weights than `before`? Files that cannot be read here, or no longer, are taken for unchanged:
/// the engines may see more than we do.
pub(super) fn is_new(before: &Adapter, after: &Adapter) -> bool {
    let fingerprint = |files: Option<Files>| files.map(|files| files.fingerprint);
    let rewritten = match (fingerprint(before.files), fingerprint(after.files)) {
        (Some(before), Some(after)) => before != after,
        _ => false,
    };
    before.name != after.name || before.path != after.path || before.revision != after.revision || rewritten
}

/// The name that the engines get to see; one that is not `taken`.
pub(super) fn wire_name(adapter: &Adapter, revision: Revision, taken: impl Fn(&str) -> bool) -> String {
    let base = match (&adapter.revision, revision) {
        (Some(revision), _) => format!("{}@{revision}", adapter.name),
        (None, Revision::First) => adapter.name.clone(),
        (None, Revision::Later) => format!("{}@{:08x}", adapter.name, identity(adapter) as u32),
    };
    // Weights that come back while their old copies still drain, or an operator's revision that was used for others.
    let mut wire = base.clone();
    for again in 2_u32.. {
        if !taken(&wire) {
            break;
        }
        wire = format!("{base}.{again}");
    }
    wire
}

/// Is this name on an engine's list one of ours: `name`, or `name@` and something?
pub(super) fn is_of(listed: &str, name: &str) -> bool {
    listed.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}

fn identity(adapter: &Adapter) -> u64 {
    let path = xxh3_64(adapter.path.as_os_str().as_encoded_bytes());
    path ^ adapter.files.map_or(0, |files| files.fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn adapter(path: &str, fingerprint: Option<u64>, revision: Option<&str>) -> Adapter {
        let files = fingerprint.map(|fingerprint| Files { fingerprint, modified: SystemTime::UNIX_EPOCH, rank: None });
        Adapter { name: "sql".into(), path: path.into(), pinned: false, revision: revision.map(str::to_owned), files }
    }

    #[test]
    fn other_files_another_path_or_another_revision_are_new_weights() {
        let base = adapter("/a", Some(1), None);
        for (after, new) in [
            (adapter("/a", Some(1), None), false),
            (adapter("/a", None, None), false),
            (adapter("/a", Some(2), None), true),
            (adapter("/b", Some(1), None), true),
            (adapter("/a", Some(1), Some("2")), true),
        ] {
            assert_eq!(is_new(&base, &after), new, "{after:?}");
        }
    }

    #[test]
    fn the_engines_see_the_plain_name_until_the_weights_change() {
        let first = adapter("/a", Some(1), None);
        assert_eq!(wire_name(&first, Revision::First, |_| false), "sql");
        let later = wire_name(&adapter("/a", Some(2), None), Revision::Later, |wire| wire == "sql");
        assert!(later.starts_with("sql@") && is_of(&later, "sql") && !is_of("sqlite", "sql"), "{later}");
        assert_eq!(wire_name(&adapter("/a", None, Some("7")), Revision::First, |_| false), "sql@7");
        assert_eq!(wire_name(&adapter("/a", None, Some("7")), Revision::Later, |wire| wire == "sql@7"), "sql@7.2");
    }
}
