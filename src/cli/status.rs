//! `pointsman status`: what a running Pointsman does, as a table in the terminal.

use super::table::table;
use crate::engine::client::Client;
use clap::Args;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Show what a running Pointsman does.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Its admin address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    admin: String,
    /// Look again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Print JSON, as /status tells it
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    /// Failure if nobody answers there.
    pub fn run(self) -> ExitCode {
        let shown = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match shown.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(self.show())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "pointsman status: {error}");
                ExitCode::FAILURE
            }
        }
    }

    async fn show(&self) -> Result<(), String> {
        let clear = self.watch && !self.json && io::stdout().is_terminal();
        let client = Client::new(PATIENCE);
        loop {
            let told = match self.told(&client).await {
                // Whoever watches wants to see it come back.
                Err(error) if self.watch => Err(format!("{error}\n")),
                told => Ok(told?),
            };
            let mut out = io::stdout().lock();
            let start = if clear { "\x1b[H\x1b[2J" } else { "" };
            let written = match &told {
                Ok(text) => write!(out, "{start}{text}").and_then(|()| out.flush()),
                Err(error) => write!(io::stderr(), "{start}{error}"),
            };
            drop(out);
            // A reader that has gone, as `head` does, is no failure.
            if !self.watch || written.is_err() {
                return Ok(());
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn told(&self, client: &Client) -> Result<String, String> {
        let address = address(&self.admin)?;
        let path = if self.json { "/status" } else { "/live" };
        let body = client.get(address, path).await.map_err(|error| {
            format!(
                "http://{address}{path}: {error}. Is Pointsman running, and is this its admin_listen? (--admin URL)"
            )
        })?;
        let value: Value = serde_json::from_slice(&body)
            .map_err(|error| format!("http://{address}{path} did not answer with JSON ({error})"))?;
        Ok(if self.json { format!("{value:#}\n") } else { table(&value) })
    }
}

/// `host:port` of what was given: a URL, with or without its scheme.
fn address(url: &str) -> Result<&str, String> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    match rest.trim_end_matches('/') {
        address if address.contains("://") => Err(format!("`{url}`: the admin address speaks plain http")),
        address if address.contains('/') || address.is_empty() => Err(format!("`{url}` is not http://HOST:PORT")),
        address => Ok(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_address_is_taken_with_and_without_scheme() {
        assert_eq!(address("http://127.0.0.1:9090/"), Ok("127.0.0.1:9090"));
        assert_eq!(address("[::1]:9090"), Ok("[::1]:9090"));
        assert!(address("https://x:1").unwrap_err().contains("plain http"));
        assert!(address("http://x:1/status").is_err());
    }
}
