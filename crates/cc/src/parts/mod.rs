//! What several controllers are made of, each written once.

mod epoch;
mod extremum;
mod hystart;
mod line;
mod owd;
mod rate;
mod reno;
mod rounds;
mod rtt;
mod silence;

pub use epoch::LossEpoch;
pub use extremum::Extremum;
pub use hystart::HyStart;
pub use line::Line;
pub use owd::OwdBase;
pub use rate::{RateSample, rate_sample, sampled};
pub use reno::{RenoWindow, initial_window};
pub use rounds::Rounds;
pub use rtt::packet_rtts;
pub use silence::Silence;

use units::{Bytes, Rate, Span};

/// No controller asks for less than a datagram or so a second: a sender must find out when the path is back.
pub(crate) const SLOWEST: Rate = Rate::from_kbps(8);

/// The rate of `gain` windows a round trip, as window-based controllers are paced (RFC 9002 section 7.7).
pub fn window_rate(window: Bytes, srtt: Span, gain: f64) -> Rate {
    Rate::average(window, srtt.max(Span::from_micros(1))).mul_f64(gain).max(SLOWEST)
}
