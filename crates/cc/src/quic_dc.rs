//! QUIC Delay Control: Westwood+ that takes a one-way queuing delay above a threshold for congestion, before
//! the queue overflows.
//!
//! ```text
//! OWQD > OWQD_th  ->  ssthresh = cwnd = bandwidth * smallest round trip,   OWQD = sum of one-way delay variations
//! ```
//!
//! The sum telescopes to a packet's one-way delay less the first one's; here it is less the smallest since
//! the last reaction, when the queue was empty.

use std::str::FromStr;

use units::{RemoteTime, Span, Time};

use crate::parts::OwdBase;
use crate::westwood::{Filter, Westwood};
use crate::{Acked, Controller, Decision, Entry, OptionError, Options, Report, Sent, Setup};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "quic-dc",
    summary: "QUIC Delay Control: Westwood+ that reacts to one-way queuing delay before a loss",
    needs_frames: false,
    options: &[
        (
            "threshold",
            "queuing delay that counts as congestion, such as 20ms (the default), or with a buffer 50%",
        ),
        ("share", "the same share of the bottleneck's buffer as a number, 0.01 to 1; needs buffer"),
        ("buffer", "the bottleneck's buffer as a time, such as 200ms"),
        ("base", "the smallest delay is kept for at least this long, 1s to 60s (default 10s)"),
        ("hold", "packets in a row above the threshold, 1 to 64 (default 4), and 5 ms unless 1"),
        ("hystart", "leave the first slow start by HyStart++ (RFC 9406), on or off (default off)"),
    ],
    page: include_str!("quic_dc.md"),
    build: |options, setup| Ok(Box::new(QuicDc::new(Params::read(options)?, setup))),
    receiver: None,
};

/// With more than one packet to wait for, the delay must also stay up for this long: one late burst is not a
/// queue.
const HOLD_TIME: Span = Span::from_millis(5);
/// Below a millisecond the clocks' resolution and the sender's own bursts would be taken for a queue.
const LEAST_THRESHOLD: Span = Span::from_millis(1);
/// The smallest delay is kept for at least this (a few round trips of any path) ...
const SHORTEST_BASE: Span = Span::from_secs(1);
/// ... and forgotten after this, whatever happened: 50 ppm of clock drift make 3 ms.
const LONGEST_BASE: Span = Span::from_secs(60);

/// QUIC-DC's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// OWQD_th: the one-way queuing delay above which the window is reduced.
    pub threshold: Span,
    /// The smallest one-way delay stands for the empty path for this long, or since the last reaction, if
    /// that was earlier: only then was the queue empty, and a high threshold is reached slowly.
    pub base: Span,
    /// Packets in a row that must be above the threshold.
    pub hold: u32,
    /// Leave the first slow start by HyStart++.
    pub hystart: bool,
}

impl Default for Params {
    /// 20 ms for interactive video where the buffer is not known (the paper takes shares of a known one); a
    /// base of 10 s forgets a clock drift of 50 ppm before it makes 1 ms; four packets outlast a hiccup of a
    /// wireless link.
    fn default() -> Params {
        Params { threshold: Span::from_millis(20), base: Span::from_secs(10), hold: 4, hystart: false }
    }
}

impl Params {
    fn read(options: &Options) -> Result<Params, OptionError> {
        let d = Params::default();
        let threshold = read_threshold(options, d.threshold)?;
        if threshold < LEAST_THRESHOLD {
            return Err(options.refuse("threshold", "at least 1ms, share of the buffer or not".to_owned()));
        }
        let base = options.quantity("base", d.base, "a time such as 10s")?;
        if !(SHORTEST_BASE..=LONGEST_BASE).contains(&base) {
            return Err(options.refuse("base", "a time from 1s to 60s".to_owned()));
        }
        Ok(Params {
            threshold,
            base,
            hold: options.number("hold", f64::from(d.hold), 1.0..=64.0)? as u32,
            hystart: options.switch("hystart", d.hystart)?,
        })
    }
}

/// A threshold as it is given.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Threshold {
    Time(Span),
    /// Of the bottleneck's buffer.
    Share(f64),
}

impl FromStr for Threshold {
    type Err = ();

    fn from_str(text: &str) -> Result<Threshold, ()> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(Threshold::Time).map_err(|_| ());
        };
        let percent: f64 = percent.parse().map_err(|_| ())?;
        if (1.0..=100.0).contains(&percent) { Ok(Threshold::Share(percent / 100.0)) } else { Err(()) }
    }
}

fn read_threshold(options: &Options, default: Span) -> Result<Span, OptionError> {
    let expected = "a time such as 20ms, or with a buffer a share of it from 1% to 100%";
    let given = options.quantity("threshold", Threshold::Time(default), expected)?;
    let (share, buffer) = (options.is_set("share"), options.is_set("buffer"));
    let share = match given {
        Threshold::Time(time) if !share && !buffer => return Ok(time),
        Threshold::Share(given) if buffer && !share => given,
        Threshold::Share(_) => {
            return Err(options.refuse("threshold", "given with buffer, and without share".to_owned()));
        }
        Threshold::Time(_) if share && buffer && !options.is_set("threshold") => {
            options.number("share", 1.0, 0.01..=1.0)?
        }
        Threshold::Time(_) => {
            return Err(options.refuse("share", "given with buffer, and without threshold".to_owned()));
        }
    };
    Ok(options.quantity("buffer", Span::ZERO, "a time such as 200ms")?.mul_f64(share))
}

/// Whether the queuing delay is above the threshold, and has been for a while.
#[derive(Clone, Debug)]
struct DelaySignal {
    params: Params,
    base: OwdBase,
    /// The newest packet looked at: older ones, reordered, say nothing new.
    newest: Option<u64>,
    /// Packets above the threshold in a row, and when the last one that was not above it arrived.
    above: u32,
    below_at: Option<RemoteTime>,
    queuing: Span,
}

impl DelaySignal {
    fn new(params: Params) -> DelaySignal {
        let base = OwdBase::new(LONGEST_BASE);
        DelaySignal { params, base, newest: None, above: 0, below_at: None, queuing: Span::ZERO }
    }

    /// Takes a packet heard of `now`, when the window was last cut at `cut_at`; true if it met congestion:
    /// the smallest queuing delay of the last `hold` packets and of the last 5 ms is above the threshold.
    fn take(&mut self, now: Time, cut_at: Option<Time>, acked: &Acked) -> bool {
        let Some(arrived_at) = acked.arrived_at else { return false };
        if self.newest.is_some_and(|newest| acked.packet <= newest) {
            return false;
        }
        self.newest = Some(acked.packet);
        let recent = now.saturating_sub(self.params.base);
        let oldest = cut_at.unwrap_or(Time::ZERO).min(recent).max(now.saturating_sub(LONGEST_BASE));
        self.queuing = self.base.queuing_since(oldest, now, arrived_at.delay_since(acked.sent_at));
        if self.queuing <= self.params.threshold {
            (self.above, self.below_at) = (0, Some(arrived_at));
            return false;
        }
        self.above = self.above.saturating_add(1);
        let lasted = self.below_at.is_none_or(|below_at| arrived_at - below_at >= HOLD_TIME);
        self.above >= self.params.hold && (lasted || self.params.hold == 1)
    }
}

/// QUIC-DC's state.
#[derive(Clone, Debug)]
pub struct QuicDc {
    westwood: Westwood,
    delay: DelaySignal,
}

impl QuicDc {
    /// A new connection's state.
    pub fn new(params: Params, setup: &Setup) -> QuicDc {
        QuicDc {
            westwood: Westwood::new(setup, Filter::Quic, params.hystart),
            delay: DelaySignal::new(params),
        }
    }
}

impl Controller for QuicDc {
    fn on_sent(&mut self, sent: &Sent) {
        self.westwood.on_sent(sent);
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        self.westwood.take_losses(report);
        for acked in report.acked {
            if self.delay.take(report.now, self.westwood.cut_at(), acked) {
                self.westwood.congested(acked.sent_at, report.now);
            }
        }
        self.westwood.take_acknowledgements(report);
    }

    fn on_mtu(&mut self, mtu: u32) {
        self.westwood.on_mtu(mtu);
    }

    fn fork(&self) -> Option<Box<dyn Controller>> {
        Some(Box::new(self.clone()))
    }

    fn decision(&self) -> Decision {
        self.westwood.decision()
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        self.westwood.observe(sink);
        sink("owqd_ms", self.delay.queuing.as_millis_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, report};
    use units::Time;

    /// A packet sent at `sent` ms that took `delay` ms.
    fn took(packet: u64, sent: u64, delay: u64) -> Acked {
        let arrived_at = Some(Time::from_millis(sent + delay).on_wire());
        Acked { sent_at: Time::from_millis(sent), arrived_at, ..acked(packet, 1000) }
    }

    fn signal(text: &str) -> DelaySignal {
        DelaySignal::new(Params::read(&format!("quic-dc:{text}").parse().unwrap()).unwrap())
    }

    #[test]
    fn the_sum_of_variations_is_the_delay_above_the_first() {
        // One-way delays of 20, 22, 25, 19, 40 ms. The paper's sum gives 0, 2, 5, -1, 20; against
        // the smallest delay it is 0, 2, 5, 0, 21.
        let delays = [20u64, 22, 25, 19, 40];
        let mut literal = vec![0i64];
        for pair in delays.windows(2) {
            literal.push(literal[literal.len() - 1] + pair[1] as i64 - pair[0] as i64);
        }
        assert_eq!(literal, [0, 2, 5, -1, 20]);
        let mut signal = signal("threshold=1s");
        let queuing = delays.iter().enumerate().map(|(n, &delay)| {
            let n = n as u64;
            signal.take(Time::from_millis(100), None, &took(n, 10 * n, delay));
            signal.queuing
        });
        assert_eq!(queuing.collect::<Vec<_>>(), [0, 2, 5, 0, 21].map(Span::from_millis));
    }

    #[test]
    fn four_packets_and_5_ms_above_the_threshold_are_congestion() {
        let mut signal = signal("threshold=10ms");
        let mut at =
            |packet, delay| signal.take(Time::from_millis(100), None, &took(packet, 2 * packet, delay));
        assert!(!at(0, 20) && !at(1, 20));
        assert!(!at(2, 31) && !at(3, 40) && !at(4, 40));
        assert!(!at(4, 40) && !at(1, 40), "heard of before, or reordered");
        assert!(at(5, 31) && at(6, 31));
        assert!(!at(7, 30), "at the threshold is not above it");
        // Eight packets within 3 ms are four, but not 5 ms.
        let burst = |n: u64| Acked { packet: 8 + n, ..took(8, 13 + n / 4, 32) };
        assert!((0..8).all(|n| !signal.take(Time::from_millis(100), None, &burst(n))));
    }

    #[test]
    fn one_reaction_a_round_for_delay_and_loss_alike() {
        let mut dc =
            QuicDc::new(Params { hold: 1, ..Params::default() }, &Setup { mtu: 1000, ..Setup::default() });
        let window = |dc: &QuicDc| dc.decision().window.unwrap().get();
        dc.on_feedback(&Report { limited: false, ..report(&[took(0, 0, 20)], &[]) });
        assert_eq!(window(&dc), 10_000);
        // No bandwidth sample yet: half.
        dc.on_feedback(&report(&[took(1, 30, 45)], &[]));
        assert_eq!(window(&dc), 5_000);
        dc.on_feedback(&report(&[took(2, 40, 60)], &[crate::controller::tests::lost(50, 1000)]));
        assert_eq!(window(&dc), 5_000);
    }

    #[test]
    fn the_threshold_is_a_time_or_a_share_of_the_buffer() {
        let read = |text: &str| Params::read(&text.parse().unwrap());
        assert_eq!(read("quic-dc").unwrap(), Params::default());
        let ms = |text| read(text).unwrap().threshold.as_millis_f64();
        assert_eq!((ms("quic-dc:threshold=35ms"), ms("quic-dc:share=0.1,buffer=200ms")), (35.0, 20.0));
        assert_eq!(ms("quic-dc:threshold=50%,buffer=100ms"), 50.0);
        let error = read("quic-dc:threshold=50%").unwrap_err().to_string();
        assert_eq!(
            error,
            "option `threshold` of quic-dc is `50%`; it must be given with buffer, and without share"
        );
        assert!(
            read("quic-dc:threshold=101%,buffer=1s").is_err()
                && read("quic-dc:threshold=5%,share=1").is_err()
        );
        let error = read("quic-dc:share=0.1").unwrap_err().to_string();
        assert_eq!(
            error,
            "option `share` of quic-dc is `0.1`; it must be given with buffer, and without threshold"
        );
        assert!(
            read("quic-dc:buffer=200ms").is_err()
                && read("quic-dc:share=0.1,buffer=1s,threshold=1ms").is_err()
        );
    }
}
