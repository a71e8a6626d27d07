//! A TCP-like reliable byte stream: the flows that interactive video shares a path with.
//!
//! ```text
//!  Workload -> Sender: Flight (scoreboard) -> Pacer, window -> segment ->
//!                                                                        -> Receiver: Ranges -> acknowledgement ->
//!  acknowledgement -> Flight::settle -> Rtt, Rack -> losses -> Controller -> Decision
//! ```
//!
//! [`Sender`] and [`Receiver`] are [`wire::Endpoint`]s: they own no clock and no socket. Any
//! [`cc::Controller`] runs on top; one with a window is held to it, one with a rate only is paced, and
//! receiver halves are not carried.
//!
//! | what | from |
//! |---|---|
//! | selective acknowledgements, losses found by them | RFC 2018, RFC 2883, RFC 6675 |
//! | losses found by time, tail loss probes | RFC 8985 |
//! | retransmission timeout | RFC 6298 |
//! | delayed acknowledgements | RFC 5681 section 4.2 |
//! | spurious timeouts | RFC 3522, by the transmission an acknowledgement names |
//! | segments that leave together | Linux's segmentation offload |
//! | web-like transfers | RFC 8868 |
//!
//! Deviation: a handshake, where there is one, is one segment without options, and there are no zero windows;
//! a lost retransmission is reported to the controller like any loss (RFC 5681 section 4.3 wants it to count
//! again), and the controller itself decides how the window moves in recovery, in whose first round at most
//! one segment leaves above it.
//!
//! Deviation: an acknowledgement names the transmissions that brought it about and when each arrived, which
//! TCP's does not. With [`Attribution::Segment`] only what TCP would know is used, but for arrival times.

mod config;
mod counters;
mod flight;
mod offload;
mod rack;
mod ranges;
mod receiver;
mod rtt;
mod sender;
mod workload;

pub use config::{Attribution, Detection, Preset, ReceiverConfig, SenderConfig};
pub use counters::{ReceiverCounters, SenderCounters};
pub use receiver::Receiver;
pub use sender::{MakeController, Sender};
pub use workload::{Completion, Pages, ParseWorkloadError, Workload};
