//! A deterministic network in virtual time.
//!
//! ```text
//! host --> [impairments -> queue -> rate process -> delay, jitter] --> ... --> host
//!                                   Link                                       any wire::Endpoint
//! ```
//!
//! A [`World`] holds hosts (anything that implements [`wire::Endpoint`]), [`Link`]s and routes, and lets
//! virtual time pass. A [`Link`] has no clock of its own, so that an emulator can drive the very same one in
//! real time. Queue disciplines live in [`queue`], one file each, with one row in their registry. The same
//! configuration and seed give the same run to the nanosecond.

mod agenda;
mod books;
mod bucket;
mod config;
mod conveyor;
mod cross;
mod delay;
mod impair;
mod instants;
mod link;
pub mod models;
mod packet;
mod place;
pub mod queue;
mod rate;
mod ring;
mod routes;
mod server;
mod stages;
mod stats;
mod text;
mod timetable;
mod trace;
mod world;

pub use config::LinkConfig;
pub use cross::{CrossTraffic, DEFAULT_SIZE, Pattern};
pub use delay::{Delay, Reorder};
pub use impair::{GilbertElliott, Impairments, Loss, Policer};
pub use instants::Instants;
pub use link::{Link, Notice};
pub use packet::{IP_UDP_OVERHEAD, Packet};
pub use place::{FIRST_LINK_NODE, HostConfig, HostId, LinkId, SourceId};
pub use queue::QueueSpec;
pub use rate::{Opportunities, RateProcess, Shaper, Steps, TUN_FRAMING};
pub use stats::{Count, FlowStats, LinkStats};
pub use text::TextError;
pub use trace::{MAX_LINES, MahimahiTrace, OPPORTUNITY, TraceError};
pub use world::{Counters, World};
