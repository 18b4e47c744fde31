//! Which addresses a model's replicas have: the configured list, its host names resolved again and again.

use super::Model;
use super::Replica;
use async_trait::async_trait;
use pingora::lb::discovery::ServiceDiscovery;
use pingora::lb::{Backend, Extensions};
use pingora::protocols::l4::socket::SocketAddr;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The replicas of one model as backends; each carries its [`Replica`] along.
pub struct ConfiguredReplicas {
    model: Arc<Model>,
}

impl ConfiguredReplicas {
    /// Of this model.
    pub fn of(model: &Arc<Model>) -> Box<Self> {
        Box::new(Self { model: model.clone() })
    }
}

#[async_trait]
impl ServiceDiscovery for ConfiguredReplicas {
    /// Never fails: a host name that does not resolve keeps its last address, and has no backend if it never had one.
    async fn discover(&self) -> pingora::Result<(BTreeSet<Backend>, HashMap<u64, bool>)> {
        let mut backends = BTreeSet::new();
        for member in &self.model.members {
            resolve(&member.replica).await;
            backends.extend(backend(&member.replica));
        }
        Ok((backends, HashMap::new()))
    }
}

async fn resolve(replica: &Replica) {
    if replica.host.parse::<std::net::IpAddr>().is_ok() {
        return;
    }
    match tokio::net::lookup_host((replica.host.as_str(), replica.port)).await {
        Ok(mut addresses) => {
            // The current address stays while it is among the answers: DNS likes to rotate them.
            let first = addresses.next();
            let current =
                replica.address().filter(|current| Some(*current) == first || addresses.any(|a| a == *current));
            if let Some(address) = current.or(first) {
                replica.set_address(address);
            }
        }
        Err(error) => tracing::warn!(replica = %replica.name, %error, "host name does not resolve"),
    }
}

fn backend(replica: &Arc<Replica>) -> Option<Backend> {
    let mut ext = Extensions::new();
    ext.insert(replica.clone());
    Some(Backend { addr: SocketAddr::Inet(replica.address()?), weight: 1, ext })
}
