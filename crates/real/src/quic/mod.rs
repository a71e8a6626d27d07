//! QUIC: media in DATAGRAM frames, one control stream, TLS 1.3. `docs/quic.md` says how and why.
//!
//! ```text
//!  Call::connect --- TLS ---> Server (Doorman: so many handshakes, strangers, guests; Credentials)
//!       Open, token --------> Gate --> Guest --> Server::accept
//!       Session <----- Ready ------------------- Guest::welcome
//!          '-- QuicChannel == datagrams == QuicChannel --'      each under a Driver on a thread of its own
//! ```

mod client;
mod control;
mod credentials;
mod doorman;
mod error;
mod hall;
mod identity;
mod limits;
mod link;
mod runtime;
mod server;
mod tally;
#[cfg(test)]
mod tests;
mod token;
mod trust;

pub use client::{Call, Session};
pub(crate) use client::{client_config, endpoint_for};
pub use control::{ControlError, Gate, Messages, Request, write};
pub use credentials::Credentials;
pub use doorman::{Crowd, Reason};
pub(crate) use doorman::{Doorman, Pass, Verdict};
pub use error::QuicError;
pub(crate) use error::ended;
pub use hall::DoorWatch;
pub(crate) use hall::{Hall, Listening, Newcomer, told};
pub use identity::{Fingerprint, Identity, IdentityError};
pub use limits::Limits;
pub(crate) use limits::duration;
pub use link::QuicChannel;
pub(crate) use link::{tell_end, watch_path};
pub use runtime::Runtime;
pub use server::{Guest, Server};
pub use tally::DoorCounters;
pub use token::Token;
pub use trust::{Distrust, Trust};

/// What we call our protocol in the TLS handshake (ALPN).
pub const ALPN: &[u8] = b"framewire/1";
