//! The profiles of the file, built from the scheduler's parts, beside the built-in ones.

use super::at::{At, shown};
use super::section::{Entry, suggest};
use crate::scheduler::Profile;
use crate::scheduler::filter::Filter;
use crate::scheduler::picker::Picker;
use crate::scheduler::scorer::Scorer;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a profile without `filters` uses: what the built-in ones for traffic use.
const DEFAULT_FILTERS: &[&str] = &["breaker-open", "pool-priority", "adapter-affinity"];

/// What a profile without `picker` uses.
const DEFAULT_PICKER: &str = "p2c";

/// Profiles by name.
pub(crate) struct Profiles {
    pub(crate) known: BTreeMap<String, Arc<Profile>>,
    /// Given in the file, with errors that were reported there.
    broken: BTreeSet<String>,
}

impl Profiles {
    pub(crate) fn builtin() -> Self {
        let named = |profile: Profile| (profile.name.to_string(), Arc::new(profile));
        Self { known: Profile::builtin().into_iter().map(named).collect(), broken: BTreeSet::new() }
    }

    /// Adds the profiles of the file.
    pub(crate) fn read(&mut self, at: &At<'_>) -> Option<()> {
        for entry in at.entries()? {
            match profile(&entry) {
                Some(profile) => drop(self.known.insert(entry.name.to_owned(), Arc::new(profile))),
                None => drop(self.broken.insert(entry.name.to_owned())),
            }
        }
        Some(())
    }

    /// The profile that a node names.
    pub(crate) fn find(&self, at: &At<'_>) -> Option<Arc<Profile>> {
        let name = at.text()?;
        if self.broken.contains(name) {
            return None;
        }
        let names: Vec<_> = self.known.keys().map(String::as_str).collect();
        let unknown = || at.fail(format!("unknown profile `{}`; {}", shown(name), suggest(name, &names)));
        self.known.get(name).cloned().or_else(unknown)
    }
}

fn profile(entry: &Entry<'_>) -> Option<Profile> {
    let name = profile_name(entry);
    let (filters, scorers, picker) = entry.at.section(|s| {
        let filters = s.read("filters", filters).unwrap_or_else(default_filters);
        let scorers = s.require("scorers", "a list such as [{ queue: 2 }, { session: 3 }], or []", scorers);
        let picker = s.read("picker", picker).or_else(|| Picker::from_name(DEFAULT_PICKER));
        (filters, scorers, picker)
    })?;
    Some(Profile { name: name?.into(), filters, scorers: scorers?, picker: picker? })
}

/// The name must fit into the header that asks for it and not hide a built-in profile.
fn profile_name<'a>(entry: &Entry<'a>) -> Option<&'a str> {
    let name = entry.name;
    if Profile::builtin().iter().any(|profile| &*profile.name == name) {
        return entry.fail(format!("`{name}` is a built-in profile: choose another name"));
    }
    let fits = name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Some(name) } else { entry.fail("a profile's name is at most 64 ASCII characters without blanks") }
}

fn default_filters() -> Vec<Filter> {
    DEFAULT_FILTERS.iter().filter_map(|name| Filter::from_name(name)).collect()
}

fn filters(at: &At<'_>) -> Option<Vec<Filter>> {
    let mut seen = Vec::new();
    at.each(|at| {
        let filter = part("filter", at.text()?, Filter::from_name, Filter::NAMES).map_err(|m| at.fail::<()>(m)).ok()?;
        if seen.contains(&filter) {
            return at.fail("is given twice");
        }
        seen.push(filter);
        Some(filter)
    })
}

fn scorers(at: &At<'_>) -> Option<Vec<(Scorer, f64)>> {
    let mut seen = Vec::new();
    at.each(|at| {
        let (scorer, weight) = scorer(&at)?;
        if seen.contains(&scorer) {
            return at.fail("is given twice: add the weights up");
        }
        seen.push(scorer);
        Some((scorer, weight))
    })
}

/// `{ name: weight }`, with both its name and its weight checked.
fn scorer(at: &At<'_>) -> Option<(Scorer, f64)> {
    let entries = at.entries()?;
    let [entry] = entries.as_slice() else { return at.fail("must be one scorer and its weight, such as { queue: 2 }") };
    let scorer = part("scorer", entry.name, Scorer::from_name, Scorer::NAMES).map_err(|m| entry.fail::<()>(m)).ok();
    let weight = above_zero(&entry.at);
    scorer.zip(weight)
}

fn picker(at: &At<'_>) -> Option<Picker> {
    part("picker", at.text()?, Picker::from_name, Picker::NAMES).map_err(|message| at.fail::<()>(message)).ok()
}

/// A finite number above 0.
pub(crate) fn above_zero(at: &At<'_>) -> Option<f64> {
    let number = at.number()?;
    at.hold(number, number > 0.0, "above 0")
}

/// The part of a name, or what is wrong with the name.
fn part<T>(kind: &str, text: &str, from_name: impl Fn(&str) -> Option<T>, names: &[&str]) -> Result<T, String> {
    from_name(text).ok_or_else(|| {
        let (name, argument) = text.split_once('(').map_or((text, false), |(name, _)| (name, true));
        match argument && names.contains(&name) {
            true => format!("`{}` has an argument that the {kind} does not take", shown(text)),
            false => format!("unknown {kind} `{}`; {}", shown(text), suggest(name, names)),
        }
    })
}
