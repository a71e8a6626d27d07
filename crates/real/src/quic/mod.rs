//! QUIC: media in DATAGRAM frames, one control stream, TLS 1.3. `docs/quic.md` says how and why.

mod control;
mod identity;
mod token;
mod trust;

pub use control::{ControlError, Gate, Messages, OPEN_WITHIN, Request, write};
pub use identity::{Fingerprint, Identity, IdentityError};
pub use token::Token;
pub use trust::{Distrust, Trust};

/// What we call our protocol in the TLS handshake (ALPN).
pub const ALPN: &[u8] = b"framewire/1";
