//! Ours, driven as a session drives it.

use cc::{Acked, Controller, Delivery, Lost, Report, Sent, Setup};
use units::{Bytes, Ecn, Rate, Span, Time};

use crate::{Estimator, Feedback, Packet};

/// A controller of our registry.
pub struct Ours {
    controller: Box<dyn Controller>,
    acked: Vec<Acked>,
    lost: Vec<Lost>,
    min_rtt: Span,
}

impl Ours {
    /// The registry's `spec`, starting at `start` bit/s.
    pub fn new(spec: &str, start: f64) -> Ours {
        let setup = Setup {
            initial: Rate::from_f64(start),
            min: Rate::from_kbps(100),
            frame_interval: Span::from_nanos(33_333_333),
            ..Setup::default()
        };
        let options = spec.parse().expect("options");
        let controller = cc::build(&options, &setup).expect("a controller");
        Ours { controller, acked: Vec::new(), lost: Vec::new(), min_rtt: Span::from_secs(10) }
    }

    /// The inner quantity `name`.
    pub fn observed(&self, name: &str) -> Option<f64> {
        let mut found = None;
        self.controller.observe(&mut |key, value| found = if key == name { Some(value) } else { found });
        found
    }
}

impl Estimator for Ours {
    fn on_sent(&mut self, packet: &Packet, in_flight: u64) {
        self.controller.on_sent(&Sent {
            now: packet.sent,
            packet: packet.number,
            size: packet.size,
            frame: None,
            in_flight: Bytes::new(in_flight),
            app_limited: false,
        });
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.acked.clear();
        self.lost.clear();
        for packet in &feedback.packets {
            let Packet { number, size, sent, arrived } = *packet;
            let (frame, delivery) = (None, Delivery::default());
            match arrived.map(Time::on_wire) {
                Some(at) => self.acked.push(Acked {
                    packet: number,
                    sent_at: sent,
                    arrived_at: Some(at),
                    size,
                    ecn: Ecn::NotEct,
                    frame,
                    delivery,
                }),
                None => self.lost.push(Lost { packet: number, sent_at: sent, size, frame, delivery }),
            }
        }
        let latest_rtt = self.acked.last().map(|acked| feedback.at - acked.sent_at);
        self.min_rtt = latest_rtt.map_or(self.min_rtt, |rtt| rtt.min(self.min_rtt));
        self.controller.on_feedback(&Report {
            now: feedback.at,
            acked: &self.acked,
            lost: &self.lost,
            spurious: &[],
            in_flight: Bytes::new(feedback.in_flight),
            limited: true,
            latest_rtt,
            srtt: feedback.srtt,
            rttvar: Span::from_millis(1),
            min_rtt: self.min_rtt,
            ce_marks: 0,
            persistent_congestion: false,
            recovering: None,
            delivered: 0,
            lost_bytes: 0,
            in_order: 0,
            blob: &[],
        });
    }

    fn on_tick(&mut self, now: Time) {
        if self.controller.next_timer().is_some_and(|at| at <= now) {
            self.controller.on_timer(now);
        }
    }

    fn target(&self) -> f64 {
        self.controller.decision().media.map_or(0.0, |rate| rate.as_f64())
    }
}
