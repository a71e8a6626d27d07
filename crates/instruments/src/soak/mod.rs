//! A server, honest peers and hostile ones for hours, in one process and over loopback, and a look every
//! minute whether anything leaks, grows or starves.
//!
//! ```text
//!   server: a server that is restarted and whose certificate changes, a thread for each guest
//!   peers:  honest streams | visitors that come and go, with and without goodbye | strangers | garbage
//!   watch:  memory, threads, files, tasks, CPU, each stream's share; the first look is what later ones are held against
//! ```

mod peers;
mod server;
mod watch;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use real::Clock;
use units::{Rate, Span};

pub use server::SoakServer;
use watch::Watch;
pub use watch::{Bounds, Look};

/// The shortest time between two looks: a restart and what it takes to come back must fit in.
pub const LEAST: Span = Span::from_secs(5);
/// How often the run looks at the clock.
const STEP: Span = Span::from_millis(100);

/// What a soak is made of.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long it takes.
    pub duration: Span,
    /// Time between two looks, at least [`LEAST`].
    pub every: Span,
    /// Honest streams, 1 to 16.
    pub streams: u8,
    /// Rate of each of them.
    pub rate: Rate,
    /// Bytes by which memory may grow after the first look.
    pub growth: u64,
    /// Time between two restarts of the server, at least [`LEAST`].
    pub restart_every: Span,
    /// Time between two certificates.
    pub reload_every: Span,
}

/// What came out of it.
pub struct Outcome {
    /// How long it was.
    pub elapsed: Span,
    /// All looks, in order.
    pub looks: Vec<Look>,
    /// What was not as it should be, in words; it ended the run.
    pub excess: Option<String>,
}

/// Runs until the time is over, `go_on` breaks, or something is not as it should be. `tell` hears how far it
/// is, ten times a second.
pub fn run(
    plan: &Plan,
    server: &Arc<SoakServer>,
    go_on: &dyn Fn() -> ControlFlow<()>,
    tell: &dyn Fn(String),
) -> Outcome {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let peers = peers::Peers { server, over: &over, rate: plan.rate };
        scope.spawn(|| server.serve(&over));
        (0..plan.streams).for_each(|number| drop(scope.spawn(move || peers.honest(number))));
        (0..peers::VISITORS).for_each(|number| drop(scope.spawn(move || peers.visitor(number))));
        scope.spawn(move || peers.strangers());
        scope.spawn(move || peers.garbage());
        let outcome = attend(plan, server, go_on, tell);
        over.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Restarts, reloads and looks, until the end.
fn attend(
    plan: &Plan,
    server: &Arc<SoakServer>,
    go_on: &dyn Fn() -> ControlFlow<()>,
    tell: &dyn Fn(String),
) -> Outcome {
    let clock = Clock::shared();
    let start = clock.now();
    let mut watch = Watch::new(Bounds { growth: plan.growth, rate: plan.rate }, plan.streams);
    let (mut restart, mut reload, mut look) =
        (start + plan.restart_every, start + plan.reload_every, start + plan.every);
    let mut excess = None;
    while excess.is_none() && clock.now() < start + plan.duration && go_on().is_continue() {
        clock.sleep_until(clock.now() + STEP);
        let now = clock.now();
        if now >= reload {
            excess = server.replace_certificate().err().map(|failure| failure.to_string());
            reload = now + plan.reload_every;
        }
        if now >= restart {
            excess = excess.or(server.restart().err().map(|failure| failure.to_string()));
            restart = now + plan.restart_every;
        }
        if now >= look {
            excess = excess.or(watch.look(now - start, server));
            look = now + plan.every;
        }
        tell(progress(now - start, plan.duration, &watch, server));
    }
    // The end is looked at too, unless the last look was just now.
    if excess.is_none() && clock.now() > look - plan.every / 2 {
        excess = watch.look(clock.now() - start, server);
    }
    Outcome { elapsed: clock.now() - start, looks: watch.looks, excess }
}

fn progress(elapsed: Span, length: Span, watch: &Watch, server: &SoakServer) -> String {
    let seconds = |span: Span| span.as_secs_f64();
    let memory = watch.looks.last().map_or("-".to_owned(), |look| format!("{:.0} MB", look.megabytes()));
    format!(
        "{:.0} of {:.0} s  {} looks  {memory}  {} connections  {} refused  {} restarts",
        seconds(elapsed),
        seconds(length),
        watch.looks.len(),
        server.accepted(),
        server.refused(),
        server.restarts(),
    )
}
