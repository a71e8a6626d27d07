//! The `framewire` command: arguments in, tables and JSON out. What it runs lives in `lab` and `real`.
//!
//! Exit codes: 0 done, 1 the work failed on the way, 2 something given was not acceptable (and nothing was begun).
#![allow(clippy::disallowed_methods, reason = "benchmarks read the real clock")]

mod allocation;
mod args;
mod bench;
mod bulk;
mod controllers;
mod demo;
mod experiments;
mod failure;
mod fuzz;
mod grid;
mod listing;
mod live;
mod operations;
mod output;
#[cfg(target_os = "linux")]
mod real_lab;
mod results;
mod scenario;
mod simulate;
mod soak;
mod table;
mod trace;
#[cfg(target_os = "linux")]
mod twin;
mod values;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::Failure;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

fn main() -> ExitCode {
    quiet_pipes();
    let outcome = Args::try_parse().map_err(failure::of_arguments).and_then(|args| dispatch(args.command));
    operations::finish_logs();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Ends the process when a reader such as `head` has seen enough, as every other command does.
fn quiet_pipes() {
    // SAFETY: called before any thread starts; the default action touches no memory of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => simulate::run(&args),
        Command::Compare(args) => simulate::compare(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Lab(args) => experiments::lab(&args),
        Command::Fuzz(args) => fuzz::fuzz(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Send(args) => live::send(&args),
        Command::Receive(args) => live::receive(&args),
        Command::Relay(args) => live::relay(&args),
        Command::Link(args) => live::link(&args),
        Command::Bulk(args) => bulk::bulk(&args),
        Command::Serve(args) => live::serve(&args),
        Command::Soak(args) => soak::soak(&args),
        Command::Controllers(args) => controllers::controllers(&args),
        Command::Queues(format) => listing::queues(format.json),
        Command::Trace(args::Trace::Info(args)) => trace::info(&args),
    }
}
