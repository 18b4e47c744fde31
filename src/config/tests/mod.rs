//! Tests of the room as a whole: bad files, the files of `conf/`, and text of any kind.

mod any_text;
mod bad_files;
mod bad_models;
mod conf_files;
mod good_files;

use super::{Checked, Place};

/// A model that passes all checks, for files whose errors are elsewhere.
const MODELS: &str =
    "models: [{ name: qwen, engine: vllm, pools: [{ name: edge, replicas: [{ url: 'http://h:1' }] }] }]\n";

/// Marks the place of the error in the text of a bad file.
const MARK: char = '§';

/// Takes the mark out and gives its place.
fn unmark(marked: &str) -> (String, Place) {
    let (before, after) = marked.split_once(MARK).expect("a bad file marks its error");
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.rsplit('\n').next().expect("split gives one part").chars().count();
    (format!("{before}{after}"), Place { line, column })
}

/// The errors of a text, one a line.
fn errors(text: &str) -> String {
    Checked::parse(text, "x.yaml").expect_err(text).to_string()
}

/// The warnings of a text, one a line.
fn warnings(text: &str) -> String {
    let warnings = Checked::parse(text, "x.yaml").unwrap_or_else(|errors| panic!("{errors}\n{text}")).warnings;
    warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The text has exactly one error, at its mark.
fn assert_one_error(marked: &str, expected: &str) {
    let (text, Place { line, column }) = unmark(marked);
    assert_eq!(errors(&text), format!("x.yaml:{line}:{column}: {expected}"), "{marked}");
}
