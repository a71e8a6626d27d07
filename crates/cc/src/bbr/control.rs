//! What every version of BBR does with its model: pacing, quantum, recovery.

use units::{Bytes, Rate, Span, Time, cold_path, unlikely};

use crate::parts::{LossEpoch, SLOWEST};
use crate::{Decision, Report};

/// tcp_bbr.c bbr_init_pacing_rate_from_rtt: a round trip before any was seen.
const NOMINAL_RTT: Span = Span::from_millis(1);
/// tcp_bbr.c bbr_min_tso_rate: below, one packet leaves at a time, above at least two.
const ONE_PACKET_BELOW: Rate = Rate::from_kbps(1_200);
/// tcp_bbr.c (sk_pacing_shift 10): what leaves at once is at most about a millisecond ...
const QUANTUM: Span = Span::from_millis(1);
/// ... and this many bytes (GSO_MAX_SIZE).
const MOST_QUANTUM: u64 = 65_536;

/// Packets that a window always has room for (bbr_cwnd_min_target): two pairs, as every other packet is
/// acknowledged.
pub const MIN_PACKETS: u64 = 4;
/// Packets of the first window (RFC 6928, TCP_INIT_CWND).
pub const INITIAL_PACKETS: u64 = 10;

/// Packets that may leave back to back at `pacing`.
fn quantum(pacing: Rate, mtu: u64) -> u64 {
    let least = if pacing < ONE_PACKET_BELOW { 1 } else { 2 };
    let packets = pacing.bytes_in(QUANTUM).get().min(MOST_QUANTUM) / mtu;
    packets.max(least)
}

/// The encoder's share: the pace, so that probing has something to send, but no more than leaves by the
/// window.
pub fn media(pacing: Rate, window: u64, srtt: Span) -> Rate {
    let by_window = Rate::average(Bytes::new(window), srtt.max(Span::from_micros(1)));
    pacing.min(by_window).max(SLOWEST)
}

/// The rate at which packets leave, and what it is made of.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    rate: Rate,
    /// The bandwidth and the gain that it is of.
    of: (Rate, f64),
    /// Packets of `mtu` bytes that may leave back to back at that rate.
    quantum: u64,
    mtu: u64,
    seen_rtt: bool,
    /// Share of the bandwidth that is used (bbr_pacing_margin_percent leaves 1 %).
    share: f64,
}

impl Pacing {
    /// The first window's, over a nominal round trip, of packets of `mtu` bytes.
    pub fn new(window: u64, mtu: u64, gain: f64, share: f64) -> Pacing {
        let (rate, of) = (Rate::ZERO, (Rate::ZERO, 0.0));
        let mut pacing = Pacing { rate, of, quantum: 1, mtu, seen_rtt: false, share };
        pacing.of_window(window, NOMINAL_RTT, gain);
        pacing
    }

    fn of_window(&mut self, window: u64, rtt: Span, gain: f64) {
        let rtt = rtt.max(Span::from_micros(1));
        self.set(Rate::average(Bytes::new(window), rtt), gain);
    }

    /// `gain` times `bw`, whatever it was.
    pub fn set(&mut self, bw: Rate, gain: f64) {
        // Set by each report, and seldom to anything new.
        if unlikely((bw, gain) != self.of) {
            self.of = (bw, gain);
            self.rate = bw.mul_f64(gain * self.share).max(SLOWEST);
            self.quantum = quantum(self.rate, self.mtu);
        }
    }

    /// Packets have `mtu` bytes from here on.
    pub fn set_mtu(&mut self, mtu: u64) {
        self.mtu = mtu;
        self.quantum = quantum(self.rate, mtu);
    }

    /// Packets that may leave back to back.
    pub fn quantum(&self) -> u64 {
        self.quantum
    }

    /// `gain` times `bw`, but no lower than it was until the pipe is full.
    #[inline(always)]
    pub fn update(&mut self, bw: Rate, gain: f64, full: bool, window: u64, srtt: Span) {
        if unlikely(!self.seen_rtt) {
            self.seen_rtt = true;
            self.of_window(window, srtt, gain);
        }
        if full || bw.mul_f64(gain * self.share) > self.rate {
            self.set(bw, gain);
        }
    }

    /// The rate at which packets leave now: a gain times the bandwidth, never lower during startup.
    pub fn get(&self) -> Rate {
        self.rate
    }

    /// To send at this rate within `window`.
    pub fn decision(&self, window: u64, media: Rate) -> Decision {
        Decision {
            window: Some(Bytes::new(window)),
            pacing: Some(self.rate),
            media: Some(media),
            // The pacer lets the packet it is asked about leave on top of this.
            burst: Bytes::new((self.quantum - 1) * self.mtu),
            bulk_at_pacing: true,
            ..Decision::default()
        }
    }
}

/// Tells what every version knows.
pub fn observe(
    sink: &mut dyn FnMut(&'static str, f64),
    window: u64,
    state: u8,
    rounds: u64,
    bw: Rate,
    pacing_gain: f64,
    min_rtt: Option<Span>,
) {
    sink("cwnd_bytes", window as f64);
    sink("bbr_state", f64::from(state));
    sink("bbr_round", rounds as f64);
    sink("bbr_bw_bps", bw.as_f64());
    sink("bbr_pacing_gain", pacing_gain);
    if let Some(min_rtt) = min_rtt {
        sink("bbr_min_rtt_ms", min_rtt.as_millis_f64());
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    #[default]
    Open,
    Fast,
    Timeout,
}

/// What a report changed about loss recovery; both an exit and an entry are possible at once, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    /// Something sent since recovery began has arrived.
    pub exited: bool,
    /// Something sent outside recovery was lost.
    pub entered: bool,
    /// Persistent congestion, which stands for TCP's retransmission timeout.
    pub timeout: bool,
    /// All that recovery was entered for had arrived after all.
    pub undone: bool,
}

/// Loss recovery: the sender's own, where it has one ([`Report::recovering`]); else from a loss until
/// something sent after it was noticed arrives (RFC 9002 section 7.3.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    state: State,
    epoch: LossEpoch,
    /// The last window that neither recovery nor PROBE_RTT had cut.
    saved: u64,
    /// Numbers of the epoch's first and last loss; losses and those of them that were none.
    range: (u64, u64),
    lost: u64,
    spurious: u64,
}

impl Recovery {
    /// Takes a report.
    #[inline(always)]
    pub fn update(&mut self, report: &Report<'_>) -> Turn {
        let mut turn = Turn { timeout: report.persistent_congestion, ..Turn::default() };
        if unlikely(self.is_on()) && self.is_over(report) {
            self.state = State::Open;
            turn.exited = true;
        }
        self.undo(report, &mut turn);
        if let (Some(first), Some(last)) = (report.lost.first(), report.lost.last()) {
            cold_path();
            if self.begins(last.sent_at, report) {
                turn.entered = self.state == State::Open;
                self.state = State::Fast;
                (self.range.0, self.lost, self.spurious) = (first.packet, 0, 0);
            }
            self.range.1 = last.packet;
            self.lost += report.lost.len() as u64;
        }
        if unlikely(turn.timeout) {
            self.state = State::Timeout;
        }
        turn
    }

    /// The sender says so; or, where it keeps no recovery of its own, something newer than the loss has
    /// arrived.
    fn is_over(&self, report: &Report<'_>) -> bool {
        match report.recovering {
            Some(on) => !on,
            None => report.acked.iter().any(|acked| !self.epoch.covers(acked.sent_at)),
        }
    }

    fn begins(&mut self, lost_sent_at: Time, report: &Report<'_>) -> bool {
        match report.recovering {
            Some(on) => on && self.state == State::Open,
            None => self.epoch.opens(lost_sent_at, report.now),
        }
    }

    #[inline(always)]
    fn undo(&mut self, report: &Report<'_>, turn: &mut Turn) {
        let range = self.range.0..=self.range.1;
        if unlikely(!report.spurious.is_empty()) {
            self.spurious += report.spurious.iter().filter(|packet| range.contains(packet)).count() as u64;
        }
        if unlikely(self.lost > 0) && self.spurious >= self.lost {
            turn.undone = true;
            turn.exited |= self.is_on();
            self.state = State::Open;
            self.lost = 0;
        }
    }

    /// Whether losses are being repaired.
    pub fn is_on(&self) -> bool {
        self.state != State::Open
    }

    /// Keeps a window for later; `cut` says that recovery or PROBE_RTT has made it smaller than it should be.
    pub fn save(&mut self, window: u64, cut: bool) {
        self.saved = if cut { self.saved.max(window) } else { window };
    }

    /// The window that was kept for later ([`save`](Recovery::save)), in bytes.
    pub fn saved(&self) -> u64 {
        self.saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, lost, report};

    #[test]
    fn quantum_follows_the_pace() {
        let quanta = [1, 2, 20, 24, 60, 10_000].map(|mbps| quantum(Rate::from_mbps(mbps), 1500));
        assert_eq!(quanta, [1, 2, 2, 2, 5, 43]);
    }

    #[test]
    fn pacing_only_rises_until_the_pipe_is_full() {
        let (srtt, mbps) = (Span::from_millis(40), Rate::from_mbps);
        let mut pacing = Pacing::new(10_000, 1500, 2.885, 0.99);
        // 2.885 * 10 kB / 1 ms, and with a round trip of 40 ms a fortieth of it.
        assert_eq!(pacing.get(), Rate::from_f64(80e6 * (2.885 * 0.99)));
        pacing.update(Rate::ZERO, 2.885, false, 10_000, srtt);
        assert_eq!(pacing.get(), Rate::from_f64(2e6 * (2.885 * 0.99)));
        pacing.update(mbps(1), 2.885, false, 10_000, srtt);
        assert_eq!(pacing.get(), Rate::from_f64(2e6 * (2.885 * 0.99)));
        pacing.update(mbps(1), 1.0, true, 10_000, srtt);
        assert_eq!(pacing.get(), Rate::from_kbps(990));
    }

    #[test]
    fn recovery_lasts_until_something_newer_arrives() {
        // Reports come at 100 ms; packet n was sent at n ms.
        let mut recovery = Recovery::default();
        let turn = recovery.update(&report(&[], &[lost(10, 1000)]));
        assert_eq!(turn, Turn { entered: true, ..Turn::default() });
        let turn = recovery.update(&report(&[acked(99, 1000)], &[lost(50, 1000)]));
        assert_eq!(turn, Turn::default());
        let turn = recovery.update(&report(&[acked(101, 1000)], &[]));
        assert_eq!(turn, Turn { exited: true, ..Turn::default() });
    }

    #[test]
    fn a_senders_own_recovery_decides() {
        let mut recovery = Recovery::default();
        let at = |recovering| Report { recovering: Some(recovering), ..report(&[], &[]) };
        let lossy = [lost(10, 1000)];
        let turn = recovery.update(&Report { lost: &lossy, ..at(true) });
        assert_eq!(turn, Turn { entered: true, ..Turn::default() });
        // Newer packets arrive and newer ones are lost: it is the same recovery.
        let (newer, newest) = ([acked(101, 1000)], [lost(102, 1000)]);
        let turn = recovery.update(&Report { acked: &newer, lost: &newest, ..at(true) });
        assert_eq!(turn, Turn::default());
        let turn = recovery.update(&at(false));
        assert_eq!(turn, Turn { exited: true, ..Turn::default() });
        // A timeout is no second entry, and its losses none after it.
        recovery.update(&Report { lost: &lossy, ..at(true) });
        let turn = recovery.update(&Report { lost: &newest, persistent_congestion: true, ..at(true) });
        assert_eq!(turn, Turn { timeout: true, ..Turn::default() });
    }

    #[test]
    fn losses_that_were_none_undo_it() {
        let mut recovery = Recovery::default();
        recovery.update(&report(&[], &[lost(10, 1000), lost(11, 1000)]));
        let arrived = |spurious| Report { spurious, ..report(&[], &[]) };
        assert!(!recovery.update(&arrived(&[3, 10])).undone);
        let turn = recovery.update(&arrived(&[11]));
        assert!(turn.undone && turn.exited && !recovery.is_on());
        assert!(!recovery.update(&arrived(&[11])).undone);
    }
}
