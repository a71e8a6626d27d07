//! The sending end.

use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::quic::{Congestion, Timing, Totals};
use quinn::{Connection, ConnectionError, Endpoint, RecvStream, SendStream, VarInt};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use units::Span;
use wire::{Message, Offer, Refusal, Role};

use super::store::{Digest, digest_of};
use super::{ALPN, CHUNK, IDLE, TICK, TransferError, transport};
use crate::RealError;
use crate::channel::Ended;
use crate::quic::{Messages, QuicError, Runtime, Token, Trust, client_config, ended, endpoint_for, write};

/// How often it is asked whether a probe is due; tokio's clock is no finer.
const PROBING: Duration = Duration::from_millis(1);

/// How long the end of a connection is repeated, should the peer not have heard it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A file to be sent.
pub struct Upload<'a> {
    /// The receiver's address.
    pub peer: SocketAddr,
    /// Its name, which its certificate must be for unless it is pinned.
    pub host: &'a str,
    /// Which certificate it must show.
    pub trust: Trust,
    /// The receiver's token.
    pub token: &'a Token,
    /// What the file is called; at most 255 bytes of it travel.
    pub name: &'a str,
    /// The controller that the connection sends under.
    pub congestion: Arc<Congestion>,
    /// Datagrams of this size from the start (UDP payload); `None`: 1200 bytes, and whatever discovery finds
    /// the path to carry.
    pub mtu: Option<u16>,
    /// How long the receiver may take to answer.
    pub patience: Span,
}

/// How far an upload has got.
#[derive(Clone, Copy, Debug)]
pub struct Underway {
    /// Bytes handed to quinn, and those that the receiver had before.
    pub written: u64,
    /// Since the first of them.
    pub elapsed: Span,
    /// What the controller has seen.
    pub totals: Totals,
}

/// An upload that is complete.
#[derive(Clone, Copy, Debug)]
pub struct Uploaded {
    /// Bytes of the file.
    pub bytes: u64,
    /// Of those, what the receiver had already, from an earlier attempt.
    pub resumed: u64,
    /// From the first byte handed over until the receiver had written the last.
    pub elapsed: Span,
    /// What the controller has seen.
    pub totals: Totals,
}

impl Uploaded {
    /// Bytes sent over the time they took, in bit/s.
    pub fn goodput_bps(&self) -> f64 {
        (self.bytes - self.resumed) as f64 * 8.0 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// What is sent. It is read from its start where the receiver has some of it, or has what is not of this
/// file.
pub trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

/// Told how far it got, the caller says whether to go on.
type OnTick<'a> = &'a mut dyn FnMut(&Underway) -> ControlFlow<()>;

impl Upload<'_> {
    /// Connects, sends all that `from` has and waits until the receiver has written it.
    ///
    /// # Errors
    /// [`TransferError`], which says what is in the way.
    pub fn run(&self, from: &mut dyn Source, on_tick: OnTick<'_>) -> Result<Uploaded, TransferError> {
        let runtime = Runtime::new(2).map_err(|source| QuicError::from(RealError::new(self.peer, source)))?;
        let endpoint = {
            let _inside = runtime.handle().enter();
            endpoint_for(self.peer).map_err(QuicError::from)?
        };
        runtime.handle().block_on(async {
            let (connection, control, messages) = self.connect(&endpoint).await?;
            let outcome = self.send(&connection, control, messages, from, on_tick).await;
            connection.close(0u32.into(), b"");
            // The other end should hear that it is over.
            let _ = timeout(LAST_WORDS, endpoint.wait_idle()).await;
            outcome
        })
    }

    async fn connect(
        &self,
        endpoint: &Endpoint,
    ) -> Result<(Connection, SendStream, Messages<RecvStream>), TransferError> {
        let (mut config, verdict) = client_config(&self.trust, ALPN).map_err(QuicError::from)?;
        let mut transport = transport();
        transport.congestion_controller_factory(self.congestion.clone());
        if let Some(mtu) = self.mtu {
            transport.initial_mtu(mtu).mtu_discovery_config(None);
        }
        config.transport_config(Arc::new(transport));
        let connecting = endpoint.connect_with(config, self.peer, self.host).map_err(|e| self.broken(&e))?;
        let patience = Duration::from_nanos(self.patience.as_nanos().max(0) as u64);
        let made = timeout(patience, async {
            let connection = connecting.await.map_err(|error| match verdict.get() {
                Some(distrust) => QuicError::Distrusted { peer: self.peer, distrust }.into(),
                None => self.of_end(error),
            })?;
            let (control, messages) = self.greet(&connection).await?;
            Ok((connection, control, messages))
        });
        made.await.unwrap_or(Err(QuicError::Silent { peer: self.peer, waited: self.patience }.into()))
    }

    async fn greet(
        &self,
        connection: &Connection,
    ) -> Result<(SendStream, Messages<RecvStream>), TransferError> {
        let (mut control, answers) = connection.open_bi().await.map_err(|error| self.broken(&error))?;
        let most = (0..=self.name.len().min(255)).rev().find(|&at| self.name.is_char_boundary(at));
        let name = &self.name[..most.unwrap_or(0)];
        let open = Message::open(Role::Publish, self.token.secret(), name, Offer::default());
        // A stream that ends is the end of the connection, which has a reason of its own.
        let written = write(&mut control, &open).await.is_ok();
        let mut messages = Messages::new(answers);
        match messages.next().await {
            Ok(Message::Ready { .. }) if written => {}
            Ok(Message::Refused { why, text }) => {
                return Err(self.refused(why, text));
            }
            Ok(other) => return Err(self.broken(&format!("the receiver answered with {other:?}"))),
            Err(_) => return Err(self.of_end(connection.closed().await)),
        }
        Ok((control, messages))
    }

    async fn send(
        &self,
        connection: &Connection,
        _control: SendStream,
        messages: Messages<RecvStream>,
        from: &mut dyn Source,
        on_tick: OnTick<'_>,
    ) -> Result<Uploaded, TransferError> {
        let unknown = || self.broken(&"the connection is under another controller");
        let timing = Timing::of(connection.congestion_state()).ok_or_else(unknown)?;
        if self.congestion.is_timed() {
            tokio::spawn(probe(connection.clone(), timing.clone()));
            tokio::spawn(hear(connection.clone(), timing.clone()));
        }
        let (resumed, messages) = self.agree(connection, messages, from).await?;
        // While bytes go one way, the reason not to send any more comes the other.
        let mut verdict = tokio::spawn(verdict(messages));
        let mut stream = Unfinished(connection.open_uni().await.map_err(|error| self.broken(&error))?);
        let mut progress = Progress { start: Instant::now(), told: Instant::now(), timing, on_tick };
        let mut written = resumed;
        stream.0.write_all(&resumed.to_be_bytes()).await.map_err(|error| self.why(connection, &error))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let filled = from.read(&mut chunk)?;
            if filled == 0 {
                break;
            }
            let mut rest = &chunk[..filled];
            while !rest.is_empty() {
                if verdict.is_finished() {
                    return Err(self.early(connection, verdict.await.ok()));
                }
                match timeout(TICK, stream.0.write(rest)).await {
                    Ok(Ok(count)) => (rest, written) = (&rest[count..], written + count as u64),
                    Ok(Err(error)) => return Err(self.stopped(connection, &mut verdict, &error).await),
                    Err(_) => {}
                }
                progress.tell(written)?;
            }
        }
        stream.0.finish().map_err(|error| self.broken(&error))?;
        loop {
            match timeout(TICK, &mut verdict).await {
                Ok(Ok(Verdict::Whole)) => break,
                Ok(over) => return Err(self.early(connection, over.ok())),
                Err(_) => progress.tell(written)?,
            }
        }
        let elapsed = progress.elapsed();
        Ok(Uploaded { bytes: written, resumed, elapsed, totals: progress.timing.totals() })
    }

    /// Hears what the receiver has of the file, and goes there in `from` if that is how `from` begins; else
    /// to the start.
    async fn agree(
        &self,
        connection: &Connection,
        mut messages: Messages<RecvStream>,
        from: &mut dyn Source,
    ) -> Result<(u64, Messages<RecvStream>), TransferError> {
        let (bytes, digest): (u64, Digest) = match messages.next().await {
            Ok(Message::Have { bytes, digest }) => (bytes, digest),
            Ok(Message::Refused { why, text }) => return Err(self.refused(why, text)),
            Ok(other) => return Err(self.broken(&format!("the receiver answered with {other:?}"))),
            Err(error) => return Err(self.why(connection, &error)),
        };
        if bytes == 0 {
            return Ok((0, messages));
        }
        if digest_of(&mut (&mut *from).take(bytes))? == (bytes, digest) {
            return Ok((bytes, messages));
        }
        from.seek(SeekFrom::Start(0))?;
        Ok((0, messages))
    }

    /// Why sending ended before all was sent.
    fn early(&self, connection: &Connection, verdict: Option<Verdict>) -> TransferError {
        match verdict {
            Some(Verdict::Refused(why, text)) => self.refused(why, &text),
            Some(Verdict::Whole) => self.broken(&"the receiver has all of it before it was sent"),
            Some(Verdict::Gone(text)) => self.why(connection, &text),
            None => self.why(connection, &"the connection broke"),
        }
    }

    /// The stream takes no more: the control stream says why, in a moment.
    async fn stopped(
        &self,
        connection: &Connection,
        verdict: &mut JoinHandle<Verdict>,
        error: &dyn std::fmt::Display,
    ) -> TransferError {
        match timeout(LAST_WORDS, verdict).await {
            Ok(over) => self.early(connection, over.ok()),
            Err(_) => self.why(connection, error),
        }
    }

    fn of_end(&self, error: ConnectionError) -> TransferError {
        match ended(error, IDLE) {
            Ended::Refused(why, text) => self.refused(why, &text),
            other => self.broken(&other),
        }
    }

    fn refused(&self, why: Refusal, text: &str) -> TransferError {
        QuicError::Refused { peer: self.peer, why, text: text.to_owned() }.into()
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> TransferError {
        TransferError::Broken { peer: self.peer, text: error.to_string() }
    }

    /// What became of the connection says more than what became of a stream.
    fn why(&self, connection: &Connection, error: &dyn std::fmt::Display) -> TransferError {
        match connection.close_reason() {
            Some(reason) => self.of_end(reason),
            None => self.broken(error),
        }
    }
}

/// A stream that breaks off where it is dropped: quinn would end it in good order, and half a file would be
/// taken for a whole one.
struct Unfinished(SendStream);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // One whose end the receiver has acknowledged is closed.
        let _ = self.0.reset(VarInt::from_u32(Refusal::Other as u32));
    }
}

/// How a file ended, in the receiver's words.
enum Verdict {
    /// It is whole.
    Whole,
    /// It is not taken.
    Refused(Refusal, String),
    /// The receiver says nothing more.
    Gone(String),
}

/// Waits for the receiver's last message.
async fn verdict(mut messages: Messages<RecvStream>) -> Verdict {
    match messages.next().await {
        Ok(Message::Bye { .. }) => Verdict::Whole,
        Ok(Message::Refused { why, text }) => Verdict::Refused(why, text.to_owned()),
        Ok(other) => Verdict::Gone(format!("the receiver ended with {other:?}")),
        Err(error) => Verdict::Gone(error.to_string()),
    }
}

/// Tells the caller how far it got.
struct Progress<'a> {
    start: Instant,
    told: Instant,
    timing: Timing,
    on_tick: OnTick<'a>,
}

impl Progress<'_> {
    fn elapsed(&self) -> Span {
        Span::from_secs_f64(self.start.elapsed().as_secs_f64())
    }

    fn tell(&mut self, written: u64) -> Result<(), TransferError> {
        if self.told.elapsed() < TICK {
            return Ok(());
        }
        self.told = Instant::now();
        let underway = Underway { written, elapsed: self.elapsed(), totals: self.timing.totals() };
        if (self.on_tick)(&underway).is_break() { Err(TransferError::Interrupted) } else { Ok(()) }
    }
}

/// Sends a probe whenever one is due, for as long as the connection lasts.
async fn probe(connection: Connection, timing: Timing) {
    while connection.close_reason().is_none() {
        if let Some(datagram) = timing.probe(Instant::now()) {
            // A peer that takes no datagrams is not timed.
            let _ = connection.send_datagram(datagram);
        }
        sleep(PROBING).await;
    }
}

/// Takes echoes for as long as the connection lasts.
async fn hear(connection: Connection, timing: Timing) {
    while let Ok(datagram) = connection.read_datagram().await {
        timing.echo(Instant::now(), &datagram);
    }
}
