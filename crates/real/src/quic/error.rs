//! Why there is no connection.

use std::net::SocketAddr;

use quinn::ConnectionError;
use units::Span;
use wire::Refusal;

use super::identity::IdentityError;
use super::trust::Distrust;
use crate::RealError;
use crate::channel::Ended;

/// Why a connection could not be had. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// The socket could not be had.
    #[error(transparent)]
    Socket(#[from] RealError),
    /// No usable certificate or key, or nobody to trust.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The server is not who it should be.
    #[error("{peer}: {distrust}")]
    Distrusted {
        /// The server's address.
        peer: SocketAddr,
        /// What is wrong with its certificate.
        distrust: Distrust,
    },
    /// The server turned us away.
    #[error("{peer} refuses: {text}")]
    Refused {
        /// The server's address.
        peer: SocketAddr,
        /// The reason it gave.
        why: Refusal,
        /// The same in its words.
        text: String,
    },
    /// The server did not answer in time.
    #[error(
        "{peer} has not answered for {waited}; is the receiver running there, and does a firewall let UDP through?"
    )]
    Silent {
        /// The server's address.
        peer: SocketAddr,
        /// For how long we tried.
        waited: Span,
    },
    /// Somebody else's QUIC.
    #[error("{peer} speaks QUIC, but not with us: is it `framewire receive`?")]
    Stranger {
        /// The server's address.
        peer: SocketAddr,
    },
    /// The connection broke while it was made.
    #[error("{peer}: {ended}")]
    Broken {
        /// The server's address.
        peer: SocketAddr,
        /// What ended the connection.
        ended: Ended,
    },
}

impl QuicError {
    /// Whether something that was given is the cause (a pin, a token, a file), rather than the network.
    pub fn is_of_input(&self) -> bool {
        match self {
            QuicError::Socket(_) | QuicError::Identity(_) | QuicError::Distrusted { .. } => true,
            QuicError::Refused { why, .. } => {
                use Refusal::{Exists, Role, Token, TooLong, Version};
                matches!(why, Token | Role | Version | Exists | TooLong)
            }
            QuicError::Silent { .. } | QuicError::Stranger { .. } | QuicError::Broken { .. } => false,
        }
    }
}

/// TLS's alert `no_application_protocol` (RFC 7301) as a QUIC error code (RFC 9001 section 4.8).
const NO_PROTOCOL: u64 = 0x100 + 120;

/// Whether the peer's TLS had no protocol in common with ours.
pub(super) fn is_stranger(error: &ConnectionError) -> bool {
    let code = match error {
        ConnectionError::TransportError(error) => u64::from(error.code),
        ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
        ConnectionError::VersionMismatch => return true,
        _ => return false,
    };
    code == NO_PROTOCOL
}

/// What quinn says about a connection's end, in our words.
pub(crate) fn ended(error: ConnectionError, idle: Span) -> Ended {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            closed(close.error_code.into_inner(), &String::from_utf8_lossy(&close.reason))
        }
        ConnectionError::ConnectionClosed(close)
            if close.error_code == quinn::TransportErrorCode::CONNECTION_REFUSED =>
        {
            Ended::Refused(Refusal::Busy, BUSY.to_owned())
        }
        ConnectionError::LocallyClosed => Ended::Local,
        ConnectionError::TimedOut => Ended::Silent(idle),
        ConnectionError::Reset => Ended::Restarted,
        other => Ended::Failed(other.to_string()),
    }
}

/// What a peer that finds no room is told.
pub(super) const BUSY: &str = "the server has as many connections as it takes: try again later";

/// An application's close: ours are 0 and the refusals' numbers.
fn closed(code: u64, text: &str) -> Ended {
    match u8::try_from(code) {
        Ok(0) => Ended::Bye(text.to_owned()),
        Ok(code) if code <= Refusal::LAST => Ended::Refused(Refusal::of_code(code), text.to_owned()),
        _ => Ended::Closed { code, text: text.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_mean_what_their_codes_say() {
        assert_eq!(closed(0, "done"), Ended::Bye("done".to_owned()));
        assert_eq!(closed(2, "no"), Ended::Refused(Refusal::Token, "no".to_owned()));
        assert_eq!(closed(258, "?"), Ended::Closed { code: 258, text: "?".to_owned() });
        assert_eq!(closed(8, "no"), Ended::Refused(Refusal::Exists, "no".to_owned()));
        assert_eq!(closed(11, "?"), Ended::Closed { code: 11, text: "?".to_owned() });
    }

    #[test]
    fn what_was_given_is_told_from_what_happened() {
        let peer: SocketAddr = "192.0.2.1:4433".parse().unwrap();
        let refused = |why| QuicError::Refused { peer, why, text: String::new() };
        assert!(refused(Refusal::Token).is_of_input() && !refused(Refusal::Busy).is_of_input());
        assert!(QuicError::Distrusted { peer, distrust: Distrust::Expired }.is_of_input());
        assert!(!QuicError::Silent { peer, waited: Span::from_secs(10) }.is_of_input());
    }
}
