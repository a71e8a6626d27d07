//! A link for anything that speaks IP: a command in a network namespace of its own, behind the simulator's
//! [`Link`].
//!
//! ```text
//!   the command                        this process                              the outside: servers, the internet
//!   namespace: [framewire] --packets--> up: Link -------> write --> [fwN] --> addressed to 100.64.N.1, or routed on
//!              100.64.N.2  <-- write <------- down: Link <--packets--         100.64.N.1
//! ```
//!
//! The two boxes are TUN devices, whose packets this process reads and writes; each direction has a thread.
//! No packet is ever rewritten but for ECN marks. Nothing of the machine's outside changes: no rule, no
//! setting, only a device that goes with the process. Links stand inside links, each with a namespace of its
//! own ([`addresses`]).

pub mod addresses;
mod direction;
mod error;
mod guard;
pub mod header;
mod lateness;
mod log;
mod mahimahi;
mod namespace;
mod nat;
mod signals;
mod tun;

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::thread::JoinHandle;

use netsim::Link;

use crate::clock::Clock;
use crate::waker::{Stop, Waker};
use addresses::{Block, INNER_DEVICE};
use direction::Direction;
use namespace::Namespace;
use signals::Signals;
use tun::Tun;

pub use direction::{DirectionCounters, Plan};
pub use error::LinkError;
pub use guard::Guard;
pub use header::Flow;
pub use lateness::Lateness;
pub use log::{End, Log, Passage, Spool};
pub use mahimahi::{Heading, MahimahiLog};

/// The environment variable in which the command finds the address of the outside.
pub const OUTSIDE: &str = "FRAMEWIRE_OUTSIDE";
/// The variable in which it finds its own.
pub const INSIDE: &str = "FRAMEWIRE_INSIDE";
/// Mahimahi's variable for the outermost outside, which scripts made for Mahimahi read; only the outermost
/// link sets it.
pub const MAHIMAHI_BASE: &str = "MAHIMAHI_BASE";

/// The smallest MTU: IPv6 asks for it (RFC 8200 section 5).
pub const LEAST_MTU: u32 = 1280;

/// A link between a namespace of its own and the one it was opened in.
pub struct Emulator {
    namespace: Namespace,
    inner: Arc<Tun>,
    outer: Arc<Tun>,
    block: Block,
    mtu: u32,
    clock: Clock,
    running: Option<Running>,
}

/// The two directions while they run.
struct Running {
    up: JoinHandle<(Link, DirectionCounters)>,
    down: JoinHandle<(Link, DirectionCounters)>,
    stops: [Stop; 2],
}

/// What a link did in its two directions.
pub struct Outcome {
    /// From inside to outside.
    pub up: (Link, DirectionCounters),
    /// From outside to inside.
    pub down: (Link, DirectionCounters),
}

impl Emulator {
    /// Makes the namespace and the two devices, whose packets have at most `mtu` bytes ([`LEAST_MTU`] to
    /// 65,535). Nothing passes yet.
    ///
    /// # Errors
    /// [`LinkError`] saying what is missing.
    pub fn open(mtu: u32) -> Result<Emulator, LinkError> {
        let (outer, block) = open_outer()?;
        // Inside another link everything is forwarded; elsewhere that is for the machine's owner to say.
        let nested = block.prefix() > addresses::ROOT_PREFIX;
        outer.configure(block, block.outside(), mtu, nested)?;
        let namespace = Namespace::new()?;
        let inner = namespace.within(move || {
            let inner = Tun::create(INNER_DEVICE)?;
            inner.configure(block, block.inside(), mtu, true)?;
            inner.become_default_route(block.outside())?;
            Ok::<Tun, LinkError>(inner)
        })?;
        let (inner, outer) = (Arc::new(inner), Arc::new(outer));
        Ok(Emulator { namespace, inner, outer, block, mtu, clock: Clock::starting_now(), running: None })
    }

    /// The address under which the inside reaches servers of the outside.
    pub fn outside(&self) -> Ipv4Addr {
        self.block.outside()
    }

    /// The address under which the outside reaches servers of the inside.
    pub fn inside(&self) -> Ipv4Addr {
        self.block.inside()
    }

    /// The outside's device.
    pub fn device(&self) -> &str {
        self.outer.name()
    }

    /// The links' clock; it begins with [`start`](Emulator::start).
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Does `work` inside and waits for its result: a socket made there is one of the inside, whoever uses it
    /// later.
    pub fn within<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        self.namespace.within(work)
    }

    /// Lets packets pass, from inside to outside as `up` says and back as `down` does; the links' time begins
    /// now.
    ///
    /// # Errors
    /// [`LinkError`] if the system will have no more threads.
    pub fn start(&mut self, up: Plan, down: Plan) -> Result<(), LinkError> {
        let failed = |source| LinkError::System { what: "start a thread", source };
        self.clock = Clock::starting_now();
        let stop = || Waker::new().map(Stop::new).map_err(failed);
        let stops = [stop()?, stop()?];
        let (inner, outer) = (&self.inner, &self.outer);
        let up = Direction::new(inner.clone(), outer.clone(), self.mtu, up, self.clock, stops[0].clone());
        let down = Direction::new(outer.clone(), inner.clone(), self.mtu, down, self.clock, stops[1].clone());
        let up = direction::start("up", up).map_err(failed)?;
        let down = direction::start("down", down).map_err(failed)?;
        self.running = Some(Running { up, down, stops });
        Ok(())
    }

    /// Runs `command` inside until it ends. Signals that reach this process alone are passed on to it.
    ///
    /// # Errors
    /// [`LinkError`] if it can't be started.
    pub fn run(&self, mut command: Command, keeper: &mut Keeper) -> Result<ExitStatus, LinkError> {
        let told = keeper.guard.end_processes_in(&self.namespace.file());
        told.map_err(|source| LinkError::System { what: "tell the process that tidies up", source })?;
        command.env(OUTSIDE, self.outside().to_string()).env(INSIDE, self.inside().to_string());
        if std::env::var_os(MAHIMAHI_BASE).is_none() {
            command.env(MAHIMAHI_BASE, self.outside().to_string());
        }
        // SAFETY: what runs between fork and exec is async-signal-safe.
        unsafe { command.pre_exec(signals::restore) };
        let name = command.get_program().to_string_lossy().into_owned();
        let started = self.namespace.within(move || command.spawn());
        let mut child = started.map_err(|source| LinkError::Command { command: name, source })?;
        keeper.attend(child.id())?;
        child.wait().map_err(|source| LinkError::System { what: "wait for the command", source })
    }

    /// Translates the addresses of the inside to those of this machine's other interfaces, until `keeper`
    /// ends.
    ///
    /// # Errors
    /// [`LinkError::Nat`] saying what is missing.
    pub fn translate(&self, keeper: &mut Keeper) -> Result<(), LinkError> {
        nat::translate(self.block, self.device(), &mut keeper.guard)
    }

    /// Closes the link; what it did, if it was [started](Emulator::start). What is still inside is gone.
    pub fn finish(mut self) -> Option<Outcome> {
        let Running { up, down, stops } = self.running.take()?;
        stops.iter().for_each(Stop::stop);
        let [mut up, mut down] =
            [up, down].map(|direction| direction.join().expect("moving packets does not panic"));
        up.1.overruns = self.namespace.within(|| tun::overruns(INNER_DEVICE)).unwrap_or(0);
        down.1.overruns = tun::overruns(self.device()).unwrap_or(0);
        Some(Outcome { up, down })
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Some(Running { stops, .. }) = &self.running {
            stops.iter().for_each(Stop::stop);
        }
    }
}

/// What keeps a command's end in order: the [`Guard`], and the signals that are for the command.
pub struct Keeper {
    guard: Guard,
    signals: Signals,
}

impl Keeper {
    /// To be called while the process has one thread: it forks, and threads started later hold signals back
    /// as this one.
    ///
    /// # Errors
    /// [`LinkError`] if the system will have no more processes.
    pub fn start() -> Result<Keeper, LinkError> {
        let guard = Guard::start()?;
        let signals = Signals::hold().map_err(|source| LinkError::System { what: "take signals", source })?;
        Ok(Keeper { guard, signals })
    }

    /// Passes signals on to a child until it has ended; it remains to be waited for, so that its number stays
    /// its own.
    fn attend(&self, process: u32) -> Result<(), LinkError> {
        let waker = Waker::new().map_err(|source| LinkError::System { what: "watch the command", source })?;
        let ended = waker.clone();
        let watch = std::thread::spawn(move || {
            // SAFETY: all zeros is a valid siginfo_t, which the call fills; the child is left as it is.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            while unsafe { libc::waitid(libc::P_PID, process, &raw mut info, libc::WEXITED | libc::WNOWAIT) }
                != 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
            ended.wake();
        });
        while !waker.take() {
            self.signals.sleep(&waker);
            while let Some(signal) = self.signals.next() {
                // SAFETY: sends a signal to a child that nobody has waited for.
                unsafe { libc::kill(process as libc::pid_t, signal) };
            }
        }
        watch.join().expect("watching does not panic");
        Ok(())
    }
}

/// The outside's device, with the first block that is free here.
fn open_outer() -> Result<(Tun, Block), LinkError> {
    let taken =
        tun::interfaces().map_err(|source| LinkError::System { what: "list the interfaces", source })?;
    let parent = taken.iter().find(|(name, _)| name == INNER_DEVICE).map(|(_, block)| *block);
    let others = || taken.iter().filter(|(name, _)| name != INNER_DEVICE);
    for block in Block::candidates(parent) {
        if others().any(|(_, other)| other.overlaps(&block)) {
            continue;
        }
        match Tun::create(&block.device()) {
            Ok(tun) => return Ok((tun, block)),
            // Somebody was faster.
            Err(LinkError::System { source, .. }) if source.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(LinkError::NoBlock)
}
