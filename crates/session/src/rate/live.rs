//! The live policy: advice through a hysteresis filter, less what still waits (arXiv 2207.11857 sections 4.1
//! and 7).
//!
//! What follows a frame that was given up is ours, for the paper says nothing of it: frames that can't be
//! decoded any more make way, and the key frame is coded when the window has room, no larger than what leaves
//! within D. A viewer sees nothing until it is there.

use units::{Rate, Span, Time};

use super::{Entry, Manner, Plan, RateControl, View};

/// The encoder follows at once below this share of its bitrate ...
const LOWER: f64 = 0.98;
/// ... and above this one; ...
const RAISE: f64 = 1.05;
/// ... in between it is raised this long after the last change. The paper says "a simple hysteresis filter"
/// and no more. With 200 ms the encoder climbs back before a queue has drained wherever frames have few
/// packets (docs/reproduction.md); anything from 400 ms to a second gives the same delays.
const SETTLE: Span = Span::from_millis(400);
/// D of section 7: a queue at the sender is worked off over this long. A key frame is a queue by itself, so
/// none is larger.
const DRAIN_OVER: Span = Span::from_millis(200);

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "live",
    summary: "the controller's advice through SQP's hysteresis, less what waits (arXiv 2207.11857 section 7)",
    options: &[],
    build: |_| Ok(Box::new(Live::default())),
};

/// SQP's way from estimate to encoder; with window-based controllers the window over the round trip (section
/// 7's adapter).
#[derive(Clone, Debug, Default)]
pub struct Live {
    bitrate: Option<Rate>,
    changed_at: Time,
}

impl Live {
    fn advised(view: &View<'_>) -> Rate {
        let advice = view.cc_rate.unwrap_or(view.limits.1);
        let draining = Rate::average(view.queued, DRAIN_OVER);
        let rate = Rate::from_bps(advice.as_bps().saturating_sub(draining.as_bps()));
        rate.clamp(view.limits.0, view.limits.1)
    }

    fn filter(&mut self, now: Time, advised: Rate) -> Rate {
        let current = self.bitrate.unwrap_or(Rate::ZERO);
        let lower = advised < current.mul_f64(LOWER);
        let raise = advised > current.mul_f64(RAISE) || advised > current && now >= self.changed_at + SETTLE;
        if lower || raise {
            (self.bitrate, self.changed_at) = (Some(advised), now);
            return advised;
        }
        current.min(advised)
    }
}

impl RateControl for Live {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        let bitrate = self.filter(view.now, Live::advised(view));
        // A key frame that has to wait for the window might as well be of a later picture.
        let encode = view.waited <= view.patience && (view.open || !view.cut);
        let largest_key = Some(bitrate.bytes_in(DRAIN_OVER));
        Plan { largest_key, ..Plan::new(bitrate, encode) }
    }

    fn manner(&self) -> Manner {
        Manner { flush: true, ..Manner::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::cc_rate;
    use cc::Decision;
    use units::Bytes;

    fn view(ms: u64, mbps: f64) -> View<'static> {
        View {
            now: Time::from_millis(ms),
            stream: 0,
            frame: 0,
            interval: Span::from_millis(16),
            cc_rate: Some(Rate::from_f64(mbps * 1e6)),
            queued: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            waited: Span::ZERO,
            cut: false,
            open: true,
            patience: Span::from_millis(100),
            limits: (Rate::from_kbps(300), Rate::from_mbps(100)),
            height: 0,
            departed: &[],
        }
    }

    #[test]
    fn small_rises_wait_and_falls_do_not() {
        let mut live = Live::default();
        let mut plan = |ms, mbps| live.plan(&view(ms, mbps)).bitrate.as_f64() / 1e6;
        assert_eq!(plan(0, 10.0), 10.0);
        assert_eq!(plan(16, 10.3), 10.0);
        assert_eq!(plan(32, 10.6), 10.6);
        assert_eq!(plan(48, 9.0), 9.0);
        assert_eq!(plan(100, 9.2), 9.0);
        assert_eq!(plan(447, 9.2), 9.0);
        assert_eq!(plan(449, 9.2), 9.2);
    }

    #[test]
    fn never_above_the_advice() {
        let mut live = Live::default();
        live.plan(&view(0, 10.0));
        assert_eq!(live.plan(&view(16, 9.9)).bitrate, Rate::from_f64(9.9e6));
    }

    #[test]
    fn s0_74_a_window_over_the_round_trip_less_the_queue_over_200_ms() {
        let mut live = Live::default();
        let window = Decision { window: Some(Bytes::new(50_000)), ..Decision::default() };
        let cc_rate = cc_rate(&window, Span::from_millis(40), Rate::from_bps(1), Rate::ZERO);
        let waiting = View { cc_rate, queued: Bytes::new(25_000), ..view(0, 0.0) };
        // 50 kB / 40 ms = 10 Mbit/s, less 25 kB / 200 ms = 1 Mbit/s.
        assert_eq!(live.plan(&waiting).bitrate, Rate::from_mbps(9));
    }

    #[test]
    fn a_long_wait_skips_the_frame() {
        let mut live = Live::default();
        let behind = View { waited: Span::from_millis(101), ..view(0, 5.0) };
        assert!(!live.plan(&behind).encode);
    }
}
