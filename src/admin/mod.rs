//! Health, readiness, status and metrics, on a listener of their own.

mod adapters;
mod decisions;
mod doors;
mod page;
mod reload;
mod replicas;
mod status;

use crate::fleet::clock::{now, now_ms};
use crate::fleet::draining::Draining;
use crate::fleet::model::LiveFleet;
use crate::fleet::reload::Reloader;
use crate::fleet::snapshot::BreakerView;
use crate::gateway::connections::Connections;
use crate::telemetry::Telemetry;
use crate::telemetry::decisions::Wanted;
use async_trait::async_trait;
pub use doors::Doors;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Response, StatusCode};
use pingora::apps::http_app::ServeHttp;
use pingora::protocols::http::ServerSession;
use serde_json::{Value, json};
use std::sync::Arc;

/// The operator's listener, and all that it shows and turns.
pub struct Admin {
    /// What runs.
    pub fleet: LiveFleet,
    /// The counters.
    pub telemetry: Arc<Telemetry>,
    /// Whether the process is about to end.
    pub draining: Draining,
    /// Takes new configurations.
    pub reloader: Arc<Reloader>,
    /// The clients.
    pub connections: Arc<Connections>,
    /// Where they come in.
    pub doors: Doors,
}

impl Admin {
    async fn answer(&self, method: &http::Method, path: &str, query: Option<&str>) -> Response<Vec<u8>> {
        let order: Option<&(dyn Fn() -> (StatusCode, Value) + Sync)> = match path.split('/').nth(1) {
            Some("reload") if path == "/reload" => Some(&|| reload::order(&self.reloader, query)),
            Some("adapters") => Some(&|| adapters::order(&self.fleet.load(), path.trim_start_matches("/adapters/"))),
            Some("replicas") => Some(&|| replicas::order(&self.fleet.load(), path.trim_start_matches("/replicas/"))),
            _ => None,
        };
        if let Some(order) = order {
            return match *method {
                http::Method::POST => json_answer(order()),
                _ => text(StatusCode::METHOD_NOT_ALLOWED, "this path takes POST\n"),
            };
        }
        if !matches!(*method, http::Method::GET | http::Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "this path takes GET\n");
        }
        match path {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" if self.doors.are_open().await && self.is_ready() => text(StatusCode::OK, "ready\n"),
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "no usable replica\n"),
            "/status" => json_answer((StatusCode::OK, self.status())),
            "/openapi.yaml" => {
                respond(StatusCode::OK, "application/yaml", include_str!("../../conf/admin-api.yaml").into())
            }
            "/live" => json_answer((StatusCode::OK, self.live())),
            "/decisions" => match decisions::list(&self.telemetry.decisions, query) {
                Ok(list) => json_answer((StatusCode::OK, list)),
                Err(why) => text(StatusCode::BAD_REQUEST, &format!("{why}\n")),
            },
            "/metrics" => self.metrics(),
            path => page::file(path).unwrap_or_else(|| json_answer((StatusCode::NOT_FOUND, json!({ "paths": PATHS })))),
        }
    }

    fn status(&self) -> Value {
        let mut status = status::of(&self.fleet.load());
        if let Some(fields) = status.as_object_mut() {
            fields.insert("config".to_owned(), reload::state(&self.reloader.state()));
        }
        status
    }

    /// All that the page shows, in one answer.
    fn live(&self) -> Value {
        let decisions = &self.telemetry.decisions;
        json!({
            "ready": self.is_ready(),
            "connections": self.connections.open(),
            "recent": self.telemetry.recent.json(now().as_secs()),
            "status": self.status(),
            "decisions": decisions.lines(Wanted { model: None, limit: LIVE_DECISIONS }),
            "trouble": decisions.failures(LIVE_FAILURES),
        })
    }

    fn is_ready(&self) -> bool {
        let now = now_ms();
        !self.draining.is_on()
            && self.fleet.load().members().any(|(_, member)| member.replica.breaker_view(now) != BreakerView::Tripped)
    }

    fn metrics(&self) -> Response<Vec<u8>> {
        match self.telemetry.metrics.text(&self.fleet.load(), self.connections.open()) {
            Ok(body) => respond(StatusCode::OK, prometheus::TEXT_FORMAT, body),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }
}

/// How much of the ring the page shows.
const LIVE_DECISIONS: usize = 10;
const LIVE_FAILURES: usize = 6;

/// What can be asked for.
pub const PATHS: [&str; 11] = [
    "/",
    "/live",
    "/healthz",
    "/readyz",
    "/status",
    "/decisions",
    "/metrics",
    "/openapi.yaml",
    "/adapters/NAME/VERB",
    "/replicas/NAME/VERB",
    "/reload",
];

#[async_trait]
impl ServeHttp for Admin {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let header = session.req_header();
        self.answer(&header.method, header.uri.path(), header.uri.query()).await
    }
}

fn json_answer((status, value): (StatusCode, Value)) -> Response<Vec<u8>> {
    respond(status, "application/json", value.to_string().into())
}

fn text(status: StatusCode, body: &str) -> Response<Vec<u8>> {
    respond(status, "text/plain; charset=utf-8", body.as_bytes().to_vec())
}

fn respond(status: StatusCode, content_type: &str, body: Vec<u8>) -> Response<Vec<u8>> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let length = response.body().len();
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, length.into());
    if let Ok(content_type) = content_type.parse() {
        headers.insert(CONTENT_TYPE, content_type);
    }
    response
}
