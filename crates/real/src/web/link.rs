//! A WebTransport session as a [`Channel`].

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::{Instrument, Span as LogSpan};
use units::Span;
use wire::{Message, Refusal, SeenFrame, Viewing};
use wtransport::error::SendDatagramError;
use wtransport::{Connection, RecvStream, SendStream, VarInt};

use crate::channel::{Channel, ChannelStats, Ended, Inbox, Unsent};
use crate::quic::{Admission, ControlError, Messages, Pass, ended, tell_end, watch_path};
use crate::{Clock, Waker};

/// What a viewer said on its control stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// What the person at the screen wants.
    Wish {
        /// No frames for now.
        paused: bool,
        /// Highest rate in bit/s; 0 for none.
        max_bps: u64,
        /// Another controller with its options; empty for the one at work.
        controller: String,
    },
    /// Frames that were shown.
    Seen {
        /// The number of their session.
        session: u32,
        /// What the viewer said of each, oldest first.
        frames: Vec<SeenFrame>,
    },
}

/// What was heard and not yet taken, at most: a viewer says five things a second, and its driver listens as
/// often.
const HEARD: usize = 64;
/// What we have said and the stream has not taken yet, at most. A viewer that does not read hears no more.
const SAID: usize = 64;

/// How long a viewer may take to read a goodbye, and how often it is looked whether it has.
const FAREWELL: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// A session whose viewer has shown the token. It lives as long as this does.
pub struct WebChannel {
    connection: Arc<Connection>,
    inbox: Arc<Inbox>,
    local: SocketAddr,
    say: mpsc::Sender<Vec<u8>>,
    heard: Arc<Mutex<VecDeque<Heard>>>,
    /// Its place at the server.
    _place: Pass,
    span: LogSpan,
}

/// What a session is made of once both sides have agreed.
pub(super) struct Parts {
    pub connection: Arc<Connection>,
    pub inbox: Arc<Inbox>,
    pub local: SocketAddr,
    pub control: SendStream,
    pub messages: Messages<RecvStream>,
    pub place: Pass,
    pub idle: Span,
    /// What the log knows the session by.
    pub span: LogSpan,
}

impl WebChannel {
    /// Starts to take in datagrams and messages.
    pub(super) fn start(parts: Parts, runtime: &Handle) -> WebChannel {
        let Parts { connection, inbox, local, control, messages, place, idle, span } = parts;
        let (say, said) = mpsc::channel(SAID);
        let heard = Arc::new(Mutex::new(VecDeque::new()));
        let ear = Ear { heard: heard.clone(), say: say.clone(), clock: inbox.clock(), waker: inbox.waker() };
        let datagrams = take_datagrams(connection.clone(), inbox.clone(), idle, place.admission().clone());
        runtime.spawn(datagrams.instrument(span.clone()));
        let messages = take_messages(connection.clone(), messages, inbox.clone(), ear);
        runtime.spawn(messages.instrument(span.clone()));
        runtime.spawn(write_messages(control, said));
        runtime.spawn(watch_path(connection.quic_connection().clone()).instrument(span.clone()));
        WebChannel { connection, inbox, local, say, heard, _place: place, span }
    }

    /// What the log knows the session by; to be entered by threads that work for it.
    pub fn span(&self) -> &LogSpan {
        &self.span
    }

    /// Tells the viewer something, in its turn; false if it has not read what it was told before.
    pub fn say(&self, viewing: &Viewing<'_>) -> bool {
        let mut out = [0; Viewing::MAX_LEN];
        let length = viewing.encode(&mut out);
        self.say.try_send(out[..length].to_vec()).is_ok()
    }

    /// Says goodbye with words for the person at the screen, unless the session is over, and gives them a
    /// moment to arrive: a connection's close overtakes what is still on the way. A page that has heard
    /// closes the session itself.
    pub fn farewell(&self, text: &str) {
        if self.inbox.ended().is_some() || self.say.try_send(Message::Bye { text }.to_vec()).is_err() {
            return;
        }
        let until = Instant::now() + FAREWELL;
        while self.inbox.ended().is_none() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }

    /// Takes what the viewer said. The driver is woken when there is something.
    pub fn heard(&self) -> VecDeque<Heard> {
        std::mem::take(&mut *self.heard.lock().expect("nothing panics while it holds this"))
    }
}

impl Channel for WebChannel {
    fn send(&self, datagram: Bytes) -> Result<(), Unsent> {
        match self.connection.send_datagram(&datagram) {
            Ok(()) => Ok(()),
            Err(SendDatagramError::NotConnected) => Err(Unsent::Closed),
            Err(SendDatagramError::TooLarge | SendDatagramError::UnsupportedByPeer) => {
                Err(Unsent::Oversize { length: datagram.len(), max: self.max_datagram() })
            }
        }
    }

    fn has_room(&self, length: usize) -> bool {
        self.connection.quic_connection().datagram_send_buffer_space() >= length + SESSION_ID
    }

    fn max_datagram(&self) -> usize {
        self.connection.max_datagram_size().unwrap_or(0).min(wire::MAX_DATAGRAM)
    }

    fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn stats(&self) -> ChannelStats {
        let stats = self.connection.quic_connection().stats();
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
        self.local
    }

    fn peer(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    fn close(&self, text: &str) {
        self.inbox.end(Ended::Local);
        self.connection.close(VarInt::from_u32(0), text.as_bytes());
    }
}

/// The longest session number before a datagram's payload (RFC 9297 section 2.1).
const SESSION_ID: usize = 8;

impl Drop for WebChannel {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(0), b"");
    }
}

async fn take_datagrams(
    connection: Arc<Connection>,
    inbox: Arc<Inbox>,
    idle: Span,
    admission: Arc<Admission>,
) {
    while let Ok(datagram) = connection.receive_datagram().await {
        inbox.put(&datagram.payload());
    }
    // A session may end before its connection does: a page that is closed or left ends its session.
    let quic = connection.quic_connection();
    let how = match quic.close_reason() {
        Some(reason) => ended(reason, idle),
        None => Ended::Bye(String::new()),
    };
    quic.close(0u32.into(), b"");
    inbox.end(how);
    let Some(how) = inbox.ended() else { return };
    admission.tally.end(&how);
    tell_end(&how, &quic.stats());
}

async fn write_messages(mut control: SendStream, mut said: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = said.recv().await {
        // Whoever waits for datagrams hears that the connection is over.
        if control.write_all(&message).await.is_err() || control.flush().await.is_err() {
            return;
        }
    }
}

/// Where a viewer's messages go.
struct Ear {
    heard: Arc<Mutex<VecDeque<Heard>>>,
    say: mpsc::Sender<Vec<u8>>,
    clock: Clock,
    waker: Waker,
}

impl Ear {
    fn hear(&self, viewing: &Viewing<'_>) {
        match *viewing {
            Viewing::ClockAsk { asked } => self.tell_time(asked),
            Viewing::Wish(wish) => self.note(Heard::Wish {
                paused: wish.paused,
                max_bps: wish.max_bps,
                controller: wish.controller.to_owned(),
            }),
            Viewing::Seen(seen) => {
                self.note(Heard::Seen { session: seen.session, frames: seen.frames().collect() });
            }
            // What senders say is not for us.
            Viewing::ClockTell { .. } | Viewing::Status(_) => {}
        }
    }

    /// At once, since what passes until then is part of the answer's error.
    fn tell_time(&self, asked: u64) {
        let now = self.clock.now().as_micros();
        let mut out = [0; Viewing::MAX_LEN];
        let length = Viewing::ClockTell { asked, heard: now, told: now }.encode(&mut out);
        // One that does not read its answers will ask again.
        let _ = self.say.try_send(out[..length].to_vec());
    }

    fn note(&self, heard: Heard) {
        let mut all = self.heard.lock().expect("nothing panics while it holds this");
        if all.len() == HEARD {
            all.pop_front();
        }
        all.push_back(heard);
        drop(all);
        self.waker.wake();
    }
}

async fn take_messages(
    connection: Arc<Connection>,
    mut messages: Messages<RecvStream>,
    inbox: Arc<Inbox>,
    ear: Ear,
) {
    let why = loop {
        let message = match messages.next().await {
            Ok(Message::Bye { text }) => break Ended::Bye(text.to_owned()),
            Ok(Message::Unknown(_)) => messages.last(),
            // A greeting said twice, and what only servers say.
            Ok(_) => continue,
            Err(ControlError::Ended) => break Ended::Bye(String::new()),
            Err(error @ ControlError::Broken(_)) => break malformed(&connection, &error.to_string()),
        };
        match Viewing::decode(message) {
            Ok(viewing) => viewing.iter().for_each(|viewing| ear.hear(viewing)),
            Err(error) => break malformed(&connection, &error.to_string()),
        }
    };
    inbox.end(why);
}

fn malformed(connection: &Connection, text: &str) -> Ended {
    connection.close(VarInt::from_u32(Refusal::Malformed as u32), text.as_bytes());
    Ended::Failed(text.to_owned())
}
