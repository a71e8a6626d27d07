//! The half of the draft's controller that lives with the receiver, and its message.
//!
//! The message is the rate field of REMB (draft-alvestrand-rmcat-remb-03 section 2.2): 6 bits of exponent, 18
//! of mantissa.

use units::{RemoteTime, Span, Time};

use crate::{Received, ReceiverHalf};

use super::delay::{Delay, STREAM_TIMEOUT};
use super::detector::Signal;
use super::groups::Packet;
use super::rate::{Params, RateControl, Rules};
use super::received::Window;

/// The draft's increases are reckoned this often: Carlucci 2016's groups are the frames of a 30-frames/s
/// video, and the draft's least step is meant per group.
const STEP: Span = Span::from_micros(33_333);
/// Beside the receiver libwebrtc reckons as often as messages of this size take a share of the rate ...
const MESSAGE_BITS: f64 = 80.0 * 8.0;
const MESSAGE_SHARE: f64 = 0.05;
/// ... within these bounds, in seconds (`AimdRateControl::GetFeedbackInterval`, 2014 to 2017).
const RECKONING: (f64, f64) = (0.2, 1.0);
/// The draft's messages are at most this far apart (section 4) ...
const DRAFT_INTERVAL: Span = Span::from_secs(1);
/// ... and libwebrtc's, which go with a new estimate, at least this (`VieRemb`, `kRembSendIntervalMs`).
const LEAST_INTERVAL: Span = Span::from_millis(200);
/// A rate below this share of the last one sent goes at once (libwebrtc `PacketRouter`).
const AT_ONCE: f64 = 0.97;
/// Mantissa bits of REMB.
const MANTISSA: u32 = 18;
/// A second in the send time that packets carry (`AbsoluteSendTime`: 24 bits, 18 of them below the second).
const SEND_TIME_SECOND: i128 = 1 << 18;
/// In nanoseconds.
const MILLISECOND: i64 = 1_000_000;

/// How well the times of packets are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// To the nanosecond.
    Exact,
    /// As libwebrtc had them until 2017: in whole milliseconds, and of the send time what 18 bits hold of
    /// those (`ConvertMsTo24Bits`). Two ticks of the pacer are 4.997 or 5.001 ms apart then, and so one group
    /// or two (`kTimestampGroupLengthMs` is 5).
    Coarse,
}

impl Stamps {
    fn sent(self, at: RemoteTime) -> RemoteTime {
        if self == Stamps::Exact {
            return at;
        }
        let ms = i128::from(at.as_nanos().div_euclid(MILLISECOND));
        let units = (ms * SEND_TIME_SECOND + 500).div_euclid(1000);
        nanos((units * 1_000_000_000).div_euclid(SEND_TIME_SECOND))
    }

    /// Differences up to this are rounding's (`InterArrival` compares whole milliseconds).
    pub fn grain(self) -> Span {
        if self == Stamps::Exact { Span::ZERO } else { Span::from_nanos(MILLISECOND / 2) }
    }

    fn arrived(self, at: RemoteTime) -> RemoteTime {
        if self == Stamps::Exact {
            return at;
        }
        let ms = (i128::from(at.as_nanos()) + i128::from(MILLISECOND / 2)).div_euclid(MILLISECOND.into());
        nanos(ms * i128::from(MILLISECOND))
    }
}

fn nanos(ns: i128) -> RemoteTime {
    RemoteTime::from_nanos(ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

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
    rules: Rules,
    stamps: Stamps,
    /// The signal of the packet before.
    before: Signal,
    stepped_at: Option<Time>,
    sent: Option<(Time, f64)>,
    heard_at: Time,
    urgent: bool,
}

impl Estimator {
    /// An estimator with rate constants `params`, R over `window`.
    pub fn new(delay: Delay, params: Params, window: Span, stamps: Stamps) -> Estimator {
        Estimator {
            delay,
            received: Window::new(window),
            control: RateControl::new(params),
            rules: params.rules,
            stamps,
            before: Signal::Normal,
            stepped_at: None,
            sent: None,
            heard_at: Time::ZERO,
            urgent: false,
        }
    }

    /// Whether the packet that just arrived is reason to reckon; `completed`: it completed a group.
    fn is_time(&self, now: Time, signal: Signal, completed: bool) -> bool {
        let since = self.stepped_at.map(|at| now - at);
        if self.rules == Rules::Draft {
            return completed && (signal != Signal::Normal || since.is_none_or(|since| since >= STEP));
        }
        let interval = (MESSAGE_BITS / (MESSAGE_SHARE * self.control.rate())).clamp(RECKONING.0, RECKONING.1);
        let lasting = |received| self.control.may_cut_further(now, received);
        let over = signal == Signal::Over
            && (self.before != Signal::Over || self.received.rate().is_none_or(lasting));
        over || since.is_none_or(|since| since >= Span::from_secs_f64(interval))
    }

    fn step(&mut self, now: Time, signal: Signal) {
        self.stepped_at = Some(now);
        let received = self.received.rate();
        if signal != Signal::Over || received.is_some() {
            self.control.update(now, signal, received, false);
        }
        self.urgent |= self.sent.is_none_or(|(at, sent)| {
            let fallen = self.control.rate() < AT_ONCE * sent;
            fallen || self.rules != Rules::Draft && now - at >= LEAST_INTERVAL
        });
    }

    /// The receiver's rate A, in bit/s, as it reports it (REMB).
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
        if let Some(rtt) = packet.rtt {
            self.control.set_rtt(rtt);
        }
        let (sent, arrived) = (self.stamps.sent(packet.sent), self.stamps.arrived(arrived));
        let packet = Packet { sent, arrived, heard: now, size: packet.size };
        let completed = self.delay.push(&packet).is_some();
        let signal = self.delay.signal();
        if self.is_time(now, signal, completed) {
            self.step(now, signal);
        }
        self.before = signal;
    }

    fn due_at(&self) -> Option<Time> {
        if self.urgent {
            return Some(self.heard_at);
        }
        // A stream that has ended needs no more word.
        let next = self.sent.map(|(at, _)| at + DRAFT_INTERVAL);
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
    use super::super::rate::{BETA, GROWTH};
    use super::super::revision::LAST;
    use super::*;
    use proptest::prelude::*;
    use units::Ecn;

    fn estimator(form: Form) -> Estimator {
        let params =
            Params { rules: Rules::Draft, beta: BETA, growth: GROWTH, initial: 1e6, min: 1e5, max: 1e8 };
        Estimator::new(Delay::new(form, BURST), params, Span::from_millis(500), Stamps::Exact)
    }

    #[test]
    fn coarse_stamps_are_milliseconds_in_18_bits() {
        let at = |us: i64| RemoteTime::from_nanos(us * 1_000);
        let coarse = |us| Stamps::Coarse.sent(at(us)).as_nanos();
        // 5 ms: (5 * 262144 + 500) / 1000 = 1311 of 1/262144 s are 5 001 068 ns; 10 ms 2621 are 9 998 321; 15
        // ms 3932 are 14 999 389.
        assert_eq!(
            [0, 5_000, 5_999, 10_000, 15_000].map(coarse),
            [0, 5_001_068, 5_001_068, 9_998_321, 14_999_389]
        );
        assert_eq!(Stamps::Coarse.arrived(at(7_499)), at(7_000));
        assert_eq!(Stamps::Coarse.arrived(at(7_500)), at(8_000));
        assert_eq!(Stamps::Exact.sent(at(5_123)), at(5_123));
    }

    fn arrive(half: &mut Estimator, packet: u64, sent: Time, delay: Span) {
        let now = sent + delay;
        half.on_packet(&Received {
            now,
            packet,
            sent: sent.on_wire(),
            size: 4166,
            ecn: Ecn::NotEct,
            rtt: None,
        });
    }

    proptest! {
        #[test]
        fn no_arrival_breaks_it(
            packets in prop::collection::vec((0u32..3_000_000, any::<i64>(), any::<bool>(), 0u32..65_536), 1..300)
        ) {
            for (form, stamps) in [
                (Form::Scalar(0.1), Stamps::Exact),
                (Form::Planar(LAST), Stamps::Coarse),
                (Form::Trendline(20), Stamps::Exact),
            ] {
                let (mut half, mut now, mut blob) = (estimator(form), Time::ZERO, Vec::new());
                half.stamps = stamps;
                for (packet, &(after_us, sent, absurd, size)) in packets.iter().enumerate() {
                    now += Span::from_micros(i64::from(after_us) / 100);
                    let plain = now.on_wire() + Span::from_micros(sent % 20_000);
                    let sent = if absurd { RemoteTime::from_nanos(sent) } else { plain };
                    half.on_packet(&Received { now, packet: packet as u64, sent, size, ecn: Ecn::NotEct, rtt: None });
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
        let mut half = estimator(Form::Planar(LAST));
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
        let times: Vec<Time> = words.iter().map(|(at, _)| *at).collect();
        let gaps: Vec<_> = times.windows(2).map(|w| (w[1] - w[0]).as_millis_f64().round()).collect();
        assert!(gaps[..2].iter().all(|gap| (999.0..=1035.0).contains(gap)), "{gaps:?}");
        let mut steps = words.iter().zip(words.iter().skip(1));
        let cut = steps.find(|((_, before), (_, after))| after < before);
        let gap = cut.map(|((before, _), (at, _))| *at - *before).expect("a cut");
        assert!(gap < Span::from_millis(999), "{words:?}");
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
