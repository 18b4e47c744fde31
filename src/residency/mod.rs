//! Which adapters a replica holds.
