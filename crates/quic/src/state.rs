//! What one connection's controller, its copies and its timing share.

use std::collections::VecDeque;
use std::mem::take;

use cc::{Acked, Controller, Decision, Lost};
use record::Tap;
use transport::{CongestionControl, Leaving, News, RoundTrips};
use units::{Bytes, RemoteTime, Span, Time};

use crate::ledger::{Ledger, Settled};
use crate::rtt::Rtt;
use crate::timing::Probes;

/// An acknowledgement waits this long for the arrival time of its packet. An echo leaves the receiver with or
/// right behind the acknowledgement; one that is later than this was lost, or the receiver's application
/// sleeps.
const PATIENCE: Span = Span::from_millis(10);

/// A receiver acknowledges every second packet at once and a lone one after up to 25 ms (RFC 9000 section
/// 13.2): with fewer than two in flight each would wait for that timer.
const LEAST_DATAGRAMS: u64 = 2;

/// What a connection has seen so far, under its controller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Packets sent (UDP datagrams), acknowledgements included.
    pub sent: u64,
    /// Their bytes (UDP payload).
    pub sent_bytes: u64,
    /// Packets given up.
    pub lost: u64,
    /// Bytes given up.
    pub lost_bytes: u64,
    /// Bytes acknowledged.
    pub delivered_bytes: u64,
    /// Mean round trip in ms, of one sample per acknowledgement; zero before the first.
    pub rtt_mean_ms: f64,
    /// Standard deviation of those.
    pub rtt_std_ms: f64,
    /// Smallest round trip in ms; zero before the first sample.
    pub rtt_min_ms: f64,
    /// Packets whose one-way delay was measured.
    pub timed: u64,
    /// The congestion window, in bytes.
    pub window: u64,
}

/// What has come in since the controller was last told.
#[derive(Default)]
struct Batch {
    at: Time,
    acked: Vec<Acked>,
    lost: Vec<Lost>,
    sample: Option<Span>,
    ce_marks: u32,
    persistent: bool,
    pending: bool,
}

/// A packet whose acknowledgement waits for its arrival time.
struct Held {
    settled: Settled,
    until: Time,
}

/// A controller and everything its reports are made of.
pub(crate) struct State {
    control: CongestionControl,
    mtu: u32,
    /// Packets without an arrival time get their acknowledgement's.
    per_packet: bool,
    ledger: Ledger,
    rtt: Rtt,
    newest_sent: Option<Time>,
    batch: Batch,
    held: VecDeque<Held>,
    pub(crate) probes: Probes,
    app_limited: bool,
    sent_bytes: u64,
    lost_packets: u64,
}

impl State {
    pub fn new(controller: Box<dyn Controller>, mtu: u32, per_packet: bool, tap: Tap) -> State {
        State {
            control: CongestionControl::new(controller, tap),
            mtu,
            per_packet,
            ledger: Ledger::default(),
            rtt: Rtt::default(),
            newest_sent: None,
            batch: Batch::default(),
            held: VecDeque::new(),
            probes: Probes::default(),
            app_limited: false,
            sent_bytes: 0,
            lost_packets: 0,
        }
    }

    /// quinn sent `bytes` in one go: one datagram, or several of a path's MTU and a last one that may be
    /// shorter.
    pub fn on_sent(&mut self, now: Time, bytes: u64) {
        self.catch_up(now);
        let mut left = bytes;
        while left > 0 {
            let size = left.min(u64::from(self.mtu));
            left -= size;
            self.sent_one(now, size as u32);
        }
    }

    fn sent_one(&mut self, now: Time, size: u32) {
        let probe = self.probes.leaves();
        let packet = self.ledger.sent(now, size, probe);
        self.sent_bytes += u64::from(size);
        let leaving =
            Leaving { now, packet, size, frame: None, retransmission: false, app_limited: self.app_limited };
        self.control.sent(&leaving, self.ledger.packets());
    }

    /// A packet of `size` bytes, sent at `sent_at`, was acknowledged; more may follow.
    pub fn on_ack(&mut self, now: Time, sent_at: Time, size: u32, app_limited: bool) {
        if self.batch.pending && self.batch.at != now {
            self.flush();
        }
        self.batch.at = now;
        self.app_limited = app_limited;
        if self.newest_sent.is_none_or(|newest| sent_at > newest) {
            self.newest_sent = Some(sent_at);
            self.batch.sample = Some(now - sent_at);
        }
        let Some(settled) = self.ledger.acknowledged(now, sent_at, size) else { return };
        match settled.probe.map(|probe| self.probes.arrival(probe)) {
            Some(None) => self.held.push_back(Held { settled, until: now + PATIENCE }),
            known => self.batch.acked.push(settled.arrived(known.flatten())),
        }
    }

    /// The acknowledgement is complete. Losses that it showed are told next, so the controller is not told
    /// yet.
    pub fn on_end_acks(&mut self, now: Time, in_flight: u64, app_limited: bool) {
        if self.batch.pending && self.batch.at != now {
            self.flush();
        }
        (self.batch.at, self.batch.pending, self.app_limited) = (now, true, app_limited);
        if let Some(sample) = self.batch.sample {
            self.rtt.sample(sample);
        }
        self.ledger.acknowledgement_ends(in_flight, app_limited, self.rtt.smoothed());
    }

    /// quinn gave up `bytes`, the last of them sent at `sent_at`; with no bytes, packets were marked.
    pub fn on_congestion(&mut self, now: Time, sent_at: Time, persistent: bool, bytes: u64) {
        if self.batch.pending && self.batch.at != now {
            self.flush();
        }
        (self.batch.at, self.batch.pending) = (now, true);
        if bytes == 0 {
            self.batch.ce_marks += 1;
        } else {
            self.ledger.lost(sent_at, bytes, &mut self.batch.lost);
            self.batch.persistent |= persistent;
        }
        self.flush();
    }

    /// A probe arrived at `at`: the acknowledgement that waited for this goes on.
    pub fn on_arrival(&mut self, now: Time, probe: u64, at: RemoteTime) {
        if let Some(place) = self.held.iter().position(|held| held.settled.probe == Some(probe))
            && let Some(held) = self.held.remove(place)
        {
            self.batch.acked.push(held.settled.arrived(Some(at)));
            (self.batch.at, self.batch.pending) = (self.batch.at.max(now), true);
            self.flush();
        }
    }

    /// What the controller allows: it is told all that is known first.
    pub fn window(&mut self) -> u64 {
        self.flush();
        let window = self.decision().window.map_or(u64::from(u32::MAX), Bytes::get);
        let least = LEAST_DATAGRAMS * u64::from(self.mtu);
        // quinn sends while a full datagram more stays below the window: the window itself is reached with
        // one byte more.
        window.min(self.paced_window()).max(least).saturating_add(1)
    }

    /// What is in flight when the controller's pace is kept: by Little's law, the pace times the round trip.
    /// A pace of a window a round trip and more, which is every window-based controller's, does not limit.
    fn paced_window(&self) -> u64 {
        match self.decision().pacing {
            Some(pacing) if self.rtt.is_known() => pacing.bytes_in(self.rtt.smoothed()).get(),
            _ => u64::MAX,
        }
    }

    /// Time has come to `now`: timers, and acknowledgements that waited in vain.
    fn catch_up(&mut self, now: Time) {
        self.flush();
        while self.held.front().is_some_and(|held| held.until <= now) {
            if let Some(held) = self.held.pop_front() {
                self.batch.acked.push(held.settled.arrived(None));
                (self.batch.at, self.batch.pending) = (now, true);
            }
        }
        self.flush();
        self.control.run_timer(now);
    }

    fn flush(&mut self) {
        if !self.batch.pending {
            return;
        }
        let Batch { at, mut acked, lost, sample, ce_marks, persistent, .. } = take(&mut self.batch);
        // What waited for its arrival time may be older than what did not.
        acked.sort_unstable_by_key(|acked| acked.packet);
        if self.per_packet {
            acked.iter_mut().for_each(|acked| acked.arrived_at = acked.arrived_at.or(Some(at.on_wire())));
        }
        self.lost_packets += lost.len() as u64;
        let news = News {
            acked: &acked,
            lost: &lost,
            ce_marks,
            persistent_congestion: persistent,
            ..News::default()
        };
        if !self.app_limited {
            self.control.limit();
        }
        let rtt = self.rtt.told(sample);
        self.control.report(at, &news, self.ledger.packets(), &rtt);
        self.control.record_settled(at, &news, &RoundTrips { latest: sample, ..rtt });
        self.control.record_decision(at, self.decision().pacing);
    }

    /// The path carries datagrams of `mtu` bytes now.
    pub fn on_mtu(&mut self, mtu: u32) {
        if self.mtu != mtu.max(1) {
            self.mtu = mtu.max(1);
            self.control.set_mtu(self.mtu as usize);
        }
    }

    /// What the controller wants.
    pub fn decision(&self) -> &Decision {
        self.control.decision()
    }

    /// The number of the next packet.
    pub fn next_packet(&self) -> u64 {
        self.ledger.next()
    }

    /// Counts so far.
    pub fn totals(&self) -> Totals {
        let (mean, std) = self.rtt.mean_and_std_ms().unwrap_or_default();
        Totals {
            sent: self.ledger.next(),
            sent_bytes: self.sent_bytes,
            lost: self.lost_packets,
            lost_bytes: self.ledger.lost_bytes(),
            delivered_bytes: self.ledger.delivered(),
            rtt_mean_ms: mean,
            rtt_std_ms: std,
            rtt_min_ms: if mean > 0.0 { self.rtt.least().as_millis_f64() } else { 0.0 },
            timed: self.probes.timed(),
            window: self.decision().window.map_or(u64::MAX, Bytes::get),
        }
    }
}
