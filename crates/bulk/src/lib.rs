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
//! A transfer of 1 MB under CUBIC, over a link in virtual time:
//!
//! ```
//! use framewire_bulk as bulk;
//! use bulk::{Receiver, ReceiverConfig, Sender, SenderConfig, Workload};
//! use netsim::{HostConfig, LinkConfig, RateProcess, World};
//! use record::Tap;
//! use units::{Rate, Rng, Span, Time};
//!
//! let config = SenderConfig::linux();
//! let setup = cc::Setup { mtu: config.datagram(), ..cc::Setup::default() };
//! let cubic = cc::build(&"cubic".parse()?, &setup)?;
//! let transfer = Workload::Transfer(1_000_000);
//! let sender = Sender::new(config, cubic, transfer, Rng::stream(1, "sizes"), Tap::default());
//! let receiver = Receiver::new(ReceiverConfig::default(), Tap::default());
//!
//! let mut world = World::new(1, None);
//! let (near, far) = (world.add_host(HostConfig::new("near"), sender), world.add_host(HostConfig::new("far"), receiver));
//! let rate = RateProcess::Constant(Rate::from_mbps(12));
//! let link = LinkConfig::bottleneck(rate, "droptail:100p".parse()?, Span::from_millis(20));
//! let (there, back) = (world.add_link("there", link), world.add_link("back", LinkConfig::delay(Span::from_millis(20))));
//! world.connect(near, 0, &[there], far);
//! world.connect(far, 0, &[back], near);
//! world.run_until(Time::from_secs(5));
//!
//! let finished = world.endpoint::<Receiver>(far).finished_at().expect("5 s are enough");
//! assert!(finished < Time::from_secs(2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
