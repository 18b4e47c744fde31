//! `pointsman demo`: stand-in engines with Pointsman in front, on this machine, until Ctrl-C.

use crate::config::Config;
use crate::standin::{AdapterFiles, Options, StandIn};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

/// Try Pointsman out: stand-in engines that speak vLLM's API, and Pointsman in front of them.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Port for clients
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Port for operators
    #[arg(long, default_value_t = 9090)]
    admin_port: u16,
    /// Stand-in engines to start
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=32))]
    replicas: u16,
    /// Adapters of the model; loaded when they are asked for
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(0..=64))]
    adapters: u16,
    /// Adapters that each of them can hold at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    slots: u16,
    /// Send requests to it, so that there is something to see
    #[arg(long, value_enum, default_value_t)]
    traffic: Traffic,
}

/// Whether the demo sends requests itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Traffic {
    /// A few conversations at a time.
    #[default]
    On,
    /// None.
    Off,
}

impl DemoArgs {
    /// Run until Ctrl-C; failure if a port is taken.
    pub fn run(self) -> ExitCode {
        match self.start() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "pointsman demo: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn start(self) -> Result<(), Box<dyn std::error::Error>> {
        for (port, option) in [(self.port, "--port"), (self.admin_port, "--admin-port")] {
            TcpListener::bind(("127.0.0.1", port))
                .map_err(|error| format!("port {port} cannot be used ({error}); choose another one with {option}"))?;
        }
        let runtime = tokio::runtime::Runtime::new()?;
        let engines = runtime.block_on(self.engines())?;
        let urls: Vec<_> = engines.iter().map(StandIn::url).collect();
        let config = Config::parse(&self.config(&urls).to_string(), "demo")?;
        self.greet(&urls);
        runtime.spawn(show(format!("127.0.0.1:{}", self.admin_port)));
        if self.traffic == Traffic::On {
            for client in 0..CONVERSATIONS {
                runtime.spawn(converse(format!("127.0.0.1:{}", self.port), client, self.adapters));
            }
        }
        super::serve::serve(config, None)
    }

    async fn engines(&self) -> io::Result<Vec<StandIn>> {
        let mut engines = Vec::new();
        for number in 1..=self.replicas {
            let options = Options {
                name: format!("r{number}"),
                model: "demo".to_owned(),
                max_cpu_loras: self.slots.into(),
                adapter_files: AdapterFiles::Imagined,
                ..Options::default()
            };
            engines.push(StandIn::start(options).await?);
        }
        Ok(engines)
    }

    /// JSON is YAML.
    fn config(&self, urls: &[String]) -> Value {
        let adapter = |k| json!({ "name": format!("lora-{k}"), "path": format!("standin:lora-{k}") });
        json!({
            "server": {
                "listen": [format!("127.0.0.1:{}", self.port)],
                "admin_listen": format!("127.0.0.1:{}", self.admin_port),
                "drain_timeout": "1s",
            },
            "log": { "level": "warn" },
            "models": [{
                "name": "demo",
                "engine": "vllm",
                "profile": "chat",
                "max_loaded_adapters": self.slots,
                "adapters": (1..=self.adapters).map(adapter).collect::<Vec<_>>(),
                "pools": [{
                    "name": "local",
                    "priority": 0,
                    "replicas": urls.iter().map(|url| json!({ "url": url })).collect::<Vec<_>>(),
                }],
            }],
        })
    }

    fn greet(&self, urls: &[String]) {
        let (port, admin) = (self.port, self.admin_port);
        let chat = format!("http://127.0.0.1:{port}/v1/chat/completions");
        let json = "-H 'Content-Type: application/json'";
        let _ = writeln!(
            io::stderr(),
            "Pointsman   http://127.0.0.1:{port}\nDashboard   http://127.0.0.1:{admin}\nStand-ins   {}\n\nTry:\n  \
             curl -N {chat} {json} -d '{{\"model\":\"demo\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'\n  \
             curl {chat} {json} -d '{{\"model\":\"demo:lora-1\",\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'\n  \
             curl http://127.0.0.1:{port}/v1/models\n\nCtrl-C ends it.\n",
            urls.join(" ")
        );
    }
}

/// How many there are at a time.
const CONVERSATIONS: u32 = 6;

/// Hold a conversation for ever: a request of a session, then the next.
async fn converse(address: String, client: u32, adapters: u16) {
    let engines = crate::engine::client::Client::new(Duration::from_secs(60));
    for turn in 0_u32.. {
        // Every other conversation uses adapters, and changes to the next one after four turns.
        let model = match client % 2 {
            0 if adapters > 0 => format!("lora-{}", (client + turn / 4) % u32::from(adapters) + 1),
            _ => "demo".to_owned(),
        };
        let body = json!({
            "model": model,
            "session_id": format!("demo-{client}"),
            "stream": true,
            "stream_options": { "include_usage": true },
            "max_tokens": 40,
            "messages": [{ "role": "user", "content": format!("Turn {turn} of client {client}") }],
        });
        if engines.post(&address, "/v1/chat/completions", body.to_string()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

/// Rewrite a table of all there is every half second, where there is a terminal to write on.
async fn show(admin: String) {
    if !io::IsTerminal::is_terminal(&io::stderr()) {
        return;
    }
    let client = crate::engine::client::Client::new(Duration::from_secs(1));
    let mut lines = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let Ok(body) = client.get(&admin, "/live").await else { continue };
        let Ok(live) = serde_json::from_slice::<Value>(&body) else { continue };
        let table = super::table::table(&live);
        let up = if lines > 0 { format!("\x1b[{lines}A\x1b[J") } else { String::new() };
        let _ = write!(io::stderr(), "{up}{table}");
        lines = table.lines().count();
    }
}
