//! AIMD with a limit on delay: the example of `docs/add-a-controller.md`, which quotes this file.
//!
//! ```text
//! each round trip without congestion:  window += datagram
//! loss, or round trip > min_rtt + queue:  window *= decrease, at most once a round trip
//! ```

use framewire_cc::parts::{LossEpoch, initial_window, window_rate};
use framewire_cc::{Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};
use units::{Bytes, Span};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "aimd",
    summary: "additive increase, multiplicative decrease on loss or a long queue",
    needs_frames: false,
    options: &[
        ("queue", "queuing delay that counts as congestion (default 30ms)"),
        ("decrease", "what congestion multiplies the window by, 0.1 to 0.95 (default 0.7)"),
    ],
    page: include_str!("aimd.md"),
    build: |options, setup| Ok(Box::new(Aimd::new(options, setup)?)),
    receiver: None,
};

/// RFC 9438 section 4.6, beta_cubic.
const DECREASE: f64 = 0.7;
/// Our choice: less than two frames at 60 frames/s.
const QUEUE: Span = Span::from_millis(30);
/// RFC 9002 section 7.2, kMinimumWindow.
const MINIMUM_DATAGRAMS: u64 = 2;
/// RFC 9002 section 7.7.
const PACING_GAIN: f64 = 1.25;

/// AIMD's state.
#[derive(Clone, Debug)]
pub struct Aimd {
    queue: Span,
    decrease: f64,
    datagram: u64,
    window: u64,
    /// Bytes acknowledged towards the next datagram of growth.
    credit: u64,
    epoch: LossEpoch,
    srtt: Option<Span>,
}

impl Aimd {
    /// A new connection's state.
    pub fn new(options: &Options, setup: &Setup) -> Result<Aimd, OptionError> {
        let datagram = u64::from(setup.mtu);
        Ok(Aimd {
            queue: options.quantity("queue", QUEUE, "a time such as 30ms")?,
            decrease: options.number("decrease", DECREASE, 0.1..=0.95)?,
            datagram,
            window: initial_window(datagram),
            credit: 0,
            epoch: LossEpoch::default(),
            srtt: None,
        })
    }

    /// Whether `report` tells of congestion that was not reacted to yet.
    fn congested(&mut self, report: &Report<'_>) -> bool {
        let lost = report.lost.last().map(|lost| lost.sent_at);
        let late = report.latest_rtt.is_some_and(|rtt| rtt > report.min_rtt + self.queue);
        let late = report.acked.last().filter(|_| late).map(|acked| acked.sent_at);
        lost.max(late).is_some_and(|sent_at| self.epoch.opens(sent_at, report.now))
    }

    /// One datagram for each window of bytes acknowledged, of packets sent since the last decrease.
    fn grow(&mut self, report: &Report<'_>) {
        let fresh = report.acked.iter().filter(|acked| !self.epoch.covers(acked.sent_at));
        self.credit += fresh.map(|acked| u64::from(acked.size)).sum::<u64>();
        self.window += self.datagram * (self.credit / self.window);
        self.credit %= self.window;
    }
}

impl Controller for Aimd {
    fn on_sent(&mut self, _: &Sent) {}

    fn on_feedback(&mut self, report: &Report<'_>) {
        self.srtt = Some(report.srtt);
        let least = MINIMUM_DATAGRAMS * self.datagram;
        if report.persistent_congestion {
            self.window = least;
        } else if self.congested(report) {
            self.window = ((self.window as f64 * self.decrease) as u64).max(least);
        } else if report.limited {
            self.grow(report);
        }
    }

    fn decision(&self) -> Decision {
        let window = Bytes::new(self.window);
        Decision {
            window: Some(window),
            pacing: self.srtt.map(|srtt| window_rate(window, srtt, PACING_GAIN)),
            burst: Bytes::new(2 * self.datagram),
            ..Decision::default()
        }
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("cwnd_bytes", self.window as f64);
    }
}

fn main() {
    println!("{}", ENTRY.page);
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewire_cc::{Acked, Delivery, Lost};
    use units::{Ecn, Time};

    fn aimd(options: &str) -> Aimd {
        Aimd::new(&options.parse().unwrap(), &Setup { mtu: 1000, ..Setup::default() }).unwrap()
    }

    /// Packet `n` is sent at `n` ms and has 1000 bytes.
    fn acked(packet: u64) -> Acked {
        let sent_at = Time::from_millis(packet);
        let delivery = Delivery::default();
        Acked { packet, sent_at, arrived_at: None, size: 1000, ecn: Ecn::NotEct, frame: None, delivery }
    }

    fn lost(packet: u64) -> Lost {
        let sent_at = Time::from_millis(packet);
        Lost { packet, sent_at, size: 1000, frame: None, delivery: Delivery::default() }
    }

    /// A report at 100 ms over a path of 40 ms, of which `queue` ms more are queue.
    fn report<'a>(acked: &'a [Acked], lost: &'a [Lost], queue: i64) -> Report<'a> {
        let (min_rtt, rtt) = (Span::from_millis(40), Span::from_millis(40 + queue));
        Report {
            now: Time::from_millis(100),
            acked,
            lost,
            spurious: &[],
            in_flight: Bytes::new(10_000),
            limited: true,
            latest_rtt: Some(rtt),
            srtt: rtt,
            rttvar: Span::from_millis(1),
            min_rtt,
            ce_marks: 0,
            persistent_congestion: false,
            recovering: None,
            delivered: 0,
            lost_bytes: 0,
            in_order: 0,
            blob: &[],
        }
    }

    #[test]
    fn a_window_of_acknowledgements_adds_a_datagram() {
        let mut aimd = aimd("aimd");
        let acks: Vec<_> = (0..10).map(acked).collect();
        aimd.on_feedback(&report(&acks, &[], 30));
        assert_eq!(aimd.window, 11_000);
        aimd.on_feedback(&Report { limited: false, ..report(&acks, &[], 0) });
        assert_eq!(aimd.window, 11_000, "an unused window does not grow");
    }

    #[test]
    fn a_round_decreases_once_whatever_it_meets() {
        let mut aimd = aimd("aimd:decrease=0.5");
        aimd.on_feedback(&report(&[], &[lost(3)], 0));
        assert_eq!(aimd.window, 5_000);
        aimd.on_feedback(&report(&[acked(4)], &[lost(5)], 31));
        assert_eq!(aimd.window, 5_000, "sent before the reaction");
        aimd.on_feedback(&report(&[acked(101)], &[], 31));
        assert_eq!(aimd.window, 2_500);
    }
}
