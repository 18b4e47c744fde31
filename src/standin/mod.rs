//! A stand-in engine for tests, demo and benches: it speaks the API recorded of vLLM 0.32.0 (and llama.cpp's, on request),
//! generates nothing of meaning, says in each answer that it is a stand-in, and misbehaves on order.
//!
//! What it decides: who waits and who runs ([`Options`] gives the limits), when each token is due, which adapters are
//! there. What it never does: proxy, or read anything but its adapters' folders. Many live in one process, each on a
//! port of its own.
//!
//! When is a request over? For the seats when its last token is due or its client has left; for [`StandIn::requests`]
//! when its last byte was handed to the connection.

mod adapter_routes;
mod answer;
mod ask;
mod chat;
mod clock;
mod completion;
mod engine_core;
mod generate;
mod generation;
mod journal;
mod llamacpp;
mod llamacpp_chat;
mod lora;
mod messages;
mod metrics;
mod misbehave;
mod options;
mod pooling;
mod reply;
mod responses;
mod route;
mod seats;
mod server;
mod stats;

pub use journal::{Ending, Received};
pub use misbehave::Misbehaviour;
pub use options::{AdapterFiles, Dialect, HeadSent, Options, StartAdapter};
pub use stats::Stats;

use engine_core::{Core, Phase};
use journal::Journal;
use parking_lot::Mutex;
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A running stand-in. Dropping it resets its connections and ends it.
#[derive(Debug)]
pub struct StandIn {
    options: Arc<Options>,
    address: SocketAddr,
    journal: Arc<Journal>,
    life: Mutex<Life>,
    /// Keeps the port ours while the listener is closed.
    _reservation: Socket,
}

/// From a start to a stop, a kill or a death.
#[derive(Debug)]
struct Life {
    core: Arc<Core>,
    server: Option<JoinHandle<()>>,
}

impl Life {
    fn begin(options: &Arc<Options>, journal: &Arc<Journal>, listener: TcpListener, address: SocketAddr) -> Self {
        let core = Core::new(Arc::clone(options), Arc::clone(journal));
        let server = tokio::spawn(server::serve(Arc::clone(&core), listener, address));
        Self { core, server: Some(server) }
    }
}

impl StandIn {
    /// Start on the current Tokio runtime.
    ///
    /// # Errors
    /// The port is taken or not allowed.
    #[expect(clippy::unused_async, reason = "it needs a Tokio runtime, which an async function makes plain")]
    pub async fn start(mut options: Options) -> io::Result<Self> {
        if options.dialect == Dialect::LlamaCpp {
            // llama.cpp does not batch requests with different adapters.
            options.max_loras = 1;
        }
        let reservation = server::reserve(SocketAddr::new(options.host, options.port))?;
        let address = reservation.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let journal = Arc::new(Journal::new(options.journal));
        let options = Arc::new(options);
        let life = Life::begin(&options, &journal, server::listen(address)?, address);
        Ok(Self { options, address, journal, life: Mutex::new(life), _reservation: reservation })
    }

    /// Where it listens; the same after a restart.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://` and the address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The name that its answers give.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Switch to a misbehaviour; it replaces the last one.
    pub fn misbehave(&self, misbehaviour: Misbehaviour) {
        self.core().misbehave(misbehaviour);
    }

    /// Counts of the present life.
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }

    /// The last requests, oldest first, over all lives.
    pub fn requests(&self) -> Vec<Received> {
        self.journal.requests()
    }

    /// End as on SIGTERM: streams end with finish_reason "abort", idle connections close, then new ones are refused.
    pub async fn stop(&self) {
        self.end(Phase::Stopping).await;
    }

    /// End as on SIGKILL: the listener closes and every connection is reset.
    pub async fn kill(&self) {
        self.end(Phase::Killed).await;
    }

    /// Kill it if it lives, then start again on the same port: nothing is left of the old life but the request log.
    ///
    /// # Errors
    /// The port cannot be listened on.
    pub async fn restart(&self) -> io::Result<()> {
        self.kill().await;
        let listener = server::listen_again(self.address).await?;
        *self.life.lock() = Life::begin(&self.options, &self.journal, listener, self.address);
        Ok(())
    }

    /// Wait until it is gone, by a stop, a kill or its engine's death.
    pub async fn gone(&self) {
        let mut phase: watch::Receiver<Phase> = self.core().phase.subscribe();
        // An error would mean that the life is gone already.
        let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
    }

    fn core(&self) -> Arc<Core> {
        Arc::clone(&self.life.lock().core)
    }

    async fn end(&self, phase: Phase) {
        let server = {
            let mut life = self.life.lock();
            life.core.phase.send_replace(phase);
            life.server.take()
        };
        if let Some(server) = server {
            // An error would mean that the server panicked: it is gone either way.
            let _ = server.await;
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.life.get_mut().core.phase.send_replace(Phase::Killed);
    }
}
