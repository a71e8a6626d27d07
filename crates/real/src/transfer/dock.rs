//! The receiving end.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::quic::Echoes;
use quinn::{Connection, EndpointConfig, RecvStream, SendStream};
use tokio::time::timeout;
use tracing::{Instrument, info, warn};
use units::Span;
use wire::{Message, Offer, Refusal};

use super::{ALPN, TICK, TransferError, expect_a_file, transport};
use crate::quic::{
    Credentials, DoorWatch, Gate, Hall, Identity, Limits, Listening, Newcomer, QuicError, Runtime, Token,
    write,
};
use crate::{Clock, Ended, RealError};

/// How long a sender's end may take to acknowledge our last words.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Takes files, one at a time.
pub struct Dock {
    hall: Hall,
    clock: Clock,
    // Last: what is above runs on it.
    runtime: Runtime,
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

impl Dock {
    /// What a dock does for its peers by default: the sender whose file is taken and three that wait.
    pub fn limits() -> Limits {
        Limits { guests: 4, ..Limits::default() }
    }

    /// Listens at `listen` as `identity`, for those who know `token`.
    ///
    /// # Errors
    /// [`TransferError`] if the address can't be had, or the identity is of no use.
    pub fn open(
        listen: SocketAddr,
        identity: &Identity,
        token: Token,
        limits: Limits,
    ) -> Result<Dock, TransferError> {
        let runtime = Runtime::new(2).map_err(|source| QuicError::from(RealError::new(listen, source)))?;
        let (gate, clock) = (Gate::new(token, true, false), Clock::shared());
        let (transport, endpoint) = (Arc::new(transport()), EndpointConfig::default());
        let what = Listening { listen, alpn: ALPN, transport, endpoint, gate, limits, clock };
        let hall = Hall::open(&runtime, identity, what)?;
        Ok(Dock { hall, clock, runtime })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Where the system can't tell.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.hall.endpoint.local_addr()
    }

    /// To ask what goes on at the door from elsewhere.
    pub fn watch(&self) -> DoorWatch {
        self.hall.watch()
    }

    /// What newcomers are shown, to be replaced when it is renewed.
    pub fn credentials(&self) -> Credentials {
        self.hall.credentials.clone()
    }

    /// Waits for the next file of somebody who knows the token and writes it where `open` says; `None` if `on_tick` ends the
    /// waiting.
    ///
    /// # Errors
    /// [`TransferError`] if the sender is lost, sends more than `limit` bytes, or the file can't be written.
    pub fn take(
        &mut self,
        limit: u64,
        open: Open<'_>,
        on_tick: OnTick<'_>,
    ) -> Result<Option<Landed>, TransferError> {
        let Dock { hall, clock, runtime } = self;
        runtime.handle().block_on(async {
            let Some(newcomer) = wait(hall, on_tick).await else { return Ok(None) };
            let log = newcomer.span.clone();
            land(newcomer, *clock, limit, open, on_tick).instrument(log).await.map(Some)
        })
    }
}

/// Waits for somebody who knows the token.
async fn wait(hall: &mut Hall, on_tick: OnTick<'_>) -> Option<Newcomer> {
    loop {
        if on_tick(0).is_break() {
            return None;
        }
        if let Ok(newcomer) = timeout(TICK, hall.next()).await {
            return newcomer;
        }
    }
}

async fn land(
    newcomer: Newcomer,
    clock: Clock,
    limit: u64,
    open: Open<'_>,
    on_tick: OnTick<'_>,
) -> Result<Landed, TransferError> {
    let Newcomer { request, connection, mut control, pass, .. } = newcomer;
    let peer = connection.remote_address();
    let gone = |_| TransferError::Broken { peer, text: "the sender is gone".to_owned() };
    expect_a_file(&connection);
    write(&mut control, &Message::ready(Offer::default())).await.map_err(gone)?;
    tokio::spawn(echo(connection.clone(), clock));
    let outcome = match open(&request.name) {
        Ok(mut sink) => {
            let outcome = receive(&connection, &mut *sink, limit, on_tick).await;
            outcome.and_then(|seen| sink.flush().map(|()| seen).map_err(TransferError::from))
        }
        Err(error) => Err(TransferError::from(error)),
    };
    let last = match &outcome {
        Ok(_) => Message::Bye { text: "" },
        Err(_) => Message::Refused { why: Refusal::Other, text: "the receiver gave up" },
    };
    // A sender that is gone need not be told.
    if write(&mut control, &last).await.is_ok() {
        part(&mut control).await;
    }
    connection.close(0u32.into(), b"");
    pass.doorman().tally.end(&match &outcome {
        Ok(_) => Ended::Bye(String::new()),
        Err(error) => Ended::Failed(error.to_string()),
    });
    let (bytes, elapsed) = outcome.inspect_err(|error| warn!("the file was lost: {error}"))?;
    info!(bytes, name = ?request.name, "the file is whole");
    Ok(Landed { peer, name: request.name, bytes, elapsed })
}

impl Drop for Dock {
    fn drop(&mut self) {
        self.hall.endpoint.close(0u32.into(), b"the receiver ends");
    }
}

/// Lets the last message arrive before the connection is closed.
async fn part(control: &mut SendStream) {
    if control.finish().is_ok() {
        let _ = timeout(LAST_WORDS, control.stopped()).await;
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
