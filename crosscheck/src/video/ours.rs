//! Our sender under `vidaptive-paper`.

use std::collections::VecDeque;
use std::sync::Arc;

use cc::{Controller, Decision, Report, Sent, Setup};
use media::{Ask, CodecError, Coded, Encoder, RawFrame};
use record::Tap;
use session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video};
use units::{Bytes, Rate, Rng, Span, Time};
use wire::{Endpoint, RxMeta};

use super::{Controlled, DATAGRAM, DUMMY, Datagram, FRAME, Moment, Script, Size, VideoSender};

/// Says the same whatever it hears.
struct Fixed(Decision);

impl Controller for Fixed {
    fn on_sent(&mut self, _: &Sent) {}
    fn on_feedback(&mut self, _: &Report<'_>) {}
    fn decision(&self) -> Decision {
        self.0
    }
}

/// Makes frames of scripted sizes, at once.
struct Scripted {
    size: Size,
    ready: Option<Coded>,
}

impl Encoder for Scripted {
    fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let size = (self.size)(ask.frame, ask.bitrate.as_f64()) as u32;
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

/// Our sender, and a receiver that acknowledges each packet.
pub struct OurVideo {
    sender: Sender,
    receiver: Receiver,
    /// What is on its way, by the order of sending: head, length.
    on_way: VecDeque<(u64, Vec<u8>, usize)>,
    next_id: u64,
}

impl OurVideo {
    /// With the paper's constants.
    pub fn new(script: &Script) -> OurVideo {
        let setup = Setup {
            initial: Rate::from_kbps(300),
            min: Rate::from_kbps(30),
            max: Rate::from_mbps(12),
            mtu: DATAGRAM as u32,
            ..Setup::default()
        };
        let controller: Box<dyn Controller> = match script.controller {
            Controlled::Fixed(bps, window) => Box::new(Fixed(Decision {
                media: Some(Rate::from_bps(bps)),
                window: Some(Bytes::new(window)),
                ..Decision::default()
            })),
            Controlled::Copa => cc::build(&cc::Options::of("copa-0.9"), &setup).expect("it is registered"),
        };
        let policy = "vidaptive-paper".parse().expect("a name");
        let rate = session::rate::build(&policy).expect("it is registered");
        let encoder = Box::new(Scripted { size: script.size, ready: None });
        let sender = Sender::new(
            SenderConfig { mtu: DATAGRAM, deadline: Some(Span::from_secs(60)), ..SenderConfig::default() },
            &setup,
            controller,
            Policies { rate, ..Policies::default() },
            vec![Supply::Video(Video { encoder, source: None, interval: FRAME })],
            Rng::stream(1, "crosscheck"),
            Tap::default(),
        );
        let config = ReceiverConfig { feedback_packets: 1, feedback_padding: 1, ..ReceiverConfig::default() };
        let receiver = Receiver::new(config, None, None, Tap::default());
        OurVideo { sender, receiver, on_way: VecDeque::new(), next_id: 0 }
    }
}

impl VideoSender for OurVideo {
    fn wake(&mut self, now: Time) {
        self.sender.wake(now);
    }

    fn transmit(&mut self, now: Time) -> Option<Datagram> {
        let mut out = [0; 1500];
        let dummies = self.sender.counters().dummies;
        let meta = self.sender.transmit(now, &mut out)?;
        let dummy = self.sender.counters().dummies > dummies;
        debug_assert!(!dummy || meta.length == DUMMY);
        let id = self.next_id;
        self.next_id += 1;
        self.on_way.push_back((id, out[..meta.head].to_vec(), meta.length));
        Some(Datagram { id, size: meta.length, dummy })
    }

    fn acked(&mut self, now: Time, id: u64) {
        let Some((sent, head, length)) = self.on_way.pop_front() else { return };
        assert_eq!(sent, id, "the link keeps the order");
        self.receiver.receive(now, &head, RxMeta { length, payload: None, ecn: units::Ecn::NotEct });
        self.receiver.wake(now);
        let mut out = [0; 1500];
        while let Some(meta) = self.receiver.transmit(now, &mut out) {
            let rx = RxMeta { length: meta.length, payload: None, ecn: meta.ecn };
            self.sender.receive(now, &out[..meta.head], rx);
        }
    }

    fn moment(&self, now: Time) -> Moment {
        let mut moment = Moment { at: now.as_secs_f64(), ..Moment::default() };
        self.sender.observe_rate(&mut |name, value| match name {
            "alpha" => moment.alpha = value,
            "cc_rate_mbps" => moment.cc_rate = value * 1e6,
            _ => {}
        });
        moment.target = self.sender.target().map_or(0.0, Rate::as_f64);
        let counters = self.sender.counters();
        (moment.encoded, moment.resets) = (counters.encoded, counters.resets);
        moment
    }
}
