//! The sending end.

use std::io::Read;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::quic::{Congestion, Timing, Totals};
use quinn::{Connection, ConnectionError, Endpoint, RecvStream, SendStream};
use tokio::time::{sleep, timeout};
use units::Span;
use wire::{Message, Offer, Refusal, Role};

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
    /// Whom to believe.
    pub trust: Trust,
    /// The receiver's token.
    pub token: &'a Token,
    /// What the file is called; at most 255 bytes of it travel.
    pub name: &'a str,
    /// Congestion control.
    pub congestion: Arc<Congestion>,
    /// Datagrams of this size from the start (UDP payload); `None`: 1200 bytes, and whatever discovery finds the path to carry.
    pub mtu: Option<u16>,
    /// How long the receiver may take to answer.
    pub patience: Span,
}

/// How far an upload has got.
#[derive(Clone, Copy, Debug)]
pub struct Underway {
    /// Bytes handed to quinn.
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
    /// From the first byte handed over until the receiver had written the last.
    pub elapsed: Span,
    /// What the controller has seen.
    pub totals: Totals,
}

impl Uploaded {
    /// Bytes of the file over the time they took, in bit/s.
    pub fn goodput_bps(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Told how far it got, the caller says whether to go on.
type OnTick<'a> = &'a mut dyn FnMut(&Underway) -> ControlFlow<()>;

impl Upload<'_> {
    /// Connects, sends all that `from` has and waits until the receiver has written it.
    ///
    /// # Errors
    /// [`TransferError`], which says what is in the way.
    pub fn run(&self, from: &mut dyn Read, on_tick: OnTick<'_>) -> Result<Uploaded, TransferError> {
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
        mut messages: Messages<RecvStream>,
        from: &mut dyn Read,
        on_tick: OnTick<'_>,
    ) -> Result<Uploaded, TransferError> {
        let unknown = || self.broken(&"the connection is under another controller");
        let timing = Timing::of(connection.congestion_state()).ok_or_else(unknown)?;
        if self.congestion.is_timed() {
            tokio::spawn(probe(connection.clone(), timing.clone()));
            tokio::spawn(hear(connection.clone(), timing.clone()));
        }
        let mut stream = connection.open_uni().await.map_err(|error| self.broken(&error))?;
        let mut progress = Progress { start: Instant::now(), told: Instant::now(), timing, on_tick };
        let mut written = 0;
        let mut chunk = vec![0; CHUNK];
        loop {
            let filled = from.read(&mut chunk)?;
            if filled == 0 {
                break;
            }
            let mut rest = &chunk[..filled];
            while !rest.is_empty() {
                match timeout(TICK, stream.write(rest)).await {
                    Ok(Ok(count)) => (rest, written) = (&rest[count..], written + count as u64),
                    Ok(Err(error)) => return Err(self.why(connection, &error)),
                    Err(_) => {}
                }
                progress.tell(written)?;
            }
        }
        stream.finish().map_err(|error| self.broken(&error))?;
        self.wait(connection, &mut messages, &mut progress, written).await?;
        let elapsed = progress.elapsed();
        Ok(Uploaded { bytes: written, elapsed, totals: progress.timing.totals() })
    }

    /// Waits until the receiver says that all is written.
    async fn wait(
        &self,
        connection: &Connection,
        messages: &mut Messages<RecvStream>,
        progress: &mut Progress<'_>,
        written: u64,
    ) -> Result<(), TransferError> {
        let mut end = std::pin::pin!(messages.next());
        loop {
            match timeout(TICK, end.as_mut()).await {
                Ok(Ok(Message::Bye { .. })) => return Ok(()),
                Ok(Ok(Message::Refused { why, text })) => {
                    return Err(self.refused(why, text));
                }
                Ok(Ok(other)) => return Err(self.broken(&format!("the receiver ended with {other:?}"))),
                Ok(Err(error)) => return Err(self.why(connection, &error)),
                Err(_) => progress.tell(written)?,
            }
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
            Some(reason) => self.broken(&reason),
            None => self.broken(error),
        }
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
