//! A link emulator between two sockets: the simulator's own [`Link`] on the real clock.
//!
//! ```text
//!             near socket                             far socket
//!  sender --> |  learnt  | --> forward Link --------> | connected | --> receiver
//!         <-- |          | <-------- backward Link <--|           | <--
//! ```
//!
//! A datagram enters its link at the time the kernel took it in, and leaves the relay when the link says so.
//! What the emulator adds is the time the machine takes to pass it on: two more socket calls and a wake-up.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;

use netsim::{IP_UDP_OVERHEAD, Link, Packet};
use units::{Span, Time};
use wire::TxMeta;

use crate::clock::{Calendar, Clock};
use crate::emulated::Emulated;
use crate::error::RealError;
use crate::prompt::Prompt;
use crate::settings::Limits;
use crate::socket::{self, BATCH, Incoming, Outgoing, SLOT, Socket};
use crate::udp::opens_session;
use crate::waker::{Stop, Waker};

/// Where a relay stands.
#[derive(Clone, Copy, Debug)]
pub struct RelaySettings {
    /// Where the sender sends to (port 0 lets the system choose).
    pub listen: SocketAddr,
    /// Where the receiver listens.
    pub target: SocketAddr,
    /// The links' clock: their rate steps and traces begin at its origin.
    pub clock: Clock,
    /// Start the links' clock afresh when the first packet comes, so that steps and traces begin with it.
    pub start_with_first: bool,
    /// Whoever sends first is the sender, whatever it sends; otherwise it must open a session of our own
    /// protocol.
    pub open_to_all: bool,
    /// Batched reads and writes with kernel arrival times, where the system has them.
    pub batched: bool,
}

impl RelaySettings {
    /// A relay from `listen` to `target` whose clock starts with the first packet.
    pub fn new(listen: SocketAddr, target: SocketAddr) -> RelaySettings {
        RelaySettings {
            listen,
            target,
            clock: Clock::shared(),
            start_with_first: true,
            open_to_all: false,
            batched: true,
        }
    }
}

/// What one direction of a relay did. The [`Link`] itself counts what it dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounters {
    /// Datagrams that arrived from the side this direction begins at.
    pub received: u64,
    /// Datagrams handed to the side it leads to.
    pub sent: u64,
    /// Datagrams of strangers, or sent back before there was a sender; dropped.
    pub foreign: u64,
    /// Datagrams dropped because they were longer than any packet, or because the relay held as many as it
    /// may.
    pub refused: u64,
    /// Datagrams the system would not send.
    pub unsent: u64,
}

/// Forwards datagrams between two sockets through two links.
pub struct Relay {
    near: Socket,
    far: Socket,
    clock: Clock,
    calendar: Calendar,
    sender: Option<SocketAddr>,
    start_with_first: bool,
    open_to_all: bool,
    forward: Direction,
    backward: Direction,
    waker: Waker,
    stop: Stop,
}

/// One direction: a link with the datagrams inside, and what goes out next.
struct Direction {
    emulated: Emulated<()>,
    outgoing: Vec<Outgoing>,
    counters: RelayCounters,
}

impl Direction {
    fn new(link: Link) -> Direction {
        let outgoing = (0..BATCH).map(|_| Outgoing::new()).collect();
        Direction { emulated: Emulated::new(link, SLOT), outgoing, counters: RelayCounters::default() }
    }

    /// Takes in a datagram that arrived at `at`.
    fn offer(&mut self, at: Time, incoming: &Incoming<'_>) {
        self.counters.received += 1;
        let size = incoming.bytes.len() as u32 + IP_UDP_OVERHEAD;
        let like = Packet { ecn: incoming.ecn, ..Packet::bare(0, size, at) };
        let taken =
            !incoming.truncated && self.emulated.offer(at, incoming.bytes, (), like, &mut |_, _, _| ());
        self.counters.refused += u64::from(!taken);
    }

    /// Sends what has come out of the link by `now`.
    fn deliver(&mut self, now: Time, socket: &mut Socket, to: Option<SocketAddr>) -> Result<(), RealError> {
        loop {
            let mut count = 0;
            while count < BATCH
                && let Some((_, packet)) = self.emulated.deliver(now, &mut |_, _, _| ())
            {
                self.load(count, &packet);
                count += 1;
            }
            if count == 0 {
                // Whoever looks at the link sees what waits by now.
                self.emulated.settle(now);
                return Ok(());
            }
            self.send(count, socket, to)?;
        }
    }

    fn load(&mut self, slot: usize, packet: &Packet) {
        let bytes = &self.emulated.held(packet).bytes;
        let outgoing = &mut self.outgoing[slot];
        outgoing.head[..bytes.len()].copy_from_slice(bytes);
        outgoing.meta =
            TxMeta { head: bytes.len(), length: bytes.len(), ecn: packet.ecn, ..TxMeta::default() };
        self.emulated.release(packet);
    }

    fn send(&mut self, count: usize, socket: &mut Socket, to: Option<SocketAddr>) -> Result<(), RealError> {
        let mut done = 0;
        while done < count {
            match socket.send(&self.outgoing[done..count], to) {
                Ok(sent) => {
                    self.counters.sent += sent as u64;
                    done += sent;
                }
                // News of an earlier datagram: nothing listens there (yet). This one was not tried.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(RealError::Permission(to.unwrap_or(socket.local())));
                }
                // A full socket buffer loses datagrams, as a full interface queue would.
                Err(_) => {
                    self.counters.unsent += 1;
                    done += 1;
                }
            }
        }
        Ok(())
    }
}

impl Relay {
    /// A relay that sends what comes to `settings.listen` through `forward`, and what comes back through
    /// `backward`.
    ///
    /// # Errors
    /// [`RealError`] if there are no such sockets to be had, or no way to the target.
    pub fn open(settings: &RelaySettings, forward: Link, backward: Link) -> Result<Relay, RealError> {
        let near = Socket::open(settings.listen, None, settings.batched)?;
        let any = if settings.target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let far = Socket::open(any.parse().expect("an address"), Some(settings.target), settings.batched)?;
        let waker = Waker::new().map_err(|source| RealError::new(settings.listen, source))?;
        Ok(Relay {
            near,
            far,
            clock: settings.clock,
            calendar: Calendar::new(settings.clock),
            sender: None,
            start_with_first: settings.start_with_first,
            open_to_all: settings.open_to_all,
            forward: Direction::new(forward),
            backward: Direction::new(backward),
            stop: Stop::new(waker.clone()),
            waker,
        })
    }

    /// Where the sender sends to.
    pub fn local(&self) -> SocketAddr {
        self.near.local()
    }

    /// The sender, once it has sent something.
    pub fn sender(&self) -> Option<SocketAddr> {
        self.sender
    }

    /// The links' clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Ends [`run`](Relay::run) from another thread.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The link from sender to receiver, and what its direction did.
    pub fn forward(&self) -> (&Link, &RelayCounters) {
        (self.forward.emulated.link(), &self.forward.counters)
    }

    /// The link from receiver to sender, and what its direction did.
    pub fn backward(&self) -> (&Link, &RelayCounters) {
        (self.backward.emulated.link(), &self.backward.counters)
    }

    /// Forwards until `limits.until` (on the clock the relay was given), [`stop`](Relay::stop) or `on_tick`
    /// ends it.
    ///
    /// # Errors
    /// [`RealError`] if a socket fails for good.
    pub fn run(
        &mut self,
        limits: &Limits,
        on_tick: &mut dyn FnMut(&Relay) -> ControlFlow<()>,
    ) -> Result<(), RealError> {
        let _prompt = Prompt::ask();
        // The links' clock may start afresh; the limits' does not.
        let clock = self.clock;
        let mut next_tick = clock.now() + limits.tick;
        loop {
            let more = self.take_in()?;
            self.pass_on()?;
            let now = clock.now();
            if now >= next_tick {
                next_tick = now + limits.tick;
                if on_tick(self).is_break() {
                    return Ok(());
                }
            }
            if self.stop.is_asked() || limits.until.is_some_and(|until| now >= until) {
                let _ = on_tick(self);
                return Ok(());
            }
            if !more {
                let latest = next_tick.min(limits.until.unwrap_or(Time::MAX)) - now;
                self.wait(latest);
            }
        }
    }

    /// Reads both sockets; true if there may be more.
    fn take_in(&mut self) -> Result<bool, RealError> {
        let Relay {
            near,
            far,
            clock,
            calendar,
            sender,
            start_with_first,
            open_to_all,
            forward,
            backward,
            ..
        } = self;
        let from_near = near.receive(&mut |incoming| {
            if !is_from(&incoming, sender, *open_to_all) {
                forward.counters.foreign += 1;
                return;
            }
            let mut now = clock.now();
            if std::mem::take(start_with_first) {
                *clock = Clock::starting_now();
                *calendar = Calendar::new(*clock);
                now = Time::ZERO;
            }
            forward.offer(arrival(&incoming, calendar, now), &incoming);
        });
        let from_far = far.receive(&mut |incoming| {
            if *start_with_first {
                backward.counters.foreign += 1;
                return;
            }
            let now = clock.now();
            backward.offer(arrival(&incoming, calendar, now), &incoming);
        });
        let near_count = excuse(from_near, near.local())?;
        let far_count = excuse(from_far, far.local())?;
        Ok(near_count.max(far_count) == BATCH)
    }

    fn pass_on(&mut self) -> Result<(), RealError> {
        // The links must not learn a time of a clock that will start afresh.
        if self.start_with_first {
            return Ok(());
        }
        let now = self.clock.now();
        self.forward.deliver(now, &mut self.far, None)?;
        match self.sender {
            Some(sender) => self.backward.deliver(now, &mut self.near, Some(sender)),
            None => Ok(()),
        }
    }

    fn wait(&self, latest: Span) {
        let _ = self.waker.take();
        if self.stop.is_asked() {
            return;
        }
        let events = [&self.forward, &self.backward].map(|way| way.emulated.link().next_event());
        let now = self.clock.now();
        let due = events.into_iter().flatten().min().map_or(latest, |due| due.min(now + latest) - now);
        socket::wait(&[&self.near, &self.far], false, &self.waker, due);
    }
}

fn arrival(incoming: &Incoming<'_>, calendar: &mut Calendar, now: Time) -> Time {
    incoming.date_ns.map_or(now, |date| calendar.time_of(date, now))
}

/// Whether a datagram is the sender's; the first that opens a session, ours or one of QUIC (or the very
/// first), makes its author the sender.
fn is_from(incoming: &Incoming<'_>, sender: &mut Option<SocketAddr>, open_to_all: bool) -> bool {
    let opens = |bytes| open_to_all || opens_session(bytes) || opens_quic(bytes);
    if sender.is_none() && opens(incoming.bytes) {
        *sender = Some(incoming.from);
    }
    *sender == Some(incoming.from)
}

/// A client's first packet: an Initial of version 1 in a datagram of at least 1200 bytes (RFC 9000 sections
/// 14.1, 17.2.2).
fn opens_quic(bytes: &[u8]) -> bool {
    bytes.len() >= 1200 && bytes[0] & 0xf0 == 0xc0 && bytes[1..5] == [0, 0, 0, 1]
}

/// The count read, or none where the error is news of an earlier datagram.
fn excuse(read: io::Result<usize>, local: SocketAddr) -> Result<usize, RealError> {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable,
    };
    read.or_else(|error| match error.kind() {
        ConnectionRefused | ConnectionReset | HostUnreachable | Interrupted | NetworkUnreachable => Ok(0),
        _ => Err(RealError::new(local, error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LOCALHOST, Metronome, Notebook, percentile};
    use crate::{Driver, Peer, Settings};
    use netsim::{LinkConfig, RateProcess};
    use std::thread;
    use units::Rate;

    fn link(config: LinkConfig, name: &str) -> Link {
        Link::new(config, 1, name, record::Tap::default())
    }

    fn any() -> SocketAddr {
        LOCALHOST.parse().unwrap()
    }

    fn limits(ms: i64) -> Limits {
        let until = Some(Clock::shared().now() + Span::from_millis(ms));
        Limits { until, tick: Span::from_millis(10), ..Limits::default() }
    }

    /// Ends a run `after` the sender's last packet.
    fn until_done(after: Span) -> impl FnMut(Time, &mut Metronome, &crate::Counters) -> ControlFlow<()> {
        let mut done_at = None;
        move |now, sender, _| match sender.is_done() && now - *done_at.get_or_insert(now) > after {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Runs `sender` to its end through a relay of these links; what arrived, and the relay.
    fn through(forward: LinkConfig, backward: LinkConfig, sender: &mut Metronome) -> (Notebook, Relay) {
        let settings = Settings::default();
        let mut far = Driver::open(any(), Peer::First, &settings).unwrap();
        let relay_settings = RelaySettings::new(any(), far.local());
        let mut relay = Relay::open(&relay_settings, link(forward, "there"), link(backward, "back")).unwrap();
        let mut near = Driver::connect(relay.local(), &settings).unwrap();
        let mut notebook = Notebook::new(settings.clock);
        let (stop_far, stop_relay) = (far.stop(), relay.stop());
        thread::scope(|scope| {
            scope.spawn(|| relay.run(&limits(20_000), &mut |_| ControlFlow::Continue(())).unwrap());
            scope.spawn(|| {
                far.run(&mut notebook, &limits(20_000), &mut |_, _, _| ControlFlow::Continue(())).unwrap();
            });
            near.run(sender, &limits(20_000), &mut until_done(Span::from_millis(200))).unwrap();
            stop_far.stop();
            stop_relay.stop();
        });
        (notebook, relay)
    }

    #[test]
    fn delays_by_what_the_link_says_both_ways() {
        let (there, back) = (Span::from_millis(25), Span::from_millis(5));
        let mut sender = Metronome::new(300, Span::from_millis(1), 500);
        let (notebook, relay) = through(LinkConfig::delay(there), LinkConfig::delay(back), &mut sender);
        assert_eq!((notebook.packets.len(), notebook.damaged), (300, 0));
        let (median, p99) = (percentile(&notebook.told, 0.5), percentile(&notebook.told, 0.99));
        println!("25 ms emulated: median {median}, p99 {p99}, least {}", percentile(&notebook.told, 0.0));
        // Each end turns the kernel's dates into its clock's time, which is good to 50 us and a few more.
        let dating = Span::from_micros(200);
        assert!(percentile(&notebook.told, 0.0) >= there - dating);
        assert!(median < there + Span::from_millis(3), "median {median}");
        let ((_, there), (_, back)) = (relay.forward(), relay.backward());
        assert_eq!((sender.heard, back.sent), (30, 30));
        assert_eq!(*there, RelayCounters { received: 300, sent: 300, ..RelayCounters::default() });
    }

    #[test]
    fn a_quic_clients_first_packet_is_known_by_its_head() {
        let mut initial = vec![0; 1200];
        initial[..5].copy_from_slice(&[0xc3, 0, 0, 0, 1]);
        assert!(opens_quic(&initial));
        assert!(!opens_quic(&initial[..1199]));
        initial[0] = 0xe3;
        assert!(!opens_quic(&initial), "a Handshake packet comes later");
    }

    #[test]
    fn limits_the_rate_and_drops_what_the_queue_cannot_hold() {
        // 1000 packets of 1000 bytes on the wire within 200 ms are 40 Mbit/s; 8 Mbit/s pass one a
        // millisecond.
        let rate = RateProcess::Constant(Rate::from_mbps(8));
        let forward = LinkConfig::bottleneck(rate, "droptail:50p".parse().unwrap(), Span::ZERO);
        let mut sender = Metronome::new(1_000, Span::from_micros(200), 972);
        let (notebook, relay) = through(forward, LinkConfig::default(), &mut sender);
        let (link, counters) = relay.forward();
        let total = link.stats().total();
        assert_eq!(counters.received, 1_000);
        assert_eq!(total.dropped.packets + total.delivered.packets, 1_000);
        assert_eq!(notebook.packets.len() as u64, counters.sent);
        // One packet a millisecond; a busy machine may be late with the first and the last by some.
        let first_to_last = notebook.span().as_millis_f64();
        println!("8 Mbit/s emulated: {} packets of 1000 bytes in {first_to_last} ms", counters.sent);
        assert!(counters.sent as f64 <= first_to_last + 30.0);
        assert!(
            counters.sent >= 240,
            "200 ms of sending and 50 ms of queue, but only {} packets",
            counters.sent
        );
        let full = percentile(&notebook.told, 0.8);
        assert!((45.0..80.0).contains(&full.as_millis_f64()), "a full queue delays by 50 ms, not {full}");
    }

    #[test]
    fn the_sender_is_learnt_once_and_others_are_foreign() {
        let stranger = std::net::UdpSocket::bind(LOCALHOST).unwrap();
        let forward = link(LinkConfig::default(), "there");
        let settings = RelaySettings::new(any(), stranger.local_addr().unwrap());
        let mut relay = Relay::open(&settings, forward, link(LinkConfig::default(), "back")).unwrap();
        stranger.send_to(b"nothing of ours", relay.local()).unwrap();
        let mut near = Driver::connect(relay.local(), &Settings::default()).unwrap();
        let mut sender = Metronome::new(5, Span::from_millis(1), 100);
        near.run(&mut sender, &limits(5_000), &mut until_done(Span::ZERO)).unwrap();
        stranger.send_to(b"nothing of ours", relay.local()).unwrap();
        relay.run(&limits(20), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(relay.sender().map(|sender| sender.port()), Some(near.local().port()));
        let (_, counters) = relay.forward();
        assert_eq!((counters.received, counters.foreign), (5, 2));
    }
}
