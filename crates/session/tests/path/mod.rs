//! Sender and receiver over one simulated bottleneck, for tests of behaviour over time.
#![allow(dead_code, missing_docs, reason = "each test file uses its part")]

use std::sync::{Arc, Mutex};

use cc::{Options, Setup};
use framewire_session::recovery::NoRepair;
use framewire_session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video, strategy};
use media::{Ask, CodecError, Coded, Encoder, RawFrame};
use netsim::{HostConfig, HostId, LinkConfig, LinkId, QueueSpec, RateProcess, World};
use record::{Event, Memory};
use units::{HostClock, Rate, Rng, Span, Time};

/// An encoder's limit for a while.
#[derive(Clone, Copy)]
pub struct Cap {
    pub from: Time,
    pub to: Time,
    pub most: Rate,
}

/// A media packet that left, at a time in s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub at: f64,
    pub frame: u32,
    pub index: u16,
    /// Of the datagram.
    pub bytes: u32,
}

/// A packet that reached the receiver, at a time in s.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    pub at: f64,
    /// One way.
    pub delay_ms: f64,
    /// On the wire.
    pub bytes: u32,
}

/// A frame shown, at a time in s.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    pub at: f64,
    pub frame: u32,
}

/// What an arrival at a queue found, the packet in service included, at a time in s.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    pub at: f64,
    pub packets: u32,
}

/// A controller's named quantity, at a time in s.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    pub at: f64,
    pub value: f64,
}

/// A flow's two hosts.
#[derive(Clone, Copy)]
pub struct Ends {
    pub sender: HostId,
    pub receiver: HostId,
}

/// Delivers `share` of what it was asked for (1: exactly that), at once, but no more than a cap while one is
/// set.
pub struct Exact {
    pub share: f64,
    /// Frames are up to this share larger or smaller than that, each in its own way.
    pub swing: f64,
    pub caps: Vec<Cap>,
    pub ready: Option<Coded>,
}

impl Encoder for Exact {
    fn submit(&mut self, now: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let cap = self.caps.iter().find(|cap| (cap.from..cap.to).contains(&now));
        let most = cap.map_or(Rate::MAX, |cap| cap.most);
        // Weyl's sequence: as even as chance, and the same in every run.
        let place = (f64::from(ask.frame) * 0.618_033_988_749_894_9).fract();
        let share = self.share * (1.0 + self.swing * (2.0 * place - 1.0));
        let size = ask.bitrate.mul_f64(share).min(most).bytes_in(ask.interval);
        let size = ask.largest.map_or(size, |largest| size.min(largest)).get() as u32;
        self.ready = Some(Coded::of_size(ask, size));
        Ok(())
    }
    fn poll(&mut self, _: Time) -> Option<Coded> {
        self.ready.take()
    }
    fn next_ready(&self) -> Option<Time> {
        None
    }
}

/// How the receiver comes by the half of the controller that lives there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// It is built as the sender's is.
    Built,
    /// The sender announces its controller.
    Announced,
    /// Not at all.
    Missing,
}

/// One flow and where it goes.
pub struct Flow {
    pub cc: &'static str,
    /// A row that is not in the registry, to build `cc` from.
    pub entry: Option<&'static cc::Entry>,
    pub half: Half,
    pub backlog: bool,
    pub start: Time,
    pub stop: Time,
    pub receiver_clock: HostClock,
    pub caps: Vec<Cap>,
    pub mtu: usize,
    pub repair: bool,
    /// When the receiver shows frames.
    pub playout: &'static str,
    pub share: f64,
    pub swing: f64,
    /// A rate policy other than the default, as text.
    pub rate: Option<String>,
    pub initial: Rate,
    pub min: Rate,
    /// Time between frames.
    pub interval: Span,
}

impl Flow {
    pub fn video(cc: &'static str) -> Flow {
        Flow {
            cc,
            entry: None,
            half: Half::Built,
            backlog: false,
            start: Time::ZERO,
            stop: Time::MAX,
            receiver_clock: HostClock::default(),
            caps: Vec::new(),
            mtu: 1200,
            repair: true,
            playout: "at-once",
            share: 1.0,
            swing: 0.0,
            rate: None,
            initial: Rate::from_mbps(2),
            min: Setup::default().min,
            interval: Setup::default().frame_interval,
        }
    }
}

/// A world with its flows' hosts.
pub struct Path {
    pub world: World,
    pub bottleneck: LinkId,
    pub hosts: Vec<Ends>,
    pub memory: Option<Arc<Mutex<Memory>>>,
}

/// 20 Mbit/s, 120 ms of queue, 20 ms each way: the papers' common link.
pub fn s20() -> LinkConfig {
    let queue: QueueSpec = "droptail:120ms".parse().unwrap();
    LinkConfig::bottleneck(RateProcess::Constant(Rate::from_mbps(20)), queue, Span::from_millis(20))
}

pub fn build(link: LinkConfig, back: LinkConfig, flows: Vec<Flow>, recorded: bool) -> Path {
    build_seeded(1, link, back, flows, recorded)
}

pub fn build_seeded(seed: u64, link: LinkConfig, back: LinkConfig, flows: Vec<Flow>, recorded: bool) -> Path {
    let memory = recorded.then(|| Arc::new(Mutex::new(Memory::default())));
    let mut world = World::new(seed, memory.clone().map(|m| m as record::Shared));
    let bottleneck = world.add_link("bottleneck", link);
    let mut hosts = Vec::new();
    for (number, flow) in flows.into_iter().enumerate() {
        let rng = &mut Rng::stream(seed, &format!("flow{number}/cc"));
        let setup = Setup {
            mtu: flow.mtu as u32,
            initial: flow.initial,
            min: flow.min,
            frame_interval: flow.interval,
            seed: rng.next_u64(),
            ..Setup::default()
        };
        let options: Options = flow.cc.parse().unwrap();
        let build = flow.entry.map_or(cc::build as cc::registry::Build, |entry| entry.build);
        let controller = build(&options, &setup).unwrap();
        let encoder = Box::new(Exact { share: flow.share, swing: flow.swing, caps: flow.caps, ready: None });
        let video = Video { encoder, source: None, interval: setup.frame_interval };
        let supply = if flow.backlog { Supply::Backlog } else { Supply::Video(video) };
        let (session, picture) = (number as u32 + 1, (1280, 720));
        let config = SenderConfig { session, mtu: flow.mtu, picture, ..SenderConfig::default() };
        let rng = Rng::stream(seed, &format!("flow{number}"));
        let tap = world.next_host_tap(HostClock::default());
        let mut policies = Policies::default();
        if let Some(text) = &flow.rate {
            policies.rate = framewire_session::rate::build(&text.parse().unwrap()).unwrap();
        }
        if !flow.repair {
            policies.strategy = Box::new(strategy::Live::with(Box::new(NoRepair)));
        }
        let sender = Sender::new(config, &setup, controller, policies, vec![supply], rng, tap);
        let sender = match flow.half {
            Half::Announced => sender.announcing(flow.cc, &setup),
            Half::Built | Half::Missing => sender,
        };
        let place =
            HostConfig { start: flow.start, stop: flow.stop, ..HostConfig::new(&format!("sender {number}")) };
        let from = world.add_host(place, sender);
        let tap = world.next_host_tap(flow.receiver_clock);
        let receiver =
            Receiver::new(ReceiverConfig { nack: flow.repair, ..ReceiverConfig::default() }, None, None, tap);
        let playout = framewire_session::playout::build(&flow.playout.parse().unwrap()).unwrap();
        let receiver = receiver.with_playout(playout);
        let receiver = match (flow.half, flow.entry) {
            (Half::Built, Some(entry)) => {
                receiver.with_half(entry.receiver.map(|build| build(&options, &setup).unwrap()))
            }
            (Half::Built, None) => receiver.with_half(cc::build_receiver(&options, &setup).unwrap()),
            (Half::Announced, _) => receiver.following(),
            (Half::Missing, _) => receiver,
        };
        let place =
            HostConfig { clock: flow.receiver_clock, ..HostConfig::new(&format!("receiver {number}")) };
        let to = world.add_host(place, receiver);
        let return_link = world.add_link(&format!("return {number}"), back.clone());
        world.connect(from, number as u16, &[bottleneck], to);
        world.connect(to, number as u16, &[return_link], from);
        hosts.push(Ends { sender: from, receiver: to });
    }
    Path { world, bottleneck, hosts, memory }
}

impl Path {
    pub fn sender(&self, flow: usize) -> &Sender {
        self.world.endpoint(self.hosts[flow].sender)
    }
    pub fn receiver(&self, flow: usize) -> &Receiver {
        self.world.endpoint(self.hosts[flow].receiver)
    }
}

/// What a run left behind, as times in seconds and sizes in bytes, for one flow or all.
impl Path {
    fn events<T>(&self, mut pick: impl FnMut(f64, u16, &Event) -> Option<T>) -> Vec<T> {
        let memory = self.memory.as_ref().expect("a recorded run").lock().unwrap();
        memory.events.iter().filter_map(|(at, node, event)| pick(at.as_secs_f64(), node.0, event)).collect()
    }

    fn sender_node(&self, flow: usize) -> u16 {
        self.hosts[flow].sender.node().0
    }

    /// Every packet that reached the receiver.
    pub fn delivered(&self, flow: usize) -> Vec<Delivered> {
        self.events(|at, node, event| match event {
            Event::Delivered { flow: f, delay, size }
                if usize::from(*f) == flow && node == self.sender_node(flow) + 1 =>
            {
                Some(Delivered { at, delay_ms: delay.as_millis_f64(), bytes: *size })
            }
            _ => None,
        })
    }

    /// Every frame shown, in that order.
    pub fn shown(&self, flow: usize) -> Vec<Shown> {
        let receiver = self.hosts[flow].receiver.node().0;
        self.events(|at, node, event| match event {
            Event::FrameDisplayed { frame, .. } if node == receiver => Some(Shown { at, frame: *frame }),
            _ => None,
        })
    }

    /// Every media packet sent.
    pub fn sent(&self, flow: usize) -> Vec<Sent> {
        self.events(|at, node, event| match event {
            Event::PacketSent { frame, index, size, .. } if node == self.sender_node(flow) => {
                Some(Sent { at, frame: *frame, index: *index, bytes: *size })
            }
            _ => None,
        })
    }

    /// The bottleneck's queue at every arrival.
    pub fn queue(&self) -> Vec<Queued> {
        let link = self.bottleneck.node().0;
        self.events(|at, node, event| match event {
            Event::LinkEnqueued { packets, .. } if node == link => Some(Queued { at, packets: *packets }),
            _ => None,
        })
    }

    /// When the sender gave packets up.
    pub fn losses(&self, flow: usize) -> Vec<f64> {
        self.events(|at, node, event| match event {
            Event::PacketLost { .. } if node == self.sender_node(flow) => Some(at),
            _ => None,
        })
    }

    /// The numbers of the packets given up by their sender.
    pub fn lost_packets(&self, flow: usize) -> Vec<u64> {
        self.events(|_, node, event| match event {
            Event::PacketLost { packet, .. } if node == self.sender_node(flow) => Some(*packet),
            _ => None,
        })
    }

    /// A controller's named quantity, after each report.
    pub fn observed(&self, flow: usize, what: &str) -> Vec<Observed> {
        self.events(|at, node, event| match event {
            Event::Observed { name, value } if node == self.sender_node(flow) && *name == what => {
                Some(Observed { at, value: value.0 })
            }
            _ => None,
        })
    }

    /// Wire throughput in Mbit/s between two times.
    pub fn throughput(&self, flow: usize, from: f64, to: f64) -> f64 {
        let delivered = self.delivered(flow);
        let inside = delivered.iter().filter(|packet| (from..to).contains(&packet.at));
        let bytes: u64 = inside.map(|packet| u64::from(packet.bytes)).sum();
        bytes as f64 * 8.0 / (to - from) / 1e6
    }

    /// One-way delays in ms between two times, sorted.
    pub fn delays(&self, flow: usize, from: f64, to: f64) -> Vec<f64> {
        let delivered = self.delivered(flow);
        let inside = delivered.iter().filter(|packet| (from..to).contains(&packet.at));
        let mut delays: Vec<f64> = inside.map(|packet| packet.delay_ms).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }
}

/// The `p` quantile by nearest rank of sorted values.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    sorted[((p * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Jain's index of fairness.
pub fn jain(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>().powi(2) / (rates.len() as f64 * rates.iter().map(|r| r * r).sum::<f64>())
}
