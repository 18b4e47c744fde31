//! Addresses: where replicas are (`http://host:port`) and where we listen (`ip:port`).

use super::at::At;
use super::checked::Replica;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address to listen on; port 0 lets the system choose one.
pub(crate) fn listen(at: &At<'_>) -> Option<SocketAddr> {
    let what = "an IP address and a port, such as 127.0.0.1:8080 or [::]:8080";
    let text = at.scalar(what)?;
    text.parse().ok().or_else(|| at.expected(what))
}

/// Can the two not be listened on at once? An unspecified address takes the port on all addresses of its family, and
/// `[::]` on those of IPv4 too.
pub(crate) fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |wide: SocketAddr, narrow: SocketAddr| {
        wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4() == wide.is_ipv4())
    };
    let same_ip = one.ip() == other.ip() || covers(one, other) || covers(other, one);
    one.port() == other.port() && one.port() != 0 && same_ip
}

/// The replica that a URL names, with weight 1. The URL is not repeated in errors: it could hold a password.
pub(crate) fn replica(at: &At<'_>) -> Option<Replica> {
    let text = at.scalar("a URL such as http://127.0.0.1:8000")?;
    let (host, port) =
        parse(text).map_err(|reason| at.fail::<()>(format!("must be http://host:port: {reason}"))).ok()?;
    Some(Replica { host, port, weight: 1.0 })
}

fn parse(url: &str) -> Result<(String, u16), &'static str> {
    let authority = authority(url)?;
    let (host, port) = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).ok_or("it has no port")?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port =
        port.parse().ok().filter(|port| digits && *port != 0).ok_or("its port is not a number from 1 to 65535")?;
    Ok((normal_host(host)?, port))
}

fn authority(url: &str) -> Result<&str, &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("it does not begin with http://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "http" => {}
        "https" => return Err("TLS to replicas is not supported"),
        _ => return Err("only the scheme http is supported"),
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at_checked(end).ok_or("it is not a URL")?;
    match tail {
        _ if authority.contains('@') => Err("it holds credentials, which are not supported"),
        "" | "/" => Ok(authority),
        _ if tail.contains('?') => Err("it has a query, which is not supported"),
        _ if tail.contains('#') => Err("it has a fragment, which is not supported"),
        _ => Err("it has a path, which is not supported: requests keep their own"),
    }
}

/// The host in one form, so that the same replica is not taken for two.
fn normal_host(host: &str) -> Result<String, &'static str> {
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let address = inner.parse::<Ipv6Addr>();
        return address.map(|address| address.to_string()).map_err(|_| "its host is not an IPv6 address");
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let digits = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    match host {
        "" => Err("it has no host"),
        _ if host.contains(':') => Err("an IPv6 address needs brackets, as in http://[::1]:8000"),
        _ if digits && host.parse::<Ipv4Addr>().is_err() => Err("its host is not an IPv4 address"),
        _ if host.chars().all(fits) && host.len() <= 253 => Ok(host.to_ascii_lowercase()),
        _ => Err("its host is not a host name"),
    }
}
