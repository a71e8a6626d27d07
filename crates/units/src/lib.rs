//! Integer quantities every room shares: [`Time`], [`Span`], [`Rate`], [`Bytes`], a host's clock, named
//! random streams, and what tells texts apart.
//!
//! Time is nanoseconds in integers: floats appear only inside estimators. A time read on another machine is a
//! [`RemoteTime`]; it cannot be subtracted from a [`Time`], only from another `RemoteTime`, so that clock
//! offset cannot leak into a computation unnoticed. A one-way delay across clocks is a [`RelativeDelay`]: two
//! of them may be compared and subtracted (the unknown offset cancels), nothing else.

mod clock;
mod ecn;
mod fetch;
mod fingerprint;
mod hint;
mod names;
mod quantity;
mod rng;
mod room;
mod serialisation;
mod time;

pub use clock::HostClock;
pub use ecn::Ecn;
pub use fetch::{fetch, fetch_front, fetch_line};
pub use fingerprint::Fingerprint;
pub use hint::{apart, cold_path, likely, seldom, unlikely};
pub use names::{instead, near_names};
pub use quantity::{Bytes, ParseQuantityError, Rate};
pub use rng::Rng;
pub use room::Sparing;
pub use serialisation::Serialisation;
pub use time::{RelativeDelay, RemoteTime, Span, Time};
