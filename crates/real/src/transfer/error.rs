//! Why a file did not get through.

use std::io;
use std::net::SocketAddr;

use crate::quic::QuicError;

/// Why a file did not get through. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// There is no connection.
    #[error(transparent)]
    Connection(#[from] QuicError),
    /// The connection broke.
    #[error("{peer}: {text}")]
    Broken {
        /// The other end.
        peer: SocketAddr,
        /// What ended it, for people.
        text: String,
    },
    /// The file can't be read.
    #[error("the file: {0}")]
    File(#[from] io::Error),
    /// A file is not taken; its sender was told the same.
    #[error("{name} from {peer}: {text}")]
    Denied {
        /// The sender's address.
        peer: SocketAddr,
        /// What the sender calls it.
        name: String,
        /// Why not.
        text: String,
    },
    /// The caller has ended it.
    #[error("interrupted")]
    Interrupted,
}

impl TransferError {
    /// Whether something that was given is the cause (a pin, a token, an address), rather than the network.
    pub fn is_of_input(&self) -> bool {
        matches!(self, TransferError::Connection(error) if error.is_of_input())
    }
}
