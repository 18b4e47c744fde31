//! `pointsman check` as a user meets it: exit code, standard output, standard error.

#![allow(clippy::expect_used, reason = "a failed expectation fails the test")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs `pointsman check -c FILE` with this standard input.
fn check(file: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    command.args(["check", "-c", file]).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("is piped").write_all(input.as_bytes()).expect("takes its input");
    child.wait_with_output().expect("ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("prints UTF-8")
}

#[test]
fn a_good_file_is_summed_up() {
    let minimal = check("conf/minimal.yaml", "");
    assert_eq!((minimal.status.code(), text(&minimal.stderr)), (Some(0), ""));
    assert_eq!(text(&minimal.stdout), "ok: 1 model, 1 replica, 0 adapters\n");
    assert_eq!(text(&check("conf/pointsman.yaml", "").stdout), "ok: 1 model, 3 replicas, 2 adapters\n");
}

#[test]
fn all_errors_of_standard_input_are_told() {
    let bad = check("-", "retry: { attempts: many }\nlog: { levle: info }\n");
    assert_eq!((bad.status.code(), text(&bad.stdout)), (Some(1), ""));
    let expected = "\
<stdin>:1:1: models: is missing: write at least one model
<stdin>:1:20: retry.attempts: must be a whole number, 0 or more, found `many`
<stdin>:2:8: log.levle: unknown key; did you mean `level`?
";
    assert_eq!(text(&bad.stderr), expected);
}

#[test]
fn warnings_do_not_fail_the_check() {
    let models = "models: [{ name: q, engine: vllm, pools: [{ name: e, replicas: [{ url: 'http://h:1' }] }] }]";
    let unwise = check("-", &format!("timeouts: {{ upstream_idle: 6s }}\n{models}\n"));
    assert_eq!(unwise.status.code(), Some(0));
    assert!(text(&unwise.stderr).starts_with("warning: <stdin>:1:28: timeouts.upstream_idle: should be below 5s"));
}
