//! Monitor intervals: what was sent at one rate, and what came of it a round trip later.

use std::collections::VecDeque;

use units::{RelativeDelay, Rng, Span, Time};

use super::utility::LOSS_TOLERANCE;
use crate::parts::Line;
use crate::{Acked, Lost, Report};

/// Intervals that wait for their packets' fate, at most; there are two or three where feedback flows.
const OPEN: usize = 64;
/// Packets of an interval that nothing was heard of for this long, or three round trips, count as lost.
const FORGOTTEN: Span = Span::from_secs(1);
/// An interval lasts at least this long, whatever the round trip.
const SHORTEST: Span = Span::from_millis(1);
/// An interval that sent less than this share of its rate was limited by the application: it says nothing of
/// the rate.
const APP_LIMITED: f64 = 0.9;

/// How long intervals are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// Round trips, drawn uniformly from this range.
    pub round_trips: (f64, f64),
    /// Of the smallest round trip rather than the smoothed one.
    pub of_smallest: bool,
    /// Time for this many datagrams at least.
    pub datagrams: u32,
    /// It goes on until this many of its packets were acknowledged.
    pub heard: u32,
    /// It is settled once a packet sent after it was acknowledged: what is missing then was lost. Only every
    /// so many acknowledged packets are looked at, as many as the receiver's messages tell of. Otherwise once
    /// the fate of each of its packets is known.
    pub overtaken: Option<u32>,
}

/// Names an experiment: results of an older generation come too late to matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The plan it belongs to, counted from the start.
    pub generation: u32,
    /// Place in the plan.
    pub index: u32,
}

/// What one interval showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The rate asked for, in Mbit/s.
    pub asked: f64,
    /// The rate sent at, in Mbit/s.
    pub rate: f64,
    /// Share of the bytes that was lost.
    pub loss: f64,
    /// Growth of the delay over send time, s/s.
    pub slope: f64,
    /// Root mean square distance of the delays from that slope, in seconds.
    pub residual: f64,
    /// Mean delay, in seconds above an arbitrary constant.
    pub delay: f64,
    /// Standard deviation of the delay, in seconds.
    pub deviation: f64,
    /// Delays that went into these.
    pub samples: usize,
    /// Smoothed round trip when the interval was settled, in seconds.
    pub rtt: f64,
    /// Round trip of the packet that overtook the interval, in seconds; 0 where none did.
    pub next_rtt: f64,
    /// The application did not fill the rate.
    pub limited: bool,
}

impl Outcome {
    /// The rate sent at in an interval that the application did not fill, in Mbit/s, if more was lost than
    /// the utilities put up with: then the rate is too high, however little of it was used. Where nothing
    /// arrives at all the path is dark, which says nothing of its rate.
    pub fn excess(&self) -> Option<f64> {
        let excess = self.limited && self.loss > LOSS_TOLERANCE && self.loss < 1.0;
        excess.then_some(self.rate)
    }
}

#[derive(Clone, Debug)]
struct Interval {
    tag: Tag,
    /// Mbit/s.
    rate: f64,
    length: Span,
    started: Time,
    closed: Option<Time>,
    first: u64,
    last: u64,
    packets: u32,
    largest: u32,
    sent: u64,
    acked: u64,
    lost: u64,
    settled: u32,
    heard: u32,
    delays: Line,
    next_rtt: Option<Span>,
}

impl Interval {
    fn holds(&self, packet: u64) -> bool {
        self.packets > 0 && (self.first..=self.last).contains(&packet)
    }

    fn is_settled(&self, overtaken: bool) -> bool {
        let settled = if overtaken { self.next_rtt.is_some() } else { self.settled >= self.packets };
        self.closed.is_some() && settled
    }

    /// The rate sent at: the one asked for if no more than a packet is missing (else counting packets would
    /// blur it), and whether the application is to blame for what is missing.
    fn sent_at(&self) -> (f64, bool) {
        let seconds = (self.closed.unwrap_or(self.started) - self.started).max(SHORTEST).as_secs_f64();
        let asked = self.rate * 1e6 / 8.0 * seconds;
        let (sent, packet) = (self.sent as f64, f64::from(self.largest));
        let rate = if sent + packet >= asked { self.rate } else { sent * 8e-6 / seconds };
        (rate, sent + packet < APP_LIMITED * asked)
    }

    fn outcome(&self, rtt: Span) -> Outcome {
        let (rate, limited) = self.sent_at();
        let forgotten = self.sent.saturating_sub(self.acked + self.lost);
        let total = (self.acked + self.lost + forgotten).max(1);
        Outcome {
            asked: self.rate,
            rate,
            loss: (self.lost + forgotten) as f64 / total as f64,
            slope: self.delays.slope().unwrap_or(0.0),
            residual: self.delays.residual().unwrap_or(0.0),
            delay: self.delays.mean().unwrap_or(0.0),
            deviation: self.delays.deviation().unwrap_or(0.0),
            samples: self.delays.count(),
            rtt: rtt.as_secs_f64(),
            next_rtt: self.next_rtt.map_or(0.0, Span::as_secs_f64),
            limited,
        }
    }
}

/// Cuts what is sent into intervals and settles them, oldest first. A packet belongs to the interval it was
/// *sent* in.
#[derive(Clone, Debug)]
pub struct Monitor {
    length: Length,
    datagram: u32,
    rng: Rng,
    smoothed: Span,
    smallest: Span,
    /// Oldest first; the last may still be sending.
    intervals: VecDeque<Interval>,
    /// The first delay of all, from which the others are counted.
    origin: Option<RelativeDelay>,
    /// Packets acknowledged since those that were looked at.
    unread: u32,
}

impl Monitor {
    /// Intervals of `length` for packets of at most `datagram` bytes.
    pub fn new(length: Length, datagram: u32, rng: Rng) -> Monitor {
        let intervals = VecDeque::with_capacity(OPEN);
        Monitor {
            length,
            datagram,
            rng,
            smoothed: SHORTEST,
            smallest: SHORTEST,
            intervals,
            origin: None,
            unread: 0,
        }
    }

    /// Packets have at most `datagram` bytes from here on.
    pub fn set_mtu(&mut self, datagram: u32) {
        self.datagram = datagram.max(1);
    }

    /// Intervals are measured by this round trip until there is a sample.
    pub fn assume(&mut self, rtt: Span) {
        self.smoothed = rtt;
    }

    /// Begins an interval at `rate` (Mbit/s) with the next packet.
    pub fn begin(&mut self, tag: Tag, rate: f64) {
        if self.intervals.len() == OPEN {
            self.intervals.pop_front();
        }
        let base = if self.length.of_smallest { self.smallest } else { self.smoothed };
        let (low, high) = self.length.round_trips;
        let packets = f64::from(self.length.datagrams) * f64::from(self.datagram) * 8e-6 / rate.max(1e-3);
        let length = base.mul_f64(self.rng.uniform_in(low, high)).max(Span::from_secs_f64(packets));
        self.intervals.push_back(Interval {
            tag,
            rate,
            length: length.max(SHORTEST),
            started: Time::ZERO,
            closed: None,
            first: 0,
            last: 0,
            packets: 0,
            largest: 0,
            sent: 0,
            acked: 0,
            lost: 0,
            settled: 0,
            heard: 0,
            delays: Line::default(),
            next_rtt: None,
        });
    }

    /// Forgets all intervals.
    pub fn clear(&mut self) {
        self.intervals.clear();
    }

    fn sending(&self) -> Option<&Interval> {
        self.intervals.back().filter(|interval| interval.closed.is_none())
    }

    /// Nothing of what is sent now will be judged.
    pub fn is_idle(&self) -> bool {
        self.sending().is_none()
    }

    /// When the interval that is sending should be closed, if that is a matter of time.
    pub fn ends_at(&self) -> Option<Time> {
        let interval = self.sending().filter(|interval| interval.packets > 0)?;
        (interval.heard >= self.length.heard).then(|| interval.started + interval.length)
    }

    /// Closes the interval that is sending if its time is over: true if it did.
    pub fn close(&mut self, now: Time) -> bool {
        let over = self.ends_at().is_some_and(|at| at <= now);
        if over && let Some(interval) = self.intervals.back_mut() {
            interval.closed = Some(now);
        }
        over
    }

    /// A packet was sent.
    pub fn sent(&mut self, now: Time, packet: u64, size: u32) {
        let Some(interval) = self.intervals.back_mut().filter(|interval| interval.closed.is_none()) else {
            return;
        };
        if interval.packets == 0 {
            (interval.started, interval.first) = (now, packet);
        }
        interval.last = packet;
        interval.packets += 1;
        interval.largest = interval.largest.max(size);
        interval.sent += u64::from(size);
    }

    /// Takes the fate of packets.
    pub fn settle(&mut self, report: &Report<'_>) {
        (self.smoothed, self.smallest) = (report.srtt, report.min_rtt);
        report.acked.iter().for_each(|acked| self.acked(acked));
        report.lost.iter().for_each(|lost| self.lost(lost));
        if let (Some(newest), Some(rtt), true) =
            (report.acked.last(), report.latest_rtt, self.batch_is_full(report))
        {
            self.overtake(newest.packet, rtt);
        }
    }

    fn batch_is_full(&mut self, report: &Report<'_>) -> bool {
        let (batch, unread) = (self.length.overtaken.unwrap_or(1), self.unread + report.acked.len() as u32);
        self.unread = unread % batch;
        unread >= batch
    }

    /// `packet` was acknowledged after a round trip of `rtt`.
    fn overtake(&mut self, packet: u64, rtt: Span) {
        let overtaken = |interval: &&mut Interval| interval.closed.is_some() && packet > interval.last;
        self.intervals.iter_mut().filter(overtaken).for_each(|interval| {
            interval.next_rtt.get_or_insert(rtt);
        });
    }

    fn of(&mut self, packet: u64) -> Option<&mut Interval> {
        self.intervals.iter_mut().find(|interval| interval.holds(packet))
    }

    fn acked(&mut self, acked: &Acked) {
        // Deviation: the forward path's delay from the receiver's timestamps stands for the round trip. Its
        // slope is the same where the way back is steady, and feedback that is batched or compressed on that
        // way does not blur it.
        let delay = acked.arrived_at.map(|at| at.delay_since(acked.sent_at));
        let origin = self.origin;
        if let Some(interval) = self.of(acked.packet) {
            interval.acked += u64::from(acked.size);
            interval.settled = interval.settled.saturating_add(1);
            interval.heard = interval.heard.saturating_add(1);
            if let Some(delay) = delay {
                let above = delay - origin.unwrap_or(delay);
                interval.delays.add((acked.sent_at - interval.started).as_secs_f64(), above.as_secs_f64());
            }
        }
        self.origin = origin.or(delay);
    }

    fn lost(&mut self, lost: &Lost) {
        if let Some(interval) = self.of(lost.packet) {
            interval.lost += u64::from(lost.size);
            interval.settled = interval.settled.saturating_add(1);
        }
    }

    /// The oldest interval, if it is closed and settled.
    pub fn pop(&mut self, now: Time) -> Option<(Tag, Outcome)> {
        let patience = FORGOTTEN.max(self.smoothed * 3);
        let oldest = self.intervals.front()?;
        let forgotten = oldest.closed.is_some_and(|at| now - at >= patience);
        if !oldest.is_settled(self.length.overtaken.is_some()) && !forgotten {
            return None;
        }
        let outcome = oldest.outcome(self.smoothed);
        self.intervals.pop_front().map(|interval| (interval.tag, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};
    use units::{Ecn, Rng};

    const TAG: Tag = Tag { generation: 1, index: 0 };

    fn monitor() -> Monitor {
        monitor_of(None)
    }

    fn monitor_of(overtaken: Option<u32>) -> Monitor {
        let length =
            Length { round_trips: (1.0, 1.0), of_smallest: false, datagrams: 0, heard: 0, overtaken };
        let mut monitor = Monitor::new(length, 1000, Rng::stream(1, "test"));
        monitor.settle(&report(&[], &[]));
        monitor
    }

    /// Packet `n` is sent at `n` ms: 1000 bytes are 8 Mbit/s.
    fn send(monitor: &mut Monitor, packets: std::ops::Range<u64>) {
        packets.for_each(|n| monitor.sent(Time::from_millis(n), n, 1000));
    }

    #[test]
    fn a_packet_counts_where_it_was_sent() {
        let mut monitor = monitor();
        monitor.begin(TAG, 8.0);
        send(&mut monitor, 0..40);
        assert_eq!(monitor.ends_at(), Some(Time::from_millis(40)));
        assert!(!monitor.close(Time::from_millis(39)) && monitor.close(Time::from_millis(40)));
        monitor.begin(Tag { index: 1, ..TAG }, 8.0);
        send(&mut monitor, 40..80);
        assert!(monitor.close(Time::from_millis(80)));
        // Losses of the first interval are told while the second is sending.
        let acks: Vec<_> = (0..78).map(|n| acked(n, 1000)).collect();
        monitor.settle(&report(&acks, &[lost(78, 1000)]));
        let (tag, first) = monitor.pop(Time::from_millis(100)).unwrap();
        assert_eq!((tag.index, first.loss, first.rate, first.limited), (0, 0.0, 8.0, false));
        assert_eq!(monitor.pop(Time::from_millis(100)), None);
        monitor.settle(&report(&[], &[lost(79, 1000)]));
        assert_eq!(monitor.pop(Time::from_millis(100)).unwrap().1.loss, 0.05);
    }

    #[test]
    fn the_slope_of_the_delay_is_seconds_per_second() {
        let mut monitor = monitor();
        monitor.begin(TAG, 8.0);
        send(&mut monitor, 0..40);
        monitor.close(Time::from_millis(40));
        // Each packet is 50 us later than the one before, which was sent a millisecond earlier.
        let acks: Vec<_> = (0..40u64)
            .map(|n| {
                let arrived = Time::from_micros(n * 1050 + 20_000).on_wire();
                Acked { arrived_at: Some(arrived), ecn: Ecn::NotEct, ..acked(n, 1000) }
            })
            .collect();
        monitor.settle(&report(&acks, &[]));
        let (_, outcome) = monitor.pop(Time::from_millis(100)).unwrap();
        assert!((outcome.slope - 0.05).abs() < 1e-9 && outcome.residual < 1e-6, "{outcome:?}");
    }

    #[test]
    fn an_interval_the_application_did_not_fill_says_so() {
        let mut monitor = monitor();
        monitor.begin(TAG, 10.0);
        send(&mut monitor, 0..40);
        monitor.close(Time::from_millis(40));
        let acks: Vec<_> = (0..40).map(|n| acked(n, 1000)).collect();
        monitor.settle(&report(&acks, &[]));
        let (_, outcome) = monitor.pop(Time::from_millis(100)).unwrap();
        assert!(outcome.limited && (outcome.rate - 8.0).abs() < 1e-9, "{outcome:?}");
    }

    #[test]
    fn an_interval_that_was_overtaken_has_lost_what_is_missing() {
        let mut monitor = monitor_of(Some(1));
        monitor.begin(TAG, 8.0);
        send(&mut monitor, 0..40);
        monitor.close(Time::from_millis(40));
        monitor.begin(Tag { index: 1, ..TAG }, 8.0);
        send(&mut monitor, 40..80);
        let acks: Vec<_> = (0..40).filter(|n| n % 20 != 5).map(|n| acked(n, 1000)).collect();
        monitor.settle(&report(&acks, &[lost(5, 1000)]));
        assert_eq!(monitor.pop(Time::from_millis(100)), None, "nothing sent later was heard of");
        monitor.settle(&report(&[acked(40, 1000)], &[]));
        let (_, outcome) = monitor.pop(Time::from_millis(100)).unwrap();
        assert_eq!((outcome.loss, outcome.next_rtt), (0.05, 0.04));
    }

    #[test]
    fn the_last_packet_of_a_batch_overtakes() {
        let mut monitor = monitor_of(Some(20));
        monitor.begin(TAG, 8.0);
        send(&mut monitor, 0..30);
        monitor.close(Time::from_millis(40));
        monitor.begin(Tag { index: 1, ..TAG }, 8.0);
        send(&mut monitor, 40..80);
        // Two a report: 30 of the first interval and 8 of the next are no full batch after the first 20.
        let packets: Vec<u64> = (0..30).chain(40..48).collect();
        for pair in packets.chunks(2) {
            monitor.settle(&report(&[acked(pair[0], 1000), acked(pair[1], 1000)], &[]));
            assert_eq!(monitor.pop(Time::from_millis(100)), None, "{pair:?}");
        }
        let newest = [acked(48, 1000), acked(49, 1000)];
        let latest_rtt = Some(Span::from_millis(51));
        monitor.settle(&Report { latest_rtt, ..report(&newest, &[]) });
        let (_, outcome) = monitor.pop(Time::from_millis(100)).unwrap();
        assert_eq!((outcome.loss, outcome.next_rtt), (0.0, 0.051));
    }

    #[test]
    fn what_is_never_heard_of_was_lost() {
        let mut monitor = monitor();
        monitor.begin(TAG, 8.0);
        send(&mut monitor, 0..40);
        monitor.close(Time::from_millis(40));
        assert_eq!(monitor.pop(Time::from_millis(1039)), None);
        assert_eq!(monitor.pop(Time::from_millis(1040)).unwrap().1.loss, 1.0);
    }
}
