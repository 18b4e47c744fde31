//! The command line: one file a command.

pub mod check;
pub mod demo;
pub mod engine;
pub mod serve;
mod shutdown;
pub mod simulate;
pub mod status;
mod table;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A load balancer for LLM engines that knows their load, their sessions and their LoRA adapters.
#[derive(Debug, Parser)]
#[command(name = "pointsman", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve requests by a configuration file.
    Serve(serve::ServeArgs),
    /// Check a configuration file and report every error in it.
    Check(check::CheckArgs),
    /// Show what a running Pointsman does: models, replicas, queue, adapters.
    Status(status::StatusArgs),
    /// Try it out: stand-in engines with Pointsman in front.
    Demo(demo::DemoArgs),
    /// Compare policies over simulated engines, in virtual time.
    Simulate(simulate::SimulateArgs),
    /// Run a stand-in engine.
    Engine(engine::Engine),
}

impl Cli {
    /// Run the chosen command to its end.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Serve(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Status(args) => args.run(),
            Command::Demo(args) => args.run(),
            Command::Simulate(args) => args.run(),
            Command::Engine(engine) => engine.run(),
        }
    }
}
