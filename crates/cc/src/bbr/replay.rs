//! A backlogged sender on a link of 12 Mbit/s and 20 ms, down to single packets: for traces that CC-Fuzz
//! found.

use std::collections::VecDeque;

use units::{Bytes, Ecn, Span, Time};

use crate::{Acked, Controller, Decision, Delivery, Lost, Report, Sent, Setup};

const SIZE: u32 = 1500;
/// 1500 bytes at 12 Mbit/s.
const SLOT: Span = Span::from_millis(1);
const RTT: Span = Span::from_millis(20);

#[derive(Clone, Copy)]
struct Flying {
    packet: u64,
    sent_at: Time,
    back_at: Time,
    delivery: Delivery,
}

/// The link and the sender's ledger.
#[derive(Default)]
pub struct Wire {
    pub now: Time,
    next: u64,
    flying: VecDeque<Flying>,
    /// Given up, but on their way all the same.
    late: Vec<u64>,
    free_at: Time,
    pace_at: Time,
    delivered: u64,
    lost: u64,
    delivered_at: Time,
    first_sent_at: Time,
}

impl Wire {
    fn in_flight(&self) -> u64 {
        self.flying.len() as u64 * u64::from(SIZE)
    }

    fn report<'a>(&self, acked: &'a [Acked], lost: &'a [Lost], spurious: &'a [u64]) -> Report<'a> {
        Report {
            now: self.now,
            acked,
            lost,
            spurious,
            in_flight: Bytes::new(self.in_flight()),
            limited: true,
            latest_rtt: acked.last().map(|acked| self.now - acked.sent_at),
            srtt: RTT,
            rttvar: Span::from_millis(1),
            min_rtt: RTT,
            ce_marks: 0,
            persistent_congestion: false,
            recovering: None,
            delivered: self.delivered,
            lost_bytes: self.lost,
            in_order: 0,
            blob: &[],
        }
    }

    fn send(&mut self, cc: &mut dyn Controller, pacing: f64) {
        let (now, packet, size) = (self.now, self.next, SIZE);
        if self.flying.is_empty() {
            (self.delivered_at, self.first_sent_at) = (now, now);
        }
        self.next += 1;
        self.free_at = self.free_at.max(now) + SLOT;
        let delivery = Delivery {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: false,
            in_flight: self.in_flight() + u64::from(SIZE),
            lost: self.lost,
        };
        // 19 ms of the way are propagation, and a millisecond is the packet's own.
        let back_at = self.free_at + (RTT - SLOT);
        self.flying.push_back(Flying { packet, sent_at: now, back_at, delivery });
        self.pace_at = now + Span::from_secs_f64(f64::from(SIZE) * 8.0 / pacing);
        let in_flight = Bytes::new(self.in_flight());
        cc.on_sent(&Sent { now, packet, size, frame: None, in_flight, app_limited: false });
    }

    fn hear(&mut self, cc: &mut dyn Controller) {
        let Some(flying) = self.flying.pop_front() else { return };
        self.delivered += u64::from(SIZE);
        (self.delivered_at, self.first_sent_at) = (self.now, flying.sent_at);
        let acked = [Acked {
            packet: flying.packet,
            sent_at: flying.sent_at,
            arrived_at: None,
            size: SIZE,
            ecn: Ecn::NotEct,
            frame: None,
            delivery: flying.delivery,
        }];
        cc.on_feedback(&self.report(&acked, &[], &[]));
    }

    /// Sends and hears until `until`.
    pub fn run(&mut self, cc: &mut dyn Controller, until: Time) {
        while self.now < until {
            let Decision { window, pacing, .. } = cc.decision();
            let room = self.in_flight() + u64::from(SIZE) <= window.unwrap().get();
            let send_at = if room { self.pace_at.max(self.now) } else { Time::MAX };
            let hear_at = self.flying.front().map_or(Time::MAX, |flying| flying.back_at);
            self.now = send_at.min(hear_at);
            if hear_at <= send_at { self.hear(cc) } else { self.send(cc, pacing.unwrap().as_f64()) }
        }
    }

    /// A second of silence, then everything in flight is given up; what was given up is yet to arrive.
    pub fn time_out(&mut self, cc: &mut dyn Controller) {
        self.now += Span::from_secs(1);
        let lost: Vec<Lost> = self
            .flying
            .drain(..)
            .map(|f| Lost {
                packet: f.packet,
                sent_at: f.sent_at,
                size: SIZE,
                frame: None,
                delivery: f.delivery,
            })
            .collect();
        self.late = lost.iter().map(|lost| lost.packet).collect();
        self.lost += lost.len() as u64 * u64::from(SIZE);
        cc.on_feedback(&Report { persistent_congestion: true, ..self.report(&[], &lost, &[]) });
    }

    /// News of all but the first of what was given up.
    pub fn late_news(&mut self, cc: &mut dyn Controller) {
        let late = std::mem::take(&mut self.late);
        cc.on_feedback(&self.report(&[], &[], &late[1..]));
    }
}

/// A quantity by name.
pub fn observed(cc: &dyn Controller, what: &str) -> f64 {
    let mut found = f64::NAN;
    cc.observe(&mut |name, value| {
        if name == what {
            found = value;
        }
    });
    found
}

/// The bandwidth before a timeout, and 20 rounds after late news of what it gave up.
pub fn bandwidth_around_a_timeout(name: &str) -> (f64, f64) {
    let setup = Setup { mtu: SIZE, ..Setup::default() };
    let mut cc = crate::build(&crate::Options::of(name), &setup).unwrap();
    let (cc, mut wire) = (&mut *cc, Wire::default());
    wire.run(cc, Time::from_secs(5));
    let before = observed(cc, "bbr_bw_bps");
    wire.time_out(cc);
    // The first packets are sent again before the news comes.
    wire.run(cc, wire.now + Span::from_millis(10));
    wire.late_news(cc);
    wire.run(cc, wire.now + RTT * 20);
    (before, observed(cc, "bbr_bw_bps"))
}

#[test]
fn late_news_after_a_timeout_does_not_lower_the_bandwidth() {
    for name in ["bbr", "bbr2", "bbr2-mvfst", "bbr3"] {
        let (before, after) = bandwidth_around_a_timeout(name);
        println!("{name}: {before:.0} bit/s, {after:.0} 20 rounds after the timeout");
        assert!((before / 12e6 - 1.0).abs() < 0.02, "{name}: {before}");
        assert!(after >= 0.8 * before, "{name}: {before}, then {after}");
    }
}
