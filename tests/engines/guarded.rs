//! Processes that never outlive the test: each runs under `guard.py`, with its output in a file.
//!
//! When does a process end? When its [`Guarded`] is dropped, or when the test process is gone, even by SIGKILL: both close the
//! pipe that the guard reads, and the guard then kills the whole process group.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Lines of a log that a failed test shows.
const SHOWN: usize = 40;

/// A running command with all the processes that it started.
pub struct Guarded {
    guard: Child,
    name: String,
    log: PathBuf,
}

impl Guarded {
    /// Start `command` (its program, arguments and environment), with its output in a new file called after `name`.
    pub fn start(name: &str, command: &Command) -> Self {
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("engines");
        fs::create_dir_all(&logs).expect("a folder for logs");
        let log = logs.join(format!("{name}.log"));
        let output = File::create(&log).expect("a log");
        let guard = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engines/guard.py"))
            .arg(command.get_program())
            .args(command.get_args())
            .envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))))
            .stdin(Stdio::piped())
            .stdout(output.try_clone().expect("a second handle of the log"))
            .stderr(output)
            .process_group(0) // Ctrl-C must not reach the guard before its work is done
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start python3, which guards {name}: {error}"));
        Self { guard, name: name.to_owned(), log }
    }

    /// Whether the command ended by itself.
    pub fn ended(&mut self) -> bool {
        self.guard.try_wait().expect("the guard's state").is_some()
    }

    /// What the command wrote so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Kill all processes of the command, at once, and wait until they are gone.
    pub fn kill(&mut self) {
        drop(self.guard.stdin.take());
        self.guard.wait().expect("the guard's end");
    }

    /// Write the end of the log to standard error.
    pub fn show(&self) {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        let tail = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
        eprintln!("--- {} ({}):\n{tail}\n---", self.name, self.log.display());
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill();
    }
}
