//! Ours, driven as a session drives it.

use cc::{Acked, Lost};
use record::Tap;
use transport::{Arrived, CongestionControl, Leaving, Ledger, News, RoundTrips};
use units::{Ecn, Rate, Span, Time};

use crate::{Estimator, Feedback, Packet};

/// Packets remembered at most: more than a link of this comparison ever holds.
const CAPACITY: usize = 1 << 16;

/// A controller of our registry. What has arrived and what is lost it hears as the path tells it.
pub struct Ours {
    control: CongestionControl,
    ledger: Ledger<()>,
    acked: Vec<Acked>,
    lost: Vec<Lost>,
    min_rtt: Span,
}

impl Ours {
    /// The registry's `spec`, starting at `start` bit/s.
    pub fn new(spec: &str, start: f64) -> Ours {
        let setup = cc::Setup {
            initial: Rate::from_f64(start),
            min: Rate::from_kbps(100),
            frame_interval: Span::from_nanos(33_333_333),
            ..cc::Setup::default()
        };
        let options = spec.parse().expect("options");
        let controller = cc::build(&options, &setup).expect("a controller");
        Ours {
            control: CongestionControl::new(controller, Tap::default()),
            ledger: Ledger::new(CAPACITY),
            acked: Vec::new(),
            lost: Vec::new(),
            min_rtt: Span::from_secs(10),
        }
    }

    /// The inner quantity `name`.
    pub fn observed(&self, name: &str) -> Option<f64> {
        let mut found = None;
        self.control.observe(&mut |key, value| found = if key == name { Some(value) } else { found });
        found
    }
}

impl Estimator for Ours {
    fn on_sent(&mut self, packet: &Packet, _in_flight: u64) {
        let number = self.ledger.send(packet.sent, packet.size, ());
        debug_assert_eq!(number, packet.number);
        let leaving = Leaving {
            now: packet.sent,
            packet: number,
            size: packet.size,
            frame: None,
            retransmission: false,
            app_limited: false,
        };
        self.control.sent(&leaving, &self.ledger);
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.acked.clear();
        self.lost.clear();
        for packet in &feedback.packets {
            match packet.arrived.map(Time::on_wire) {
                Some(at) => {
                    let arrived = Arrived { at: Some(at), ecn: Ecn::NotEct };
                    self.acked.push(self.ledger.acknowledge(feedback.at, packet.number, arrived));
                }
                None => self.lost.push(self.ledger.lose(packet.number)),
            }
        }
        let latest = self.acked.last().map(|acked| feedback.at - acked.sent_at);
        self.min_rtt = latest.map_or(self.min_rtt, |rtt| rtt.min(self.min_rtt));
        let news = News { acked: &self.acked, lost: &self.lost, ..News::default() };
        let rtt = RoundTrips {
            latest,
            smoothed: feedback.srtt,
            variation: Span::from_millis(1),
            min: self.min_rtt,
        };
        self.control.limit();
        self.control.report(feedback.at, &news, &self.ledger, &rtt);
        self.ledger.forget_while(|_, sent| sent.state != transport::State::InFlight);
    }

    fn on_tick(&mut self, now: Time) {
        self.control.run_timer(now);
    }

    fn target(&self) -> f64 {
        self.control.decision().media.map_or(0.0, |rate| rate.as_f64())
    }
}
