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
        matches!(self, TransferError::Connection(error) if error.is_of_input())
    }
}
