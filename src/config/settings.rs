//! The sections that hold plain values: server, scheduler, timeouts, health, admission, retry, log, explain.

use super::address::{clash, listen};
use super::at::At;
use super::checked::{Admission, Explain, Health, Log, LogFormat, Retry, Server, Tenant, Timeouts};
use super::profiles::above_zero;
use super::raw::Value;
use super::section::Section;
use super::units::{duration, duration_or_zero, size};
use crate::admission::Class;
use crate::scheduler::profile::Thresholds;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

/// vLLM and llama.cpp close a connection that was idle for this long.
const ENGINE_KEEPALIVE: Duration = Duration::from_secs(5);

/// A breaker's rest doubles up to this.
const LONGEST_TRIP: Duration = Duration::from_secs(30);

/// More threads than any edge node has CPUs.
const MOST_THREADS: u32 = 1024;

/// More tries than any sensible fleet has replicas to try.
const MOST_RETRIES: u32 = 10;

pub(crate) fn server(at: &At<'_>) -> Option<Server> {
    let default = Server::default();
    at.section(|s| {
        let listen = s.read("listen", addresses);
        let admin_listen = s.read("admin_listen", self::listen).unwrap_or(default.admin_listen);
        refuse_clashes(s, listen.as_deref(), admin_listen);
        Server {
            listen: listen.map_or(default.listen, |listen| listen.into_iter().map(|(_, address)| address).collect()),
            admin_listen,
            threads: s.read("threads", threads).unwrap_or(default.threads),
            max_body: s.read("max_body", size).unwrap_or(default.max_body),
            max_buffered: s.read("max_buffered", size).unwrap_or(default.max_buffered),
            max_connections: s.read("max_connections", at_least_1).unwrap_or(default.max_connections),
            header_timeout: s.read("header_timeout", duration).unwrap_or(default.header_timeout),
            keepalive: s.read("keepalive", duration).unwrap_or(default.keepalive),
            body_timeout: s.read("body_timeout", duration).unwrap_or(default.body_timeout),
            drain_timeout: s.read("drain_timeout", duration_or_zero).unwrap_or(default.drain_timeout),
        }
    })
}

/// One address or a list of them.
fn addresses<'a>(at: &At<'a>) -> Option<Vec<(At<'a>, SocketAddr)>> {
    let one = |at: At<'a>| listen(&at).map(|address| (at, address));
    match at.node.value {
        Value::Scalar { .. } if !at.node.is_null() => Some(vec![one(at.clone())?]),
        _ => at.each_of_some(one),
    }
}

/// Reports each client address that cannot be had beside the admin's or an earlier one.
fn refuse_clashes(s: &Section<'_>, listen: Option<&[(At<'_>, SocketAddr)]>, admin: SocketAddr) {
    let default = Server::default().listen;
    if listen.is_none() && default.iter().any(|address| clash(*address, admin)) {
        s.at().fail::<()>(format!("admin_listen {admin} clashes with the default of listen"));
    }
    let mut taken = vec![(admin, "server.admin_listen")];
    for (at, address) in listen.unwrap_or_default() {
        if let Some((other, whose)) = taken.iter().find(|(other, _)| clash(*address, *other)) {
            at.fail::<()>(format!("{address} clashes with {other}, {whose}"));
        }
        taken.push((*address, "another of server.listen"));
    }
}

fn threads(at: &At<'_>) -> Option<NonZeroUsize> {
    let what = format!("auto or a whole number from 1 to {MOST_THREADS}");
    let text = at.scalar(&what)?;
    if text == "auto" {
        return Some(Server::default().threads);
    }
    let threads = text.parse::<u32>().ok().filter(|threads| *threads <= MOST_THREADS);
    threads.and_then(|threads| NonZeroUsize::new(threads as usize)).or_else(|| at.expected(what))
}

pub(crate) fn thresholds(at: &At<'_>) -> Option<Thresholds> {
    let default = Thresholds::default();
    at.section(|s| Thresholds {
        target_waiting: s.read("target_waiting", at_least_one).unwrap_or(default.target_waiting),
        target_inflight: s.read("target_inflight", at_least_one).unwrap_or(default.target_inflight),
        kv_ceiling: s.read("kv_ceiling", kv_ceiling).unwrap_or(default.kv_ceiling),
        session_load_factor: s.read("session_load_factor", at_least_one).unwrap_or(default.session_load_factor),
    })
}

fn at_least_one(at: &At<'_>) -> Option<f64> {
    let number = at.number()?;
    at.hold(number, number >= 1.0, "at least 1")
}

fn kv_ceiling(at: &At<'_>) -> Option<f64> {
    let number = at.number()?;
    at.hold(number, number > 0.0 && number <= 1.0, "above 0 and at most 1")
}

pub(crate) fn timeouts(at: &At<'_>) -> Option<Timeouts> {
    let default = Timeouts::default();
    at.section(|s| Timeouts {
        connect: s.read("connect", duration).unwrap_or(default.connect),
        first_byte: s.read("first_byte", duration).unwrap_or(default.first_byte),
        between_bytes: s.read("between_bytes", duration).unwrap_or(default.between_bytes),
        total: s.read("total", limit_or_none).unwrap_or(default.total),
        adapter_wait: s.read("adapter_wait", duration).unwrap_or(default.adapter_wait),
        adapter_load: s.read("adapter_load", duration).unwrap_or(default.adapter_load),
        upstream_idle: s.read("upstream_idle", upstream_idle).unwrap_or(default.upstream_idle),
    })
}

fn upstream_idle(at: &At<'_>) -> Option<Duration> {
    let idle = duration(at)?;
    if idle >= ENGINE_KEEPALIVE {
        at.warn("should be below 5s: the engines close connections that were idle for 5 seconds");
    }
    Some(idle)
}

pub(crate) fn health(at: &At<'_>) -> Option<Health> {
    let default = Health::default();
    let health = at.section(|s| Health {
        readout_interval: s.read("readout_interval", duration).unwrap_or(default.readout_interval),
        readout_max_age: s.read("readout_max_age", duration).unwrap_or(default.readout_max_age),
        probe_interval: s.read("probe_interval", duration).unwrap_or(default.probe_interval),
        probe_timeout: s.read("probe_timeout", duration).unwrap_or(default.probe_timeout),
        trip_after: s.read("trip_after", trip_after).unwrap_or(default.trip_after),
        trip_for: s.read("trip_for", trip_for).unwrap_or(default.trip_for),
        stall_timeout: s.read("stall_timeout", duration).unwrap_or(default.stall_timeout),
        slow_start: s.read("slow_start", duration_or_zero).unwrap_or(default.slow_start),
    })?;
    if health.readout_max_age <= health.readout_interval {
        at.warn("readout_max_age should be above readout_interval: read-outs expire before the next one comes");
    }
    Some(health)
}

fn trip_after(at: &At<'_>) -> Option<u32> {
    let failures = at.whole()?;
    at.hold(failures, failures >= 1, "at least 1")
}

fn trip_for(at: &At<'_>) -> Option<Duration> {
    let rest = duration(at)?;
    if rest > LONGEST_TRIP {
        at.warn("should be at most 30s: a replica rests no longer than that");
    }
    Some(rest)
}

fn at_least_1(at: &At<'_>) -> Option<usize> {
    let number = at.whole()?;
    at.hold(number as usize, number >= 1, "at least 1")
}

/// A duration, or `none`.
fn limit_or_none(at: &At<'_>) -> Option<Option<Duration>> {
    if at.scalar("a duration such as 5m, or none")? == "none" { Some(None) } else { duration(at).map(Some) }
}

/// `off`, or a section.
pub(crate) fn admission(at: &At<'_>) -> Option<Admission> {
    let default = Admission::default();
    if matches!(&at.node.value, Value::Scalar { text, .. } if text == "off") {
        return Some(Admission { on: false, ..default });
    }
    at.section(|s| Admission {
        on: true,
        max_waiting: s.read("max_waiting", at_least_1).unwrap_or(default.max_waiting),
        max_waiting_bytes: s.read("max_waiting_bytes", size).unwrap_or(default.max_waiting_bytes),
        max_wait: s.read("max_wait", duration).unwrap_or(default.max_wait),
        hold_unavailable: s.read("hold_unavailable", duration_or_zero).unwrap_or(default.hold_unavailable),
        tenants: s.read("tenants", tenants).unwrap_or_default(),
    })
}

fn tenants(at: &At<'_>) -> Option<Vec<Tenant>> {
    let mut taken: HashMap<String, usize> = HashMap::new();
    at.each(|at| {
        let tenant = tenant(&at)?;
        for word in
            std::iter::once(format!("name {}", tenant.name)).chain(tenant.keys.iter().map(|key| format!("key {key}")))
        {
            let kind = word.split(' ').next().unwrap_or_default().to_owned();
            if let Some(line) = taken.insert(word, at.line()) {
                // The key itself is a secret: it is not repeated.
                return at.fail(format!("another tenant has this {kind} already (line {line})"));
            }
        }
        Some(tenant)
    })
}

fn tenant(at: &At<'_>) -> Option<Tenant> {
    let classes = Class::ALL.map(|class| (class.as_str(), class));
    at.section(|s| {
        let name = s.require("name", "a name for logs and metrics", At::text).map(str::to_owned);
        let keys =
            s.require("keys", "the API keys that it uses", |at| at.each_of_some(|at| at.text().map(str::to_owned)));
        Some(Tenant {
            name: name?,
            keys: keys?,
            priority: s.read("priority", |at| at.choice(&classes)).unwrap_or_default(),
            weight: s.read("weight", above_zero).unwrap_or(1.0),
        })
    })?
}

pub(crate) fn retry(at: &At<'_>) -> Option<Retry> {
    let default = Retry::default();
    at.section(|s| Retry {
        attempts: s.read("attempts", attempts).unwrap_or(default.attempts),
        budget: s.read("budget", budget).unwrap_or(default.budget),
    })
}

fn attempts(at: &At<'_>) -> Option<u32> {
    let attempts = at.whole()?;
    at.hold(attempts, attempts <= MOST_RETRIES, "at most 10")
}

fn budget(at: &At<'_>) -> Option<f64> {
    let share = at.number()?;
    at.hold(share, (0.0..=1.0).contains(&share), "from 0 to 1")
}

pub(crate) fn log(at: &At<'_>) -> Option<Log> {
    let default = Log::default();
    let formats = [("pretty", LogFormat::Pretty), ("json", LogFormat::Json)];
    at.section(|s| Log {
        level: s.read("level", level).unwrap_or(default.level),
        format: s.read("format", |at| at.choice(&formats)).unwrap_or(default.format),
        access: s.read("access", At::flag).unwrap_or(default.access),
    })
}

pub(crate) fn explain(at: &At<'_>) -> Option<Explain> {
    let default = Explain::default();
    at.section(|s| Explain {
        on_request: s.read("on_request", At::flag).unwrap_or(default.on_request),
        headers: s.read("headers", At::flag).unwrap_or(default.headers),
    })
}

fn level(at: &At<'_>) -> Option<String> {
    let text = at.text()?;
    let fits = tracing_subscriber::EnvFilter::builder().parse(text).is_ok();
    at.hold(text.to_owned(), fits, "a level (error, warn, info, debug, trace) or a filter such as pointsman=debug")
}
