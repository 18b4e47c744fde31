//! What is wrong with a file, and where.

use std::cell::RefCell;
use std::fmt;

/// A position in the file; both count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One error or warning. Shown as `file:line:column: path: message`, without what it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file as the user named it.
    pub file: String,
    /// Where; `None` when the file as a whole is meant.
    pub place: Option<Place>,
    /// The node, as in `models[0].pools[1].name`; empty for the whole file.
    pub path: String,
    /// What is wrong, on one line.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:", self.file)?;
        if let Some(Place { line, column }) = self.place {
            write!(out, "{line}:{column}:")?;
        }
        if !self.path.is_empty() {
            write!(out, " {}:", self.path)?;
        }
        write!(out, " {}", self.message)
    }
}

/// Everything that is wrong with a file: at least one error, in the file's order. Shown one to a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<Finding>);

impl ConfigErrors {
    /// The errors, in the file's order.
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.0.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(out, "{end}{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Collects the findings about one file while its readers run.
#[derive(Debug)]
pub(crate) struct Report {
    file: String,
    errors: RefCell<Vec<Finding>>,
    warnings: RefCell<Vec<Finding>>,
}

impl Report {
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), errors: RefCell::default(), warnings: RefCell::default() }
    }

    pub(crate) fn error(&self, place: Option<Place>, path: &str, message: impl Into<String>) {
        self.errors.borrow_mut().push(self.finding(place, path, message.into()));
    }

    pub(crate) fn warning(&self, place: Option<Place>, path: &str, message: impl Into<String>) {
        self.warnings.borrow_mut().push(self.finding(place, path, message.into()));
    }

    /// The value and the warnings, or all errors.
    ///
    /// A missing value without an error would be a reader's mistake; it is told as an error rather than believed.
    pub(crate) fn conclude<T>(self, value: Option<T>) -> Result<(T, Vec<Finding>), ConfigErrors> {
        let mut errors = sorted(self.errors.into_inner());
        match value {
            Some(value) if errors.is_empty() => Ok((value, sorted(self.warnings.into_inner()))),
            None if errors.is_empty() => {
                let message = "cannot be read; please report this file as a bug".to_owned();
                errors.push(Finding { file: self.file, place: None, path: String::new(), message });
                Err(ConfigErrors(errors))
            }
            _ => Err(ConfigErrors(errors)),
        }
    }

    fn finding(&self, place: Option<Place>, path: &str, message: String) -> Finding {
        Finding { file: self.file.clone(), place, path: path.to_owned(), message }
    }
}

fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.place);
    findings
}

impl From<Finding> for ConfigErrors {
    fn from(finding: Finding) -> Self {
        Self(vec![finding])
    }
}
