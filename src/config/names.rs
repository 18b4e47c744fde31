//! The names clients ask for. Models, aliases and adapters share one name space, so each is given once in the whole file.

use super::at::{At, shown};
use std::collections::HashMap;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Model,
    Alias,
    Adapter,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Role::Model => "a model",
            Role::Alias => "an alias",
            Role::Adapter => "an adapter",
        }
    }
}

/// All names given so far.
#[derive(Default)]
pub(crate) struct Names<'a> {
    owners: HashMap<&'a str, Owner<'a>>,
    /// Some name could not be read, so a reference to an unknown name may well be right.
    pub(crate) incomplete: bool,
}

struct Owner<'a> {
    role: Role,
    /// Position of the model in the file.
    model: usize,
    at: At<'a>,
}

impl<'a> Names<'a> {
    /// Reads a name and gives it to a model, unless another has it.
    pub(crate) fn claim(&mut self, at: &At<'a>, role: Role, model: usize) -> Option<String> {
        let Some(name) = name(at) else {
            self.incomplete = true;
            return None;
        };
        if let Some(owner) = self.owners.get(name) {
            let (name, word, line) = (shown(name), owner.role.word(), owner.at.line());
            return at.fail(format!("`{name}` is the name of {} already (line {line})", word));
        }
        self.owners.insert(name, Owner { role, model, at: at.clone() });
        Some(name.to_owned())
    }

    /// The model (by position) that a model's name or an alias stands for.
    pub(crate) fn model(&self, name: &str) -> Option<usize> {
        self.owners.get(name).filter(|owner| owner.role != Role::Adapter).map(|owner| owner.model)
    }

    /// All names of models and aliases, sorted.
    pub(crate) fn models(&self) -> Vec<&'a str> {
        let models = self.owners.iter().filter(|(_, owner)| owner.role != Role::Adapter);
        let mut names: Vec<_> = models.map(|(name, _)| *name).collect();
        names.sort_unstable();
        names
    }

    /// Reports names that can also be read as `model:adapter`.
    pub(crate) fn refuse_ambiguous(&self) {
        for (name, owner) in &self.owners {
            if let Some((model, adapter)) = name.match_indices(':').find_map(|(colon, _)| self.pair(name, colon)) {
                let (model, adapter) = (shown(model), shown(adapter));
                owner.at.fail::<()>(format!("can also be read as adapter `{adapter}` of model `{model}`"));
            }
        }
    }

    /// The model and the adapter that the parts before and after a colon name, if they belong together.
    fn pair(&self, name: &'a str, colon: usize) -> Option<(&'a str, &'a str)> {
        let (model, adapter) = (name.get(..colon)?, name.get(colon + 1..)?);
        let owner = self.owners.get(adapter).filter(|owner| owner.role == Role::Adapter)?;
        (self.model(model)? == owner.model).then_some((model, adapter))
    }
}

/// Text that fits into a header, a metric and a log line, and looks like what it is.
pub(crate) fn name<'a>(at: &At<'a>) -> Option<&'a str> {
    let text = at.text()?;
    let fits = text.trim() == text && !text.contains(char::is_control) && text.chars().count() <= 256;
    at.hold(text, fits, "a name of at most 256 characters without control characters and outer blanks")
}
