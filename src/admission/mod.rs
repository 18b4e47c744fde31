//! May a request enter now, or must it wait, and for how long?
//!
//! vLLM has no limit to its queue and gives no back-pressure: what is let in waits there, beyond our reach and in the order
//! of arrival. So the balancer lets in what the replicas can take ([`saturation`]) and keeps the rest in a bounded waiting
//! room of its own, where it can be ordered ([`queue`]: classes, tenants, deadlines) and where a client that leaves is gone
//! at once ([`room`]).

pub mod priority;
pub mod pump;
pub mod queue;
pub mod room;
pub mod saturation;

pub use priority::Class;
pub use room::{Permit, Room};
