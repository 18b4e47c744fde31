//! `pointsman engine`: run one stand-in engine until Ctrl-C or SIGTERM.

use crate::standin::{AdapterFiles, Dialect, HeadSent, Options, StandIn, StartAdapter};
use clap::Args;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Run a stand-in engine: it speaks vLLM's API, generates nothing of meaning, and says so in its answers.
///
/// POST /standin/misbehave switches what is wrong with it, for instance {"kind":"answer","status":503,"for_ms":5000};
/// GET /standin/requests and /standin/stats tell what it received.
#[derive(Debug, Args)]
pub struct Engine {
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8001)]
    port: u16,
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Name that its answers give
    #[arg(long, default_value = "standin")]
    name: String,
    /// Name of the base model
    #[arg(long, default_value = "base")]
    model: String,
    /// API to speak
    #[arg(long, value_enum, default_value_t)]
    dialect: Dialect,
    /// Decode speed of one request; 0 means no delay
    #[arg(long, value_name = "N", default_value_t = 50.0, value_parser = speed)]
    tokens_per_second: f64,
    /// Prefill speed of one request; 0 means no delay
    #[arg(long, value_name = "N", default_value_t = 5_000.0, value_parser = speed)]
    prefill_tokens_per_second: f64,
    /// Requests generated at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    max_running: usize,
    /// Distinct adapters generated at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    max_loras: usize,
    /// Adapters kept in memory
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    max_cpu_loras: usize,
    /// Highest rank accepted of an adapter on disk
    #[arg(long, value_name = "N", default_value_t = 16)]
    max_lora_rank: u64,
    /// Time to load an adapter, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300)]
    adapter_load_ms: u64,
    /// Adapter registered at the start; may be given again
    #[arg(long = "lora", value_name = "NAME=PATH", value_parser = start_adapter)]
    loras: Vec<StartAdapter>,
    /// Whether adapter paths must lead to files
    #[arg(long, value_enum, default_value_t)]
    adapter_files: AdapterFiles,
    /// Size of the KV cache in tokens
    #[arg(long, value_name = "N", default_value_t = 131_072)]
    kv_tokens: u64,
    /// Longest context in tokens
    #[arg(long, value_name = "N", default_value_t = 32_768)]
    max_model_len: u64,
    /// Time after which an idle connection is closed, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    keep_alive_ms: u64,
    /// When the head of a streamed answer leaves
    #[arg(long, value_enum, default_value_t)]
    head_sent: HeadSent,
    /// How many of the last requests are remembered
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    journal: usize,
}

impl Engine {
    /// Run until Ctrl-C, SIGTERM or the death of the engine; failure if the port cannot be listened on.
    pub fn run(self) -> ExitCode {
        let outcome = tokio::runtime::Runtime::new().and_then(|runtime| runtime.block_on(serve(self.options())));
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // Nothing can be done about a closed standard error.
                let _ = writeln!(io::stderr(), "pointsman engine: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn options(self) -> Options {
        let rate = |rate: f64| (rate > 0.0).then_some(rate);
        Options {
            host: self.host,
            port: self.port,
            name: self.name,
            model: self.model,
            dialect: self.dialect,
            max_running: self.max_running,
            max_loras: self.max_loras,
            max_cpu_loras: self.max_cpu_loras,
            max_lora_rank: self.max_lora_rank,
            tokens_per_second: rate(self.tokens_per_second),
            prefill_tokens_per_second: rate(self.prefill_tokens_per_second),
            adapter_load: Duration::from_millis(self.adapter_load_ms),
            kv_tokens: self.kv_tokens,
            max_model_len: self.max_model_len,
            keep_alive: Duration::from_millis(self.keep_alive_ms),
            adapters: self.loras,
            adapter_files: self.adapter_files,
            head_sent: self.head_sent,
            journal: self.journal,
            ..Options::default()
        }
    }
}

async fn serve(options: Options) -> io::Result<()> {
    let (host, port) = (options.host, options.port);
    let standin = StandIn::start(options)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {host}:{port}: {error}")))?;
    let mut terminate = signal(SignalKind::terminate())?;
    writeln!(io::stdout(), "stand-in {} listens on {}", standin.name(), standin.url())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
        () = standin.gone() => {}
    }
    standin.stop().await;
    Ok(())
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if speed.is_finite() && speed >= 0.0 { Ok(speed) } else { Err("must be 0 or more".into()) }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "must be a whole number, 1 or more".into())
}

fn start_adapter(text: &str) -> Result<StartAdapter, String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok(StartAdapter { name: name.to_owned(), path: path.to_owned() })
        }
        _ => Err("must be NAME=PATH".into()),
    }
}
