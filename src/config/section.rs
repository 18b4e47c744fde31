//! Mappings with known keys: which are missing, which are unknown, and which were probably meant.

use super::at::{At, shown};
use super::finding::Place;
use super::raw::{Node, Value};
use std::collections::HashMap;

/// A key and its value.
pub(crate) struct Entry<'a> {
    /// The key as written.
    pub(crate) name: &'a str,
    /// Where the key stands.
    pub(crate) place: Place,
    /// The value.
    pub(crate) at: At<'a>,
}

impl Entry<'_> {
    /// Reports an error at the key.
    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Option<T> {
        self.at.report.error(Some(self.place), &self.at.path, message);
        None
    }
}

/// A mapping while its keys are read.
pub(crate) struct Section<'a> {
    at: At<'a>,
    entries: Vec<Entry<'a>>,
    known: Vec<&'static str>,
    missing: Vec<(&'static str, &'static str)>,
}

impl<'a> Section<'a> {
    /// Reads the value of an optional key; nothing (`key:`) counts as a value, so that a forgotten one is told.
    pub(crate) fn read<T>(&mut self, key: &'static str, read: impl FnOnce(&At<'a>) -> Option<T>) -> Option<T> {
        read(&self.find(key)?)
    }

    /// Reads the value of a key that must be there; `hint` says what to write.
    pub(crate) fn require<T>(
        &mut self,
        key: &'static str,
        hint: &'static str,
        read: impl FnOnce(&At<'a>) -> Option<T>,
    ) -> Option<T> {
        let found = self.find(key);
        if found.is_none() {
            self.missing.push((key, hint));
        }
        read(&found?)
    }

    /// The value of an optional key, for readers that need more than the value.
    pub(crate) fn find(&mut self, key: &'static str) -> Option<At<'a>> {
        self.known.push(key);
        self.entries.iter().find(|entry| entry.name == key).map(|entry| entry.at.clone())
    }

    /// The mapping itself.
    pub(crate) fn at(&self) -> &At<'a> {
        &self.at
    }

    /// Reports unknown keys, then those missing that no unknown key was meant to be.
    fn end(self) {
        let mut meant = Vec::new();
        for entry in self.entries.iter().filter(|entry| !self.known.contains(&entry.name)) {
            let near = nearest(entry.name, &self.known);
            meant.extend(near);
            entry.fail::<()>(format!("unknown key; {}", guess(near, &self.known)));
        }
        for (key, hint) in self.missing.iter().filter(|(key, _)| !meant.contains(key)) {
            let path = join(&self.at.path, key);
            self.at.report.error(Some(self.at.place()), &path, format!("is missing: write {hint}"));
        }
    }
}

impl<'a> At<'a> {
    /// Reads a mapping of known keys; all others are reported. Nothing (`key:` with no keys below) is an empty mapping.
    pub(crate) fn section<T>(&self, fill: impl FnOnce(&mut Section<'a>) -> T) -> Option<T> {
        let entries = self.entries()?;
        let mut section = Section { at: self.clone(), entries, known: Vec::new(), missing: Vec::new() };
        let filled = fill(&mut section);
        section.end();
        Some(filled)
    }

    /// The keys and values of a mapping. A key given twice is reported and counts once.
    pub(crate) fn entries(&self) -> Option<Vec<Entry<'a>>> {
        let pairs = match &self.node.value {
            Value::Map(pairs) => pairs.as_slice(),
            _ if self.node.is_null() => &[],
            _ => return self.expected("a mapping of keys to values"),
        };
        let mut lines = HashMap::new();
        let entry = |(key, node): &'a (Node, Node)| {
            let name = self.key(key)?;
            let at = At { node, path: join(&self.path, name), report: self.report };
            let entry = Entry { name, place: key.place, at };
            match lines.insert(name, key.place.line) {
                None => Some(entry),
                Some(line) => entry.fail(format!("is given twice, before in line {line}")),
            }
        };
        Some(pairs.iter().filter_map(entry).collect())
    }

    fn key(&self, key: &'a Node) -> Option<&'a str> {
        let at = At { node: key, path: self.path.clone(), report: self.report };
        match &key.value {
            Value::Scalar { text, plain: true } if text == "<<" => at.fail("merge keys (`<<`) are not supported"),
            Value::Scalar { text, .. } if !text.is_empty() => Some(text),
            _ => at.fail("a key must be text"),
        }
    }
}

/// How the value of `key` is reached.
fn join(path: &str, key: &str) -> String {
    let key = shown(key);
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// Ends the message about an unknown word: "did you mean `x`?" when one of `known` is near, else all of them.
pub(crate) fn suggest(word: &str, known: &[&str]) -> String {
    guess(nearest(word, known), known)
}

fn guess(near: Option<&str>, known: &[&str]) -> String {
    near.map_or_else(|| format!("known are {}", known.join(", ")), |near| format!("did you mean `{near}`?"))
}

/// The known word that differs by the fewest typing mistakes, at most a third of its letters.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let distance = |known: &&str| strsim::damerau_levenshtein(&plain(word), &plain(known));
    let (distance, near) = known.iter().map(|known| (distance(known), *known)).min_by_key(|(distance, _)| *distance)?;
    (distance <= (near.len() / 3).max(1)).then_some(near)
}
