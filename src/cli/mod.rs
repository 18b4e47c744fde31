//! The command line: one file a command.

pub mod engine;
pub mod check;

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
    Engine(engine::Engine),
    Check(check::CheckArgs),
}

impl Cli {
    /// Run the chosen command to its end.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Engine(engine) => engine.run(),
            Command::Check(args) => args.run(),
        }
    }
}
