//! A file through QUIC's own stream, under one of our congestion controllers.
//!
//! ```text
//!  Upload                                   FileReceiver
//!   control stream:  Open (token, name) -->  Gate
//!                                       <-- Ready
//!                                       <-- Have: how much of it is here already, and its digest
//!   one stream:      offset, bytes      -->  a file of another name, until the stream ends
//!   datagrams:       timing probes     <-->  echoes               (for controllers that use one-way delays)
//!   control stream:                     <-- Bye: all is written, the file has its name; or Refused, and why
//! ```
//!
//! [`crate::quic`] carries media, in datagrams that a session's own controller paces; here quinn sends, and
//! the controller runs inside it (the room `quic`).

mod error;
mod receiver;
mod store;
mod upload;

pub use error::TransferError;
pub use receiver::{FileReceiver, News, Received};
pub use store::Store;
pub use upload::{Source, Underway, Upload, Uploaded};

use std::time::Duration;

use units::Span;

use crate::quic::duration;

/// What we call the protocol in the TLS handshake. Version 2 resumes.
const ALPN: &[u8] = b"framewire-bulk/2";

/// A peer that is silent for this long is gone.
const IDLE: Span = Span::from_secs(10);
/// ... so whoever has nothing to say gives a sign of life this often.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// How often the caller is told how far it got, and may stop.
const TICK: Duration = Duration::from_millis(200);
/// Bytes of a stream that may be on their way: 1.3 s at 100 Mbit/s, so that only congestion control limits.
const WINDOW: u32 = 16 << 20;
/// The same before the token was shown, and while a sender waits for its turn: the greeting is a few hundred
/// bytes.
const GREETING_WINDOW: u32 = 16 << 10;
/// Bytes of timing probes that wait to be answered: a second of one a millisecond.
const PROBES: usize = 64 << 10;
/// Bytes read from a file at once.
const CHUNK: usize = 64 << 10;

/// quinn's settings at both ends. Neither takes a file until [`expect_a_file`] is called.
fn transport() -> quinn::TransportConfig {
    let mut config = quinn::TransportConfig::default();
    let idle = quinn::IdleTimeout::try_from(duration(IDLE)).expect("ten seconds are a timeout");
    config
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_bidi_streams(1u32.into())
        .max_concurrent_uni_streams(0u32.into())
        .datagram_receive_buffer_size(Some(PROBES))
        .stream_receive_window(WINDOW.into())
        .receive_window(GREETING_WINDOW.into())
        .send_window(u64::from(WINDOW));
    config
}

/// From now on a peer may send a file.
fn expect_a_file(connection: &quinn::Connection) {
    connection.set_receive_window(WINDOW.into());
    connection.set_max_concurrent_uni_streams(1u32.into());
}

#[cfg(test)]
mod tests;
