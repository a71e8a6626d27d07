//! What every sender under a congestion controller keeps, whatever it sends: packets in flight, round trips,
//! losses, pacing, window, probes for an answer, the MTU. No media, no wire format, no clock and no socket.
//!
//! ```text
//!  host: "this leaves"   -> Core::sent  -> Ledger, Pacer -> Controller::on_sent
//!  host: "this was told" -> Core::heard -> Ledger, Rtt, LossDetection -> cc::Report -> Controller::on_feedback
//!                                       -> Decision -> Pacer, window -> Core::next_send -> host
//! ```
//!
//! [`Core`] is the whole of it, for a sender whose receiver reports every packet's arrival (as this project's
//! own, RFC 8888 and transport-wide feedback do). Senders that know of arrivals in another way build on its
//! parts: [`Ledger`] (counts, and judges nothing) and [`CongestionControl`] (makes [`cc::Report`]s).
//!
//! A controller inside a transport of one's own:
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use framewire_transport::{Arrival, Config, Core, Heard};
//! use units::{Ecn, Span, Time};
//!
//! let setup = cc::Setup::default();
//! let controller = cc::build(&"copa:delta=0.5".parse()?, &setup)?;
//! // What a packet carries is the host's own matter; here: nothing that it wants back.
//! let mut core = Core::<()>::new(Config { mtu: 1200, ..Config::default() }, controller, record::Tap::default());
//!
//! let mut on_the_way = VecDeque::new();
//! for now in (0..400).map(Time::from_millis) {
//!     // Send while window and pacer allow it ...
//!     while core.next_send().is_some_and(|at| at <= now) {
//!         on_the_way.push_back((core.sent(now, 1200, (), false), now));
//!     }
//!     // ... and say what the peer reports: here that every packet arrived after 20 ms, heard of after 40.
//!     while on_the_way.front().is_some_and(|(_, left)| *left + Span::from_millis(40) <= now) {
//!         let Some((packet, left)) = on_the_way.pop_front() else { break };
//!         let at = (left + Span::from_millis(20)).on_wire();
//!         let arrivals = [Arrival { packet, at, ecn: Ecn::NotEct }].into_iter();
//!         let (ranges, newest) = ([].into_iter(), Some(packet));
//!         core.heard(now, Heard { arrivals, ranges, newest, gap: false, sent: at, blob: &[] }).unwrap();
//!         // What was lost is in `core.settled().lost`, to be sent again or not.
//!         assert!(core.settled().lost.is_empty());
//!     }
//!     core.find_losses(now);
//!     core.wake(now);
//! }
//! assert!(core.decision().window.unwrap().get() > 100_000);
//! # Ok::<(), cc::OptionError>(())
//! ```

mod config;
mod control;
mod core;
mod ledger;
mod losses;
mod numbered;
mod pacer;
mod path;
mod rtt;

pub use config::{Config, Pace};
pub use control::{CongestionControl, Leaving, News, RoundTrips};
pub use core::{Arrival, Core, Counts, Heard, NeverSent, cc_rate};
pub use ledger::{Arrived, Carried, Ledger, Run, State, Transmission};
pub use losses::{LossDetection, Settled};
pub use pacer::Pacer;
pub use path::{LEAST_PATH, PathMtu};
pub use rtt::Rtt;
