//! What Vidaptive must never do, over random networks, and what it is for.
#![allow(missing_docs, reason = "tests")]

mod path;

use std::collections::BTreeMap;

use cc::Setup;
use framewire_session::SenderConfig;
use netsim::{Impairments, LinkConfig, Loss, QueueSpec, RateProcess};
use path::{Flow, Path, build};
use proptest::prelude::*;
use record::Event;
use units::{Bytes, Rate, Span, Time};

const TAU: Span = Span::from_millis(33);
const GUARD: Span = Span::from_millis(5);
/// Not the size of probes for an answer, to tell them from dummies.
const DUMMY: u32 = 150;
const MTU: u64 = 1200;
const MOST: f64 = 12e6;
const LADDER: [u16; 5] = [720, 540, 360, 270, 180];

/// Follows a sender's events and says what was done that never may be.
#[derive(Default)]
struct Watch {
    /// Frames whose packets wait, and since when.
    waiting: BTreeMap<u32, Time>,
    /// When each frame came from the encoder.
    entered: BTreeMap<u32, Time>,
    /// Until when the packets of each frame that has begun to leave may be sent again.
    repaired_until: BTreeMap<u32, Time>,
    captured: Vec<Time>,
    encoded_last: Option<Time>,
    /// Packets that left: when, and their bytes.
    sent: Vec<(Time, u32)>,
    in_flight: u64,
    window: u64,
    media: Rate,
    srtt: Span,
    /// The smallest round trip, once there is one.
    least: Option<Span>,
    /// Rows of the latest coded frame.
    coded: Option<u16>,
    /// Rows that were last wanted, and when they changed.
    height: Option<u16>,
    resized: Option<Time>,
    /// A dummy that nothing has followed: when it left, and when the next packet may.
    dummy: Option<Time>,
    /// The oldest packet could have left since, had the pacer been free.
    free_since: Option<Time>,
    dummies: usize,
    wrong: Vec<String>,
}

impl Watch {
    fn complain(&mut self, at: Time, what: &str) {
        self.wrong.push(format!("{what} at {at:?}"));
    }

    fn cc_rate(&self) -> Rate {
        if self.media < Rate::MAX {
            return self.media;
        }
        Rate::average(Bytes::new(self.window), self.srtt.max(Span::from_millis(1))).max(Setup::default().min)
    }

    fn see(&mut self, at: Time, event: &Event) {
        match *event {
            Event::FrameCaptured { .. } => {
                let mut guarded = self.sent.iter().rev().take_while(|(sent_at, _)| at - *sent_at <= GUARD);
                if guarded.any(|&(sent_at, size)| size == DUMMY && sent_at < at) {
                    self.complain(at, "a dummy just before a camera frame");
                }
                self.captured.push(at);
                self.encoded_last = None;
            }
            Event::FrameEncoded { frame, key, height, .. } => {
                if self.coded.replace(height).is_some_and(|before| before != height) && !key {
                    self.complain(at, "another size without a key frame");
                }
                if self.waiting.values().any(|&since| at - since > TAU) {
                    self.complain(at, "a frame encoded while the oldest waits too long");
                }
                self.waiting.insert(frame, at);
                self.entered.insert(frame, at);
                self.encoded_last = Some(at);
            }
            Event::FrameSent { frame, .. } => drop(self.waiting.remove(&frame)),
            Event::Observed { name: "reset", .. } => self.waiting.clear(),
            Event::Observed { name: "height", value } => self.size(at, value.0 as u16),
            Event::PacketSent { frame, size, retransmission, .. } => {
                self.packet(at, frame, size, retransmission);
            }
            Event::PacketAcked { size, .. } | Event::PacketLost { size, .. } => {
                self.in_flight = self.in_flight.saturating_sub(u64::from(size));
            }
            Event::Decision { window, media, .. } => (self.window, self.media) = (window, media),
            Event::Rtt { latest, smoothed } => {
                self.srtt = smoothed;
                self.least = Some(self.least.map_or(latest, |least| least.min(latest)));
            }
            _ => {}
        }
        let open = self.window > 0 && self.in_flight + MTU <= self.window;
        self.free_since = match (self.waiting.is_empty() || !open, self.free_since) {
            (true, _) => None,
            (false, since) => Some(since.unwrap_or(at)),
        };
    }

    /// A size was chosen, whether or not a frame was coded with it.
    fn size(&mut self, at: Time, height: u16) {
        let before = self.height.replace(height).unwrap_or(height);
        if before == height {
            return;
        }
        let rung = |height| LADDER.iter().position(|&rung| rung == height);
        if rung(before).zip(rung(height)).is_none_or(|(a, b)| a.abs_diff(b) != 1) {
            self.complain(at, "a size that is not the next rung");
        }
        if self.resized.is_some_and(|then| at - then < Span::from_secs(1)) {
            self.complain(at, "another size within a second");
        }
        self.resized = Some(at);
    }

    fn packet(&mut self, at: Time, frame: u32, size: u32, again: bool) {
        self.in_flight += u64::from(size);
        if frame != u32::MAX {
            self.judge_age(at, frame, again);
            self.after_dummy(at);
            self.dummy = None;
        } else if size == DUMMY {
            self.dummies += 1;
            self.judge_dummy(at);
            let known = self.srtt.is_positive();
            self.dummy = known.then(|| at + self.cc_rate().time_to_send(Bytes::new(u64::from(size))));
        } else {
            self.dummy = None;
        }
        self.sent.push((at, size));
    }

    /// A frame waits for a second at most. From when it begins to leave there is time for two repairs.
    fn judge_age(&mut self, at: Time, frame: u32, again: bool) {
        let Some(&entered) = self.entered.get(&frame) else {
            return self.complain(at, "a packet of no frame");
        };
        let repairs = self.least.unwrap_or(Span::ZERO) * SenderConfig::REPAIR_TRIPS;
        let repaired_until = *self.repaired_until.entry(frame).or_insert(at + repairs);
        if at - entered > Span::from_secs(1) && !(again && at <= repaired_until) {
            self.complain(at, "a packet older than a second");
        }
    }

    fn after_dummy(&mut self, at: Time) {
        if let (Some(clear), Some(free)) = (self.dummy, self.free_since)
            && at > clear.max(free) + Span::from_micros(1)
        {
            self.complain(at, "a video packet held up by more than a dummy");
        }
    }

    fn judge_dummy(&mut self, at: Time) {
        if !self.waiting.is_empty() {
            self.complain(at, "a dummy while video waits");
        }
        if self.encoded_last.is_none() && self.captured.last().is_some_and(|&frame| at - frame < GUARD) {
            self.complain(at, "a dummy just after a camera frame");
        }
        let window = Span::from_millis(500);
        let recent = self.sent.iter().rev().take_while(|(sent_at, _)| at - *sent_at < window);
        let bits: u64 = recent.map(|(_, size)| u64::from(*size) * 8).sum();
        if bits as f64 > MOST * window.as_secs_f64() {
            self.complain(at, "a dummy above the highest rate");
        }
    }
}

fn watch(path: &Path) -> Watch {
    let mut watch = Watch::default();
    let memory = path.memory.as_ref().unwrap().lock().unwrap();
    let sender = path.hosts[0].sender.node();
    let of_sender = memory.events.iter().filter(|(_, node, _)| *node == sender);
    of_sender.for_each(|(at, _, event)| watch.see(*at, event));
    watch
}

fn flow(cc: &'static str, repeat: bool, probe: Span) -> Flow {
    let (repeat, probe) = (if repeat { "on" } else { "off" }, probe.as_millis_f64());
    let rate = Some(format!("vidaptive-paper:dummy={DUMMY},repeat={repeat},probe={probe}ms"));
    Flow { rate, swing: 0.5, interval: Span::from_nanos(33_333_333), ..Flow::video(cc) }
}

fn link(rates: Vec<(Time, Rate)>, delay: Span) -> LinkConfig {
    let queue: QueueSpec = "infinite".parse().unwrap();
    LinkConfig::bottleneck(RateProcess::steps(rates).unwrap(), queue, delay)
}

/// A link ahead, and the delay of the way back.
fn networks() -> impl Strategy<Value = (LinkConfig, Span)> {
    let rates = prop::collection::vec(0.1f64..20.0, 1..8);
    let outage = prop::option::of((1u64..9, 100u64..3_000));
    let loss = prop_oneof![3 => Just(0.0), 1 => 0.0f64..0.05];
    let queue = prop_oneof![Just("infinite"), Just("droptail:200p"), Just("droptail:30p")];
    (rates, 1i64..120, outage, loss, queue).prop_map(|(rates, delay, outage, loss, queue)| {
        let step =
            |(n, mbps): (usize, &f64)| (Time::from_millis(1_500 * n as u64), Rate::from_f64(mbps * 1e6));
        let steps = rates.iter().enumerate().map(step).collect();
        let from = |(at, ms): (u64, u64)| (Time::from_secs(at), Time::from_millis(at * 1_000 + ms));
        let blackouts = outage.map(from).into_iter().collect();
        let delay = Span::from_millis(delay);
        let impairments = Impairments { loss: Loss::Bernoulli(loss), blackouts, ..Impairments::default() };
        (LinkConfig { queue: queue.parse().unwrap(), impairments, ..link(steps, delay) }, delay)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_never_happens(
        (network, delay) in networks(),
        cc in prop_oneof![Just("copa-0.9"), Just("rocc"), Just("scream")],
        share in 0.3f64..2.0,
        repeat: bool,
        probe in prop_oneof![Just(Span::ZERO), (20i64..400).prop_map(Span::from_millis)],
    ) {
        let flow = Flow { share, ..flow(cc, repeat, probe) };
        let mut path = build(network, LinkConfig::delay(delay), vec![flow], true);
        path.world.run_until(Time::from_secs(10));
        let watch = watch(&path);
        prop_assert!(watch.wrong.is_empty(), "{:?}", &watch.wrong[..watch.wrong.len().min(5)]);
        // An encoder that makes more than it is asked for may leave no room.
        let filled = watch.dummies > 0 || repeat || share > 1.0;
        prop_assert!(watch.sent.len() > 20 && filled, "{} packets", watch.sent.len());
    }
}

/// When packets of frames left between 4.5 and 6 s, if the link stands still from 3 s on.
fn sent_in_an_outage(probe: Span) -> Vec<Time> {
    let (open, shut) = (Rate::from_mbps(4), Rate::from_bps(1_000));
    let rates = vec![(Time::ZERO, open), (Time::from_secs(3), shut), (Time::from_secs(6), open)];
    let delay = Span::from_millis(25);
    let mut path =
        build(link(rates, delay), LinkConfig::delay(delay), vec![flow("copa-0.9", false, probe)], true);
    path.world.run_until(Time::from_secs(6));
    let memory = path.memory.as_ref().unwrap().lock().unwrap();
    let of_frames = memory.events.iter().filter_map(|(at, _, event)| match event {
        Event::PacketSent { frame, .. } if *frame != u32::MAX && *at > Time::from_millis(4_500) => Some(*at),
        _ => None,
    });
    of_frames.collect()
}

#[test]
fn probes_of_an_outage_carry_video_if_they_should() {
    assert_eq!(sent_in_an_outage(Span::ZERO), []);
    let probe = Span::from_millis(200);
    let sent = sent_in_an_outage(probe);
    assert!((6..=8).contains(&sent.len()), "{sent:?}");
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] >= probe), "{sent:?}");
}

#[test]
fn an_outage_shrinks_pictures_and_an_encoder_that_falls_short_grows_them_again() {
    let blackouts = vec![(Time::from_secs(5), Time::from_secs(8))];
    let impairments = Impairments { blackouts, ..Impairments::default() };
    let network =
        LinkConfig { impairments, ..link(vec![(Time::ZERO, Rate::from_mbps(4))], Span::from_millis(25)) };
    let sizes = |share: f64| {
        let flow = Flow { share, swing: 0.0, ..flow("copa-0.9", false, Span::ZERO) };
        let mut path = build(network.clone(), LinkConfig::delay(Span::from_millis(25)), vec![flow], true);
        path.world.run_until(Time::from_secs(30));
        assert!(watch(&path).wrong.is_empty());
        let memory = path.memory.as_ref().unwrap().lock().unwrap();
        let heights = memory.events.iter().filter_map(|(_, _, event)| match *event {
            Event::FrameEncoded { height, .. } => Some(height),
            _ => None,
        });
        let mut sizes: Vec<u16> = heights.collect();
        sizes.dedup();
        sizes
    };
    let (full, short) = (sizes(1.0), sizes(0.5));
    assert!(full.len() > 1 && full.windows(2).all(|pair| pair[1] < pair[0]), "{full:?}");
    assert_eq!((short[0], short.last()), (720, Some(&720)), "{short:?}");
    assert!(short.len() > 2, "{short:?}");
}
