//! What a host says once of how its packets are to leave.

use units::{Rate, Span};

/// Probe timeouts back off to at most this, so that a path that comes back is noticed within it.
const MAX_PROBE_TIMEOUT: Span = Span::from_millis(500);

/// What the packets leave by, of a [`Decision`](cc::Decision).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Its pacing rate, which leaves room for frames' bursts.
    Decided,
    /// That of a flow that always has something to send ([`bulk_pacing`](cc::Decision::bulk_pacing)).
    Bulk,
    /// [`cc_rate`](crate::cc_rate), evenly; while the controller probes, its pacing rate.
    Even,
}

/// A core's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Largest datagram (UDP payload) in bytes.
    pub mtu: usize,
    /// Packets that leave together, 1 or more ([`Pacer::in_bunches`](crate::Pacer::in_bunches)).
    pub bunch: u32,
    /// What packets leave by.
    pub pace: Pace,
    /// The lowest rate of [`Core::cc_rate`](crate::Core::cc_rate).
    pub least: Rate,
    /// The lowest rate that is made of a window there ([`cc_rate`](crate::cc_rate)).
    pub floor: Rate,
    /// [`Core::cc_rate`](crate::Core::cc_rate) is by the latest round trip where that is shorter than the
    /// smoothed one, which stays long for seconds after an outage.
    pub fresh: bool,
    /// A packet leaves while less than the window is in flight, though not all of it may fit (libwebrtc's
    /// `PacingController::Congested`); else it must fit (RFC 9002 section 7).
    pub spill: bool,
    /// While nothing is acknowledged, probes for an answer leave at least this often.
    pub probe_within: Span,
}

impl Default for Config {
    /// 1200-byte datagrams under the controller's own pacing, probes every 500 ms at the latest.
    fn default() -> Config {
        Config {
            mtu: 1200,
            bunch: 1,
            pace: Pace::Decided,
            least: Rate::ZERO,
            floor: Rate::ZERO,
            fresh: false,
            spill: false,
            probe_within: MAX_PROBE_TIMEOUT,
        }
    }
}
