//! One flow over UDP on loopback, for the benchmarks of real time: sender and receiver drivers, and between them a relay
//! if there is a link, each on a thread of its own.
//!
//! ```text
//! sender -- udp --> [relay: link] -- udp --> receiver        events of both ends -> one recording, on one clock
//! ```

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;

use netsim::Link;
use real::{Clock, Driver, Limits, Peer, RealError, Relay, RelaySettings, Settings};
use record::{Event, Memory, NodeId, Tap};
use session::{Receiver, Screen, Sender, Shown};
use units::{HostClock, Rate, Span, Time};

use crate::failure::Failure;

/// The sender's node in a recording.
pub const SENDER: NodeId = NodeId(0);
/// The receiver's.
pub const RECEIVER: NodeId = NodeId(1);
/// How long what is under way at the end may take to arrive.
const TAIL: Span = Span::from_millis(300);

/// Sockets and threads' worth of one flow.
pub struct Loopback {
    near: Driver,
    far: Driver,
    relay: Option<Relay>,
    events: Arc<Mutex<Memory>>,
}

impl Loopback {
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
        Ok(Loopback { near, far, relay, events: Arc::default() })
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
        mut self,
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

/// One frame's way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
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
    /// It was shown.
    pub shown: Option<Time>,
}

/// A screen that looks at the clock: a driver tells its endpoint when a packet arrived at the kernel, but a viewer sees a
/// picture only once it is decoded and drawn.
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
    pub fn frames(&self, watch: &Watch) -> Vec<Way> {
        let mut frames: Vec<Way> = Vec::new();
        let mut pacing = None;
        for (at, node, event) in &self.0 {
            match *event {
                Event::FrameCaptured { .. } => frames.push(Way { captured: *at, ..Way::default() }),
                Event::Decision { pacing: rate, .. } if *node == SENDER => {
                    pacing = Some(rate).filter(|&r| r != Rate::MAX)
                }
                Event::FrameEncoded { frame, size, .. } => {
                    if let Some(way) = frames.get_mut(frame as usize) {
                        (way.encoded, way.size, way.pacing) = (Some(*at), size, pacing);
                    }
                }
                Event::PacketSent { frame, size, retransmission: false, .. } => {
                    if let Some(way) = frames.get_mut(frame as usize) {
                        way.before_last += way.last;
                        way.last = u64::from(size);
                    }
                }
                _ => {}
            }
        }
        for &(frame, at) in watch.rows.lock().expect("nothing panics while it measures").iter() {
            if let Some(way) = frames.get_mut(frame as usize) {
                way.shown = Some(at);
            }
        }
        frames
    }
}
