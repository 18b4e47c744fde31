//! Which replica answers a request. Pure: no I/O, no clock, no lock, no async; randomness comes in as an argument.

pub mod profile;

pub use profile::Profile;
