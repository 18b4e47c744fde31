use crate::config::Checked;
use proptest::prelude::*;

const FULL: &str = include_str!("../../../conf/pointsman.yaml");

/// What YAML and our readers treat in a special way.
const SPICE: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    ":",
    ": ",
    "- ",
    "? ",
    ",",
    "#",
    "&a ",
    "*a",
    "!!str ",
    "<<: *a",
    "|\n",
    ">-\n",
    "'",
    "\"",
    "\n",
    "\r",
    "\t",
    "%",
    "@",
    "`",
    "---\n",
    "...\n",
    "\u{0}",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "é",
    "😀",
    "~",
    "null",
    "-1",
    "0",
    ".nan",
    "1e999",
    "99999999999999999999",
    "http://",
    "(",
    ")",
    "\\x",
    "\"\\ud800\"",
    "\"\\x1b\"",
    "  ",
    "\n    ",
    "%TAG ! x:\n",
    "%YAML 1.2\n",
];

/// Fails unless the text is either accepted or refused with errors that have a place inside of it.
fn check(text: &str) -> Result<(), TestCaseError> {
    if let Err(errors) = Checked::parse(text, "x.yaml") {
        prop_assert!(!errors.findings().is_empty());
        for finding in errors.findings() {
            let place = finding.place.expect("an error in a text has a place");
            prop_assert!(place.line <= 2 + text.matches(['\n', '\r']).count(), "{finding}");
            prop_assert_eq!(finding.to_string().lines().count(), 1);
        }
    }
    Ok(())
}

fn cut(text: &str, at: prop::sample::Index) -> usize {
    let mut at = at.index(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        check(&text)?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        Checked::read(bytes.as_slice(), "x.yaml").ok();
    }

    #[test]
    fn pieces_of_yaml_never_panic(pieces in prop::collection::vec(prop::sample::select(SPICE), 0..40)) {
        check(&pieces.concat())?;
    }

    #[test]
    fn a_mutated_file_never_panics(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, prop::sample::select(SPICE)), 1..6)
    ) {
        let mut text = FULL.to_owned();
        for (at, removed, added) in edits {
            let start = cut(&text, at);
            let end = text.char_indices().map(|(end, _)| end).find(|end| *end >= start + removed).unwrap_or(text.len());
            text.replace_range(start..end, added);
        }
        check(&text)?;
    }

    #[test]
    fn swapped_lines_never_panic(one in any::<prop::sample::Index>(), other in any::<prop::sample::Index>()) {
        let mut lines: Vec<_> = FULL.lines().collect();
        let (one, other) = (one.index(lines.len()), other.index(lines.len()));
        lines.swap(one, other);
        check(&lines.join("\n"))?;
    }
}
