//! The constants in which versions and code bases differ.

use units::Span;

use crate::{OptionError, Options};

/// BBR version 2's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Pacing gain of STARTUP.
    pub startup_pacing: f64,
    /// Window gain of STARTUP and DRAIN.
    pub startup_cwnd: f64,
    /// Pacing gain of DRAIN.
    pub drain: f64,
    /// Pacing gain of PROBE_UP.
    pub up: f64,
    /// Pacing gain of PROBE_DOWN.
    pub down: f64,
    /// Window gain of PROBE_BW, ...
    pub cwnd: f64,
    /// ... and of PROBE_UP.
    pub up_cwnd: f64,
    /// PROBE_RTT after this long without a lower round-trip time.
    pub probe_rtt: Span,
    /// How long the smallest round-trip time is kept.
    pub min_rtt_window: Span,
    /// STARTUP ends with a round of this many reports of loss and more loss than `loss`.
    pub startup_losses: u32,
    /// Share of the bandwidth that is used for pacing.
    pub share: f64,
    /// Inflight is too high where more than this share is lost.
    pub loss: f64,
    /// Bounds are cut to this share.
    pub keep: f64,
    /// Share of `inflight_hi` left free while cruising.
    pub headroom: f64,
    /// PROBE_UP ends when the bandwidth stops growing, instead of with 1.25 bandwidth-delay products in
    /// flight.
    pub plateau: bool,
    /// Heed congestion marks where the smallest round-trip time says data centre.
    pub ecn: bool,
}

/// google/bbr tcp_bbr2.c (v2alpha).
pub const LINUX: Params = Params {
    startup_pacing: 2.885,
    startup_cwnd: 2.885,
    drain: 1.0 / 2.885,
    up: 1.25,
    down: 0.75,
    cwnd: 2.0,
    up_cwnd: 2.0,
    probe_rtt: Span::from_secs(5),
    min_rtt_window: Span::from_secs(10),
    startup_losses: 8,
    share: 0.99,
    loss: 0.02,
    keep: 0.7,
    headroom: 0.15,
    plateau: false,
    ecn: true,
};

/// mvfst Bbr2.cpp.
pub const MVFST: Params = Params {
    drain: 0.5,
    down: 0.9,
    up_cwnd: 2.25,
    probe_rtt: Span::from_secs(10),
    min_rtt_window: Span::from_millis(10_200),
    startup_losses: 6,
    share: 1.0,
    plateau: true,
    ecn: false,
    ..LINUX
};

/// draft-ietf-ccwg-bbr (version 3): section "Summary of Control Behavior in the State Machine" and its
/// constants.
pub const V3: Params = Params {
    startup_pacing: 2.77,
    startup_cwnd: 2.0,
    drain: 0.5,
    down: 0.9,
    up_cwnd: 2.25,
    startup_losses: 6,
    plateau: true,
    ecn: false,
    ..LINUX
};

/// What the rows take.
pub const OPTIONS: &[(&str, &str)] = &[
    ("up", "pacing gain of PROBE_UP, 1.05 to 2 (default 1.25)"),
    ("down", "pacing gain of PROBE_DOWN, 0.3 to 0.98 (default 0.75; mvfst and v3 0.9)"),
    ("cwnd_gain", "window in bandwidth-delay products, 1 to 4 (default 2)"),
    ("probe_rtt", "time between PROBE_RTTs, such as 5s"),
    ("loss", "share of loss that says inflight is too high, 0.001 to 0.5 (default 0.02)"),
    ("keep", "share that bounds are cut to, 0.3 to 0.99 (default 0.7)"),
    ("headroom", "share of inflight_hi left free while cruising, 0 to 0.5 (default 0.15)"),
    ("plateau", "PROBE_UP ends when the bandwidth stops growing, on or off (mvfst and v3 on)"),
    ("ecn", "heed congestion marks at round trips up to 5 ms, on or off (Linux on)"),
];

impl Params {
    /// `self` with what `options` change.
    ///
    /// # Errors
    /// [`OptionError`] if a value is not one.
    pub fn with(self, options: &Options) -> Result<Params, OptionError> {
        let probe_rtt = options.quantity("probe_rtt", self.probe_rtt, "a time such as 5s")?;
        Ok(Params {
            up: options.number("up", self.up, 1.05..=2.0)?,
            down: options.number("down", self.down, 0.3..=0.98)?,
            cwnd: options.number("cwnd_gain", self.cwnd, 1.0..=4.0)?,
            probe_rtt: probe_rtt.max(Span::from_secs(1)),
            loss: options.number("loss", self.loss, 0.001..=0.5)?,
            keep: options.number("keep", self.keep, 0.3..=0.99)?,
            headroom: options.number("headroom", self.headroom, 0.0..=0.5)?,
            plateau: options.switch("plateau", self.plateau)?,
            ecn: options.switch("ecn", self.ecn)?,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_change_single_constants_of_a_preset() {
        let options = "bbr3:down=0.8,probe_rtt=20s,ecn=on".parse().unwrap();
        let params = V3.with(&options).unwrap();
        assert_eq!(params, Params { down: 0.8, probe_rtt: Span::from_secs(20), ecn: true, ..V3 });
        assert!(V3.with(&"bbr3:loss=2".parse().unwrap()).is_err());
    }
}
