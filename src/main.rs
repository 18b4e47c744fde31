//! Parse the command line and hand over to [`pointsman::cli`].

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pointsman::cli::Cli::parse().run()
}
