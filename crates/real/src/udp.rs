//! Runs an [`Endpoint`] over a UDP socket in real time.

use std::io;
use std::net::SocketAddr;
use std::ops::{ControlFlow, Range};

use units::{Span, Time};
use wire::{Control, Endpoint, Media, RxMeta};

use crate::clock::{Calendar, Clock};
use crate::error::RealError;
use crate::prompt::Prompt;
use crate::settings::{Counters, Limits, Peer, Settings};
use crate::socket::{self, BATCH, Incoming, Outgoing, SLOT, Socket};
use crate::waker::{Stop, Waker};

/// A socket, a clock and the loop that drives an endpoint with them.
pub struct Driver {
    socket: Socket,
    clock: Clock,
    calendar: Calendar,
    spin: Span,
    connected: bool,
    peer: Option<SocketAddr>,
    waker: Waker,
    stop: Stop,
    counters: Counters,
    /// Datagrams taken from the endpoint, and which of them are still to be sent.
    outgoing: Vec<Outgoing>,
    pending: Range<usize>,
    /// The latest time the endpoint was told: it must not see an earlier one.
    told: Time,
}

/// Batches read before the endpoint gets a word in: 256 datagrams, 25 ms of 100 Mbit/s.
const READS_AT_ONCE: usize = 8;
/// An endpoint that was busy for longer than this (decoding, say) may have kept packets waiting, whose arrival it should
/// hear of before it is told a later time.
const LONG_CALL: Span = Span::from_micros(200);

impl Driver {
    /// A driver with a socket of its own at `local` (port 0 lets the system choose).
    ///
    /// # Errors
    /// [`RealError`] if there is no such socket to be had, or no way to the peer.
    pub fn open(local: SocketAddr, peer: Peer, settings: &Settings) -> Result<Driver, RealError> {
        let peer = match peer {
            Peer::At(peer) => Some(peer),
            Peer::First => None,
        };
        let socket = Socket::open(local, peer, settings.batched)?;
        let waker = Waker::new().map_err(|source| RealError::new(local, source))?;
        Ok(Driver {
            socket,
            clock: settings.clock,
            calendar: Calendar::new(settings.clock),
            spin: settings.spin,
            connected: peer.is_some(),
            peer,
            stop: Stop::new(waker.clone()),
            waker,
            counters: Counters::default(),
            outgoing: (0..BATCH).map(|_| Outgoing::new()).collect(),
            pending: 0..0,
            told: Time::ZERO,
        })
    }

    /// A driver that talks to `peer` from any port.
    ///
    /// # Errors
    /// As [`open`](Driver::open).
    pub fn connect(peer: SocketAddr, settings: &Settings) -> Result<Driver, RealError> {
        let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        Driver::open(any.parse().expect("an address"), Peer::At(peer), settings)
    }

    /// The socket's own address.
    pub fn local(&self) -> SocketAddr {
        self.socket.local()
    }

    /// Whom the driver talks to, once that is known.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// The clock the endpoint lives by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Wakes the endpoint from another thread, as when an encoder has finished.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Ends [`run`](Driver::run) from another thread.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Drives `endpoint` until a limit, [`stop`](Driver::stop) or `on_tick` ends it. `on_tick` is called every
    /// [`tick`](Limits::tick) with the time, the endpoint and the counters, and once more at the end.
    ///
    /// # Errors
    /// [`RealError`] if the socket fails for good, or the peer stays silent beyond [`Limits::patience`].
    pub fn run<E: Endpoint + ?Sized>(
        &mut self,
        endpoint: &mut E,
        limits: &Limits,
        on_tick: &mut dyn FnMut(Time, &mut E, &Counters) -> ControlFlow<()>,
    ) -> Result<(), RealError> {
        let _prompt = Prompt::ask();
        let start = self.now();
        let until = limits.until.unwrap_or(Time::MAX);
        let mut next_tick = start + limits.tick;
        endpoint.wake(start);
        loop {
            let more = self.receive(endpoint)?;
            self.wake(endpoint)?;
            self.transmit(endpoint)?;
            let now = self.now();
            if now >= next_tick {
                next_tick = now + limits.tick;
                if on_tick(now, endpoint, &self.counters).is_break() {
                    return Ok(());
                }
                self.lose_patience(now - start, limits)?;
            }
            if self.stop.is_asked() || now >= until {
                let _ = on_tick(now, endpoint, &self.counters);
                return Ok(());
            }
            if !more {
                let due = endpoint.next_wake().unwrap_or(Time::MAX);
                self.wait(now, due.min(until).min(next_tick));
            }
        }
    }

    /// The time; never earlier than one the endpoint has seen.
    fn now(&mut self) -> Time {
        self.told = self.told.max(self.clock.now());
        self.told
    }

    fn lose_patience(&self, waited: Span, limits: &Limits) -> Result<(), RealError> {
        match (self.peer, limits.patience) {
            (Some(peer), Some(patience)) if self.counters.received == 0 && waited >= patience => {
                Err(RealError::Silent { peer, waited: patience, refused: self.counters.refused > 0 })
            }
            _ => Ok(()),
        }
    }

    /// Hands the endpoint what has arrived; true if there may be more.
    fn receive<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E) -> Result<bool, RealError> {
        for _ in 0..READS_AT_ONCE {
            let start = self.clock.now();
            let count = self.receive_batch(endpoint)?;
            if count < BATCH && self.clock.now() - start <= LONG_CALL {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn receive_batch<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E) -> Result<usize, RealError> {
        let Driver { socket, clock, calendar, counters, peer, told, .. } = self;
        let now = clock.now();
        let read = socket.receive(&mut |incoming| {
            if !admit(&incoming, peer, counters) {
                return;
            }
            let stamp = incoming.date_ns.map(|date| calendar.time_of(date, now));
            counters.stamped += u64::from(stamp.is_some());
            counters.received += 1;
            counters.received_bytes += incoming.bytes.len() as u64;
            *told = stamp.unwrap_or(now).max(*told);
            let meta = RxMeta { length: incoming.bytes.len(), payload: None, ecn: incoming.ecn };
            endpoint.receive(*told, incoming.bytes, meta);
        });
        match read {
            Ok(count) => {
                self.counters.reads += u64::from(count > 0);
                Ok(count)
            }
            Err(error) => self.excuse(error).map(|()| 0),
        }
    }

    /// Wakes the endpoint if it wants to be, or somebody rang.
    fn wake<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E) -> Result<(), RealError> {
        let now = self.now();
        let rung = self.waker.take();
        if !rung && endpoint.next_wake().is_none_or(|due| due > now) {
            return Ok(());
        }
        endpoint.wake(now);
        if self.clock.now() - now > LONG_CALL {
            self.receive(endpoint)?;
        }
        Ok(())
    }

    /// Sends what the endpoint has to send, until it has no more or the system takes no more.
    fn transmit<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E) -> Result<(), RealError> {
        loop {
            if !self.flush()? || !self.collect(endpoint) {
                return Ok(());
            }
        }
    }

    /// Takes a batch of datagrams from the endpoint; false if it has none. Without a peer they go nowhere.
    fn collect<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E) -> bool {
        let mut count = 0;
        while count < BATCH {
            let now = self.now();
            let slot = &mut self.outgoing[count];
            let Some(meta) = endpoint.transmit(now, &mut slot.head) else { break };
            assert!(meta.head <= SLOT && meta.head <= meta.length, "a datagram is at least its header");
            slot.meta = meta;
            count += 1;
        }
        match self.peer {
            Some(_) => self.pending = 0..count,
            None => self.counters.unsent += count as u64,
        }
        count > 0
    }

    /// Sends the datagrams that are pending; false if the system takes no more for now.
    fn flush(&mut self) -> Result<bool, RealError> {
        let to = if self.connected { None } else { self.peer };
        while !self.pending.is_empty() {
            match self.socket.send(&self.outgoing[self.pending.clone()], to) {
                Ok(count) => self.passed(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.counters.blocked += 1;
                    return Ok(false);
                }
                Err(error) => self.fail_one(error)?,
            }
        }
        Ok(true)
    }

    fn passed(&mut self, count: usize) {
        let start = self.pending.start;
        let sent = &mut self.outgoing[start..start + count];
        self.counters.sent_bytes += sent.iter().map(|datagram| datagram.meta.length as u64).sum::<u64>();
        // The payload's bytes are shared with whoever coded them, and wanted back.
        sent.iter_mut().for_each(|datagram| datagram.meta.payload = None);
        self.counters.sent += count as u64;
        self.counters.writes += 1;
        self.pending.start += count;
    }

    /// The first pending datagram was not sent.
    fn fail_one(&mut self, error: io::Error) -> Result<(), RealError> {
        match error.kind() {
            // News of an earlier datagram; this one was not tried, and will be.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => self.counters.refused += 1,
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::PermissionDenied => {
                return Err(RealError::Permission(self.peer.unwrap_or(self.local())));
            }
            _ => {
                self.counters.unsent += 1;
                self.pending.start += 1;
            }
        }
        Ok(())
    }

    /// Passes over errors of a read that are news of an earlier datagram's fate.
    fn excuse(&mut self, error: io::Error) -> Result<(), RealError> {
        use io::ErrorKind::{
            ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable,
        };
        match error.kind() {
            ConnectionRefused | ConnectionReset => self.counters.refused += 1,
            Interrupted | HostUnreachable | NetworkUnreachable => {}
            _ => return Err(RealError::new(self.local(), error)),
        }
        Ok(())
    }

    fn wait(&self, now: Time, due: Time) {
        /// However long the endpoint would sleep, look around this often.
        const LONGEST: Span = Span::from_secs(1);
        /// While the system takes no datagrams, the endpoint's wishes can't be met; the socket says when it can be tried.
        const BLOCKED: Span = Span::from_millis(1);
        let blocked = !self.pending.is_empty();
        let due = if blocked { now + BLOCKED } else { due.min(now + LONGEST) };
        socket::wait(&[&self.socket], blocked, &self.waker, due - now - self.spin);
    }
}

/// Whether a datagram is the peer's; the first that opens a session makes its sender the peer.
fn admit(incoming: &Incoming<'_>, peer: &mut Option<SocketAddr>, counters: &mut Counters) -> bool {
    if incoming.truncated {
        counters.oversize += 1;
        return false;
    }
    if peer.is_none() && opens_session(incoming.bytes) {
        *peer = Some(incoming.from);
    }
    let known =
        peer.is_some_and(|peer| peer.ip() == incoming.from.ip() && peer.port() == incoming.from.port());
    counters.foreign += u64::from(!known);
    known
}

/// Media, padding or a hello: what a sender sends first.
pub(crate) fn opens_session(bytes: &[u8]) -> bool {
    Media::decode(bytes).is_ok() || matches!(Control::decode(bytes), Ok(Control::Hello { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LOCALHOST, Metronome, Notebook, percentile};
    use std::net::UdpSocket;
    use std::thread;
    use units::Ecn;

    fn settings(batched: bool) -> Settings {
        Settings { batched, ..Settings::default() }
    }

    fn receiver(settings: &Settings) -> Driver {
        Driver::open(LOCALHOST.parse().unwrap(), Peer::First, settings).unwrap()
    }

    fn limits(ms: i64) -> Limits {
        let until = Some(Clock::shared().now() + Span::from_millis(ms));
        Limits { until, tick: Span::from_millis(10), ..Limits::default() }
    }

    /// Runs `sender` to its end against a notebook, and a little longer for the last to arrive.
    fn converse(mut far: Driver, settings: &Settings, sender: &mut Metronome) -> (Notebook, Driver, Driver) {
        let mut near = Driver::connect(far.local(), settings).unwrap();
        let stop = far.stop();
        let mut notebook = Notebook::new(settings.clock);
        thread::scope(|scope| {
            scope.spawn(|| {
                far.run(&mut notebook, &limits(20_000), &mut |_, _, _| ControlFlow::Continue(())).unwrap()
            });
            let mut done_at = None;
            near.run(sender, &limits(20_000), &mut |now, sender: &mut Metronome, _| {
                if sender.is_done() && now - *done_at.get_or_insert(now) > Span::from_millis(100) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
            stop.stop();
        });
        (notebook, near, far)
    }

    fn thousands_arrive_intact(batched: bool) -> (Notebook, Driver) {
        let mut sender = Metronome::new(5_000, Span::from_micros(100), 1_200);
        sender.ecn = Ecn::Ect1;
        let (notebook, near, far) = converse(receiver(&settings(batched)), &settings(batched), &mut sender);
        assert_eq!(notebook.damaged, 0);
        // Loopback drops only where a buffer overflows, which a stalled test machine may cause.
        assert!(notebook.packets.len() >= 4_900, "{} of 5000 arrived", notebook.packets.len());
        assert!(notebook.packets.is_sorted());
        assert_eq!(near.counters().sent, 5_000);
        assert_eq!(near.counters().sent_bytes, 5_000 * 1_200);
        assert_eq!(far.counters().received as usize, notebook.packets.len());
        assert_eq!(near.counters().received, far.counters().sent);
        assert_eq!(sender.heard, near.counters().received);
        assert!(sender.heard >= 490);
        (notebook, far)
    }

    fn print_delays(what: &str, notebook: &Notebook) {
        let [told, heard] = [&notebook.told, &notebook.heard].map(|d| [0.5, 0.99].map(|p| percentile(d, p)));
        println!(
            "{what}: arrival time p50 {} p99 {}; endpoint called p50 {} p99 {}",
            told[0], told[1], heard[0], heard[1]
        );
    }

    #[test]
    fn datagrams_arrive_intact_and_in_time() {
        let (notebook, far) = thousands_arrive_intact(true);
        print_delays("10000 packets a second", &notebook);
        assert!(percentile(&notebook.told, 0.5) < Span::from_millis(5));
        if cfg!(target_os = "linux") {
            assert_eq!(far.counters().stamped, far.counters().received, "the kernel stamps arrivals");
            assert_eq!(notebook.ecn, Ecn::Ect1, "ECN travels");
        }
    }

    #[test]
    fn the_standard_library_alone_does_too() {
        let (notebook, _) = thousands_arrive_intact(false);
        print_delays("one at a time", &notebook);
        assert!(percentile(&notebook.told, 0.5) < Span::from_millis(10));
    }

    #[test]
    fn the_newer_internet_protocol_works_too() {
        let settings = settings(true);
        let Ok(far) = Driver::open("[::1]:0".parse().unwrap(), Peer::First, &settings) else {
            return println!("skipped: no IPv6 on this machine");
        };
        let mut sender = Metronome::new(200, Span::from_micros(200), 700);
        sender.ecn = Ecn::Ect0;
        let (notebook, _, far) = converse(far, &settings, &mut sender);
        assert_eq!((notebook.packets.len(), notebook.damaged), (200, 0));
        assert!(far.peer().is_some_and(|peer| peer.is_ipv6()));
        assert!(notebook.ecn == Ecn::Ect0 || !cfg!(target_os = "linux"));
    }

    #[test]
    fn strangers_are_counted_and_ignored() {
        let settings = settings(true);
        let mut far = receiver(&settings);
        let stranger = UdpSocket::bind(LOCALHOST).unwrap();
        // Before there is a peer, what opens no session makes none.
        (0..50u8).for_each(|k| drop(stranger.send_to(&vec![k; usize::from(k) * 30], far.local())));
        let mut near = Driver::connect(far.local(), &settings).unwrap();
        let mut sender = Metronome::new(100, Span::from_micros(200), 300);
        let mut notebook = Notebook::new(settings.clock);
        far.run(&mut notebook, &limits(30), &mut |_, _, _| ControlFlow::Continue(())).unwrap();
        assert_eq!((far.counters().foreign, far.peer()), (50, None));
        near.run(&mut sender, &limits(5_000), &mut |_, sender: &mut Metronome, _| match sender.is_done() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
        .unwrap();
        far.run(&mut notebook, &limits(30), &mut |_, _, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(far.peer().map(|peer| peer.port()), Some(near.local().port()));
        // Then a perfect packet from elsewhere changes nothing either, nor does one too long for any.
        let mut packet = vec![0; 300];
        Metronome::new(1, Span::ZERO, 300).forge(&mut packet);
        stranger.send_to(&packet, far.local()).unwrap();
        stranger.send_to(&[0; 5_000], far.local()).unwrap();
        far.run(&mut notebook, &limits(30), &mut |_, _, _| ControlFlow::Continue(())).unwrap();
        assert_eq!((far.counters().foreign, far.counters().oversize), (51, 1));
        assert_eq!(notebook.packets.len(), 100);
    }

    #[test]
    fn a_run_ends_when_asked_and_wakes_when_rung() {
        struct Sleeper(u32);
        impl Endpoint for Sleeper {
            fn receive(&mut self, _: Time, _: &[u8], _: RxMeta) {}
            fn wake(&mut self, _: Time) {
                self.0 += 1;
            }
            fn next_wake(&self) -> Option<Time> {
                None
            }
            fn transmit(&mut self, _: Time, _: &mut [u8]) -> Option<wire::TxMeta> {
                None
            }
        }
        let mut driver = receiver(&settings(true));
        let (waker, stop, clock) = (driver.waker(), driver.stop(), driver.clock());
        let mut sleeper = Sleeper(0);
        let start = clock.now();
        let endless = Limits { tick: Span::from_secs(100), ..Limits::default() };
        thread::scope(|scope| {
            scope.spawn(|| {
                driver.run(&mut sleeper, &endless, &mut |_, _, _| ControlFlow::Continue(())).unwrap()
            });
            clock.sleep_until(start + Span::from_millis(20));
            waker.wake();
            clock.sleep_until(start + Span::from_millis(40));
            stop.stop();
        });
        assert!(clock.now() - start < Span::from_millis(900), "the stop ended the sleep");
        // At the start, when rung, and possibly once more on the way out.
        assert!((2..=3).contains(&sleeper.0), "{} wakes", sleeper.0);
    }

    #[test]
    fn errors_name_the_address_and_the_way_out() {
        let first = receiver(&settings(true));
        let error = Driver::open(first.local(), Peer::First, &settings(true)).err().unwrap();
        assert!(matches!(error, RealError::InUse(addr) if addr == first.local()), "{error}");
        let error = Driver::open("192.0.2.1:9".parse().unwrap(), Peer::First, &settings(true)).err().unwrap();
        assert!(matches!(error, RealError::NotOurs(_)), "{error}");
    }

    #[test]
    fn a_silent_peer_ends_the_run_with_a_reason() {
        let nobody = {
            let socket = UdpSocket::bind(LOCALHOST).unwrap();
            socket.local_addr().unwrap()
        };
        let mut near = Driver::connect(nobody, &settings(true)).unwrap();
        let mut sender = Metronome::new(1_000, Span::from_millis(1), 100);
        let limits = Limits { patience: Some(Span::from_millis(50)), ..limits(5_000) };
        let error = near.run(&mut sender, &limits, &mut |_, _, _| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(error, RealError::Silent { refused: true, .. }), "{error}");
    }
}
