//! The clients' connections: how many there may be, and how long each may take over a header.
//!
//! Pingora limits neither: its read time-out starts anew with every byte, so a client that sends one byte a minute would
//! hold a connection for ever. [`Guarded`] stands around Pingora's own application and lets go of a connection whose header
//! is late.

use crate::fleet::model::LiveFleet;
use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::apps::ServerApp;
use pingora::protocols::Stream;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::server::ShutdownWatch;
use std::collections::HashMap;
use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Parts of the table, so that workers seldom wait for each other.
const PARTS: usize = 16;

/// All connections of clients, by the client's address.
#[derive(Debug)]
pub struct Connections {
    parts: [Mutex<HashMap<std::net::SocketAddr, Arc<Progress>>>; PARTS],
    open: AtomicUsize,
    hasher: RandomState,
}

impl Default for Connections {
    fn default() -> Self {
        Self { parts: Default::default(), open: AtomicUsize::new(0), hasher: RandomState::new() }
    }
}

/// How far the request on a connection has come.
#[derive(Debug, Default)]
struct Progress {
    header_came: AtomicBool,
}

/// Whether a connection has served a request before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Age {
    New,
    Reused,
}

impl Connections {
    /// Connections open now.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The whole header of a request from this client has come.
    pub(super) fn header_came(&self, client: Option<&SocketAddr>) {
        let Some(SocketAddr::Inet(client)) = client else { return };
        if let Some(progress) = self.part(client).and_then(|part| part.lock().get(client).cloned()) {
            progress.header_came.store(true, Ordering::Relaxed);
        }
    }

    fn part(&self, client: &std::net::SocketAddr) -> Option<&Mutex<HashMap<std::net::SocketAddr, Arc<Progress>>>> {
        self.parts.get(self.hasher.hash_one(client) as usize % PARTS)
    }

    /// A connection, or the next request on it. `None` when there are `most` already.
    fn enter(self: &Arc<Self>, client: std::net::SocketAddr, most: usize) -> Option<(Place, Age)> {
        let progress = Arc::new(Progress::default());
        let before = self.part(&client)?.lock().insert(client, progress.clone());
        let age = if before.is_some() { Age::Reused } else { Age::New };
        let place = Place { connections: self.clone(), client, progress, stays: false };
        if age == Age::New && self.open.fetch_add(1, Ordering::Relaxed) >= most {
            return None;
        }
        Some((place, age))
    }
}

/// A connection's place in the table; given up by `Drop` unless it stays for the next request.
struct Place {
    connections: Arc<Connections>,
    client: std::net::SocketAddr,
    progress: Arc<Progress>,
    stays: bool,
}

impl Place {
    /// Ends when no header has come within `limit`; else never.
    async fn header_is_late(&self, limit: Duration) {
        tokio::time::sleep(limit).await;
        if self.progress.header_came.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.stays
            && self.connections.part(&self.client).and_then(|part| part.lock().remove(&self.client)).is_some()
        {
            self.connections.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// An application whose connections are limited.
pub struct Guarded<A> {
    app: Arc<A>,
    connections: Arc<Connections>,
    fleet: LiveFleet,
}

impl<A> Guarded<A> {
    /// Around `app`, by the limits of the running configuration.
    pub fn new(app: A, connections: Arc<Connections>, fleet: LiveFleet) -> Self {
        Self { app: Arc::new(app), connections, fleet }
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> ServerApp for Guarded<A> {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let (most, header, keepalive) = {
            let server = &self.fleet.load().config.server;
            (server.max_connections, server.header_timeout, server.keepalive)
        };
        let digest = stream.get_socket_digest();
        let Some(SocketAddr::Inet(client)) = digest.as_ref().and_then(|digest| digest.peer_addr()) else {
            return self.app.process_new(stream, shutdown).await;
        };
        let Some((mut place, age)) = self.connections.enter(*client, most) else {
            tracing::debug!(%client, most, "too many connections: closed");
            return None;
        };
        let limit = if age == Age::New { header } else { header + keepalive };
        let next = tokio::select! {
            biased;
            next = self.app.process_new(stream, shutdown) => next,
            () = place.header_is_late(limit) => {
                tracing::debug!(%client, "no whole header in time: closed");
                None
            }
        };
        place.stays = next.is_some();
        next
    }

    async fn cleanup(&self) {
        self.app.cleanup().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(port: u16) -> std::net::SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn connections_are_counted_once_however_many_requests_they_carry() {
        let connections = Arc::new(Connections::default());
        let (mut first, _) = connections.enter(client(1), 2).unwrap();
        first.stays = true;
        drop(first);
        let (again, age) = connections.enter(client(1), 2).unwrap();
        assert!(age == Age::Reused && connections.open() == 1);
        let _second = connections.enter(client(2), 2).unwrap();
        assert!(connections.enter(client(3), 2).is_none(), "too many");
        drop(again);
        assert_eq!(connections.open(), 1);
        assert!(connections.enter(client(3), 2).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_is_late_until_it_came() {
        let connections = Arc::new(Connections::default());
        let (place, _) = connections.enter(client(1), 2).unwrap();
        let limit = Duration::from_secs(10);
        place.header_is_late(limit).await;
        connections.header_came(Some(&SocketAddr::Inet(client(1))));
        assert!(tokio::time::timeout(limit * 5, place.header_is_late(limit)).await.is_err());
    }
}
