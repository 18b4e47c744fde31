//! The README names every metric, every admin path, every endpoint and every failure code that the code has.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect("a file of the project")
}

/// The string literals of a source file that `wanted` takes.
fn literals(file: &str, wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let text = read(file);
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.split('"').skip(1).step_by(2).filter(|literal| wanted(literal)).map(str::to_owned).collect()
}

fn assert_in_readme(names: BTreeSet<String>, at_least: usize) {
    let readme = read("README.md");
    assert!(names.len() >= at_least, "the names are found: {names:?}");
    let missing: Vec<_> = names.iter().filter(|name| !readme.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "README.md does not name {missing:?}");
}

fn is_word(literal: &str) -> bool {
    !literal.is_empty() && literal.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[test]
fn the_readme_names_every_metric() {
    for (file, at_least) in [("src/telemetry/metrics.rs", 13), ("src/telemetry/residency.rs", 6)] {
        assert_in_readme(literals(file, |name| name.starts_with("pointsman_")), at_least);
    }
}

#[test]
fn the_readme_names_every_admin_path() {
    assert_in_readme(pointsman::admin::PATHS.iter().map(|path| (*path).to_owned()).collect(), 4);
}

/// Every path but the page's own files.
#[test]
fn the_api_file_has_every_admin_path_and_no_other() {
    let api = read("conf/admin-api.yaml");
    let paths = api.split_once("\npaths:\n").expect("paths").1.split_once("\ncomponents:\n").expect("components").0;
    let path =
        |line: &str| line.strip_prefix("  /").and_then(|rest| rest.strip_suffix(':')).map(|rest| format!("/{rest}"));
    let described: BTreeSet<_> = paths.lines().filter_map(path).collect();
    let named = |path: &&str| path.replace("NAME", "{name}").replace("VERB", "{verb}");
    assert_eq!(described, pointsman::admin::PATHS.iter().map(named).collect());
}

#[test]
fn the_readme_names_every_endpoint() {
    assert_in_readme(literals("src/request/endpoint.rs", |name| name.starts_with('/')), 13);
}

#[test]
fn the_readme_names_every_failure_code() {
    let text = read("src/gateway/error_response.rs");
    let code = text.split_once("pub fn code").and_then(|(_, rest)| rest.split_once("\n    }\n")).expect("the codes").0;
    let codes = code.split('"').skip(1).step_by(2).filter(|word| is_word(word)).map(str::to_owned).collect();
    assert_in_readme(codes, 14);
}
