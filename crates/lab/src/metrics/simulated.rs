//! Simulated frame bitrate and delay of a congestion controller that carries no video (SQP, arXiv 2207.11857,
//! equation 10).
//!
//! An ideal encoder that knows the future cuts the controller's packet log into frames. Slot `t` lasts from
//! `t I` to `(t+1) I`; `S(a, b)` is what the controller sent in between, `p` what earlier frames still have
//! to send when slot `t` begins, `n` the number of slots the encoder smooths over:
//!
//! ```text
//! F(t) = max( (S(t, t+n) - p) / n,  S(t, t+1) - p,  0 )        p <- max(p + F(t) - S(t, t+1), 0)
//! ```
//!
//! So a frame gets the average of what is about to be sent, but never less than what its own slot would
//! otherwise waste: every byte the controller sent is used.

use std::collections::VecDeque;

use units::{Span, Time};

/// One slot of equation 10, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// The frame's size, `F(t)`.
    pub frame: f64,
    /// Bytes of earlier frames not yet sent when the slot starts, `p`.
    pub pending: f64,
}

/// Equation 10 over the bytes `sent` in each slot, smoothing over `n` slots (at least 1). The last `n - 1`
/// frames are under-stated, because the log ends within their window; [`simulate`] leaves them out.
pub fn eq10(sent: &[f64], n: usize) -> Vec<Slot> {
    let n = n.max(1);
    let mut ahead: f64 = sent.iter().take(n).sum();
    let mut pending = 0.0f64;
    (0..sent.len())
        .map(|t| {
            let slot =
                Slot { frame: ((ahead - pending) / n as f64).max(sent[t] - pending).max(0.0), pending };
            pending = (pending + slot.frame - sent[t]).max(0.0);
            ahead += sent.get(t + n).unwrap_or(&0.0) - sent[t];
            slot
        })
        .collect()
}

/// A packet of the log: as it entered the bottleneck, and when it reached the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathPacket {
    /// When it was sent.
    pub sent: Time,
    /// Its size in bytes.
    pub size: u32,
    /// When it arrived; `None` if it was lost.
    pub arrived: Option<Time>,
}

/// A simulated frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedFrame {
    /// Its bitrate, `8 F / I`, in bit/s.
    pub bitrate: f64,
    /// From its capture to the arrival of its last byte; for an empty frame, to the capture of the next that
    /// is not empty.
    pub delay: Span,
}

/// Cuts `packets`, in send order, into frames of `interval` from `from` to `to` and follows each frame's last
/// byte through the packets that really carried it. A frame whose last packet was lost waits for the next
/// packet that arrived, as if that one had repaired it.
///
/// Deviation: equation 10 does not say what a lost packet does to its frame; waiting for the next arrival is
/// the kindest reading. Frames whose window reaches beyond `to` are left out, and so are those whose last
/// byte never arrives.
pub fn simulate(
    packets: &[PathPacket],
    from: Time,
    to: Time,
    interval: Span,
    n: usize,
) -> Vec<SimulatedFrame> {
    let (mut simulator, mut frames) = (Simulator::new(from, to, interval, n), Vec::new());
    packets.iter().for_each(|&packet| simulator.push(packet, |number, frame| frames.push((number, frame))));
    simulator.finish(|number, frame| frames.push((number, frame)));
    frames.sort_by_key(|(number, _)| *number);
    frames.into_iter().map(|(_, frame)| frame).collect()
}

/// [`simulate`] of packets that come one by one. A frame is given with its number as soon as it is known; an
/// empty one comes after the next that is not empty.
#[derive(Clone, Debug)]
pub struct Simulator {
    from: Time,
    to: Time,
    interval: Span,
    n: usize,
    /// Bytes sent in each slot from slot `cut` on.
    slots: VecDeque<f64>,
    /// The slot whose frame is cut next.
    cut: usize,
    pending: f64,
    /// Empty frames that wait for one that is not.
    empty: Vec<usize>,
    /// Frames whose last byte has not been found, with their sizes.
    carried_by: VecDeque<(usize, f64)>,
    /// Packets that no frame has used up.
    packets: VecDeque<PathPacket>,
    carried: f64,
    needed: f64,
    arrived: Option<Time>,
}

impl Simulator {
    /// Of what is sent from `from` to `to`.
    pub fn new(from: Time, to: Time, interval: Span, n: usize) -> Simulator {
        assert!(interval.is_positive(), "a slot has a width");
        Simulator {
            from,
            to,
            interval,
            n: n.max(1),
            slots: VecDeque::new(),
            cut: 0,
            pending: 0.0,
            empty: Vec::new(),
            carried_by: VecDeque::new(),
            packets: VecDeque::new(),
            carried: 0.0,
            needed: 0.0,
            arrived: None,
        }
    }

    /// Takes the next packet in send order.
    pub fn push(&mut self, packet: PathPacket, mut found: impl FnMut(usize, SimulatedFrame)) {
        if packet.sent < self.from || packet.sent >= self.to {
            return;
        }
        let slot = self.slot(packet.sent).max(self.cut);
        // Slots before this one are complete.
        self.cut_until((slot + 1).saturating_sub(self.n), slot, usize::MAX, &mut found);
        self.grow(slot);
        self.slots[slot - self.cut] += f64::from(packet.size);
        self.packets.push_back(packet);
    }

    /// Says that nothing more comes.
    pub fn finish(&mut self, mut found: impl FnMut(usize, SimulatedFrame)) {
        if self.to <= self.from {
            return;
        }
        let count = self.slot(self.to - Span::from_nanos(1)) + 1;
        let whole = (count + 1).saturating_sub(self.n);
        self.grow(count - 1);
        self.cut_until(count, count, whole, &mut found);
    }

    fn slot(&self, at: Time) -> usize {
        ((at - self.from).as_nanos() / self.interval.as_nanos()) as usize
    }

    fn grow(&mut self, slot: usize) {
        if slot >= self.cut + self.slots.len() {
            self.slots.resize(slot + 1 - self.cut, 0.0);
        }
    }

    fn capture(&self, slot: usize) -> Time {
        self.from + self.interval * slot as i64
    }

    /// Cuts the frames of slots before `until`. Slots before `known` are complete; frames from number `whole`
    /// on are under-stated.
    fn cut_until(
        &mut self,
        until: usize,
        known: usize,
        whole: usize,
        found: &mut impl FnMut(usize, SimulatedFrame),
    ) {
        if until <= self.cut {
            return;
        }
        self.grow(known.max(until) - 1);
        while self.cut < until {
            let ahead: f64 = self.slots.iter().take(self.n).sum();
            let sent = self.slots.pop_front().expect("the slots reach as far");
            let frame = ((ahead - self.pending) / self.n as f64).max(sent - self.pending).max(0.0);
            self.pending = (self.pending + frame - sent).max(0.0);
            let number = self.cut;
            self.cut += 1;
            if frame > 0.0 {
                for empty in std::mem::take(&mut self.empty) {
                    let delay = self.capture(number) - self.capture(empty);
                    found(empty, SimulatedFrame { bitrate: 0.0, delay });
                }
            }
            if number < whole {
                if frame <= 0.0 {
                    self.empty.push(number);
                }
                self.carried_by.push_back((number, frame));
            }
        }
        self.follow(found);
    }

    /// Finds the packets that carry the last bytes of frames; frames fill packets first in, first out.
    fn follow(&mut self, found: &mut impl FnMut(usize, SimulatedFrame)) {
        // A ten-thousandth of a byte forgives the rounding of sums of fractions.
        const SLACK: f64 = 1e-4;
        while let Some(&(number, frame)) = self.carried_by.front() {
            while self.carried + SLACK < self.needed + frame || self.arrived.is_none() {
                let Some(packet) = self.packets.pop_front() else { return };
                self.carried += f64::from(packet.size);
                self.arrived = packet.arrived;
            }
            self.needed += frame;
            self.carried_by.pop_front();
            if let (true, Some(arrived)) = (frame > 0.0, self.arrived) {
                let bitrate = frame * 8.0 / self.interval.as_secs_f64();
                found(number, SimulatedFrame { bitrate, delay: arrived - self.capture(number) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 20 Mbit/s link (41,667 bytes a slot); the controller is silent in slots 2 and 3 and sends double in
    /// slot 4.
    fn worked_example() -> Vec<f64> {
        let mut sent = vec![41_667.0; 10];
        (sent[2], sent[3], sent[4]) = (0.0, 0.0, 83_333.0);
        sent
    }

    fn assert_near(found: impl Iterator<Item = f64>, expected: &[f64], tolerance: f64) {
        let found: Vec<f64> = found.collect();
        for (i, (f, e)) in found.iter().zip(expected).enumerate() {
            assert!((f - e).abs() <= tolerance, "slot {i}: {f} instead of {e} in {found:?}");
        }
        assert!(found.len() >= expected.len());
    }

    /// The table's "slot-linear" delays: bytes leave evenly over their slot.
    fn slot_linear_delays_ms(sent: &[f64], frames: &[Slot]) -> Vec<Option<f64>> {
        let sums = |values: &mut dyn Iterator<Item = f64>| -> Vec<f64> {
            values
                .scan(0.0, |sum, v| {
                    *sum += v;
                    Some(*sum)
                })
                .collect()
        };
        let (sent_by, needed_by) =
            (sums(&mut sent.iter().copied()), sums(&mut frames.iter().map(|s| s.frame)));
        let delay = |t: usize| {
            let k = sent_by.iter().position(|&s| s >= needed_by[t] - 1e-9)?;
            let into = (needed_by[t] - (sent_by[k] - sent[k])) / sent[k];
            Some((k as f64 + into - t as f64) * 16.667)
        };
        (0..frames.len()).map(|t| if frames[t].frame > 0.0 { delay(t) } else { None }).collect()
    }

    #[test]
    fn one_slot_of_smoothing_follows_the_sender() {
        let frames = eq10(&worked_example(), 1);
        assert_near(frames.iter().map(|s| s.frame), &worked_example(), 0.5);
        assert_near(frames.iter().map(|s| s.pending), &[0.0; 10], 0.0);
    }

    #[test]
    fn two_slots_share_a_burst() {
        let frames = eq10(&worked_example(), 2);
        assert_near(frames.iter().map(|s| s.frame), &[41_667.0, 41_667.0, 0.0, 41_666.0, 41_667.0], 1.0);
        assert_near(frames.iter().map(|s| s.pending), &[0.0, 0.0, 0.0, 0.0, 41_666.0, 0.0], 1.0);
        let delays = slot_linear_delays_ms(&worked_example(), &frames);
        assert_eq!(delays[2], None);
        let delays = [0, 1, 3, 4].map(|t| delays[t].unwrap());
        assert_near(delays.into_iter(), &[16.67, 16.67, 25.0, 16.67], 0.01);
    }

    #[test]
    fn four_slots_trade_delay_for_steadiness() {
        let frames = eq10(&worked_example(), 4);
        let expected = [41_667.0, 41_667.0, 31_250.0, 33_854.0, 35_807.0, 37_272.0, 38_371.0, 31_779.0];
        assert_near(frames.iter().map(|s| s.frame), &expected, 1.0);
        let pending = [0.0, 0.0, 0.0, 31_250.0, 65_104.0, 17_579.0, 13_184.0, 9_888.0, 0.0, 0.0];
        assert_near(frames.iter().map(|s| s.pending), &pending, 1.0);
        let delays: Vec<f64> =
            slot_linear_delays_ms(&worked_example(), &frames).into_iter().flatten().collect();
        let expected = [16.67, 16.67, 39.58, 29.69, 23.70, 21.94, 20.62, 16.67];
        assert_near(delays.into_iter(), &expected, 0.01);
    }

    #[test]
    fn smoothing_keeps_the_mean_of_18_mbit() {
        for n in [1, 2, 4] {
            let total: f64 = eq10(&worked_example(), n).iter().map(|s| s.frame).sum();
            let mbps = total * 8.0 / 10.0 / 16.667e-3 / 1e6;
            assert!((mbps - 18.0).abs() < 0.005, "n = {n}: {mbps}");
        }
    }

    #[test]
    fn a_gap_seen_coming_costs_nothing() {
        let mut sent = vec![10.0; 12];
        sent[1..4].fill(0.0);
        sent[4] = 40.0;
        let frames = eq10(&sent, 4);
        assert_near(frames.iter().map(|s| s.frame), &[10.0; 9], 1e-9);
        // What is pending after each slot, by hand.
        assert_near(frames.iter().skip(1).map(|s| s.pending), &[0.0, 10.0, 20.0, 30.0, 0.0], 1e-9);
    }

    #[test]
    fn frames_ride_on_the_packets_that_carried_them() {
        // Four packets of 1,000 bytes a slot for 8 slots of 10 ms, each 20 ms under way.
        let interval = Span::from_millis(10);
        let packets: Vec<PathPacket> = (0..32)
            .map(|i| {
                let sent = Time::from_micros(2_500 * i);
                PathPacket { sent, size: 1_000, arrived: Some(sent + Span::from_millis(20)) }
            })
            .collect();
        let frames = simulate(&packets, Time::ZERO, Time::from_millis(80), interval, 4);
        assert_eq!(frames.len(), 5);
        for frame in &frames {
            assert_eq!(frame.bitrate, 3.2e6);
            assert_eq!(frame.delay, Span::from_micros(27_500));
        }
    }

    #[test]
    fn a_lost_last_packet_is_repaired_by_the_next_and_an_empty_frame_waits() {
        let at = |ms: u64, arrived: Option<u64>| PathPacket {
            sent: Time::from_millis(ms),
            size: 1_000,
            arrived: arrived.map(Time::from_millis),
        };
        // Slot 0 loses its packet, slot 1 is empty, slots 2 and 3 are fine.
        let packets = [at(0, None), at(20, Some(25)), at(30, Some(35))];
        let frames = simulate(&packets, Time::ZERO, Time::from_millis(40), Span::from_millis(10), 1);
        let delays: Vec<Span> = frames.iter().map(|f| f.delay).collect();
        assert_eq!(delays, [25, 10, 5, 5].map(Span::from_millis));
    }
}
