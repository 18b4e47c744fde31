//! One try on a replica from its sending to its last byte: when bytes last came, and how to break it off from outside.
//!
//! Pingora knows one time-out for every read of an upstream. Here each call has its own clocks, and a watchdog looks at
//! them; what it breaks off surfaces in the request's own task as a closed connection, and [`Call::broken`] says why.

use super::Replica;
use super::clock::now_ms;
use parking_lot::Mutex;
use socket2::Socket;
use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Why a call was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// No byte of the answer's body came in time.
    FirstByte,
    /// The answer paused for too long.
    BetweenBytes,
    /// The whole answer took too long.
    Total,
    /// The replica hangs.
    Stalled,
}

const REASONS: [Broken; 4] = [Broken::FirstByte, Broken::BetweenBytes, Broken::Total, Broken::Stalled];

/// Limits of one call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// To the first byte of the answer's body.
    pub first_byte: Duration,
    /// Between two of its bytes.
    pub between_bytes: Duration,
    /// To its last byte; `None` without a limit.
    pub total: Option<Duration>,
}

/// One call under way.
#[derive(Debug)]
pub struct Call {
    limits: Limits,
    started_ms: u64,
    /// 0 until the first byte.
    last_byte_ms: AtomicU64,
    /// Position in [`REASONS`] and 1; 0 while whole.
    broken: AtomicU8,
    socket: Mutex<Option<Socket>>,
}

impl Call {
    fn new(limits: Limits) -> Self {
        let (last_byte_ms, broken, socket) = (AtomicU64::new(0), AtomicU8::new(0), Mutex::new(None));
        Self { limits, started_ms: now_ms(), last_byte_ms, broken, socket }
    }

    /// It runs over this connection now: a second handle of it, so that it can be shut down from outside. If the call was
    /// broken off before, it is shut down at once.
    pub fn runs_over(&self, socket: Socket) {
        let mut place = self.socket.lock();
        if self.broken().is_some() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        *place = Some(socket);
    }

    /// Why it was broken off, if it was.
    pub fn broken(&self) -> Option<Broken> {
        let reason = usize::from(self.broken.load(Ordering::Acquire)).checked_sub(1)?;
        REASONS.get(reason).copied()
    }

    /// Break it off. The first reason stays.
    pub fn break_off(&self, reason: Broken) {
        let number = REASONS.iter().position(|known| *known == reason).map_or(0, |at| at as u8 + 1);
        let socket = self.socket.lock();
        if self.broken.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            && let Some(socket) = &*socket
        {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn byte_passed(&self, now_ms: u64) {
        self.last_byte_ms.store(now_ms, Ordering::Relaxed);
    }

    /// The limit that it is over at `now_ms`.
    pub fn overdue(&self, now_ms: u64) -> Option<Broken> {
        let over = |since: u64, limit: Duration| u128::from(now_ms.saturating_sub(since)) > limit.as_millis();
        match self.last_byte_ms.load(Ordering::Relaxed) {
            _ if self.limits.total.is_some_and(|limit| over(self.started_ms, limit)) => Some(Broken::Total),
            0 if over(self.started_ms, self.limits.first_byte) => Some(Broken::FirstByte),
            last if last > 0 && over(last, self.limits.between_bytes) => Some(Broken::BetweenBytes),
            _ => None,
        }
    }
}

/// The calls under way on one replica.
#[derive(Debug, Default)]
pub struct Calls {
    running: Mutex<HashMap<u64, Arc<Call>>>,
    next: AtomicU64,
}

impl Calls {
    /// All of them now.
    pub fn running(&self) -> Vec<Arc<Call>> {
        self.running.lock().values().cloned().collect()
    }

    /// None is under way.
    pub fn is_empty(&self) -> bool {
        self.running.lock().is_empty()
    }
}

/// A call and its place on the replica; ends by `Drop`.
#[derive(Debug)]
pub struct InCall {
    replica: Arc<Replica>,
    number: u64,
    call: Arc<Call>,
}

impl InCall {
    /// A call to `replica` begins.
    pub fn begin(replica: &Arc<Replica>, limits: Limits) -> Self {
        let call = Arc::new(Call::new(limits));
        let number = replica.calls.next.fetch_add(1, Ordering::Relaxed);
        let mut running = replica.calls.running.lock();
        if running.is_empty() {
            // A replica that had nothing to do did not hang.
            replica.progressed(now_ms());
        }
        running.insert(number, call.clone());
        drop(running);
        Self { replica: replica.clone(), number, call }
    }

    /// The call.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// A byte of the answer's body came.
    pub fn byte_passed(&self) {
        let now = now_ms();
        self.call.byte_passed(now);
        self.replica.progressed(now);
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        self.replica.calls.running.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    const LIMITS: Limits = Limits {
        first_byte: Duration::from_millis(300),
        between_bytes: Duration::from_millis(100),
        total: Some(Duration::from_millis(1_000)),
    };

    #[test]
    fn each_limit_has_its_own_clock() {
        let call = Call::new(LIMITS);
        let at = |ms: u64| call.started_ms + ms;
        assert_eq!((call.overdue(at(300)), call.overdue(at(301))), (None, Some(Broken::FirstByte)));
        call.byte_passed(at(250));
        assert_eq!((call.overdue(at(350)), call.overdue(at(351))), (None, Some(Broken::BetweenBytes)));
        call.byte_passed(at(1_000));
        assert_eq!((call.overdue(at(1_000)), call.overdue(at(1_001))), (None, Some(Broken::Total)));
    }

    #[test]
    fn a_call_that_is_broken_off_closes_its_connection_for_the_first_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let call = Call::new(LIMITS);
        call.runs_over(Socket::from(ours.try_clone().unwrap()));
        call.break_off(Broken::Stalled);
        call.break_off(Broken::Total);
        assert_eq!(call.broken(), Some(Broken::Stalled));
        assert_eq!(ours.read(&mut [0]).unwrap(), 0, "closed");
    }

    #[test]
    fn a_call_broken_off_before_it_had_a_connection_closes_it_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let call = Call::new(LIMITS);
        call.break_off(Broken::FirstByte);
        call.runs_over(Socket::from(ours.try_clone().unwrap()));
        assert_eq!(ours.read(&mut [0]).unwrap(), 0, "closed");
    }
}
