//! YAML to a checked configuration: `raw` is what was written, `checked` what it means.

pub mod checked;

pub use checked::Config;
