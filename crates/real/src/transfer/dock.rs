//! The receiving end.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::quic::Echoes;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connection, Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, TokioRuntime,
};
use tokio::time::timeout;
use units::Span;
use wire::{Message, Offer, Refusal};

use super::{ALPN, TICK, TransferError, transport};
use crate::quic::{Gate, Identity, IdentityError, Messages, Request, Runtime, Token, write};
use crate::{Clock, RealError, socket};

/// A newcomer says what for within this, as at the door of a media server ([`crate::quic::Limits::open_within`]).
const OPEN_WITHIN: Duration = Duration::from_secs(3);
/// Connections that wait while a file is taken; others are refused.
const WAITING: usize = 4;

/// Takes files, one at a time.
pub struct Dock {
    runtime: Runtime,
    endpoint: Endpoint,
    gate: Gate,
    clock: Clock,
}

/// A file that has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Landed {
    /// Who sent it.
    pub peer: SocketAddr,
    /// What the sender calls it.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// From the first byte to the last.
    pub elapsed: Span,
}

/// Makes a place for a file by its name.
type Open<'a> = &'a mut dyn FnMut(&str) -> io::Result<Box<dyn Write>>;

/// Told how many bytes have come, the caller says whether to go on.
type OnTick<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Somebody with the token.
struct Visit {
    connection: Connection,
    request: Request,
    control: SendStream,
}

impl Dock {
    /// Listens at `listen` as `identity`, for those who know `token`.
    ///
    /// # Errors
    /// [`TransferError`] if the address can't be had, or the identity is of no use.
    pub fn open(listen: SocketAddr, identity: &Identity, token: Token) -> Result<Dock, TransferError> {
        let tls = identity.server_tls(&[ALPN])?;
        let crypto =
            QuicServerConfig::try_from(tls).map_err(|error| IdentityError::Unusable(error.to_string()))?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport())).max_incoming(WAITING);
        let wrong = |source| RealError::new(listen, source);
        let runtime = Runtime::new(2).map_err(wrong)?;
        let socket = socket::bind(listen).map_err(wrong)?;
        let endpoint = {
            let _inside = runtime.handle().enter();
            let quinn = Arc::new(TokioRuntime);
            Endpoint::new(EndpointConfig::default(), Some(config), socket, quinn).map_err(wrong)?
        };
        Ok(Dock { runtime, endpoint, gate: Gate::new(token, true, false), clock: Clock::shared() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Where the system can't tell.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Waits for the next file of somebody who knows the token and writes it where `open` says; `None` if `on_tick` ends the
    /// waiting.
    ///
    /// # Errors
    /// [`TransferError`] if the sender is lost, sends more than `limit` bytes, or the file can't be written.
    pub fn take(
        &self,
        limit: u64,
        open: Open<'_>,
        on_tick: OnTick<'_>,
    ) -> Result<Option<Landed>, TransferError> {
        self.runtime.handle().block_on(async {
            let Some(visit) = self.wait(on_tick).await else { return Ok(None) };
            self.land(visit, limit, open, on_tick).await.map(Some)
        })
    }

    /// Waits for somebody who knows the token.
    async fn wait(&self, on_tick: OnTick<'_>) -> Option<Visit> {
        loop {
            if on_tick(0).is_break() {
                return None;
            }
            let Ok(incoming) = timeout(TICK, self.endpoint.accept()).await else { continue };
            // Whoever is slow or wrong is turned away; the next may do better.
            if let Ok(Some(visit)) = timeout(2 * OPEN_WITHIN, self.meet(incoming?)).await {
                return Some(visit);
            }
        }
    }

    async fn meet(&self, incoming: Incoming) -> Option<Visit> {
        let connection = incoming.await.ok()?;
        let (mut control, receive) = connection.accept_bi().await.ok()?;
        let mut messages = Messages::new(receive);
        let judged = self.gate.greet(&mut messages, OPEN_WITHIN).await;
        let answer = match &judged {
            Ok(_) => Message::ready(Offer::default()),
            Err((why, text)) => Message::Refused { why: *why, text },
        };
        write(&mut control, &answer).await.ok()?;
        match judged {
            Ok(request) => Some(Visit { connection, request, control }),
            Err((why, text)) => {
                part(&mut control).await;
                connection.close((why as u32).into(), text.as_bytes());
                None
            }
        }
    }

    async fn land(
        &self,
        visit: Visit,
        limit: u64,
        open: Open<'_>,
        on_tick: OnTick<'_>,
    ) -> Result<Landed, TransferError> {
        let Visit { connection, request, mut control } = visit;
        tokio::spawn(echo(connection.clone(), self.clock));
        let peer = connection.remote_address();
        let mut sink = open(&request.name)?;
        let outcome = receive(&connection, &mut *sink, limit, on_tick).await;
        let outcome = outcome.and_then(|seen| sink.flush().map(|()| seen).map_err(TransferError::from));
        let last = match &outcome {
            Ok(_) => Message::Bye { text: "" },
            Err(_) => Message::Refused { why: Refusal::Other, text: "the receiver gave up" },
        };
        // A sender that is gone need not be told.
        if write(&mut control, &last).await.is_ok() {
            part(&mut control).await;
        }
        connection.close(0u32.into(), b"");
        let (bytes, elapsed) = outcome?;
        Ok(Landed { peer, name: request.name, bytes, elapsed })
    }
}

impl Drop for Dock {
    fn drop(&mut self) {
        self.endpoint.close(0u32.into(), b"the receiver ends");
    }
}

/// Lets the last message arrive before the connection is closed.
async fn part(control: &mut SendStream) {
    if control.finish().is_ok() {
        let _ = timeout(OPEN_WITHIN, control.stopped()).await;
    }
}

/// Writes the stream's bytes to `sink`; returns their number and how long they took.
async fn receive(
    connection: &Connection,
    sink: &mut dyn Write,
    limit: u64,
    on_tick: OnTick<'_>,
) -> Result<(u64, Span), TransferError> {
    let peer = connection.remote_address();
    let broken = |error: &dyn std::fmt::Display| TransferError::Broken { peer, text: error.to_string() };
    let mut stream: RecvStream = connection.accept_uni().await.map_err(|error| broken(&error))?;
    let (start, mut told) = (Instant::now(), Instant::now());
    let mut bytes = 0;
    loop {
        match timeout(TICK, stream.read_chunk(usize::MAX, true)).await {
            Ok(Ok(Some(chunk))) => {
                bytes += chunk.bytes.len() as u64;
                if bytes > limit {
                    return Err(TransferError::TooLong { peer, limit });
                }
                sink.write_all(&chunk.bytes)?;
            }
            Ok(Ok(None)) => return Ok((bytes, Span::from_secs_f64(start.elapsed().as_secs_f64()))),
            Ok(Err(error)) => return Err(broken(&error)),
            Err(_) => {}
        }
        if told.elapsed() >= TICK {
            told = Instant::now();
            if on_tick(bytes).is_break() {
                return Err(TransferError::Interrupted);
            }
        }
    }
}

/// Answers probes for as long as the connection lasts.
async fn echo(connection: Connection, clock: Clock) {
    let mut echoes = Echoes::default();
    while let Ok(datagram) = connection.read_datagram().await {
        if let Some(answer) = echoes.answer(clock.now().on_wire(), &datagram) {
            // A sender that takes no datagrams asked in vain.
            let _ = connection.send_datagram(answer);
        }
    }
}
