//! Health, readiness, status and metrics, on a listener of their own.
