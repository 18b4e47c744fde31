//! The listener and the connections of a stand-in: accept, serve HTTP/1.1, refuse, reset, and end.
//!
//! When is a life over? When [`serve`] returns: the listener is closed and every connection gone.

use super::engine_core::{Core, Phase};
use super::misbehave::Misbehaviour;
use super::options::Dialect;
use super::reply::Body;
use super::route;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// How long a connection may take to end by itself once the stand-in stops.
const GRACE: Duration = Duration::from_secs(1);

/// How long listening again is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause after an accept or a listen that failed.
const RETRY: Duration = Duration::from_millis(10);

/// Room for bursts of connections that were not accepted yet.
const BACKLOG: i32 = 1_024;

/// One connection, as a request sees it.
#[derive(Debug, Default)]
pub(super) struct Wire {
    cut: Notify,
}

impl Wire {
    /// Reset the connection, after what was written so far.
    pub(super) fn cut(&self) {
        self.cut.notify_one();
    }
}

/// A socket that owns its port but does not listen: connecting to it is refused, and nobody else is given the port.
pub(super) fn reserve(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Listen on a port that [`reserve`] holds.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = reserve(address)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

/// Listen again on a port that [`reserve`] holds. A client's own end may have the number for a moment, so it is tried for
/// a while.
pub(super) async fn listen_again(address: SocketAddr) -> io::Result<TcpListener> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match listen(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                tokio::time::sleep(RETRY).await;
            }
            outcome => return outcome,
        }
    }
}

/// Stop listening at once, even while a process that is just being spawned still has a copy of the socket.
fn close(listener: TcpListener) {
    // Fails only where it does not listen any more.
    let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
    drop(listener);
}

/// Serve until the life ends.
pub(super) async fn serve(core: Arc<Core>, first: TcpListener, address: SocketAddr) {
    let mut connections = JoinSet::new();
    let mut next = Ok(first);
    let mut phase = core.phase.subscribe();
    // An error would mean that the port was taken in spite of the reservation: then it stays refused.
    while let Ok(listener) = next {
        accept(&core, &listener, &mut connections, &mut phase).await;
        close(listener);
        core.while_refusing(&mut phase).await;
        if *phase.borrow() != Phase::Serving {
            break;
        }
        next = listen_again(address).await;
    }
    // A life that is neither stopped nor killed lasts, listening or not.
    let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
    connections.join_all().await;
}

/// Accept until told to refuse, or until the life ends.
async fn accept(
    core: &Arc<Core>,
    listener: &TcpListener,
    connections: &mut JoinSet<()>,
    phase: &mut watch::Receiver<Phase>,
) {
    let mut misbehaviour = core.misbehaviour.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = misbehaviour.wait_for(|now| *now == Misbehaviour::Refuse) => return,
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => drop(connections.spawn(connection(Arc::clone(core), stream))),
            // Out of file descriptors, most likely: give the open connections time to end.
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

impl Core {
    async fn while_refusing(&self, phase: &mut watch::Receiver<Phase>) {
        tokio::select! {
            () = self.while_it(|now| *now == Misbehaviour::Refuse) => {}
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => {}
        }
    }
}

/// How a connection ended.
enum Parting {
    ByItself,
    Reset,
}

async fn connection(core: Arc<Core>, stream: TcpStream) {
    let _open = Open::count(&core);
    if core.misbehaves() == Misbehaviour::ResetOnAccept {
        reset(stream);
        return;
    }
    // Fails only where the peer has already gone.
    let _ = stream.set_nodelay(true);
    let wire = Arc::new(Wire::default());
    let service = {
        let (core, wire) = (Arc::clone(&core), Arc::clone(&wire));
        service_fn(move |request| route::answer(Arc::clone(&core), Arc::clone(&wire), request))
    };
    let mut http = builder(&core).serve_connection(TokioIo::new(stream), service);
    if let Parting::Reset = until_parting(&core, &wire, &mut http).await {
        reset(http.into_parts().io.into_inner());
    }
}

fn builder(core: &Core) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(core.options.keep_alive)
        .title_case_headers(core.options.dialect == Dialect::LlamaCpp);
    builder
}

/// Serve one connection until it ends. It is polled before the cut is looked at, so that what was said before a reset is
/// written.
async fn until_parting<S>(core: &Core, wire: &Wire, http: &mut http1::Connection<TokioIo<TcpStream>, S>) -> Parting
where
    S: HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut phase = core.phase.subscribe();
    let phase_now = tokio::select! {
        biased;
        _ = &mut *http => return Parting::ByItself,
        () = wire.cut.notified() => return Parting::Reset,
        changed = phase.wait_for(|phase| *phase != Phase::Serving) => changed.map_or(Phase::Killed, |phase| *phase),
    };
    if phase_now == Phase::Killed {
        return Parting::Reset;
    }
    Pin::new(&mut *http).graceful_shutdown();
    tokio::select! {
        biased;
        _ = &mut *http => Parting::ByItself,
        _ = phase.wait_for(|phase| *phase == Phase::Killed) => Parting::Reset,
        () = tokio::time::sleep(GRACE) => Parting::Reset,
    }
}

/// Close with RST instead of FIN.
fn reset(stream: TcpStream) {
    // Fails only where the peer has already gone.
    let _ = stream.set_zero_linger();
    drop(stream);
}

/// An open connection, counted until dropped.
struct Open<'a>(&'a AtomicU64);

impl<'a> Open<'a> {
    fn count(core: &'a Core) -> Self {
        core.counters.connections.fetch_add(1, Ordering::Relaxed);
        core.counters.open_connections.fetch_add(1, Ordering::Relaxed);
        Self(&core.counters.open_connections)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
