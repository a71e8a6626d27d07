//! QUIC: media in DATAGRAM frames, one control stream, TLS 1.3. `docs/quic.md` says how and why.
//!
//! ```text
//!  Call::connect --- TLS ---> Server (door: so many handshakes, strangers, guests)
//!       Open, token --------> Gate --> Guest --> Server::accept
//!       Session <----- Ready ------------------- Guest::welcome
//!          '-- QuicChannel == datagrams == QuicChannel --'      each under a Driver on a thread of its own
//! ```

mod client;
mod control;
mod error;
mod identity;
mod limits;
mod link;
mod runtime;
mod server;
#[cfg(test)]
mod tests;
mod token;
mod trust;

pub use client::{Call, Session};
pub use control::{ControlError, Gate, Messages, Request, write};
pub use error::QuicError;
pub(crate) use error::ended;
pub use identity::{Fingerprint, Identity, IdentityError};
pub(crate) use limits::duration;
pub use limits::{Limits, Turnstile};
pub use link::QuicChannel;
pub use runtime::Runtime;
pub use server::{DoorCounters, Guest, Server};
pub use token::Token;
pub use trust::{Distrust, Trust};

/// What we call our protocol in the TLS handshake (ALPN).
pub const ALPN: &[u8] = b"framewire/1";
