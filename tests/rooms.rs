//! The rooms that must stay pure import nothing that waits, locks, tells the time or knows the proxy.

use std::path::{Path, PathBuf};
use std::{fs, io};

const FORBIDDEN: [&str; 5] = ["tokio", "pingora", "Instant::now", "Mutex", "async"];

fn source_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(source_files(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

#[test]
fn the_scheduler_is_pure() {
    let files = source_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scheduler")).unwrap();
    assert!(files.len() > 20, "the scheduler's files are found: {files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Comments may say what the code does without.
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let found = FORBIDDEN.iter().find(|word| line.contains(**word));
            assert_eq!(found, None, "{}:{}: {line}", file.display(), at + 1);
        }
    }
}
