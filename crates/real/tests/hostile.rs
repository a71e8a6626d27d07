//! Peers that mean harm, and peers that break: nobody panics, nothing grows without bound, the reason is
//! right, and an honest peer of the same server keeps its stream.

#![allow(clippy::disallowed_methods, reason = "certificates have dates")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime};

use cc::{Options, Setup};
use framewire_real::quic::{
    Call, Distrust, Fingerprint, Gate, Identity, Limits, QuicChannel, QuicError, Reason, Runtime, Server,
    Token, Trust,
};
use framewire_real::{Channel, Clock, Driver, Ended, Limits as RunLimits, STEADY_DATAGRAM};
use media::{EncoderModel, ModelConfig, Table};
use record::Tap;
use session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video};
use units::{Ecn, RemoteTime, Rng, Span, Time};
use wire::{Arrival, Draft, Endpoint, Feedback, FeedbackWriter, Media, Offer, Refusal, Role, RxMeta, TxMeta};

/// Counts what is allocated, and the most there was.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call on to the system's allocator and only counts beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory is the whole process's, so one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// What was allocated at most during `work` beyond what there was before, in bytes.
fn most_during(work: impl FnOnce()) -> usize {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed).saturating_sub(before)
}

/// Most that anything here may make us hold: both ends of two connections, and as much again.
const MEMORY: usize = 8 * Limits::MEMORY;
/// Packets a second of an honest stream: 2 Mbit/s.
const RATE: &str = "2mbit";
const PER_SECOND: f64 = 2e6 / 8.0 / STEADY_DATAGRAM as f64;

struct House {
    client: Runtime,
    server: Server,
    at: SocketAddr,
    token: Token,
    trust: Trust,
    limits: Limits,
    _runtime: Runtime,
}

/// The connecting end of a connection, and the accepting one.
type Ends = (Arc<QuicChannel>, Arc<QuicChannel>);

impl House {
    fn new() -> House {
        House::of(&Identity::self_signed(&["localhost".to_owned()]).unwrap())
    }

    fn of(identity: &Identity) -> House {
        let limits = Limits {
            idle: Span::from_millis(1_500),
            keep_alive: Span::from_millis(300),
            ..Limits::default()
        };
        let token = Token::generate();
        let gate = Gate::new(token.clone(), true, false);
        let listen = "127.0.0.1:0".parse().unwrap();
        let runtime = Runtime::new(1).unwrap();
        let server = Server::open(&runtime, listen, identity, gate, limits, Clock::shared()).unwrap();
        let at = server.local().unwrap();
        let trust = Trust::Pin(identity.fingerprint());
        House { client: Runtime::new(1).unwrap(), server, at, token, trust, limits, _runtime: runtime }
    }

    /// A call of somebody who shows `token` and believes `trust`.
    fn call<'a>(&self, token: &'a Token, trust: Trust) -> Call<'a> {
        Call {
            peer: self.at,
            host: "localhost",
            trust,
            role: Role::Publish,
            token,
            name: "",
            offer: Offer::default(),
            patience: Span::from_secs(10),
            clock: Clock::shared(),
            limits: self.limits,
        }
    }

    /// A connection of the threads `client`.
    fn connect(&mut self, client: &Runtime) -> Ends {
        let token = self.token.clone();
        let call = self.call(&token, self.trust.clone());
        let server = &mut self.server;
        thread::scope(|scope| {
            let near = scope.spawn(|| call.connect(client).unwrap().channel);
            let far = server.accept(Span::from_secs(10)).unwrap().welcome(&Offer::default()).unwrap();
            (near.join().unwrap(), far)
        })
    }
}

fn sender(cc: &str, session: u32) -> Sender {
    sender_of(Supply::Backlog, cc, session)
}

fn sender_of(supply: Supply, cc: &str, session: u32) -> Sender {
    let setup = Setup { mtu: STEADY_DATAGRAM as u32, ..Setup::default() };
    let options: Options = cc.parse().unwrap();
    let controller = cc::build(&options, &setup).unwrap();
    let config = SenderConfig { session, mtu: STEADY_DATAGRAM, ..SenderConfig::default() };
    let rng = Rng::stream(1, "hostile");
    Sender::new(config, &setup, controller, Policies::default(), vec![supply], rng, Tap::default())
}

fn receiver() -> Receiver {
    Receiver::new(ReceiverConfig::default(), None, None, Tap::default())
}

/// Drives an endpoint until it is told to stop or the channel ends.
fn drive<E: Endpoint>(channel: &Arc<QuicChannel>, endpoint: &mut E, over: &AtomicBool) {
    let limits = RunLimits { tick: Span::from_millis(10), ..RunLimits::default() };
    // The reason is asked of the channel.
    let _ = Driver::over(channel.clone()).run(endpoint, &limits, &mut |_, _, _| {
        if over.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}

/// Runs `attack` beside an honest stream; what the stream delivered of what it sent, as a share.
fn beside_an_honest_stream((here, there): &Ends, attack: impl FnOnce()) -> f64 {
    let over = AtomicBool::new(false);
    let (mut near, mut far) = (sender(&format!("fixed:rate={RATE}"), 7), receiver());
    let start = Clock::shared().now();
    thread::scope(|scope| {
        scope.spawn(|| drive(here, &mut near, &over));
        scope.spawn(|| drive(there, &mut far, &over));
        attack();
        over.store(true, Ordering::Relaxed);
    });
    let elapsed = (Clock::shared().now() - start).as_secs_f64();
    let (sent, arrived) = (near.counters().packets, far.counters().packets);
    println!("honest stream: {arrived} of {sent} packets in {elapsed:.1} s");
    assert_eq!((here.inbox().ended(), there.inbox().ended()), (None, None));
    assert!(sent as f64 > 0.5 * elapsed * PER_SECOND, "{sent} packets sent in {elapsed} s");
    arrived as f64 / sent as f64
}

fn pause(ms: i64) {
    Clock::shared().sleep_until(Clock::shared().now() + Span::from_millis(ms));
}

/// A packet that is none, of a form that makes a QUIC server look at it.
fn garbage(rng: &mut Rng, out: &mut Vec<u8>) {
    out.clear();
    let length = [0, 1, 20, 60, 1_200][rng.below(5) as usize];
    out.extend((0..length).map(|k| (rng.next_u64() >> (k % 8)) as u8));
    if let Some(first) = out.first_mut() {
        // Long headers with a fixed bit, short headers, and what comes.
        *first = [0xc3, 0x40, 0x80, *first][rng.below(4) as usize];
    }
    if length >= 20 && rng.chance(0.5) {
        // Version 1 with connection IDs of 8 bytes: as far as it goes, an Initial.
        out[1..6].copy_from_slice(&[0, 0, 0, 1, 8]);
        out[14] = 0;
    }
}

#[test]
fn a_million_packets_of_garbage_cost_little_and_the_stream_goes_on() {
    let _alone = alone();
    let mut house = House::new();
    let client = Runtime::new(1).unwrap();
    let ends = house.connect(&client);
    let at = house.at;
    let most = most_during(|| {
        let start = Clock::shared().now();
        let share = beside_an_honest_stream(&ends, || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut rng = Rng::stream(1, "garbage");
            let mut bytes = Vec::new();
            let kinds: Vec<Vec<u8>> = (0..512)
                .map(|_| {
                    garbage(&mut rng, &mut bytes);
                    bytes.clone()
                })
                .collect();
            for k in 0..1_000_000usize {
                // A full buffer on loopback drops; that is the flood's loss.
                let _ = socket.send_to(&kinds[k % kinds.len()], at);
                if k % 1_000 == 999 {
                    Clock::shared().sleep_until(start + Span::from_micros(10 * k as i64));
                }
            }
        });
        // The flood fills the very socket that the honest packets come through, so some of those are lost in
        // it.
        assert!(share > 0.5, "{share} of the honest packets arrived during the flood");
        assert!(beside_an_honest_stream(&ends, || pause(1_000)) > 0.95);
    });
    println!("{most} bytes at most; {:?}", house.server.counters());
    assert!(most < MEMORY, "{most} bytes");
}

/// An endpoint somebody has meddled with: what it transmits is up to `transmit`.
struct Meddled<E, F> {
    inner: E,
    transmit: F,
}

impl<E: Endpoint, F: FnMut(&mut E, Time, &mut [u8]) -> Option<TxMeta> + Send> Endpoint for Meddled<E, F> {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        self.inner.receive(now, datagram, meta);
    }
    fn wake(&mut self, now: Time) {
        self.inner.wake(now);
    }
    fn next_wake(&self) -> Option<Time> {
        self.inner.next_wake()
    }
    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        (self.transmit)(&mut self.inner, now, out)
    }
}

/// How a receiver's feedback is not what it should be.
struct Twisted {
    how: Twist,
    /// Feedback sent before.
    past: Vec<Vec<u8>>,
    owed: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Twist {
    /// All feedback again, many times, in any order.
    Replay,
    /// Acknowledges packets that were never sent.
    NeverSent,
    /// Arrivals that went back in time, by random spans.
    Backwards,
}

impl Twisted {
    fn transmit(&mut self, honest: &mut Receiver, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if let Some(old) = self.owed.pop() {
            out[..old.len()].copy_from_slice(&old);
            return Some(TxMeta { head: old.len(), length: old.len(), ..TxMeta::default() });
        }
        let meta = honest.transmit(now, out)?;
        if let Some(twisted) = self.rewrite(&out[..meta.head]) {
            out[..twisted.len()].copy_from_slice(&twisted);
            return Some(TxMeta { head: twisted.len(), length: twisted.len(), ..meta });
        }
        self.past.push(out[..meta.head].to_vec());
        if self.past.len() > 64 {
            self.past.remove(0);
        }
        self.owed.extend(self.past.iter().rev().step_by(5).cloned());
        Some(meta)
    }

    fn rewrite(&self, honest: &[u8]) -> Option<Vec<u8>> {
        let feedback = Feedback::decode(honest).ok()?;
        let mut rng = Rng::stream(u64::from(feedback.sequence), "twist");
        let mut arrivals: Vec<Arrival> = feedback.arrivals().collect();
        let mut ranges: Vec<(u64, u64)> = feedback.ranges().collect();
        match self.how {
            Twist::Replay => return None,
            Twist::NeverSent => {
                let ahead = 1 + rng.below(1 << 20);
                arrivals.iter_mut().for_each(|arrival| arrival.packet += ahead);
                ranges.iter_mut().for_each(|(low, high)| (*low, *high) = (*low + ahead, *high + ahead));
            }
            Twist::Backwards => arrivals.iter_mut().for_each(|arrival| {
                let back = rng.below(5_000_000_000) as i64;
                let at = (arrival.at.as_nanos() - back).max(0) as u64;
                *arrival = Arrival { at: Time::from_nanos(at).on_wire(), ecn: Ecn::Ce, ..*arrival };
            }),
        }
        let mut out = vec![0; STEADY_DATAGRAM];
        let sent = Time::from_nanos(rng.below(1 << 40));
        let Feedback { session, sequence, refused, blob, .. } = feedback;
        let (length, _) = FeedbackWriter::write(
            &mut out,
            &Draft { session, sequence, sent, refused, blob, arrivals: &arrivals },
            ranges.iter().copied(),
        );
        out.truncate(length);
        Some(out)
    }
}

/// What a sender under `cc` made of such a receiver, with an honest stream beside it.
fn suffer(how: Twist, cc: &str) -> (Sender, f64) {
    let mut house = House::new();
    let client = Runtime::new(1).unwrap();
    let honest = house.connect(&client);
    let (near, far) = house.connect(&client);
    let mut victim = sender(cc, 9);
    let mut twist = Twisted { how, past: Vec::new(), owed: Vec::new() };
    let transmit = move |honest: &mut Receiver, now, out: &mut [u8]| twist.transmit(honest, now, out);
    let mut twisted = Meddled { inner: receiver(), transmit };
    let mut share = 0.0;
    let over = AtomicBool::new(false);
    let most = most_during(|| {
        share = beside_an_honest_stream(&honest, || {
            thread::scope(|scope| {
                scope.spawn(|| drive(&near, &mut victim, &over));
                scope.spawn(|| drive(&far, &mut twisted, &over));
                pause(1_500);
                over.store(true, Ordering::Relaxed);
            });
        });
    });
    println!("{how:?} under {cc}: {:?}, {most} bytes at most", victim.counters());
    assert!(most < MEMORY, "{most} bytes");
    drop(house.client);
    (victim, share)
}

#[test]
fn feedback_again_and_again_changes_nothing() {
    let _alone = alone();
    let (victim, share) = suffer(Twist::Replay, "fixed:rate=4mbit");
    let counters = victim.counters();
    assert!(counters.packets > 300 && counters.implausible == 0, "{counters:?}");
    // A replay acknowledges nothing twice, so nothing that was lost is found again.
    assert!(counters.spurious <= counters.lost, "{counters:?}");
    assert!(share > 0.9, "{share}");
}

#[test]
fn feedback_of_what_was_never_sent_is_counted_and_ignored() {
    let _alone = alone();
    for cc in ["sqp", "copa"] {
        let (victim, share) = suffer(Twist::NeverSent, cc);
        let counters = victim.counters();
        assert!(counters.implausible > 0, "{counters:?}");
        // Nothing it can believe came back: it sends no more than a sender that hears nothing.
        assert!(counters.bytes < 4_000_000, "{counters:?}");
        assert!(share > 0.9, "{share}");
    }
}

#[test]
fn time_that_goes_backwards_harms_nobody_else() {
    let _alone = alone();
    for cc in ["sqp", "gcc", "bbr"] {
        let (victim, share) = suffer(Twist::Backwards, cc);
        // What the sender concludes from such times is between the two.
        assert!(victim.counters().packets > 0);
        assert!(share > 0.5, "{share}");
    }
}

#[test]
fn a_sender_that_dies_is_missed_and_its_place_is_free_again() {
    let _alone = alone();
    let mut house = House::new();
    let client = Runtime::new(1).unwrap();
    let honest = house.connect(&client);
    let doomed = Runtime::new(1).unwrap();
    let (near, far) = house.connect(&doomed);
    let idle = house.limits.idle;
    let share = beside_an_honest_stream(&honest, || {
        let over = AtomicBool::new(false);
        let (mut dying, mut bereft) = (sender("fixed:rate=2mbit", 9), receiver());
        thread::scope(|scope| {
            scope.spawn(|| drive(&near, &mut dying, &over));
            let bereft = scope.spawn(|| drive(&far, &mut bereft, &AtomicBool::new(false)));
            pause(300);
            over.store(true, Ordering::Relaxed);
            // Without its threads it sends nothing more, not even a goodbye.
            drop(doomed);
            bereft.join().unwrap();
        });
        assert!(bereft.counters().packets > 10, "{:?}", bereft.counters());
        assert_eq!(far.inbox().ended(), Some(Ended::Silent(idle)));
    });
    assert!(share > 0.9, "{share}");
    drop((near, far));
    house.connect(&client);
}

#[test]
fn wrong_tokens_and_wrong_certificates_are_told_so_and_the_stream_goes_on() {
    let _alone = alone();
    let mut house = House::new();
    let client = Runtime::new(1).unwrap();
    let honest = house.connect(&client);
    let most = most_during(|| {
        let share = beside_an_honest_stream(&honest, || {
            let mut refused = [0; 2];
            for attempt in 0..40 {
                // With its threads goes all that a client holds (3 MB for quinn's socket), which is not the
                // server's memory.
                let stranger = Runtime::new(1).unwrap();
                let wrong = Token::generate();
                let error = house.call(&wrong, house.trust.clone()).connect(&stranger).unwrap_err();
                match error {
                    QuicError::Refused { why: Refusal::Token, .. } => refused[0] += 1,
                    // Handshakes of one address have a rate.
                    QuicError::Refused { why: Refusal::Busy, .. } => refused[1] += 1,
                    other => panic!("attempt {attempt}: {other}"),
                }
                let pin = Trust::Pin(Fingerprint([7; 32]));
                match house.call(&house.token, pin).connect(&stranger).unwrap_err() {
                    QuicError::Distrusted { distrust: Distrust::Pin { .. }, .. }
                    | QuicError::Refused { why: Refusal::Busy, .. } => {}
                    other => panic!("attempt {attempt}: {other}"),
                }
            }
            pause(500);
            assert!(refused[0] >= 2 && refused[0] + refused[1] == 40, "{refused:?}");
        });
        assert!(share > 0.9, "{share}");
    });
    let counters = house.server.counters();
    println!("{most} bytes at most; {counters:?}");
    assert!(counters.refused(Reason::Token) >= 2 && counters.refused(Reason::AddressHandshakes) > 0);
    assert_eq!(counters.admitted, 1);
    assert!(most < MEMORY, "{most} bytes");
}

#[test]
fn a_certificate_that_ends_stops_newcomers_until_it_is_renewed_and_nobody_else() {
    let _alone = alone();
    let now = SystemTime::now();
    let names = ["localhost".to_owned()];
    // Certificates count in whole seconds.
    let short =
        Identity::self_signed_for(&names, now - Duration::from_secs(60), now + Duration::from_secs(3));
    let mut house = House::of(&short.unwrap());
    let client = Runtime::new(1).unwrap();
    let honest = house.connect(&client);
    let share = beside_an_honest_stream(&honest, || {
        pause(4_000);
        let error = house.call(&house.token, house.trust.clone()).connect(&client).unwrap_err();
        assert!(matches!(error, QuicError::Distrusted { distrust: Distrust::Expired, .. }), "{error}");
        assert!(error.to_string().contains("renew it there"), "{error}");
        let next = Identity::self_signed(&names).unwrap();
        house.server.credentials().replace(&next).unwrap();
        house.trust = Trust::Pin(next.fingerprint());
        house.connect(&client);
    });
    assert!(share > 0.9, "{share}");
}

/// How a peer stops reading.
#[derive(Clone, Copy, Debug)]
enum Deaf {
    /// Its program takes nothing of what QUIC has received.
    Program,
    /// Its machine hangs: nothing is read and nothing acknowledged.
    Machine,
}

#[test]
fn a_receiver_that_stops_reading_costs_a_bounded_buffer() {
    let _alone = alone();
    for how in [Deaf::Program, Deaf::Machine] {
        let mut house = House::new();
        let client = Runtime::new(1).unwrap();
        let honest = house.connect(&client);
        let deaf = Runtime::new(1).unwrap();
        let (near, far) = house.connect(&deaf);
        let mut sending = sender("fixed:rate=20mbit", 9);
        let most = most_during(|| {
            let share = beside_an_honest_stream(&honest, || {
                let over = AtomicBool::new(false);
                thread::scope(|scope| {
                    // Media goes from the server to the deaf client, as it does to a viewer.
                    scope.spawn(|| drive(&far, &mut sending, &over));
                    pause(200);
                    if matches!(how, Deaf::Machine) {
                        deaf.handle().spawn(async { pause(1_000) });
                    }
                    pause(1_100);
                    over.store(true, Ordering::Relaxed);
                });
            });
            assert!(share > 0.9, "{how:?}: {share}");
        });
        let (sent, inbox) = (sending.counters().packets, near.inbox().counters());
        println!("{how:?}: {sent} packets sent, {inbox:?}, {most} bytes at most");
        assert!(sent > 200, "{how:?}: {sent}");
        assert!(most < MEMORY, "{how:?}: {most} bytes");
        let held: usize = near.inbox().take().iter().map(|datagram| datagram.bytes.len()).sum();
        assert!(held <= Limits::MEMORY, "{how:?}: {held} bytes wait");
    }
}

/// Transmits as if the sender's clock jumped back by up to five seconds with every packet, and so did its
/// frames' times of capture.
fn transmit_unsteadily(sender: &mut Sender, rng: &mut Rng, now: Time, out: &mut [u8]) -> Option<TxMeta> {
    let meta = sender.transmit(now, out)?;
    if let Ok(media) = Media::decode(&out[..meta.head]) {
        let back = rng.below(5_000_000_000) as i64;
        let earlier = |at: RemoteTime| RemoteTime::from_nanos(at.as_nanos() - back);
        Media { sent: earlier(media.sent), captured: earlier(media.captured), ..media }.encode(out);
    }
    Some(meta)
}

#[test]
fn a_sender_whose_clock_runs_backwards_harms_nobody_else() {
    let _alone = alone();
    let mut house = House::new();
    let client = Runtime::new(1).unwrap();
    let honest = house.connect(&client);
    let (near, far) = house.connect(&client);
    let model = ModelConfig::perfect(Table::big_buck_bunny());
    let encoder = Box::new(EncoderModel::new(model).unwrap());
    let video = Video { encoder, source: None, interval: Span::from_micros(16_667) };
    let inner = sender_of(Supply::Video(video), "fixed:rate=4mbit", 9);
    let mut rng = Rng::stream(1, "unsteady");
    let transmit =
        move |sender: &mut Sender, now, out: &mut [u8]| transmit_unsteadily(sender, &mut rng, now, out);
    let mut unsteady = Meddled { inner, transmit };
    let mut receiver = receiver();
    let over = AtomicBool::new(false);
    let most = most_during(|| {
        let share = beside_an_honest_stream(&honest, || {
            thread::scope(|scope| {
                scope.spawn(|| drive(&near, &mut unsteady, &over));
                scope.spawn(|| drive(&far, &mut receiver, &over));
                pause(1_500);
                over.store(true, Ordering::Relaxed);
            });
        });
        assert!(share > 0.9, "{share}");
    });
    let counters = receiver.counters();
    println!("{counters:?}, {most} bytes at most");
    assert!(counters.packets > 300 && counters.assembled > 30, "{counters:?}");
    assert!(most < MEMORY, "{most} bytes");
}
