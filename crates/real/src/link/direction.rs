//! One direction of a link: packets from one device, through [`netsim::Link`], to the other.
//!
//! A thread of its own, which asks to be scheduled promptly, sleeps until a packet comes or one is due. Reads
//! and writes take one packet each; a TUN device knows no more.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netsim::{Link, Packet};
use record::Dropped;
use units::{Ecn, Span, Time};

use super::header::{self, Flow, Header};
use super::lateness::Lateness;
use super::log::{End, Log, Passage};
use super::tun::Tun;
use crate::clock::Clock;
use crate::emulated::{Emulated, Held};
use crate::prompt::Prompt;
use crate::waker::Stop;

/// Most packets read before the link is asked what is due.
const BATCH: usize = 32;
/// The longest sleep: after that the logs are told the time.
const LONGEST: Span = Span::from_millis(500);
/// How long to leave a device alone that can't be read, because somebody has taken it down.
const PAUSE: Duration = Duration::from_millis(10);

/// What one direction of a link did. The [`Link`] itself counts what it dropped.
#[derive(Clone, Debug, Default)]
pub struct DirectionCounters {
    /// Packets read from the device at its entry.
    pub received: u64,
    /// Packets written to the device at its exit.
    pub sent: u64,
    /// Packets the kernel dropped before the device at the entry, because 1000 (500 in a user namespace)
    /// waited there to be read.
    pub overruns: u64,
    /// Packets dropped because they were no IP packets.
    pub foreign: u64,
    /// Packets dropped because the link held as many as it may: 65,536, or 128 MB.
    pub refused: u64,
    /// Packets the device at the exit would not take.
    pub unsent: u64,
    /// How late packets left: what the machine added to the link's own delay.
    pub late: Lateness,
}

/// What the emulator remembers of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    number: u64,
    flow: Flow,
    /// Its ECN bits when it came, and what stands in its header now.
    ecn: Ecn,
    written: Ecn,
}

/// What one direction is to be: a link, and whoever follows its packets.
pub struct Plan {
    /// The link that packets of this direction pass.
    pub link: Link,
    /// Told of every packet.
    pub logs: Vec<Box<dyn Log>>,
}

impl From<Link> for Plan {
    fn from(link: Link) -> Plan {
        Plan { link, logs: Vec::new() }
    }
}

/// One direction, before and while it runs.
pub(super) struct Direction {
    from: Arc<Tun>,
    to: Arc<Tun>,
    clock: Clock,
    stop: Stop,
    emulated: Emulated<Note>,
    logs: Vec<Box<dyn Log>>,
    counters: DirectionCounters,
}

impl Direction {
    /// Packets of at most `mtu` bytes go `from` one device `to` another through `plan`'s link.
    pub fn new(from: Arc<Tun>, to: Arc<Tun>, mtu: u32, plan: Plan, clock: Clock, stop: Stop) -> Direction {
        let Plan { mut link, logs } = plan;
        link.expect_all_flows();
        let emulated = Emulated::new(link, mtu as usize);
        Direction { from, to, clock, stop, emulated, logs, counters: DirectionCounters::default() }
    }

    /// Moves packets until it is stopped; the link and what was done.
    pub fn run(mut self) -> (Link, DirectionCounters) {
        let _prompt = Prompt::ask();
        let mut buffer = vec![0; usize::from(u16::MAX)];
        while !self.stop.is_asked() {
            let more = self.take_in(&mut buffer);
            self.pass_on();
            if !more {
                self.sleep();
            }
        }
        let now = self.clock.now();
        self.emulated.settle(now);
        self.logs.iter_mut().for_each(|log| log.closes(now));
        (self.emulated.into_link(), self.counters)
    }

    /// Reads what waits in the device; true if there may be more.
    fn take_in(&mut self, buffer: &mut [u8]) -> bool {
        for _ in 0..BATCH {
            match self.from.read(buffer) {
                Ok(None) => return false,
                Ok(Some(packet)) => {
                    let packet = packet.len();
                    self.offer(&buffer[..packet]);
                }
                Err(_) => {
                    thread::sleep(PAUSE);
                    return false;
                }
            }
        }
        true
    }

    fn offer(&mut self, bytes: &[u8]) {
        self.counters.received += 1;
        let Some(Header { flow, ecn }) = Header::read(bytes) else {
            self.counters.foreign += 1;
            return;
        };
        let now = self.clock.now();
        let size = bytes.len() as u32;
        let Direction { emulated, logs, counters, .. } = self;
        if !logs.is_empty() {
            // So that what left before is told before.
            emulated.settle(now);
            logs.iter_mut().for_each(|log| log.arrives(now, size));
        }
        let note = Note { number: counters.received - 1, flow, ecn, written: ecn };
        let like = Packet { ecn, ..Packet::bare(flow.number(), size, now) };
        if !emulated.offer(now, bytes, note, like, &mut |packet, cause, held| {
            tell_drop(logs, now, packet, cause, held)
        }) {
            counters.refused += 1;
            let dropped = End::Dropped { at: now, cause: Dropped::BufferFull };
            let passage = Passage { number: note.number, arrived: now, size, flow, ecn, end: dropped };
            logs.iter_mut().for_each(|log| log.ends(&passage));
        }
    }

    /// Writes what has come out of the link by now.
    fn pass_on(&mut self) {
        let Direction { emulated, logs, counters, to, clock, .. } = self;
        let now = clock.now();
        loop {
            let out =
                emulated.deliver(now, &mut |packet, cause, held| tell_drop(logs, now, packet, cause, held));
            let Some((due, packet)) = out else { return };
            let held = emulated.held(&packet);
            if packet.ecn != held.note.written {
                header::set_ecn(&mut held.bytes, packet.ecn);
                held.note.written = packet.ecn;
            }
            match to.write(&held.bytes) {
                Ok(()) => counters.sent += 1,
                Err(_) => counters.unsent += 1,
            }
            let left = clock.now();
            counters.late.count(left - due);
            if !logs.is_empty() {
                let passage = passage(&packet, &held.note, End::Passed { due, left, ecn: packet.ecn });
                logs.iter_mut().for_each(|log| log.ends(&passage));
            }
            emulated.release(&packet);
        }
    }

    /// Sleeps until a packet comes, one is due or somebody stops us.
    fn sleep(&mut self) {
        let now = self.clock.now();
        self.logs.iter_mut().for_each(|log| log.idles(now));
        let due = self.emulated.link().next_event().map_or(LONGEST, |due| due.min(now + LONGEST) - now);
        if due.is_positive() && !self.stop.is_asked() {
            wait(&[self.from.fd(), self.stop.waker().event().as_raw_fd()], due);
        }
    }
}

fn passage(packet: &Packet, note: &Note, end: End) -> Passage {
    let Note { number, flow, ecn, .. } = *note;
    Passage { number, arrived: packet.entered, size: packet.size, flow, ecn, end }
}

fn tell_drop(logs: &mut [Box<dyn Log>], at: Time, packet: &Packet, cause: Dropped, held: &Held<Note>) {
    let passage = passage(packet, &held.note, End::Dropped { at, cause });
    logs.iter_mut().for_each(|log| log.ends(&passage));
}

/// ppoll(2) on two descriptors. An early return only means a look too many.
fn wait(descriptors: &[i32; 2], timeout: Span) {
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let ns = timeout.as_nanos();
    let timeout = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    // SAFETY: `polled` and `timeout` outlive the call.
    unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as _, &timeout, ptr::null()) };
}

/// Runs a direction on a thread of its own.
pub(super) fn start(
    name: &str,
    direction: Direction,
) -> io::Result<thread::JoinHandle<(Link, DirectionCounters)>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || direction.run())
}
