//! Runs an [`Endpoint`] in real time, over whatever carries its datagrams.

use std::net::SocketAddr;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use units::{Ecn, Span, Time};
use wire::{Endpoint, RxMeta};

use crate::channel::{Channel, ChannelPort};
use crate::clock::Clock;
use crate::error::RealError;
use crate::prompt::Prompt;
use crate::settings::{Counters, Limits, Peer, REFUSED, Settings};
use crate::socket::{BATCH, Outgoing};
use crate::udp::UdpPort;
use crate::waker::{Stop, Waker};

/// A way to the peer, a clock and the loop that drives an endpoint with them.
///
/// A modelled encoder's frames over the loopback for 0.3 s, the receiver on a thread of its own:
///
/// ```
/// use std::ops::ControlFlow;
/// use std::thread;
///
/// use framewire_real::{Driver, Limits, Peer, RealError, Settings};
/// use media::{EncoderModel, ModelConfig, Table};
/// use session::{ReceiverBuilder, SenderBuilder, Video};
/// use units::Span;
///
/// let interval = Span::from_millis(20);
/// let encoder = Box::new(EncoderModel::new(ModelConfig::recorded(Table::big_buck_bunny(), 1))?);
/// let mut sender = SenderBuilder::default().video(Video { encoder, source: None, interval }).build()?;
/// let mut receiver = ReceiverBuilder::default().build()?;
///
/// let settings = Settings::default();
/// let mut far = Driver::open("127.0.0.1:0".parse()?, Peer::First, &settings)?;
/// let mut near = Driver::connect(far.local(), &settings)?;
/// let until = far.clock().now() + Span::from_millis(300);
/// let limits = Limits { until: Some(until), ..Limits::default() };
/// let receiving = thread::spawn(move || {
///     far.run(&mut receiver, &limits, &mut |_, _, _| ControlFlow::Continue(()))?;
///     Ok::<_, RealError>(receiver.counters().packets)
/// });
/// // The closure is called every so often with the time and the endpoint, and may end the run.
/// near.run(&mut sender, &limits, &mut |_, _, _| ControlFlow::Continue(()))?;
/// assert!(receiving.join().unwrap()? > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Driver {
    port: Box<dyn Port>,
    clock: Clock,
    spin: Span,
    waker: Waker,
    stop: Stop,
    counters: Counters,
    /// Datagrams taken from the endpoint, and which of them are still to be sent.
    outgoing: Vec<Outgoing>,
    pending: Range<usize>,
    /// The latest time the endpoint was told: it must not see an earlier one.
    told: Time,
    /// When something was last sent.
    sent_at: Time,
    /// Since when what was sent has not been answered, with the refusals counted until then.
    unanswered: Option<(Time, u64)>,
}

/// What carries a driver's datagrams: a UDP socket, or a channel.
pub(crate) trait Port: Send {
    fn local(&self) -> SocketAddr;
    /// Whom it leads to, once that is known.
    fn peer(&self) -> Option<SocketAddr>;
    /// The longest datagram that can be sent, in bytes; at most a slot.
    fn room(&self) -> usize;
    /// Takes a batch of what has arrived, without waiting; true if there may be more.
    fn receive(&mut self, counters: &mut Counters, take: &mut Take<'_>) -> Result<bool, RealError>;
    /// Sends datagrams in order without waiting, and returns how many of them it is done with. With the
    /// others it waits for room.
    fn send(&mut self, datagrams: &[Outgoing], counters: &mut Counters) -> Result<usize, RealError>;
    /// How far apart it is worth sending: packets due within this go together.
    fn grain(&self) -> Span;
    /// Waits until something has arrived (or, if `blocked`, there is room), the waker rings, or `timeout` is
    /// over.
    fn wait(&self, blocked: bool, waker: &Waker, timeout: Span);
}

/// Takes a datagram, with its arrival time and ECN bits where they are known.
pub(crate) type Take<'a> = dyn FnMut(&[u8], Option<Time>, Ecn) + 'a;

/// Batches read before the endpoint gets a word in: 256 datagrams, 25 ms of 100 Mbit/s.
const READS_AT_ONCE: usize = 8;
/// An endpoint that was busy for longer than this (decoding, say) may have kept packets waiting, whose
/// arrival it should hear of before it is told a later time.
const LONG_CALL: Span = Span::from_micros(200);

impl Driver {
    /// A driver with a UDP socket of its own at `local` (port 0 lets the system choose).
    ///
    /// # Errors
    /// [`RealError`] if there is no such socket to be had, or no way to the peer.
    pub fn open(local: SocketAddr, peer: Peer, settings: &Settings) -> Result<Driver, RealError> {
        let port = UdpPort::open(local, peer, settings)?;
        let waker = Waker::new().map_err(|source| RealError::new(local, source))?;
        Ok(Driver::new(Box::new(port), waker, settings.clock, settings.spin))
    }

    /// A driver that talks to `peer` over UDP from any port.
    ///
    /// # Errors
    /// As [`open`](Driver::open).
    pub fn connect(peer: SocketAddr, settings: &Settings) -> Result<Driver, RealError> {
        let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        Driver::open(any.parse().expect("an address"), Peer::At(peer), settings)
    }

    /// A driver over a channel, on the clock of the channel's inbox. It takes what its inbox holds: one
    /// driver a channel.
    pub fn over(channel: Arc<dyn Channel>) -> Driver {
        let inbox = channel.inbox();
        let (waker, clock) = (inbox.waker(), inbox.clock());
        Driver::new(Box::new(ChannelPort::new(channel)), waker, clock, Span::ZERO)
    }

    fn new(port: Box<dyn Port>, waker: Waker, clock: Clock, spin: Span) -> Driver {
        Driver {
            port,
            clock,
            spin,
            stop: Stop::new(waker.clone()),
            waker,
            counters: Counters::default(),
            outgoing: (0..BATCH).map(|_| Outgoing::new()).collect(),
            pending: 0..0,
            told: Time::ZERO,
            sent_at: Time::ZERO,
            unanswered: None,
        }
    }

    /// The socket's own address.
    pub fn local(&self) -> SocketAddr {
        self.port.local()
    }

    /// Whom the driver talks to, once that is known.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.port.peer()
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

    /// Drives `endpoint` until a limit, [`stop`](Driver::stop) or `on_tick` ends it. `on_tick` is called
    /// every [`tick`](Limits::tick) with the time, the endpoint and the counters, and once more at the end.
    ///
    /// # Errors
    /// [`RealError`] if the socket fails for good, the channel ends, or the peer stays silent beyond
    /// [`Limits::patience`].
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
            // The bell is silenced before a look around: what rings it later is seen in the next.
            let rung = self.waker.take();
            let more = self.receive(endpoint)?;
            self.wake(endpoint, rung)?;
            self.transmit(endpoint)?;
            let now = self.now();
            if now >= next_tick {
                next_tick = now + limits.tick;
                if on_tick(now, endpoint, &self.counters).is_break() {
                    return Ok(());
                }
                self.lose_patience(now - start, limits)?;
                self.miss_peer(now, limits)?;
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
        match (self.port.peer(), limits.patience) {
            (Some(peer), Some(patience)) if self.counters.received == 0 && waited >= patience => {
                Err(RealError::Silent { peer, waited: patience, refused: self.counters.refused > 0 })
            }
            _ => Ok(()),
        }
    }

    /// Fails where a peer that was heard has stopped to answer.
    fn miss_peer(&self, now: Time, limits: &Limits) -> Result<(), RealError> {
        let (Some(peer), Some(silence), Some((since, refused))) =
            (self.port.peer(), limits.silence, self.unanswered)
        else {
            return Ok(());
        };
        let (waited, refused) = (now - since, self.counters.refused > refused);
        let longest = if refused { silence.min(REFUSED) } else { silence };
        if self.counters.received == 0 || waited < longest {
            return Ok(());
        }
        // Whole milliseconds: it is read by people.
        let waited = Span::from_millis(waited.as_millis_f64() as i64);
        Err(RealError::Gone { peer, waited, refused })
    }

    /// Hands the endpoint what has arrived; true if there may be more.
    fn receive<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E) -> Result<bool, RealError> {
        for _ in 0..READS_AT_ONCE {
            let start = self.clock.now();
            let full = self.receive_batch(endpoint)?;
            if !full && self.clock.now() - start <= LONG_CALL {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn receive_batch<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E) -> Result<bool, RealError> {
        let Driver { port, clock, counters, told, unanswered, .. } = self;
        let now = clock.now();
        let (mut datagrams, mut total, mut stamped) = (0, 0, 0);
        let more = port.receive(counters, &mut |bytes, stamp, ecn| {
            datagrams += 1;
            total += bytes.len() as u64;
            stamped += u64::from(stamp.is_some());
            *told = stamp.unwrap_or(now).max(*told);
            endpoint.receive(*told, bytes, RxMeta { length: bytes.len(), payload: None, ecn });
        })?;
        if datagrams > 0 {
            *unanswered = None;
        }
        counters.received += datagrams;
        counters.received_bytes += total;
        counters.stamped += stamped;
        Ok(more)
    }

    /// Wakes the endpoint if it wants to be, or somebody rang.
    fn wake<E: Endpoint + ?Sized>(&mut self, endpoint: &mut E, rung: bool) -> Result<(), RealError> {
        let now = self.now();
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
        let room = self.port.room();
        let mut count = 0;
        while count < BATCH {
            let now = self.now();
            let slot = &mut self.outgoing[count];
            let Some(meta) = endpoint.transmit(now, &mut slot.head[..room]) else { break };
            assert!(meta.head <= room && meta.head <= meta.length, "a datagram is at least its header");
            slot.meta = meta;
            count += 1;
        }
        match self.port.peer() {
            Some(_) => self.pending = 0..count,
            None => self.counters.unsent += count as u64,
        }
        count > 0
    }

    /// Sends the datagrams that are pending; false if the system takes no more for now.
    fn flush(&mut self) -> Result<bool, RealError> {
        if self.pending.is_empty() {
            return Ok(true);
        }
        let done = self.port.send(&self.outgoing[self.pending.clone()], &mut self.counters)?;
        let start = self.pending.start;
        // The payload's bytes are shared with whoever coded them, and wanted back.
        self.outgoing[start..start + done].iter_mut().for_each(|datagram| datagram.meta.payload = None);
        self.pending.start += done;
        self.sent_at = self.told;
        if done > 0 {
            self.unanswered.get_or_insert((self.told, self.counters.refused));
        }
        Ok(self.pending.is_empty())
    }

    fn wait(&self, now: Time, due: Time) {
        /// However long the endpoint would sleep, look around this often.
        const LONGEST: Span = Span::from_secs(1);
        /// While the system takes no datagrams, the endpoint's wishes can't be met; the socket says when it
        /// can be tried.
        const BLOCKED: Span = Span::from_millis(1);
        let blocked = !self.pending.is_empty();
        let due = due.max(self.sent_at + self.port.grain());
        let due = if blocked { now + BLOCKED } else { due.min(now + LONGEST) };
        self.port.wait(blocked, &self.waker, due - now - self.spin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LOCALHOST, Metronome, Notebook, percentile};
    use std::net::UdpSocket;
    use std::thread;

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
    /// Talks to a peer that answers the first datagram and no other: how the run ends.
    fn forsaken(stays: bool) -> RealError {
        let peer = UdpSocket::bind(LOCALHOST).unwrap();
        let at = peer.local_addr().unwrap();
        let mut near = Driver::connect(at, &settings(true)).unwrap();
        let mut sender = Metronome::new(20_000, Span::from_millis(1), 100);
        let limits = Limits { silence: Some(Span::from_millis(50)), ..limits(20_000) };
        thread::scope(|scope| {
            let there = scope.spawn(move || {
                let mut first = [0; 100];
                let (length, from) = peer.recv_from(&mut first).unwrap();
                peer.send_to(&first[..length], from).unwrap();
                stays.then_some(peer)
            });
            let error = near.run(&mut sender, &limits, &mut |_, _, _| ControlFlow::Continue(())).unwrap_err();
            drop(there.join().unwrap());
            error
        })
    }

    #[test]
    fn a_peer_that_goes_is_missed() {
        let gone = forsaken(false);
        assert!(matches!(gone, RealError::Gone { refused: true, .. }), "{gone}");
        let dumb = forsaken(true);
        assert!(matches!(dumb, RealError::Gone { refused: false, .. }), "{dumb}");
    }

    #[test]
    fn who_sends_nothing_misses_no_answer() {
        let peer = UdpSocket::bind(LOCALHOST).unwrap();
        let mut near = Driver::connect(peer.local_addr().unwrap(), &settings(true)).unwrap();
        peer.send_to(&[0; 100], format!("127.0.0.1:{}", near.local().port())).unwrap();
        let mut idle = Metronome::new(0, Span::from_millis(1), 100);
        let limits = Limits { silence: Some(Span::from_millis(20)), ..limits(200) };
        near.run(&mut idle, &limits, &mut |_, _, _| ControlFlow::Continue(())).unwrap();
        assert_eq!((near.counters().received, near.counters().sent), (1, 0));
    }
}
