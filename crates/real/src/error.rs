//! What can go wrong between here and the network, and what to do about it.

use std::io;
use std::net::SocketAddr;

use units::Span;

use crate::channel::Ended;

/// Why a socket can't be had or used. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// Another program has the port.
    #[error("{0} is in use; stop the program that has it or choose another port")]
    InUse(SocketAddr),
    /// The system forbids it.
    #[error(
        "no permission to use {0}; ports below 1024 need more rights, and a firewall may forbid the rest"
    )]
    Permission(SocketAddr),
    /// The local address is not ours.
    #[error("{0} is not an address of this machine")]
    NotOurs(SocketAddr),
    /// The system knows no route to this address.
    #[error("there is no way to {0} from here")]
    Unreachable(SocketAddr),
    /// The peer never answered.
    #[error("{peer} has not answered for {waited}{}", if *.refused { ": nothing listens there" } else { "" })]
    Silent {
        /// The address that was sent to.
        peer: SocketAddr,
        /// For how long we sent.
        waited: Span,
        /// Its machine said that nothing listens on the port.
        refused: bool,
    },
    /// The peer answered once, and does so no more.
    #[error(
        "{peer} has stopped answering, {waited} ago{}",
        if *.refused { ": nothing listens there any more" } else { "" }
    )]
    Gone {
        /// The address that was sent to.
        peer: SocketAddr,
        /// For how long we sent without an answer.
        waited: Span,
        /// Its machine said that nothing listens on the port.
        refused: bool,
    },
    /// The connection is over.
    #[error("{peer}: {ended}")]
    Ended {
        /// The other end's address.
        peer: SocketAddr,
        /// What ended the connection.
        ended: Ended,
    },
    /// Anything else.
    #[error("{addr}: {source}")]
    Io {
        /// The address concerned.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl RealError {
    /// What `source` means for a socket at, or towards, `addr`.
    pub(crate) fn new(addr: SocketAddr, source: io::Error) -> RealError {
        match source.kind() {
            io::ErrorKind::AddrInUse => RealError::InUse(addr),
            io::ErrorKind::PermissionDenied => RealError::Permission(addr),
            io::ErrorKind::AddrNotAvailable => RealError::NotOurs(addr),
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
                RealError::Unreachable(addr)
            }
            _ => RealError::Io { addr, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_line_and_say_what_to_do() {
        let addr: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let text = |kind: io::ErrorKind| RealError::new(addr, kind.into()).to_string();
        assert_eq!(
            text(io::ErrorKind::AddrInUse),
            "127.0.0.1:80 is in use; stop the program that has it or choose another port"
        );
        assert!(text(io::ErrorKind::PermissionDenied).starts_with("no permission to use 127.0.0.1:80"));
        let silent = RealError::Silent { peer: addr, waited: Span::from_secs(5), refused: true };
        assert_eq!(silent.to_string(), "127.0.0.1:80 has not answered for 5s: nothing listens there");
        let gone = |refused| RealError::Gone { peer: addr, waited: Span::from_secs(2), refused }.to_string();
        assert_eq!(gone(true), "127.0.0.1:80 has stopped answering, 2s ago: nothing listens there any more");
        assert_eq!(gone(false), "127.0.0.1:80 has stopped answering, 2s ago");
    }
}
