//! What `/live` tells, as a table for a terminal. Names are other people's words: nothing in them reaches the terminal as a
//! control character.

use serde_json::Value;
use std::fmt::Write as _;

/// Widest name shown.
const NAME: usize = 28;

/// Everything, at most so many columns wide where names allow it.
pub(super) fn table(live: &Value) -> String {
    let mut out = String::new();
    summary(&mut out, live);
    for model in list(live.pointer("/status/models")) {
        let _ = writeln!(out, "\n{}  profile {}{}", name(model, "name"), name(model, "profile"), queue(model));
        let residency = model.get("residency").filter(|residency| !residency.is_null());
        let _ = writeln!(
            out,
            "  {:<22} {:<9} {:>9} {:>7} {:>7} {:>6} {:>8} {:>8} {:>15}",
            "replica", "state", "in-flight", "running", "waiting", "kv", "adapters", "requests", "first token p50"
        );
        for pool in list(model.get("pools")) {
            if list(model.get("pools")).len() > 1 {
                let _ = writeln!(out, "  {} (priority {})", name(pool, "name"), number(pool, "priority"));
            }
            list(pool.get("replicas")).iter().for_each(|replica| self::replica(&mut out, replica, residency));
        }
        if let Some(residency) = residency {
            map(&mut out, residency);
        }
    }
    out
}

fn summary(out: &mut String, live: &Value) {
    let recent = live.get("recent").unwrap_or(&Value::Null);
    let seconds = list(recent.get("seconds"));
    let lately = seconds.get(seconds.len().saturating_sub(10)..).unwrap_or_default();
    let mean = |key| lately.iter().map(|second| number(second, key)).sum::<f64>() / lately.len().max(1) as f64;
    let trouble: f64 = seconds.iter().map(|second| number(second, "trouble")).sum();
    let _ = writeln!(
        out,
        "Pointsman {}  {}  {:.1} requests/s  {:.0} tokens/s  first token p50 {} p99 {}  errors {trouble}/min",
        live.pointer("/status/version").map_or_else(|| "?".to_owned(), clean),
        if live.get("ready").and_then(Value::as_bool).unwrap_or(false) { "ready" } else { "NOT READY" },
        mean("ended"),
        mean("completion_tokens"),
        millis(recent.get("first_token_p50_ms")),
        millis(recent.get("first_token_p99_ms")),
    );
}

fn queue(model: &Value) -> String {
    match model.pointer("/queue/waiting").and_then(Value::as_u64) {
        None | Some(0) => String::new(),
        Some(waiting) => format!("  queue {waiting}"),
    }
}

fn replica(out: &mut String, replica: &Value, residency: Option<&Value>) {
    let full_name = name(replica, "name");
    let held = residency.and_then(|residency| {
        let line = list(residency.get("replicas")).iter().find(|line| name(line, "name") == full_name)?;
        Some(format!("{}/{}", number(line, "slots_in_use"), number(residency, "slots")))
    });
    let _ = writeln!(
        out,
        "  {:<22} {:<9} {:>9} {:>7} {:>7} {:>5.1}% {:>8} {:>8} {:>15}",
        full_name,
        state(replica),
        number(replica, "in_flight"),
        number(replica, "running"),
        number(replica, "waiting"),
        number(replica, "kv") * 100.0,
        held.as_deref().unwrap_or("-"),
        number(replica, "requests"),
        millis(replica.get("first_token_p50_ms")),
    );
}

fn state(replica: &Value) -> &str {
    let is = |key| replica.get(key).and_then(Value::as_bool).unwrap_or(false);
    match replica.get("breaker").and_then(Value::as_str) {
        _ if is("stalled") => "hangs",
        Some("tripped") => "down",
        _ if is("draining") => "draining",
        Some("probing") => "probing",
        _ => "up",
    }
}

/// Adapters against replicas, one sign a cell.
fn map(out: &mut String, residency: &Value) {
    let replicas = list(residency.get("replicas"));
    let adapters = list(residency.get("adapters"));
    let width = adapters.iter().map(|adapter| name(adapter, "name").chars().count()).max().unwrap_or(0).max(8);
    let _ = writeln!(out, "\n  {:<width$}  {}", "adapter", heads(replicas));
    for adapter in adapters {
        let _ = write!(out, "  {:<width$} ", name(adapter, "name"));
        for replica in replicas {
            let own = |cell: &&Value| cell.get("wire_name") == adapter.get("wire_name");
            let cell = list(replica.get("adapters")).iter().find(own);
            let _ = write!(out, " {:^5}", cell.map_or_else(|| "·".to_owned(), sign));
        }
        let pinned = adapter.get("pinned").and_then(Value::as_bool).unwrap_or(false);
        out.push_str(if pinned { " pinned\n" } else { "\n" });
    }
    out.push_str("  ● and a number: in use   ○ idle   ↓ loading   ↑ leaving   ✕ failed   · not there\n");
}

/// The replicas' ports where they are on one host, else their numbers from above.
fn heads(replicas: &[Value]) -> String {
    let names: Vec<_> = replicas.iter().map(|replica| name(replica, "name")).collect();
    let host = |name: &str| name.rsplit_once(':').map(|(host, _)| host.to_owned());
    let one_host = names.windows(2).all(|pair| matches!(pair, [a, b] if host(a) == host(b)));
    let head = |(at, name): (usize, &String)| match name.rsplit_once(':') {
        Some((_, port)) if one_host => format!("{port:^5}"),
        _ => format!("{:^5}", format!("#{}", at + 1)),
    };
    names.iter().enumerate().map(head).collect::<Vec<_>>().join(" ")
}

fn sign(cell: &Value) -> String {
    let leases = number(cell, "leases");
    match cell.get("state").and_then(Value::as_str) {
        Some("resident") if leases > 0.0 => format!("●{leases}"),
        Some("resident") => "○".to_owned(),
        Some("promised" | "loading") => "↓".to_owned(),
        Some("failed") => "✕".to_owned(),
        _ => "↑".to_owned(),
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn number(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

fn millis(value: Option<&Value>) -> String {
    value.and_then(Value::as_f64).map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"))
}

fn name(value: &Value, key: &str) -> String {
    value.get(key).map_or_else(|| "?".to_owned(), clean)
}

/// Text without control characters, and of a bounded width.
fn clean(value: &Value) -> String {
    let text = value.as_str().unwrap_or("?");
    let shown: String = text.chars().map(|sign| if sign.is_control() { '\u{fffd}' } else { sign }).take(NAME).collect();
    if text.chars().count() > NAME { shown + "…" } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn live() -> Value {
        let replica = |port: u16, breaker: &str| {
            json!({
                "name": format!("127.0.0.1:{port}"), "breaker": breaker, "in_flight": 3, "running": 2, "waiting": 1, "kv": 0.25,
                "requests": 99, "first_token_p50_ms": 12.34, "draining": false, "stalled": false,
            })
        };
        json!({
            "ready": true,
            "recent": { "seconds": [{ "ended": 4, "trouble": 1, "completion_tokens": 80 }], "first_token_p50_ms": 12.0 },
            "status": { "version": "0.1.0", "models": [{
                "name": "qwen", "profile": "chat", "queue": { "waiting": 5 },
                "pools": [{ "name": "edge", "priority": 0, "replicas": [replica(8001, "healthy"), replica(8002, "tripped")] }],
                "residency": {
                    "slots": 2,
                    "adapters": [{ "name": "sql\u{1b}[2J", "wire_name": "sql", "pinned": true }, { "name": "legal", "wire_name": "legal" }],
                    "replicas": [
                        { "name": "127.0.0.1:8001", "slots_in_use": 1, "adapters": [{ "wire_name": "sql", "state": "resident", "leases": 2 }] },
                        { "name": "127.0.0.1:8002", "slots_in_use": 1, "adapters": [{ "wire_name": "legal", "state": "loading", "leases": 0 }] },
                    ],
                },
            }] },
        })
    }

    #[test]
    fn the_table_shows_load_state_adapters_and_the_map() {
        let table = table(&live());
        let line = |start: &str| table.lines().find(|line| line.trim_start().starts_with(start)).unwrap().to_owned();
        assert!(line("Pointsman").contains("4.0 requests/s"), "{table}");
        assert!(line("qwen").contains("queue 5"), "{table}");
        let words: Vec<_> = line("127.0.0.1:8001").split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["127.0.0.1:8001", "up", "3", "2", "1", "25.0%", "1/2", "99", "12.3", "ms"]);
        assert!(line("127.0.0.1:8002").contains("down"), "{table}");
        assert!(line("sql").contains("●2") && line("sql").ends_with("pinned"), "{table}");
        assert!(line("legal").contains('↓'), "{table}");
    }

    #[test]
    fn no_name_reaches_the_terminal_as_a_control_character() {
        assert!(table(&live()).chars().all(|sign| sign == '\n' || !sign.is_control()));
    }

    #[test]
    fn an_answer_of_another_shape_gives_a_table_all_the_same() {
        assert!(table(&json!({ "status": { "models": [{ "residency": 7, "pools": [null] }] } })).contains("NOT READY"));
    }
}
