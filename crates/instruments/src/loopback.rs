//! One flow over UDP or QUIC on loopback, for the benchmarks of real time: sender and receiver drivers, and
//! between them a relay if there is a link, each on a thread of its own.
//!
//! ```text
//! sender -- udp --> [relay: link] -- udp --> receiver        events of both ends -> one recording, on one clock
//! sender -- QUIC threads -- udp --> ... -- QUIC threads --> receiver
//! ```

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use netsim::Link;
use real::quic::{Call, Gate, Identity, Limits as QuicLimits, Runtime, Server, Token, Trust};
use real::{Clock, Driver, Limits, Peer, RealError, Relay, RelaySettings, STEADY_DATAGRAM, Settings};
use record::{Event, Memory, NodeId, Tap};
use session::{Receiver, Screen, Sender, SenderConfig, Shown};
use units::{HostClock, Rate, Span, Time};
use wire::{Offer, Role};

use crate::Failure;
use crate::measure;

/// The sender's node in a recording.
pub const SENDER: NodeId = NodeId(0);
/// The node under which the receiver's events are recorded.
pub const RECEIVER: NodeId = NodeId(1);
/// How long what is under way at the end may take to arrive.
const TAIL: Span = Span::from_millis(300);

/// Sockets and threads' worth of one flow.
pub struct Loopback {
    near: Driver,
    far: Driver,
    relay: Option<Relay>,
    events: Arc<Mutex<Memory>>,
    quic: Option<Quic>,
}

/// What a QUIC connection lives on.
struct Quic {
    client: Runtime,
    _server: (Server, Runtime),
}

/// How a flow's packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Plain UDP.
    Udp,
    /// Datagrams of a QUIC connection.
    Quic,
}

impl Over {
    /// The datagrams a sender should send, in bytes.
    pub fn mtu(self) -> usize {
        match self {
            Over::Udp => SenderConfig::default().mtu,
            Over::Quic => STEADY_DATAGRAM,
        }
    }
}

/// A handshake over loopback and a link takes no longer.
const PATIENCE: Span = Span::from_secs(10);

/// A relay that runs while `work` does, on a thread of its own. It can run again.
fn while_relaying<T: Send>(relay: Option<&mut Relay>, work: impl FnOnce() -> T) -> Result<T, RealError> {
    let over = AtomicBool::new(false);
    let limits = Limits { tick: Span::from_millis(5), ..Limits::default() };
    let look = |_: &Relay| match over.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    thread::scope(|scope| {
        let relay = relay.map(|relay| scope.spawn(|| relay.run(&limits, &mut { look })));
        let done = work();
        over.store(true, Ordering::Relaxed);
        relay.map_or(Ok(()), |relay| relay.join().expect("the relay does not panic")).map(|()| done)
    })
}

impl Loopback {
    /// Opens a flow's sockets and, with `links` (there and back), a relay between them.
    pub fn over(over: Over, links: Option<(Link, Link)>) -> Result<Loopback, Failure> {
        match over {
            Over::Udp => Loopback::open(links),
            Over::Quic => Loopback::connect(links),
        }
    }

    fn connect(links: Option<(Link, Link)>) -> Result<Loopback, Failure> {
        let clock = Clock::starting_now();
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let threads = || Runtime::new(1).map_err(Failure::work);
        let (client, runtime) = (threads()?, threads()?);
        let identity = Identity::self_signed(&["localhost".to_owned()]).map_err(Failure::work)?;
        let token = Token::generate();
        let gate = Gate::new(token.clone(), true, false);
        let server = Server::open(&runtime, any, &identity, gate, QuicLimits::default(), clock);
        let mut server = server.map_err(Failure::work)?;
        let target = server.local().map_err(Failure::work)?;
        let mut relay = match links {
            Some((there, back)) => {
                Some(Relay::open(&RelaySettings::new(any, target), there, back).map_err(Failure::work)?)
            }
            None => None,
        };
        let call = Call {
            peer: relay.as_ref().map_or(target, Relay::local),
            host: "localhost",
            trust: Trust::Pin(identity.fingerprint()),
            role: Role::Publish,
            token: &token,
            name: "",
            offer: Offer::default(),
            patience: PATIENCE,
            clock,
            limits: QuicLimits::default(),
        };
        let (near, far) = while_relaying(relay.as_mut(), || {
            thread::scope(|scope| {
                let near = scope.spawn(|| call.connect(&client));
                let far = server.accept(PATIENCE).map(|guest| guest.welcome(&Offer::default()));
                (near.join().expect("connecting does not panic"), far)
            })
        })
        .map_err(Failure::work)?;
        let near = near.map_err(Failure::work)?.channel;
        let far = far.ok_or_else(|| Failure::work("nobody came"))?.map_err(Failure::work)?;
        let quic = Some(Quic { client, _server: (server, runtime) });
        Ok(Loopback { near: Driver::over(near), far: Driver::over(far), relay, events: Arc::default(), quic })
    }

    /// CPU time that the sender's QUIC threads have used: there is one, and it tells itself.
    pub fn client_cpu(&self) -> Duration {
        let Some(quic) = &self.quic else { return Duration::ZERO };
        let handle = quic.client.handle();
        let told = handle.block_on(handle.spawn(async { measure::thread_time() }));
        told.expect("reading a clock does not panic")
    }

    /// Opens the sockets; with `links` (there and back), a relay between them.
    pub fn open(links: Option<(Link, Link)>) -> Result<Loopback, Failure> {
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let settings = Settings { clock: Clock::starting_now(), ..Settings::default() };
        let far = Driver::open(any, Peer::First, &settings).map_err(Failure::work)?;
        let relay = match links {
            Some((there, back)) => {
                let place = RelaySettings::new(any, far.local());
                Some(Relay::open(&place, there, back).map_err(Failure::work)?)
            }
            None => None,
        };
        let target = relay.as_ref().map_or(far.local(), Relay::local);
        let near = Driver::connect(target, &settings).map_err(Failure::work)?;
        Ok(Loopback { near, far, relay, events: Arc::default(), quic: None })
    }

    /// The sender's driver, to build a sender for.
    pub fn near(&self) -> &Driver {
        &self.near
    }

    /// The receiver's driver.
    pub fn far(&self) -> &Driver {
        &self.far
    }

    /// Where an endpoint reports to.
    pub fn tap(&self, node: NodeId) -> Tap {
        Tap::new(self.events.clone(), node, HostClock::default())
    }

    /// Runs both ends for `length` and returns what was recorded.
    pub fn run(
        &mut self,
        mut sender: Sender,
        mut receiver: Receiver,
        length: Span,
    ) -> Result<Recording, Failure> {
        let start = self.near.clock().now();
        // The relay's limits count on its own clock, which is not ours: it is stopped instead.
        let (near, far, relay) = (&mut self.near, &mut self.far, self.relay.as_mut());
        let stop = relay.as_ref().map(|relay| relay.stop());
        let on = |_, _: &mut _, _: &_| ControlFlow::Continue(());
        let until = |at| Limits { until: Some(at), ..Limits::default() };
        thread::scope(|scope| {
            let relay =
                relay.map(|r| scope.spawn(|| r.run(&Limits::default(), &mut |_| ControlFlow::Continue(()))));
            let far = scope.spawn(|| far.run(&mut receiver, &until(start + length + TAIL), &mut { on }));
            let sent =
                near.run(&mut sender, &until(start + length), &mut |_, _, _| ControlFlow::Continue(()));
            let received = far.join().expect("the receiver does not panic");
            if let Some(stop) = stop {
                stop.stop();
            }
            let relayed = relay.map_or(Ok(()), |relay| relay.join().expect("the relay does not panic"));
            [sent, received, relayed].into_iter().collect::<Result<(), RealError>>()
        })
        .map_err(Failure::work)?;
        let events = std::mem::take(&mut self.events.lock().expect("no recorder panics").events);
        Ok(Recording(events))
    }
}

/// What was recorded of one flow, in either world: events of both ends, in order.
pub struct Recording(pub Vec<(Time, NodeId, Event)>);

/// When one frame passed each stage, from capture to display, and its size.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameTrace {
    /// Its picture was read.
    pub captured: Time,
    /// It was handed to the network's queue.
    pub encoded: Option<Time>,
    /// Coded bytes.
    pub size: u32,
    /// Bytes of its packets but for the last one, whose end no pacer delays.
    pub before_last: u64,
    /// Bytes of its last packet.
    pub last: u64,
    /// What the controller allowed when it was encoded.
    pub pacing: Option<Rate>,
    /// When it was shown, if it was.
    pub shown: Option<Time>,
}

/// A screen that looks at the clock: a driver tells its endpoint when a packet arrived at the kernel, but a
/// viewer sees a picture only once it is decoded and drawn.
#[derive(Clone, Default)]
pub struct Watch {
    clock: Option<Clock>,
    rows: Arc<Mutex<Vec<(u32, Time)>>>,
}

impl Watch {
    /// A screen beside `clock`. In virtual time the default will do: the endpoint's word is exact.
    pub fn on(clock: Clock) -> Watch {
        Watch { clock: Some(clock), ..Watch::default() }
    }
}

impl Screen for Watch {
    fn show(&mut self, now: Time, shown: &Shown) {
        let at = self.clock.map_or(now, |clock| clock.now());
        self.rows.lock().expect("nothing panics while it measures").push((shown.frame, at));
    }
}

impl Recording {
    /// The frames of stream 0, by number, as `watch` saw them shown.
    pub fn frames(&self, watch: &Watch) -> Vec<FrameTrace> {
        let mut frames: Vec<FrameTrace> = Vec::new();
        let mut pacing = None;
        for (at, node, event) in &self.0 {
            match *event {
                Event::FrameCaptured { .. } => {
                    frames.push(FrameTrace { captured: *at, ..FrameTrace::default() })
                }
                Event::Decision { pacing: rate, .. } if *node == SENDER => {
                    pacing = Some(rate).filter(|&r| r != Rate::MAX)
                }
                Event::FrameEncoded { frame, size, .. } => {
                    if let Some(trace) = frames.get_mut(frame as usize) {
                        (trace.encoded, trace.size, trace.pacing) = (Some(*at), size, pacing);
                    }
                }
                Event::PacketSent { frame, size, retransmission: false, .. } => {
                    if let Some(trace) = frames.get_mut(frame as usize) {
                        trace.before_last += trace.last;
                        trace.last = u64::from(size);
                    }
                }
                _ => {}
            }
        }
        for &(frame, at) in watch.rows.lock().expect("nothing panics while it measures").iter() {
            if let Some(trace) = frames.get_mut(frame as usize) {
                trace.shown = Some(at);
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc::{Options, Setup};
    use media::{EncoderModel, ModelConfig, Table};
    use netsim::{Impairments, LinkConfig};
    use session::{Policies, ReceiverConfig, Supply, Video};
    use units::Rng;

    /// Until then the path carries packets of 1500 bytes, afterwards of 1240: QUIC's least, and a little.
    const NARROW: Time = Time::from_secs(3);
    const LENGTH: Span = Span::from_secs(9);
    const INTERVAL: Span = Span::from_millis(20);

    fn link(name: &str, mtu: Vec<(Time, u32)>) -> Link {
        let impairments = Impairments { mtu, ..Impairments::default() };
        let config = LinkConfig { impairments, ..LinkConfig::delay(Span::from_millis(5)) };
        Link::new(config, 1, name, Tap::default())
    }

    fn sender(loopback: &Loopback) -> Sender {
        let setup = Setup {
            mtu: STEADY_DATAGRAM as u32,
            initial: Rate::from_mbps(4),
            frame_interval: INTERVAL,
            ..Setup::default()
        };
        let controller = cc::build(&Options::of("fixed"), &setup).expect("the registry knows fixed");
        // Frames are cut into packets of equal size: only frames of many sizes show how long one may be.
        let model = ModelConfig {
            size_noise: 0.25,
            overshoot: 1.0,
            undershoot: 0.5,
            ..ModelConfig::perfect(Table::big_buck_bunny())
        };
        let encoder = Box::new(EncoderModel::new(model).expect("the model is sound"));
        let video = Video { encoder, source: None, interval: INTERVAL };
        let (config, rng) = (SenderConfig { mtu: 1472, ..SenderConfig::default() }, Rng::stream(1, "sender"));
        let supplies = vec![Supply::Video(video)];
        Sender::new(config, &setup, controller, Policies::default(), supplies, rng, loopback.tap(SENDER))
    }

    #[test]
    fn datagrams_follow_the_paths_mtu_up_and_down() {
        let wide = || vec![(Time::ZERO, 1500)];
        let narrow = [wide(), vec![(NARROW, 1240)]].concat();
        let links = (link("there", narrow), link("back", wide()));
        let mut loopback = Loopback::over(Over::Quic, Some(links)).expect("loopback can be had");
        let watch = Watch::on(loopback.near().clock());
        let near = sender(&loopback);
        let screen = Some(Box::new(watch.clone()) as _);
        let far = Receiver::new(ReceiverConfig::default(), None, screen, loopback.tap(RECEIVER));
        let recording = loopback.run(near, far, LENGTH).expect("it runs");
        let sent = recording.0.iter().filter_map(|(at, _, event)| match event {
            Event::PacketSent { size, .. } => Some((*at, *size as usize)),
            _ => None,
        });
        let sent: Vec<(Time, usize)> = sent.collect();
        let (start, end) = (sent[0].0, sent[sent.len() - 1].0);
        let longest = |from: Time, to: Time| {
            sent.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, size)| *size).max().unwrap_or(0)
        };
        let second = Span::from_secs(1);
        // The link's time began with the handshake, a little before.
        let wide = longest(start, start + second * 2);
        let fallen = sent.iter().rposition(|(_, size)| *size > 1_200).map_or(start, |last| sent[last].0);
        println!("up to {wide} bytes at first; the last too long one after {}", fallen - start);
        assert!((1_380..=1_424).contains(&wide), "of 1452 bytes QUIC and the frame take up to 38: {wide}");
        assert!((1_100..=1_162).contains(&longest(end - second, end)), "{}", longest(end - second, end));
        // And pictures arrive again; how many a second the machine captures is its own business.
        let frames = recording.frames(&watch);
        let late: Vec<&FrameTrace> = frames
            .iter()
            .filter(|trace| (end - second * 2..end - second).contains(&trace.captured))
            .collect();
        let shown = late.iter().filter(|trace| trace.shown.is_some()).count();
        assert!(shown > 0 && shown * 10 >= late.len() * 9, "{shown} of {}", late.len());
    }
}
