//! A file through QUIC's own stream, under one of our congestion controllers.
//!
//! ```text
//!  Upload                                   Dock
//!   control stream:  Open (token, name) -->  Gate
//!                                       <-- Ready
//!   one stream:      the bytes          -->  a sink, until the stream ends
//!   datagrams:       timing probes     <-->  echoes               (for controllers that use one-way delays)
//!   control stream:                     <-- Bye: all is written
//! ```
//!
//! [`crate::quic`] carries media, in datagrams that a session's own controller paces; here quinn sends, and the controller runs
//! inside it (the room `quic`).

mod dock;
mod error;
mod upload;

pub use dock::{Dock, Landed};
pub use error::TransferError;
pub use upload::{Underway, Upload, Uploaded};

use std::time::Duration;

use units::Span;

use crate::quic::duration;

/// What we call the protocol in the TLS handshake.
const ALPN: &[u8] = b"framewire-bulk/1";

/// A peer that is silent for this long is gone.
const IDLE: Span = Span::from_secs(10);
/// ... so whoever has nothing to say gives a sign of life this often.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// How often the caller is told how far it got, and may stop.
const TICK: Duration = Duration::from_millis(200);
/// Bytes of a stream that may be on their way: 1.3 s at 100 Mbit/s, so that only congestion control limits.
const WINDOW: u32 = 16 << 20;
/// The same before the token was shown, and while a sender waits for its turn: the greeting is a few hundred bytes.
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
mod tests {
    use std::io::{self, Write};
    use std::net::SocketAddr;
    use std::ops::ControlFlow;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use units::Span;

    use super::*;
    use crate::quic::{Identity, Token, Trust};

    /// A sink that can be looked at from outside.
    #[derive(Clone, Default)]
    struct Shelf(Arc<Mutex<Vec<u8>>>);

    impl Write for Shelf {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn content() -> Vec<u8> {
        (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    fn upload(at: SocketAddr, identity: &Identity, token: &Token) -> Result<Uploaded, TransferError> {
        let call = Upload {
            peer: at,
            host: "localhost",
            trust: Trust::Pin(identity.fingerprint()),
            token,
            name: "a file",
            congestion: ::quic::Congestion::new("quic-dc:threshold=20ms").unwrap(),
            mtu: None,
            patience: Span::from_secs(5),
        };
        call.run(&mut &content()[..], &mut |_| ControlFlow::Continue(()))
    }

    /// A dock that nobody comes to gives up, so that a failing test ends.
    fn until_late() -> impl FnMut(u64) -> ControlFlow<()> {
        let start = std::time::Instant::now();
        move |_| {
            if start.elapsed().as_secs() > 60 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    fn dock(identity: &Identity, token: &Token) -> Dock {
        Dock::open("127.0.0.1:0".parse().unwrap(), identity, token.clone(), Dock::limits()).unwrap()
    }

    fn nowhere(_name: &str) -> io::Result<Box<dyn Write>> {
        Ok(Box::new(io::sink()))
    }

    fn identity() -> Identity {
        Identity::self_signed(&["localhost".to_owned()]).unwrap()
    }

    #[test]
    fn a_file_arrives_whole_and_its_packets_are_timed() {
        let (identity, token) = (identity(), Token::generate());
        let mut dock = dock(&identity, &token);
        let at = dock.local().unwrap();
        let shelf = Shelf::default();
        let (landed, uploaded) = thread::scope(|scope| {
            let landing = scope.spawn(|| {
                let sink = shelf.clone();
                dock.take(u64::MAX, &mut |_| Ok(Box::new(sink.clone())), &mut until_late())
            });
            let uploaded = upload(at, &identity, &token);
            (landing.join().unwrap(), uploaded)
        });
        let (landed, uploaded) = (landed.unwrap().unwrap(), uploaded.unwrap());
        assert_eq!((landed.name.as_str(), landed.bytes, uploaded.bytes), ("a file", 3_000_000, 3_000_000));
        assert!(*shelf.0.lock().unwrap() == content());
        assert!(uploaded.totals.timed > 0 && uploaded.totals.rtt_mean_ms > 0.0, "{:?}", uploaded.totals);
    }

    #[test]
    fn a_wrong_token_or_pin_is_refused_and_the_dock_goes_on() {
        let (identity, token) = (identity(), Token::generate());
        let mut dock = dock(&identity, &token);
        let at = dock.local().unwrap();
        thread::scope(|scope| {
            let landing = scope.spawn(|| dock.take(u64::MAX, &mut nowhere, &mut until_late()));
            let wrong = upload(at, &identity, &Token::generate()).unwrap_err().to_string();
            assert!(wrong.contains("the token is wrong"), "{wrong}");
            let other = Identity::self_signed(&["localhost".to_owned()]).unwrap();
            let wrong = upload(at, &other, &token).unwrap_err().to_string();
            assert!(wrong.contains("fingerprint"), "{wrong}");
            upload(at, &identity, &token).unwrap();
            assert_eq!(landing.join().unwrap().unwrap().unwrap().bytes, 3_000_000);
        });
    }

    #[test]
    fn what_is_larger_than_allowed_is_not_taken() {
        let (identity, token) = (identity(), Token::generate());
        let mut dock = dock(&identity, &token);
        let at = dock.local().unwrap();
        thread::scope(|scope| {
            let landing = scope.spawn(|| dock.take(1_000_000, &mut nowhere, &mut until_late()));
            assert!(upload(at, &identity, &token).is_err());
            assert!(landing.join().unwrap().unwrap_err().to_string().contains("more than"));
        });
    }
}
