//! A second handle of the connection to a replica, for the watchdog to shut down.
//!
//! Pingora gives the number of the socket and keeps the socket. The number alone is no good to anybody who looks later: by
//! then the socket may be closed and its number another connection's.

use socket2::Socket;
use std::os::fd::{BorrowedFd, RawFd};

/// Duplicates the socket. `None` when the process has no descriptor left; then only Pingora's own time-outs watch the call.
#[expect(unsafe_code, reason = "Pingora 0.9.1 tells a connection's descriptor only as a number")]
pub(super) fn second_handle(socket: RawFd) -> Option<Socket> {
    // SAFETY: called from `connected_to_upstream`, while Pingora holds the connection in the same task and cannot close it
    // before the callback has returned. The borrow ends here.
    let borrowed = (socket >= 0).then(|| unsafe { BorrowedFd::borrow_raw(socket) })?;
    borrowed.try_clone_to_owned().ok().map(Socket::from)
}
