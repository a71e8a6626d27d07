//! QUIC: media in DATAGRAM frames, one control stream, TLS 1.3. `docs/quic.md` says how and why.
//!
//! ```text
//!  Call::connect --- TLS ---> Server (Admission: so many handshakes, strangers, guests; Credentials)
//!       Open, token --------> Gate --> Guest --> Server::accept
//!       Session <----- Ready ------------------- Guest::welcome
//!          '-- QuicChannel == datagrams == QuicChannel --'      each under a Driver on a thread of its own
//! ```

mod admission;
mod client;
mod control;
mod credentials;
mod error;
mod identity;
mod limits;
mod link;
mod listener;
mod runtime;
mod server;
mod talk;
mod tally;
#[cfg(test)]
mod tests;
mod token;
mod trust;

pub(crate) use admission::{Admission, Pass, Verdict};
pub use admission::{Occupancy, Reason};
pub use client::{Call, Session};
pub(crate) use client::{client_config, endpoint_for};
pub use control::{ControlError, Gate, Messages, Request, write};
pub use credentials::Credentials;
pub use error::QuicError;
pub(crate) use error::ended;
pub use identity::{Fingerprint, Identity, IdentityError};
pub use limits::Limits;
pub(crate) use limits::duration;
pub use link::QuicChannel;
pub(crate) use link::{tell_end, watch_path};
pub use listener::AdmissionWatch;
pub(crate) use listener::{Listener, ListenerConfig, Newcomer, told};
pub use runtime::Runtime;
pub use server::{Guest, Server};
pub use talk::{Said, TalkCounters};
pub use tally::AdmissionCounters;
pub use token::Token;
pub use trust::{Distrust, Trust};

/// What we call our protocol in the TLS handshake (ALPN).
pub const ALPN: &[u8] = b"framewire/1";
