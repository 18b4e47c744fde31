//! What exists and how loaded it is: models, pools, replicas, their shared atomics, snapshots and leases.

pub mod snapshot;
