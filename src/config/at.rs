//! A node with its path and the report: what every reader is given. Reads scalars and lists; mappings are `section`'s.

use super::finding::{Place, Report};
use super::raw::{Node, Value};
use std::fmt::Display;

/// A node, how it is reached, and where to report what is wrong with it.
#[derive(Clone)]
pub(crate) struct At<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: String,
    pub(crate) report: &'a Report,
}

impl<'a> At<'a> {
    pub(crate) fn place(&self) -> Place {
        self.node.place
    }

    pub(crate) fn line(&self) -> usize {
        self.node.place.line
    }

    /// Reports an error here.
    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Option<T> {
        self.report.error(Some(self.place()), &self.path, message);
        None
    }

    /// Reports a warning here.
    pub(crate) fn warn(&self, message: impl Into<String>) {
        self.report.warning(Some(self.place()), &self.path, message);
    }

    /// Reports that something else was wanted: `what` follows "must be".
    pub(crate) fn expected<T>(&self, what: impl Display) -> Option<T> {
        self.fail(format!("must be {what}, found {}", self.found()))
    }

    /// The value, if it keeps the rule; `rule` follows "must be".
    pub(crate) fn hold<T>(&self, value: T, kept: bool, rule: &str) -> Option<T> {
        if kept { Some(value) } else { self.expected(rule) }
    }

    /// Any scalar that is not null, whatever it would mean.
    pub(crate) fn scalar(&self, what: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Scalar { text, .. } if !self.node.is_null() => Some(text),
            _ => self.expected(what),
        }
    }

    /// Text that is not empty. What YAML takes for a number, a flag or nothing needs quotes to be text.
    pub(crate) fn text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Scalar { text, plain: true } if is_flag(text) || number(text).is_some() => {
                self.fail(format!("must be text, found `{text}`: write \"{text}\" if you mean it"))
            }
            Value::Scalar { text, .. } if !text.is_empty() && !self.node.is_null() => Some(text),
            _ => self.expected("text"),
        }
    }

    /// A finite number.
    pub(crate) fn number(&self) -> Option<f64> {
        match &self.node.value {
            Value::Scalar { text, plain: true } if number(text).is_some_and(f64::is_finite) => number(text),
            _ => self.expected("a finite number"),
        }
    }

    /// A whole number, not negative.
    pub(crate) fn whole(&self) -> Option<u32> {
        match &self.node.value {
            Value::Scalar { text, plain: true } if text.parse::<u32>().is_ok() => text.parse().ok(),
            _ => self.expected("a whole number, 0 or more"),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self) -> Option<bool> {
        match &self.node.value {
            Value::Scalar { text, plain: true } if is_flag(text) => Some(text.eq_ignore_ascii_case("true")),
            _ => self.expected("true or false"),
        }
    }

    /// One of the named choices.
    pub(crate) fn choice<T: Clone>(&self, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        let text = self.scalar(&names.join(" or "))?;
        let chosen = choices.iter().find(|(name, _)| *name == text);
        chosen.map(|(_, choice)| choice.clone()).or_else(|| self.expected(names.join(" or ")))
    }

    /// Reads each item of a list. Nothing (`key:` with no items below) is an empty list.
    pub(crate) fn each<T>(&self, read: impl FnMut(At<'a>) -> Option<T>) -> Option<Vec<T>> {
        let items = match &self.node.value {
            Value::List(items) => items.as_slice(),
            _ if self.node.is_null() => &[],
            _ => return self.expected("a list"),
        };
        let place = |(index, node)| At { node, path: format!("{}[{index}]", self.path), report: self.report };
        let read: Vec<_> = items.iter().enumerate().map(place).map(read).collect();
        read.into_iter().collect()
    }

    /// Like [`At::each`], but an empty list is an error.
    pub(crate) fn each_of_some<T>(&self, read: impl FnMut(At<'a>) -> Option<T>) -> Option<Vec<T>> {
        let read = self.each(read)?;
        if read.is_empty() { self.fail("must not be empty") } else { Some(read) }
    }

    /// The node in a few words, safe to print to a terminal.
    fn found(&self) -> String {
        match &self.node.value {
            _ if self.node.is_null() => "nothing".to_owned(),
            Value::Scalar { text, plain: true } if number(text).is_some() => text.clone(),
            Value::Scalar { text, plain: true } => format!("`{}`", shown(text)),
            Value::Scalar { text, plain: false } => format!("the text \"{}\"", shown(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Text from the file, cut to 60 characters and without control characters.
pub(crate) fn shown(text: &str) -> String {
    let end = text.char_indices().nth(60).map(|(end, _)| end);
    let cut = end.and_then(|end| text.get(..end)).unwrap_or(text);
    let dots = if end.is_some() { "…" } else { "" };
    let safe = |c: char| if matches!(c, '\'' | '"') { c.to_string() } else { c.escape_debug().to_string() };
    cut.chars().map(safe).chain([dots.to_owned()]).collect()
}

fn is_flag(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
}

/// What YAML takes for a number; `.inf` and `.nan` are numbers, `inf` and `nan` are words.
fn number(text: &str) -> Option<f64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    match unsigned.to_ascii_lowercase().as_str() {
        ".inf" => Some(f64::INFINITY),
        ".nan" => Some(f64::NAN),
        _ if unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') => text.parse().ok(),
        _ => None,
    }
}
