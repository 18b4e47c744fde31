//! `pointsman serve`: read the configuration, open the listeners, run until told to stop.

use super::shutdown::Signals;
use crate::admin::{Admin, Doors};
use crate::admission::pump::Pump;
use crate::config::checked::{Config, Log, LogFormat};
use crate::config::{self};
use crate::engine::client::Client;
use crate::fleet::Fleet;
use crate::fleet::draining::Draining;
use crate::fleet::health::Watcher;
use crate::fleet::model::LiveFleet;
use crate::fleet::reload::{Reloader, Triggers};
use crate::fleet::watchdog::Watchdog;
use crate::gateway::Gateway;
use crate::gateway::connections::{Connections, Guarded};
use crate::residency::reconcile::Reconciler;
use crate::telemetry::{AccessLog, Telemetry};
use arc_swap::ArcSwap;
use clap::Args;
use pingora::apps::HttpServerOptions;
use pingora::listeners::TcpSocketOptions;
use pingora::proxy::http_proxy;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server};
use pingora::services::background::background_service;
use pingora::services::listening::Service;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Serve requests.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The configuration file (see conf/pointsman.yaml).
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
}

impl ServeArgs {
    /// Run until SIGTERM, SIGINT or SIGQUIT.
    #[expect(clippy::print_stderr, reason = "a command speaks to its user before the log exists")]
    pub fn run(self) -> ExitCode {
        let checked = match config::Checked::load(&self.config) {
            Ok(checked) => checked,
            Err(errors) => {
                eprintln!("{errors}");
                return ExitCode::FAILURE;
            }
        };
        start_log(&checked.config.log);
        for warning in &checked.warnings {
            tracing::warn!("{warning}");
        }
        match serve(checked.config, Some(self.config)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Serve this configuration, reloaded from `file`, until a signal ends it.
///
/// # Errors
/// An address that cannot be listened on.
pub fn serve(config: Config, file: Option<PathBuf>) -> Result<(), Box<dyn std::error::Error>> {
    let config = Arc::new(config);
    let access_log = if config.log.access { AccessLog::Every } else { AccessLog::Off };
    let telemetry = Arc::new(Telemetry::new(access_log)?);
    let engines = Client::new(config.health.probe_timeout);
    let fleet: LiveFleet = Arc::new(ArcSwap::from_pointee(Fleet::new(config.clone(), None)));
    let reloader = Arc::new(Reloader::new(file, fleet.clone(), telemetry.clone()));
    let mut server = Server::new_with_opt_and_conf(None, server_conf(&config));
    server.bootstrap();

    let draining = Draining::default();
    let connections = Arc::new(Connections::default());
    let gateway =
        Gateway::new(fleet.clone(), engines.clone(), telemetry.clone(), draining.clone(), connections.clone());
    let mut app = http_proxy(&server.configuration, gateway);
    let mut options = HttpServerOptions::default();
    options.h2c = true;
    app.server_options = Some(options);
    let guarded = Guarded::new(app, connections.clone(), fleet.clone());
    let mut proxy = Service::new("gateway".to_owned(), guarded);
    // Kept open until the server has its own: a port chosen by the kernel stays ours in between.
    let mut reserved = Vec::new();
    let mut doors = Vec::new();
    for address in &config.server.listen {
        let (address, socket) = listen(&mut proxy, *address)?;
        tracing::info!("listening on http://{address}");
        doors.push(address);
        reserved.push(socket);
    }
    let admin = Admin {
        fleet: fleet.clone(),
        telemetry,
        draining: draining.clone(),
        reloader: reloader.clone(),
        connections,
        doors: Doors::new(doors),
    };
    let mut admin = Service::new("admin".to_owned(), admin);
    admin.threads = Some(1);
    let (address, socket) = listen(&mut admin, config.server.admin_listen)?;
    tracing::info!("admin on http://{address}");
    reserved.push(socket);

    server.add_service(proxy);
    server.add_service(admin);
    server.add_service(background_service("reload", Triggers(reloader)));
    server.add_service(background_service("watcher", Watcher::new(fleet.clone(), engines.clone())));
    server.add_service(background_service("watchdog", Watchdog::new(fleet.clone(), engines.clone())));
    server.add_service(background_service("pump", Pump::new(fleet.clone())));
    server.add_service(background_service("reconciler", Reconciler::new(fleet.clone(), engines)));
    server.run(RunArgs { shutdown_signal: Box::new(Signals { fleet, draining }) });
    drop(reserved);
    Ok(())
}

/// Claim an address and hand it to a service; says which port it became.
///
/// The claim fails at once where another process listens. A port that the kernel chose is kept by a bound socket that does
/// not listen, which `SO_REUSEPORT` lets the server's own listener join.
fn listen<A>(service: &mut Service<A>, wanted: SocketAddr) -> Result<(SocketAddr, Option<Socket>), String> {
    let chosen_by_kernel = wanted.port() == 0;
    let claim = || -> std::io::Result<(SocketAddr, Socket)> {
        let socket = Socket::new(Domain::for_address(wanted), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if chosen_by_kernel {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&wanted.into())?;
        if !chosen_by_kernel {
            socket.listen(1)?;
        }
        let address = socket.local_addr()?.as_socket().unwrap_or(wanted);
        Ok((address, socket))
    };
    let (address, socket) = claim().map_err(|error| format!("cannot listen on {wanted}: {error}"))?;
    let mut options = TcpSocketOptions::default();
    options.so_reuseport = chosen_by_kernel.then_some(true);
    service.add_tcp_with_settings(&address.to_string(), options);
    Ok((address, chosen_by_kernel.then_some(socket)))
}

fn server_conf(config: &Config) -> ServerConf {
    ServerConf {
        threads: config.server.threads.get(),
        // The gateway counts its own tries; this is only Pingora's backstop, above what a reload may ask for.
        max_retries: 16,
        grace_period_seconds: Some(0),
        graceful_shutdown_timeout_seconds: Some(config.server.drain_timeout.as_secs()),
        ..ServerConf::default()
    }
}

fn start_log(log: &Log) {
    // Pingora's lines at start and on health changes only repeat ours.
    let quiet = "pingora_core=warn,pingora_proxy=warn,pingora_load_balancing=error";
    let filter = EnvFilter::try_new(format!("{quiet},{}", log.level)).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match log.format {
        LogFormat::Pretty => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    debug_assert!(started.is_ok(), "the log was started twice");
}
