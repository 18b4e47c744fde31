//! One run of wrk and what it printed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Case {
    Small,
    Large,
    StreamAtOnce,
    StreamInChunks,
}

/// What came of it.
pub(crate) struct Run {
    pub(crate) rate: f64,
    pub(crate) requests: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Case {
    pub(crate) const ALL: [Self; 4] = [Self::Small, Self::Large, Self::StreamAtOnce, Self::StreamInChunks];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "a",
            Self::Large => "b",
            Self::StreamAtOnce => "c",
            Self::StreamInChunks => "cy",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Small => "(a) 1 KiB JSON",
            Self::Large => "(b) 32 KiB JSON",
            Self::StreamAtOnce => "(c) SSE, 100 tokens written at once",
            Self::StreamInChunks => "(cy) SSE, 100 tokens in 100 chunks",
        }
    }

    /// Run wrk on core 1. Panics on any failed request: such a run measures nothing.
    pub(crate) fn run(self, address: &str, connections: u32, time: Duration) -> Run {
        let (script, size, query) = match self {
            Self::Small => ("json.lua", "1024", ""),
            Self::Large => ("json.lua", "32768", ""),
            Self::StreamAtOnce => ("stream.lua", "", "?at-once"),
            Self::StreamInChunks => ("stream.lua", "", "?chunks"),
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/wrk").join(script);
        let output = Command::new("taskset")
            .args(["-c", "1", "wrk", "--latency", "-t1"])
            .arg(format!("-c{connections}"))
            .arg(format!("-d{}s", time.as_secs()))
            .arg("-s")
            .arg(script)
            .arg(format!("http://{address}/v1/chat/completions{query}"))
            .env("SIZE", size)
            .output()
            .expect("wrk runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "{text}");
        read(&text).unwrap_or_else(|| panic!("wrk said {text}"))
    }
}

fn read(text: &str) -> Option<Run> {
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
    Some(Run {
        rate: after("Requests/sec:")?.parse().ok()?,
        requests: text.lines().find(|line| line.contains(" requests in "))?.split_whitespace().next()?.parse().ok()?,
        p50: time(after("50%")?)?,
        p99: time(after("99%")?)?,
    })
}

/// `1.23ms`, `456.00us`, `1.02s`.
fn time(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number.parse::<f64>().ok()? * seconds))
}
