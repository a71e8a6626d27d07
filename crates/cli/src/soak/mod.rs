//! `framewire soak`: a server, honest peers and hostile ones for hours, in one process and over loopback, and a look every minute
//! whether anything leaks, grows or starves.
//!
//! ```text
//!   ground: a server that is restarted and whose certificate changes, a thread for each guest
//!   peers:  honest streams | visitors that come and go, with and without goodbye | strangers | garbage
//!   watch:  memory, threads, files, tasks, CPU, each stream's share; the first look is what later ones are held against
//! ```

mod ground;
mod peers;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use real::Clock;
use serde_json::{Value, json};
use units::{Bytes, Rate, Span};

use crate::args::Format;
use crate::failure::Failure;
use crate::live::{catch_interrupts, go_on};
use crate::operations::{Operations, Verbosity};
use crate::output;
use crate::table::Table;
use ground::Ground;
use watch::{Bounds, Look, Watch};

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

/// The shortest time between two looks: a restart and what it takes to come back must fit in.
const LEAST: Span = Span::from_secs(5);
/// How often the run looks at the clock.
const STEP: Span = Span::from_millis(100);

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
    let ground = Ground::open(usize::from(args.streams))?;
    let door = ground.clone();
    running.board.show(move |out| door.show(out));
    catch_interrupts();
    let over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let peers = peers::Peers { ground: &ground, over: &over, rate: args.rate };
        scope.spawn(|| ground.serve(&over));
        (0..args.streams).for_each(|number| drop(scope.spawn(move || peers.honest(number))));
        (0..peers::VISITORS).for_each(|number| drop(scope.spawn(move || peers.visitor(number))));
        scope.spawn(move || peers.strangers());
        scope.spawn(move || peers.garbage());
        let outcome = attend(args, &ground);
        over.store(true, Ordering::Relaxed);
        outcome
    });
    report(args, &ground, &outcome);
    match outcome.excess {
        Some(excess) => Err(Failure::Work(excess)),
        None => Ok(()),
    }
}

/// What came out of it.
struct Outcome {
    elapsed: Span,
    looks: Vec<Look>,
    excess: Option<String>,
}

/// Restarts, reloads and looks, until the end.
fn attend(args: &Soak, ground: &Arc<Ground>) -> Outcome {
    let clock = Clock::shared();
    let start = clock.now();
    let bar = output::ticker();
    let mut watch = Watch::new(Bounds { growth: args.growth.get(), rate: args.rate }, args.streams);
    let (mut restart, mut reload, mut look) =
        (start + args.restart_every, start + args.reload_every, start + args.every);
    let mut excess = None;
    while excess.is_none() && clock.now() < start + args.duration && go_on().is_continue() {
        clock.sleep_until(clock.now() + STEP);
        let now = clock.now();
        if now >= reload {
            excess = ground.replace_certificate().err().map(|failure| failure.text());
            reload = now + args.reload_every;
        }
        if now >= restart {
            excess = excess.or(ground.restart().err().map(|failure| failure.text()));
            restart = now + args.restart_every;
        }
        if now >= look {
            excess = excess.or(watch.look(now - start, ground));
            look = now + args.every;
        }
        bar.set_message(progress(now - start, args.duration, &watch, ground));
    }
    bar.finish_and_clear();
    // The end is looked at too, unless the last look was just now.
    if excess.is_none() && clock.now() > look - args.every / 2 {
        excess = watch.look(clock.now() - start, ground);
    }
    Outcome { elapsed: clock.now() - start, looks: watch.looks, excess }
}

fn progress(elapsed: Span, length: Span, watch: &Watch, ground: &Ground) -> String {
    let seconds = |span: Span| span.as_secs_f64();
    let memory = watch.looks.last().map_or("-".to_owned(), |look| format!("{:.0} MB", look.megabytes()));
    format!(
        "{:.0} of {:.0} s  {} looks  {memory}  {} connections  {} refused  {} restarts",
        seconds(elapsed),
        seconds(length),
        watch.looks.len(),
        ground.accepted(),
        ground.refused(),
        ground.restarts(),
    )
}

fn report(args: &Soak, ground: &Ground, outcome: &Outcome) {
    if args.format.json {
        let looks: Vec<Value> = outcome.looks.iter().map(Look::json).collect();
        return output::json(&json!({
            "passed": outcome.excess.is_none(), "excess": outcome.excess, "duration_s": outcome.elapsed.as_secs_f64(),
            "connections": ground.accepted(), "refused": ground.refused_by_reason(), "restarts": ground.restarts(),
            "reloads": ground.reloads(), "looks": looks,
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
        ground.accepted(),
        ground.refused(),
        ground.restarts(),
        ground.reloads()
    );
}
