//! Why a file did not get through.

use std::io;
use std::net::SocketAddr;

use units::Span;
use wire::Refusal;

use crate::RealError;
use crate::quic::{Distrust, IdentityError};

/// Why a file did not get through. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// No socket.
    #[error(transparent)]
    Socket(#[from] RealError),
    /// No usable certificate or key, or nobody to trust.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The server is not who it should be.
    #[error("{peer}: {distrust}")]
    Distrusted {
        /// The server.
        peer: SocketAddr,
        /// Why.
        distrust: Distrust,
    },
    /// The server turned us away.
    #[error("{peer} refuses: {text}")]
    Refused {
        /// The server.
        peer: SocketAddr,
        /// Why.
        why: Refusal,
        /// The same in its words.
        text: String,
    },
    /// No answer.
    #[error(
        "{peer} has not answered for {waited}; is `framewire bulk receive` running there, and does a firewall let UDP through?"
    )]
    Silent {
        /// The server.
        peer: SocketAddr,
        /// For how long we tried.
        waited: Span,
    },
    /// The connection broke.
    #[error("{peer}: {text}")]
    Broken {
        /// The other end.
        peer: SocketAddr,
        /// How.
        text: String,
    },
    /// The file can't be read or written.
    #[error("the file: {0}")]
    File(#[from] io::Error),
    /// The sender sends more than it may.
    #[error("{peer} sends more than {limit} bytes, which is all that is taken here")]
    TooLong {
        /// The sender.
        peer: SocketAddr,
        /// What is taken at most.
        limit: u64,
    },
    /// The caller has ended it.
    #[error("interrupted")]
    Interrupted,
}

impl TransferError {
    /// Whether something that was given is the cause (a pin, a token, an address), rather than the network.
    pub fn is_of_input(&self) -> bool {
        match self {
            TransferError::Socket(_) | TransferError::Identity(_) | TransferError::Distrusted { .. } => true,
            TransferError::Refused { why, .. } => *why != Refusal::Busy,
            _ => false,
        }
    }
}
