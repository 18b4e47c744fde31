//! The rooms that must stay pure import nothing that waits, locks, tells the time or knows the proxy.

use std::fs;
use std::path::{Path, PathBuf};

const FORBIDDEN: [&str; 5] = ["tokio", "pingora", "Instant::now", "Mutex", "async"];

fn source_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { source_files(&path) } else { vec![path] }).collect()
}

#[test]
fn the_scheduler_is_pure() {
    let files = source_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scheduler"));
    assert!(files.len() > 20, "the scheduler's files are found: {files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let found = FORBIDDEN.iter().find(|word| line.contains(**word));
            assert_eq!(found, None, "{}:{}: {line}", file.display(), at + 1);
        }
    }
}
