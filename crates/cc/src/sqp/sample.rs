//! One bandwidth sample from one frame's burst: eq. 1, eq. 2 and loss scaling (section 4.2).

use units::Span;

use super::frames::FrameBurst;
use super::min_owd::Least;
use super::params::Params;

/// A frame this much smaller than the estimate allows is extrapolated no further (eq. 2's gamma).
const MAX_GAMMA: f64 = 8.0;
/// After T: one bad sample can't ask for less than a tenth (eq. 4 goes to minus infinity as S goes to 0).
const FLOOR: f64 = 0.1;
/// A packet alone has no dispersion; within this much queueing delay it is taken to have found the link
/// empty.
const QUIET: Span = Span::from_millis(1);
/// Above this much of standing queue losses are taken to be its own.
const QUEUED: Span = Span::from_millis(10);
/// A frame smaller than this share of the estimate: without eq. 2, or alone in its packet, it can't prove
/// there is room for more.
const UNDERSHOT: f64 = 0.5;

/// What a burst's delay is measured from.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// The window's minimum one-way delay, and whose it was.
    pub least: Least,
    /// How far that is above the smallest one-way delay of the last minute: a queue that the window has
    /// forgotten.
    pub standing: Span,
    /// Share of packets lost of late.
    pub lossy: f64,
}

impl Base {
    /// How much of the standing queue counts as this burst's delay.
    ///
    /// A burst of few packets measures by its delay more than by its dispersion: with one packet there is
    /// nothing but delay, and a queue forgotten is a queue that grows. Hence more of it the fewer they are.
    fn remembered(&self, burst: &FrameBurst, params: &Params) -> Span {
        let packets = f64::from(burst.count.max(1));
        self.standing.mul_f64(params.memory.max(params.lone / (packets * packets)))
    }
}

/// The sample in bit/s with T applied, or `None` if the burst says nothing. `estimate` is B and `full` is B
/// I, both in bits.
pub fn sample(
    burst: &FrameBurst,
    base: Option<Base>,
    estimate: f64,
    full: f64,
    params: &Params,
) -> Option<f64> {
    if burst.arrived == 0 {
        // Nothing of the frame arrived while a later one did.
        return Some(estimate * 0.5);
    }
    let (first, last) = burst.received.filter(|_| !burst.untimed)?;
    // R_end - S_start - min: the offset between the clocks cancels.
    let base = base?;
    let delay = last.delay_since(burst.first_sent) - base.least.delay + base.remembered(burst, params);
    let cap = params.pace * estimate;
    let bits = burst.bytes as f64 * 8.0;
    let undershot = bits < UNDERSHOT * full;
    let raw = match burst.count {
        1 if undershot
            && params.undershoot
            && (params.proven || delay >= QUIET || full > MAX_GAMMA * bits) =>
        {
            lone_packet_rate(bits, delay, estimate, full, params)
        }
        // Deviation: nothing but its delay shows that the link was empty, and that only for what it carried.
        1 if delay < QUIET && params.proven => cap * (bits / full).min(1.0),
        1 if delay < QUIET => cap,
        _ => transport_rate(burst, delay, last - first, full, base.least.size, params),
    };
    let received = f64::from(burst.arrived) / f64::from(burst.count);
    let congested = params.loss > 1.0 && base.standing > QUEUED;
    let counted = if congested { (1.0 - base.lossy).powf(params.loss - 1.0) } else { 1.0 };
    let sample = (raw.min(cap) * received * counted * params.target).max(estimate * FLOOR);
    (!undershot || params.undershoot || sample < estimate).then_some(sample)
}

/// Eq. 2 for a frame far smaller than the estimate allows that fits in one packet: it has no dispersion to
/// extrapolate, so its missing bits are taken to arrive as fast as they would have been sent. It can show
/// that the queue has grown, never that there is room for more: else a quiet menu would raise the estimate
/// without end.
fn lone_packet_rate(bits: f64, delay: Span, estimate: f64, full: f64, params: &Params) -> f64 {
    let missing = (full - bits) / (params.pace * estimate);
    let seconds = delay.as_secs_f64().max(0.0) + missing;
    (full / seconds).min(estimate / params.target)
}

/// Bits over time, in bit/s; infinite where no time passed.
fn transport_rate(
    burst: &FrameBurst,
    delay: Span,
    dispersion: Span,
    full: f64,
    least: u32,
    params: &Params,
) -> f64 {
    let bits = burst.bytes as f64 * 8.0;
    let first_bits = f64::from(burst.first_bytes) * 8.0;
    // What the link has shown: the minimum one-way delay holds the time on the link of the packet that set
    // it.
    let least_bits = (f64::from(least) * 8.0).min(bits / 2.0);
    let left_out = if params.exclude_first {
        first_bits
    } else {
        (least_bits - params.excess * (bits - least_bits)).max(0.0)
    };
    let gaps = bits - first_bits;
    let gamma = (full / bits).clamp(1.0, MAX_GAMMA);
    let missing = if params.undershoot && gaps > 0.0 { bits * (gamma - 1.0) } else { 0.0 };
    // Deviation: eq. 2 stretches the dispersion by gamma - 1, as if n packets had n gaps. With few packets
    // (small frames are what eq. 2 is for) that overstates the rate by n / (n - 1); here the missing bits
    // take as long per bit as the bits behind the first packet did.
    let extra = if gaps > 0.0 { dispersion.as_secs_f64() * missing / gaps } else { 0.0 };
    let seconds = delay.as_secs_f64() + extra;
    if seconds > 0.0 { (bits + missing - left_out) / seconds } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Time;

    /// A burst of `n` 1000-byte packets that found a link of `mbps` empty, `queued` of delay above the
    /// minimum.
    fn burst(n: u32, mbps: f64, queued: Span) -> (FrameBurst, Option<Base>) {
        let first_sent = Time::from_millis(100);
        let owd = Span::from_millis(20);
        let gap = Span::from_secs_f64(8000.0 / (mbps * 1e6));
        let first = (first_sent + owd + queued).on_wire();
        let burst = FrameBurst {
            id: (0, 1, 0),
            first_sent,
            last_sent: first_sent,
            bytes: u64::from(n) * 1000,
            full: f64::from(n) * 8000.0,
            first_bytes: 1000,
            count: n,
            sent: n,
            arrived: n,
            lost: 0,
            untimed: false,
            received: Some((first, first + gap * i64::from(n - 1))),
        };
        let delay = (first_sent + owd).on_wire().delay_since(first_sent);
        (burst, Some(Base { least: Least { delay, size: 1000 }, standing: Span::ZERO, lossy: 0.0 }))
    }

    fn raw(n: u32, mbps: f64, queued: Span, params: &Params) -> f64 {
        let (burst, min) = burst(n, mbps, queued);
        let full = burst.bytes as f64 * 8.0;
        sample(&burst, min, 30e6, full, params).unwrap() / params.target
    }

    #[test]
    fn the_two_readings_of_f() {
        let literal = raw(20, 20.0, Span::ZERO, &Params::default());
        assert!((literal / 20e6 - 20.0 / 19.0).abs() < 1e-3, "{literal}");
        let exact = raw(20, 20.0, Span::ZERO, &Params { exclude_first: true, ..Params::default() });
        assert!((exact / 20e6 - 1.0).abs() < 1e-6, "{exact}");
    }

    #[test]
    fn few_packets_exceed_the_link_by_no_more_than_allowed() {
        let capped = Params { excess: 0.25, ..Params::default() };
        for (n, want) in [(2, 1.25), (3, 1.25), (4, 1.25), (6, 1.2), (20, 20.0 / 19.0)] {
            let got = raw(n, 20.0, Span::ZERO, &capped) / 20e6;
            assert!((got - want).abs() < 1e-3, "{n} packets: {got}");
        }
    }

    #[test]
    fn a_queue_that_stands_lowers_the_sample_by_the_share_remembered() {
        let standing = |ms, params: &Params| {
            let (burst, base) = burst(20, 20.0, Span::ZERO);
            let base = base.map(|base| Base { standing: Span::from_millis(ms), ..base });
            sample(&burst, base, 30e6, 160_000.0, params).unwrap()
        };
        let remembering = Params { memory: 0.02, ..Params::default() };
        assert_eq!(standing(0, &remembering), standing(100, &Params::default()));
        // 19 gaps of 0.4 ms, and 2 ms of the 100.
        let share = standing(100, &remembering) / standing(0, &remembering);
        assert!((share - 7.6 / 9.6).abs() < 1e-3, "{share}");
    }

    #[test]
    fn losses_count_for_more_where_a_queue_stands() {
        let lossy = |ms, loss| {
            let (burst, base) = burst(20, 20.0, Span::ZERO);
            let base = base.map(|base| Base { standing: Span::from_millis(ms), lossy: 0.1, ..base });
            sample(&burst, base, 30e6, 160_000.0, &Params { loss, ..Params::default() }).unwrap()
        };
        assert_eq!(lossy(5, 3.0), lossy(5, 1.0), "without a queue they are the link's");
        assert!((lossy(50, 3.0) / lossy(50, 1.0) - 0.81).abs() < 1e-9);
    }

    #[test]
    fn queueing_delay_lowers_the_sample() {
        let queued = raw(20, 20.0, Span::from_millis(8), &Params::default());
        assert!((queued - 160_000.0 / (19.0 * 0.0004 + 0.008)).abs() < 1e3, "{queued}");
    }

    #[test]
    fn eq_2_reads_a_small_frame_like_a_full_one() {
        // 5 packets of a 40-packet frame, with 2 ms of old queue in front: without eq. 2 that halves the
        // sample.
        let (small, min) = burst(5, 20.0, Span::from_millis(2));
        let full = 40.0 * 8000.0;
        let estimate = full * 60.0;
        let with = sample(&small, min, estimate, full, &Params::default()).unwrap() / 0.9;
        let without = sample(&small, min, estimate, full, &Params { undershoot: false, ..Params::default() });
        let wanted = full / (0.002 + 39.0 * 0.0004);
        assert!((with / wanted - 1.0).abs() < 1e-3, "{with} {wanted}");
        assert!(without.unwrap() < 0.65 * with);
    }

    #[test]
    fn loss_scales_and_caps_and_floors_hold() {
        let (mut lossy, min) = burst(20, 20.0, Span::ZERO);
        (lossy.arrived, lossy.lost) = (15, 5);
        let full = 160_000.0;
        let whole = sample(&burst(20, 20.0, Span::ZERO).0, min, 30e6, full, &Params::default()).unwrap();
        let scaled = sample(&lossy, min, 30e6, full, &Params::default()).unwrap();
        assert!((scaled / whole - 0.75).abs() < 1e-9);
        let capped = sample(&burst(20, 2000.0, Span::ZERO).0, min, 10e6, full, &Params::default()).unwrap();
        assert!((capped - 2.0 * 10e6 * 0.9).abs() < 1.0);
        let floored =
            sample(&burst(20, 20.0, Span::from_secs(5)).0, min, 10e6, full, &Params::default()).unwrap();
        assert!((floored - 1e6).abs() < 1.0);
    }

    #[test]
    fn a_quiet_menu_does_not_raise_the_estimate() {
        let (one, min) = burst(1, 20.0, Span::ZERO);
        let (estimate, full) = (10e6, 10e6 / 60.0);
        let idle = sample(&one, min, estimate, full, &Params::default()).unwrap();
        assert!((idle - estimate).abs() < 1.0, "{idle}");
        let queued =
            sample(&burst(1, 20.0, Span::from_millis(12)).0, min, estimate, full, &Params::default())
                .unwrap();
        assert!(queued < 0.8 * estimate, "{queued}");
    }

    #[test]
    fn one_packet_frames_can_climb_on_a_quiet_link() {
        let (one, min) = burst(1, 20.0, Span::ZERO);
        assert_eq!(sample(&one, min, 5e5, 8000.0, &Params::default()), Some(2.0 * 5e5 * 0.9));
        assert_eq!(sample(&one, min, 5e5, 8000.0, &Params::robust()), Some(2.0 * 5e5 * 0.9));
    }

    #[test]
    fn a_lone_packet_proves_no_more_than_it_carried() {
        let (one, min) = burst(1, 20.0, Span::ZERO);
        let climbs = |full: f64, params: &Params| sample(&one, min, 5e5, full, params).unwrap() / 5e5;
        // A packet of a quarter of what the estimate allows: the paper's form doubles the estimate for it,
        // again and again.
        assert_eq!(climbs(32_000.0, &Params::default()), 1.8);
        assert!((climbs(32_000.0, &Params::robust()) - 1.0).abs() < 1e-9);
        assert!((climbs(10_000.0, &Params::robust()) - 1.8 * 0.8).abs() < 1e-9);
    }
}
