//! Whether the clients' listeners accept connections yet: the services of a process start side by side, and readiness told
//! before the gateway listens would be a lie.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpStream;

/// The clients' listeners.
#[derive(Debug)]
pub struct Doors {
    addresses: Vec<SocketAddr>,
    open: AtomicBool,
}

impl Doors {
    /// At these addresses.
    pub fn new(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, open: AtomicBool::new(false) }
    }

    /// Do they all accept connections? Once they did they do.
    pub(super) async fn are_open(&self) -> bool {
        if self.open.load(Ordering::Relaxed) {
            return true;
        }
        for address in &self.addresses {
            if TcpStream::connect(reachable(*address)).await.is_err() {
                return false;
            }
        }
        self.open.store(true, Ordering::Relaxed);
        true
    }
}

/// An address of this machine under which a listener on any address is found.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn doors_are_open_once_something_listens() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let doors = Doors::new(vec![address]);
        assert!(!doors.are_open().await);
        let _listener = std::net::TcpListener::bind(address).unwrap();
        assert!(doors.are_open().await);
    }
}
