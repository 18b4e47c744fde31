//! What happens to one request, phase by phase. The only room that knows Pingora's `ProxyHttp`.
//!
//! `accept` reads the body and finds out whom it is for; `admit` lets it in or makes it wait; `dispatch` asks the scheduler and `adapter` claims what it needs; `upstream_request` writes what the
//! engine sees; `answer` looks at what comes back; `explain` keeps why it went there; `retry` judges what failed; `error_response` words it.

mod accept;
mod adapter;
mod admit;
mod answer;
pub mod buffered;
pub mod connections;
mod context;
mod dispatch;
pub mod error_response;
mod explain;
mod models_list;
mod replay_session;
mod request_body;
mod request_id;
mod respond;
mod retry;
mod service;
mod upstream_request;
mod upstream_socket;
mod while_connected;

use crate::engine::client::Client;
use crate::fleet::draining::Draining;
use crate::fleet::model::LiveFleet;
use crate::telemetry::Telemetry;
use buffered::Buffered;
use connections::Connections;
use std::sync::Arc;

/// The data path.
pub struct Gateway {
    fleet: LiveFleet,
    engines: Client,
    telemetry: Arc<Telemetry>,
    draining: Draining,
    buffered: Buffered,
    connections: Arc<Connections>,
}

impl Gateway {
    /// Over this fleet.
    pub fn new(
        fleet: LiveFleet,
        engines: Client,
        telemetry: Arc<Telemetry>,
        draining: Draining,
        connections: Arc<Connections>,
    ) -> Self {
        Self { fleet, engines, telemetry, draining, buffered: Buffered::default(), connections }
    }
}
