//! The least that Pingora can do: forward each request to the next backend. Same version and flags as Pointsman.

use async_trait::async_trait;
use pingora::prelude::*;
use pingora::server::configuration::ServerConf;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Bare {
    backends: Vec<std::net::SocketAddr>,
    turn: AtomicUsize,
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(HttpPeer::new(self.backends[turn % self.backends.len()], false, String::new())))
    }
}

/// Arguments: the address to listen on, then the backends. Serves until killed.
pub(crate) fn run(arguments: &[String]) {
    let backends = arguments[1..].iter().map(|address| address.parse().unwrap()).collect();
    let conf = ServerConf { threads: 1, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut proxy = http_proxy_service(&server.configuration, Bare { backends, turn: AtomicUsize::new(0) });
    proxy.add_tcp(&arguments[0]);
    server.add_service(proxy);
    server.run_forever();
}
