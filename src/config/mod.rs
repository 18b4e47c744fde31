//! YAML to a checked configuration: `raw` is what was written, `checked` what it means.
//!
//! One pass reads the tree of `raw` into the types of [`checked`]. A reader that cannot make sense of its node reports why,
//! with line, column and path, and gives `None`; its neighbours go on. So one run tells all that is wrong with a file.
//! A reader never gives `None` without a report, and a configuration exists only when nothing was reported.

mod address;
mod at;
pub mod checked;
pub mod diff;
mod finding;
mod load;
mod models;
mod names;
mod profiles;
mod raw;
mod section;
mod settings;
#[cfg(test)]
mod tests;
mod units;

pub use checked::Config;
pub use finding::{ConfigErrors, Finding, Place};
pub use load::Checked;
