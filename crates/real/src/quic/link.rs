//! A QUIC connection as a [`Channel`].

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use quinn::{Connection, Endpoint, RecvStream, SendStream, VarInt};
use tokio::runtime::Handle;
use tracing::{Instrument, Span as LogSpan, info, warn};
use units::Span;
use wire::{Message, Refusal};

use super::admission::{Admission, Pass};
use super::control::{ControlError, Messages};
use super::error::ended;
use super::talk::{Ear, Said, Talk, TalkCounters};
use crate::RealError;
use crate::channel::{Channel, ChannelStats, Ended, Inbox, Unsent};
use crate::socket;

/// A connection whose client has shown the token. The connection lives as long as this does.
pub struct QuicChannel {
    connection: Connection,
    endpoint: Endpoint,
    inbox: Arc<Inbox>,
    runtime: Handle,
    /// What goes beside the datagrams; with it ends our half of the control stream.
    talk: Talk,
    /// A guest's place at a server.
    _place: Option<Pass>,
    span: LogSpan,
}

/// What a connection is made of once both sides have agreed.
pub(super) struct Parts {
    pub connection: Connection,
    pub endpoint: Endpoint,
    pub inbox: Arc<Inbox>,
    pub control: SendStream,
    pub messages: Messages<RecvStream>,
    pub place: Option<Pass>,
    pub idle: Span,
    /// What the log knows the connection by.
    pub span: LogSpan,
}

/// How long a goodbye may take to get out.
const FAREWELL: std::time::Duration = std::time::Duration::from_millis(500);

impl QuicChannel {
    /// Starts to take datagrams in.
    pub(super) fn start(parts: Parts, runtime: &Handle) -> QuicChannel {
        let Parts { connection, endpoint, inbox, control, messages, place, idle, span } = parts;
        let admission = place.as_ref().map(|pass| pass.admission().clone());
        let datagrams = take_datagrams(connection.clone(), inbox.clone(), idle, admission);
        runtime.spawn(datagrams.instrument(span.clone()));
        let (talk, ear) = Talk::start(control, inbox.waker(), runtime);
        let messages = take_messages(connection.clone(), messages, inbox.clone(), ear);
        runtime.spawn(messages.instrument(span.clone()));
        runtime.spawn(watch_path(connection.clone()).instrument(span.clone()));
        QuicChannel { connection, endpoint, inbox, runtime: runtime.clone(), talk, _place: place, span }
    }

    /// What the log knows the connection by; to be entered by threads that work for it.
    pub fn span(&self) -> &LogSpan {
        &self.span
    }

    /// Says something beside the media, in its turn: an encoded message of the control stream. False if there
    /// is no room, for the peer has not taken what was said before.
    pub fn say(&self, message: Vec<u8>) -> bool {
        self.talk.say(message)
    }

    /// Takes what the peer has said beside the media. The driver is woken when there is something.
    pub fn heard(&self) -> VecDeque<Said> {
        self.talk.heard()
    }

    /// What was said and heard so far.
    pub fn talked(&self) -> TalkCounters {
        self.talk.counters()
    }

    /// Moves a client's end to another socket, bound to `local`: another port, or the address of another
    /// network. The connection goes on; the server follows once it has checked that we are there (RFC 9000
    /// section 9).
    ///
    /// # Errors
    /// [`RealError`] if there is no such socket to be had.
    pub fn rebind(&self, local: SocketAddr) -> Result<SocketAddr, RealError> {
        let wrong = |source| RealError::new(local, source);
        let socket: UdpSocket = socket::bind(local).map_err(wrong)?;
        let local = socket.local_addr().map_err(wrong)?;
        let _inside = self.runtime.enter();
        self.endpoint.rebind(socket).map_err(wrong)?;
        Ok(local)
    }

    /// Says goodbye and waits, briefly, for it to get out.
    pub fn finish(&self, text: &str) {
        self.close(text);
        let endpoint = self.endpoint.clone();
        self.runtime.block_on(async { tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await.ok() });
    }
}

impl Channel for QuicChannel {
    fn send(&self, datagram: Bytes) -> Result<(), Unsent> {
        let length = datagram.len();
        match self.connection.send_datagram(datagram) {
            Ok(()) => Ok(()),
            Err(quinn::SendDatagramError::ConnectionLost(_)) => Err(Unsent::Closed),
            Err(_) => Err(Unsent::Oversize { length, max: self.max_datagram() }),
        }
    }

    fn has_room(&self, length: usize) -> bool {
        self.connection.datagram_send_buffer_space() >= length
    }

    fn max_datagram(&self) -> usize {
        self.connection.max_datagram_size().unwrap_or(0).min(wire::MAX_DATAGRAM)
    }

    fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn stats(&self) -> ChannelStats {
        let stats = self.connection.stats();
        ChannelStats {
            rtt: Span::from_nanos(stats.path.rtt.as_nanos() as i64),
            mtu: stats.path.current_mtu,
            lost: stats.path.lost_packets,
            udp_sent: stats.udp_tx.datagrams,
            udp_sent_bytes: stats.udp_tx.bytes,
            udp_received: stats.udp_rx.datagrams,
            udp_received_bytes: stats.udp_rx.bytes,
        }
    }

    fn local(&self) -> SocketAddr {
        // An endpoint's socket has an address as long as the endpoint lives, and the connection keeps it
        // alive.
        self.endpoint.local_addr().unwrap_or_else(|_| self.connection.remote_address())
    }

    fn peer(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    fn close(&self, text: &str) {
        self.inbox.end(Ended::Local);
        self.connection.close(VarInt::from_u32(0), text.as_bytes());
    }
}

impl Drop for QuicChannel {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(0), b"");
    }
}

async fn take_datagrams(
    connection: Connection,
    inbox: Arc<Inbox>,
    idle: Span,
    admission: Option<Arc<Admission>>,
) {
    let error = loop {
        match connection.read_datagram().await {
            Ok(datagram) => inbox.put(&datagram),
            Err(error) => break error,
        }
    };
    inbox.end(ended(error, idle));
    let Some(how) = inbox.ended() else { return };
    if let Some(admission) = admission {
        admission.tally.end(&how);
    }
    tell_end(&how, &connection.stats());
}

/// Tells the log how a connection ended, and what it carried.
pub(crate) fn tell_end(how: &Ended, stats: &quinn::ConnectionStats) {
    let kind = Ended::KINDS[how.kind()];
    let (sent_bytes, received_bytes, lost_packets) =
        (stats.udp_tx.bytes, stats.udp_rx.bytes, stats.path.lost_packets);
    match how {
        Ended::Local | Ended::Bye(_) | Ended::Reload | Ended::Refused(..) => {
            info!(kind, sent_bytes, received_bytes, lost_packets, "ended: {how}");
        }
        _ => warn!(kind, sent_bytes, received_bytes, lost_packets, "ended: {how}"),
    }
}

/// How often it is looked whether the peer has moved. QUIC follows it at once; this is for the log.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// Tells the log when the peer has another address.
pub(crate) async fn watch_path(connection: Connection) {
    let mut known = connection.remote_address();
    while tokio::time::timeout(LOOK_EVERY, connection.closed()).await.is_err() {
        let peer = connection.remote_address();
        if peer != known {
            info!(from = %known, to = %peer, "the peer has moved");
            known = peer;
        }
    }
}

/// Waits for what the peer says after the greeting.
async fn take_messages(
    connection: Connection,
    mut messages: Messages<RecvStream>,
    inbox: Arc<Inbox>,
    ear: Ear,
) {
    let malformed = |error: &dyn std::fmt::Display| {
        connection.close(VarInt::from_u32(Refusal::Malformed as u32), error.to_string().as_bytes());
        Ended::Failed(error.to_string())
    };
    let why = loop {
        match messages.next().await {
            Ok(Message::Bye { text }) => break Ended::Bye(text.to_owned()),
            Ok(Message::Reload) => break Ended::Reload,
            Ok(Message::Refused { why, text }) => break Ended::Refused(why, text.to_owned()),
            Ok(Message::Unknown(_)) => {
                if let Err(error) = ear.hear(messages.last()) {
                    break malformed(&error);
                }
            }
            // Those of files, and a greeting said twice.
            Ok(Message::Have { .. } | Message::Open { .. } | Message::Ready { .. }) => {}
            // The connection is over; whoever waits for datagrams knows why.
            Err(ControlError::Ended) if connection.close_reason().is_some() => return,
            Err(ControlError::Ended) => break Ended::Bye(String::new()),
            Err(error @ ControlError::Broken(_)) => break malformed(&error),
        }
    };
    inbox.end(why);
}
