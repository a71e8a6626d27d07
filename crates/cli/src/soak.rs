//! `framewire soak`: arguments, metrics while it runs, and what it prints. What is run lives in
//! `instruments`.

use instruments::soak::{LEAST, Look, Outcome, Plan, SoakServer, run};
use serde_json::{Value, json};
use units::{Bytes, Rate, Span};

use crate::args::Format;
use crate::failure::Failure;
use crate::live::{catch_interrupts, go_on};
use crate::operations::{Operations, Verbosity, of_admission};
use crate::output;
use crate::table::Table;

/// `framewire soak`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire soak                                     ten minutes
  framewire soak --duration 24h --json > soak.json   a day; every look is in the result
  framewire soak --metrics 127.0.0.1:9090 --log-level info

All traffic stays on 127.0.0.1, and all of it ends with the command. Honest streams send the whole time; beside them peers come and go,
strangers try wrong tokens, wrong pins, nonsense and silence, garbage rains on the port, the certificate is replaced and the server
restarted. Every look compares memory, threads, open files, tasks and CPU time with the first look, and what each honest
stream got with what it should have. The first excess ends the run: exit code 1 and a line that says which.")]
pub struct Soak {
    /// How long, such as 24h
    #[arg(long, default_value = "10min")]
    pub duration: Span,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1min")]
    pub every: Span,
    /// Honest streams, 1 to 16
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub streams: u8,
    /// Rate of each
    #[arg(long, default_value = "2mbit")]
    pub rate: Rate,
    /// Memory may grow by this much after the first look
    #[arg(long, value_name = "SIZE", default_value = "32MB")]
    pub growth: Bytes,
    /// Restart the server this often
    #[arg(long, value_name = "TIME", default_value = "45s")]
    pub restart_every: Span,
    /// Replace its certificate this often
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub reload_every: Span,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub operations: Operations,
}

/// Runs until the time is over, an interrupt, or something is not as it should be.
pub fn soak(args: &Soak) -> Result<(), Failure> {
    if args.every < LEAST || args.duration < args.every * 2 {
        return Err(Failure::Input(format!(
            "--every {}, --duration {}: looks are at least {LEAST} apart, and there must be two",
            args.every, args.duration
        )));
    }
    if args.restart_every < LEAST || args.reload_every < Span::from_secs(1) {
        return Err(Failure::input("--restart-every takes 5s or more, --reload-every 1s or more"));
    }
    let running = args.operations.start(Verbosity::level(tracing_subscriber::filter::LevelFilter::ERROR))?;
    let server = SoakServer::open(usize::from(args.streams))?;
    let watched = server.clone();
    running.board.show(move |out| {
        if let Some(watch) = watched.watch() {
            of_admission(&watch, out);
        }
    });
    catch_interrupts();
    let bar = output::ticker();
    let outcome = run(&args.plan(), &server, &go_on, &|far| bar.set_message(far));
    bar.finish_and_clear();
    report(args, &server, &outcome);
    match outcome.excess {
        Some(excess) => Err(Failure::Work(excess)),
        None => Ok(()),
    }
}

impl Soak {
    fn plan(&self) -> Plan {
        Plan {
            duration: self.duration,
            every: self.every,
            streams: self.streams,
            rate: self.rate,
            growth: self.growth.get(),
            restart_every: self.restart_every,
            reload_every: self.reload_every,
        }
    }
}

fn report(args: &Soak, server: &SoakServer, outcome: &Outcome) {
    if args.format.json {
        let looks: Vec<Value> = outcome.looks.iter().map(Look::json).collect();
        return output::json(&json!({
            "passed": outcome.excess.is_none(), "excess": outcome.excess, "duration_s": outcome.elapsed.as_secs_f64(),
            "connections": server.accepted(), "refused": server.refused_by_reason(), "restarts": server.restarts(),
            "reloads": server.reloads(), "looks": looks,
        }));
    }
    let mut table =
        Table::new(["after", "MB", "threads", "files", "tasks", "CPU %", "least share of a stream"]);
    // Of a long run the first, the last, and some between.
    let step = outcome.looks.len().div_ceil(20).max(1);
    let last = outcome.looks.len().saturating_sub(1);
    for (_, look) in outcome.looks.iter().enumerate().filter(|(k, _)| k % step == 0 || *k == last) {
        table.row(look.cells());
    }
    print!("{table}");
    println!(
        "{} connections let in, {} attempts refused, {} restarts, {} certificates",
        server.accepted(),
        server.refused(),
        server.restarts(),
        server.reloads()
    );
}
