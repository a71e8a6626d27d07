//! The `framewire` command: arguments in, tables and JSON out. What it runs lives in `lab` and `real`.
//!
//! Exit codes: 0 done, 1 the work failed on the way, 2 something given was not acceptable (and nothing was
//! begun).
#![allow(clippy::disallowed_methods, reason = "benchmarks read the real clock")]

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
mod predict;
mod prism;
#[cfg(target_os = "linux")]
mod real_lab;
mod results;
mod scenario;
mod shell;
mod shipped;
mod simulate;
mod soak;
mod sweep;
mod table;
mod trace;
#[cfg(target_os = "linux")]
mod twin;
mod values;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::Failure;

#[global_allocator]
static ALLOCATOR: instruments::allocation::Counting = instruments::allocation::Counting;

fn main() -> ExitCode {
    quiet_pipes();
    let args = Args::try_parse_from(negatives_joined(std::env::args_os()));
    let outcome = args.map_err(failure::of_arguments).and_then(|args| dispatch(args.command));
    operations::finish_logs();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// `--delay -1ms` as `--delay=-1ms`: what begins with a minus and a digit is a value, about which the option
/// has something better to say than that there is no flag `-1`. What stands behind `--` is somebody else's.
fn negatives_joined(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut ours = true;
    for argument in arguments {
        let bytes = argument.as_encoded_bytes();
        ours &= bytes != b"--";
        let negative = matches!(bytes, [b'-', digit, ..] if digit.is_ascii_digit());
        match joined.last_mut().filter(|last| is_bare_option(last)) {
            Some(option) if ours && negative => {
                option.push("=");
                option.push(&argument);
            }
            _ => joined.push(argument),
        }
    }
    joined
}

/// Whether this is `--NAME` alone.
fn is_bare_option(argument: &OsStr) -> bool {
    let bytes = argument.as_encoded_bytes();
    bytes.len() > 2 && bytes.starts_with(b"--") && !bytes.contains(&b'=')
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
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Lab(args) => experiments::lab(&args),
        Command::Fuzz(args) => fuzz::fuzz(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Send(args) => live::send(&args),
        Command::Receive(args) => live::receive(&args),
        Command::Ingest(args) => live::ingest(&args),
        Command::Upload(args) => live::upload(&args),
        Command::Relay(args) => live::relay(&args),
        Command::Link(args) => live::link(&args),
        Command::Bulk(args) => bulk::bulk(&args),
        Command::Serve(args) => live::serve(&args),
        Command::Soak(args) => soak::soak(&args),
        Command::Controllers(args) => controllers::controllers(&args),
        Command::Queues(format) => listing::queues(format.json),
        Command::Playouts(format) => listing::playouts(format.json),
        Command::Predict(command) => predict::predict(&command),
        Command::Prism(command) => prism::prism(&command),
        Command::Trace(args::Trace::Info(args)) => trace::info(&args),
        Command::Completions(args) => {
            shell::completions(&args);
            Ok(())
        }
        Command::Man(args) => shell::man(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_below_zero_stay_with_their_option() {
        let joined = |text: &str| negatives_joined(text.split(' ').map(OsString::from)).join(OsStr::new(" "));
        assert_eq!(joined("run x --seed -1 --json"), "run x --seed=-1 --json");
        assert_eq!(joined("link --delay -1ms -- head -n -1"), "link --delay=-1ms -- head -n -1");
        assert_eq!(joined("link -- head --lines -1"), "link -- head --lines -1");
        assert_eq!(joined("run --set=a -1 --json -x"), "run --set=a -1 --json -x");
    }
}
