//! The half of the draft's controller that lives with the receiver, and its message.
//!
//! The message is the rate field of REMB (draft-alvestrand-rmcat-remb-03 section 2.2): 6 bits of exponent, 18 of
//! mantissa.

use units::{Span, Time};

use crate::{Received, ReceiverHalf};

use super::delay::{Delay, STREAM_TIMEOUT};
use super::detector::Signal;
use super::groups::Packet;
use super::rate::{Params, RateControl};
use super::received::Window;

/// Increases are reckoned this often: Carlucci 2016's groups are the frames of a 30-frames/s video, and the draft's
/// least step is meant per group.
const STEP: Span = Span::from_micros(33_333);
/// A rate below this share of the last one sent goes at once (libwebrtc `PacketRouter`).
const AT_ONCE: f64 = 0.97;
/// Mantissa bits of REMB.
const MANTISSA: u32 = 18;

/// A rate (bit/s) as REMB's three bytes. Rounded down to 18 bits.
pub fn encode(bps: f64) -> [u8; 3] {
    let bps = bps.max(0.0) as u64;
    let exponent = (64 - bps.leading_zeros()).saturating_sub(MANTISSA);
    let field = exponent << MANTISSA | (bps >> exponent) as u32;
    [(field >> 16) as u8, (field >> 8) as u8, field as u8]
}

/// The rate in bit/s that a message tells, if it is one.
pub fn decode(blob: &[u8]) -> Option<f64> {
    let &[a, b, c] = blob else { return None };
    let field = u32::from(a) << 16 | u32::from(b) << 8 | u32::from(c);
    let mantissa = field & ((1 << MANTISSA) - 1);
    Some(f64::from(mantissa) * 2f64.powi((field >> MANTISSA) as i32))
}

/// Delay-based estimator and rate controller beside the receiver.
#[derive(Clone, Debug)]
pub struct Estimator {
    delay: Delay,
    received: Window,
    control: RateControl,
    stepped_at: Option<Time>,
    /// Longest time between messages.
    interval: Span,
    sent: Option<(Time, f64)>,
    heard_at: Time,
    urgent: bool,
}

impl Estimator {
    /// An estimator with rate constants `params`, R over `window`, a message at least every `interval`.
    pub fn new(delay: Delay, params: Params, window: Span, interval: Span) -> Estimator {
        Estimator {
            delay,
            received: Window::new(window),
            control: RateControl::new(params),
            stepped_at: None,
            interval,
            sent: None,
            heard_at: Time::ZERO,
            urgent: false,
        }
    }

    fn step(&mut self, now: Time, signal: Signal) {
        let early = self.stepped_at.is_some_and(|at| now - at < STEP);
        if signal == Signal::Normal && early {
            return;
        }
        self.stepped_at = Some(now);
        // Deviation: the round trip is libwebrtc's default. Nothing tells it to a receiver that sends no media.
        let received = self.received.rate();
        if signal != Signal::Over || received.is_some() {
            self.control.update(now, signal, received, false);
        }
        let fallen = self.sent.is_none_or(|(_, sent)| self.control.rate() < AT_ONCE * sent);
        self.urgent |= fallen;
    }

    /// A, in bit/s.
    #[cfg(test)]
    pub fn rate(&self) -> f64 {
        self.control.rate()
    }
}

impl ReceiverHalf for Estimator {
    fn on_packet(&mut self, packet: &Received) {
        let (now, arrived) = (packet.now, packet.now.on_wire());
        self.heard_at = now;
        self.received.insert(arrived, packet.size);
        let packet = Packet { sent: packet.sent, arrived, heard: now, size: packet.size };
        if let Some(signal) = self.delay.push(&packet) {
            self.step(now, signal);
        }
    }

    fn due_at(&self) -> Option<Time> {
        if self.urgent {
            return Some(self.heard_at);
        }
        // A stream that has ended needs no more word.
        let next = self.sent.map(|(at, _)| at + self.interval);
        next.filter(|at| *at <= self.heard_at + STREAM_TIMEOUT)
    }

    fn write(&mut self, now: Time, out: &mut Vec<u8>) {
        if self.due_at().is_some_and(|at| at <= now) {
            out.extend_from_slice(&encode(self.control.rate()));
            self.sent = Some((now, self.control.rate()));
            self.urgent = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::delay::Form;
    use super::super::groups::BURST;
    use super::super::rate::{BETA, GROWTH, Rules};
    use super::*;
    use proptest::prelude::*;
    use units::{Ecn, RemoteTime};

    fn estimator(form: Form) -> Estimator {
        let params =
            Params { rules: Rules::Draft, beta: BETA, growth: GROWTH, initial: 1e6, min: 1e5, max: 1e8 };
        Estimator::new(Delay::new(form, BURST), params, Span::from_millis(500), Span::from_secs(1))
    }

    fn arrive(half: &mut Estimator, packet: u64, sent: Time, delay: Span) {
        let now = sent + delay;
        half.on_packet(&Received { now, packet, sent: sent.on_wire(), size: 4166, ecn: Ecn::NotEct });
    }

    proptest! {
        #[test]
        fn no_arrival_breaks_it(
            packets in prop::collection::vec((0u32..3_000_000, any::<i64>(), any::<bool>(), 0u32..65_536), 1..300)
        ) {
            for form in [Form::Scalar(0.1), Form::Planar, Form::Trendline(20)] {
                let (mut half, mut now, mut blob) = (estimator(form), Time::ZERO, Vec::new());
                for (packet, &(after_us, sent, absurd, size)) in packets.iter().enumerate() {
                    now += Span::from_micros(i64::from(after_us) / 100);
                    let plain = now.on_wire() + Span::from_micros(sent % 20_000);
                    let sent = if absurd { RemoteTime::from_nanos(sent) } else { plain };
                    half.on_packet(&Received { now, packet: packet as u64, sent, size, ecn: Ecn::NotEct });
                    blob.clear();
                    half.write(now, &mut blob);
                    prop_assert!(blob.len() <= 3 && (1e5..=1e8).contains(&half.rate()));
                    prop_assert!(half.delay.tested().0.is_finite() && half.delay.tested().1.is_finite());
                }
            }
        }
    }

    #[test]
    fn remb_rounds_to_18_bits() {
        for bps in [0u64, 1, 262_143, 300_000, 1_234_567, 20_000_000, 10_000_000_000] {
            let read = decode(&encode(bps as f64)).unwrap();
            assert!(read <= bps as f64 && read > bps as f64 * (1.0 - 1.0 / 65536.0) - 1.0, "{bps} {read}");
        }
        assert_eq!(decode(&[]), None);
        assert!(decode(&[255; 3]).unwrap().is_finite());
    }

    #[test]
    fn word_goes_every_second_and_at_once_on_a_cut() {
        let mut half = estimator(Form::Planar);
        let mut blob = Vec::new();
        let mut words = Vec::new();
        // 1 Mbit/s in 30 frames/s; from 3 s on each frame is delayed by 3 ms more than the one before.
        for n in 0..120u64 {
            let sent = Time::from_micros(33_333 * n);
            let late = Span::from_millis(3) * (n as i64 - 90).max(0);
            arrive(&mut half, n, sent, Span::from_millis(20) + late);
            let now = half.heard_at;
            blob.clear();
            half.write(now, &mut blob);
            words.extend(decode(&blob).map(|bps| (now, bps)));
        }
        let gaps: Vec<_> = words.windows(2).map(|w| (w[1].0 - w[0].0).as_millis_f64().round()).collect();
        assert!(gaps[..2].iter().all(|gap| (999.0..=1035.0).contains(gap)), "{gaps:?}");
        let cut = words.windows(2).find(|w| w[1].1 < w[0].1).expect("a cut");
        assert!(cut[1].0 - cut[0].0 < Span::from_millis(999), "{words:?}");
        assert!(half.rate() < 1e6);
        assert_eq!(half.due_at(), half.sent.map(|(at, _)| at + Span::from_secs(1)));
    }

    #[test]
    fn a_stream_that_ended_is_not_spoken_of() {
        let mut half = estimator(Form::Scalar(0.01));
        assert_eq!(half.due_at(), None);
        (0..40).for_each(|n| arrive(&mut half, n, Time::from_millis(33 * n), Span::from_millis(20)));
        let mut blob = Vec::new();
        while let Some(at) = half.due_at().filter(|at| *at < Time::from_secs(20)) {
            half.write(at, &mut blob);
        }
        assert!(blob.len() <= 4 * 3 && !blob.is_empty());
    }
}
