//! The receiving end: listens, and writes what comes into a [`Store`].

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::quic::Echoes;
use quinn::{Connection, EndpointConfig, RecvStream, SendStream, VarInt};
use record::{Event, NodeId, Shared};
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use tokio::time::timeout;
use tracing::{Instrument, info, warn};
use units::Span;
use wire::{Message, Offer, Refusal};

use super::store::{Denied, Partial};
use super::{ALPN, Store, TICK, TransferError, expect_a_file, transport};
use crate::quic::{
    AdmissionWatch, Credentials, Gate, Identity, Limits, Listener, ListenerConfig, Newcomer, QuicError,
    Runtime, Token, write,
};
use crate::{Clock, Ended, RealError};

/// How long a sender's end may take to acknowledge our last words.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Threads: quinn's, and those that wait for a disk meanwhile.
const THREADS: usize = 3;

/// Takes files, of several senders at a time: the end of a transfer that listens.
pub struct FileReceiver {
    listener: Listener,
    clock: Clock,
    log: Option<Shared>,
    // Last: what is above runs on it.
    runtime: Runtime,
}

/// A file that has arrived whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// Who sent it.
    pub peer: SocketAddr,
    /// What the sender calls it.
    pub name: String,
    /// Bytes of the whole file.
    pub bytes: u64,
    /// Of those, what was here already, from an earlier attempt.
    pub resumed: u64,
    /// From the first byte of this attempt to the last.
    pub elapsed: Span,
}

/// What a receiver of files reports while it [runs](FileReceiver::run).
#[derive(Debug)]
pub enum News {
    /// Time passes: so many bytes have come so far, of all files.
    Underway(u64),
    /// A file is whole.
    Received(Received),
    /// A file is not, for now; what has come of it is kept.
    Lost(TransferError),
}

impl FileReceiver {
    /// What a receiver does for its peers by default: four senders at a time.
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
    ) -> Result<FileReceiver, TransferError> {
        let runtime =
            Runtime::new(THREADS).map_err(|source| QuicError::from(RealError::new(listen, source)))?;
        let (gate, clock) = (Gate::new(token, true, false), Clock::shared());
        let (transport, endpoint) = (Arc::new(transport()), EndpointConfig::default());
        let what = ListenerConfig { listen, alpn: ALPN, transport, endpoint, gate, limits, clock };
        let listener = Listener::open(&runtime, identity, what)?;
        Ok(FileReceiver { listener, clock, log: None, runtime })
    }

    /// What arrives when is recorded by `log`; each connection is a node.
    pub fn recorded(mut self, log: Option<Shared>) -> FileReceiver {
        self.log = log;
        self
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Where the system can't tell.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.endpoint.local_addr()
    }

    /// To ask from elsewhere what admission control does.
    pub fn watch(&self) -> AdmissionWatch {
        self.listener.watch()
    }

    /// What newcomers are shown, to be replaced when it is renewed.
    pub fn credentials(&self) -> Credentials {
        self.listener.credentials.clone()
    }

    /// Takes the files of all who know the token into `store`, until `on_news` ends it. A sender that is
    /// sending then is told.
    pub fn run(&mut self, limit: u64, store: &Store, on_news: &mut dyn FnMut(News) -> ControlFlow<()>) {
        let FileReceiver { listener, clock, log, runtime } = self;
        let (tell, mut told) = mpsc::unbounded_channel();
        let (came, mut connections) = (Arc::new(AtomicU64::new(0)), 0u16);
        runtime.handle().block_on(async {
            loop {
                let newcomer = timeout(TICK, listener.next()).await;
                let ended = std::iter::from_fn(|| told.try_recv().ok());
                let mut news = ended.chain([News::Underway(came.load(Ordering::Relaxed))]);
                if news.any(|news| on_news(news).is_break()) {
                    return;
                }
                let newcomer = match newcomer {
                    Ok(Some(newcomer)) => newcomer,
                    Ok(None) => return,
                    Err(_) => continue,
                };
                let span = newcomer.span.clone();
                let reception = Reception {
                    clock: *clock,
                    limit,
                    came: came.clone(),
                    log: log.clone(),
                    connection: connections,
                };
                connections = connections.wrapping_add(1);
                let (store, tell) = (store.clone(), tell.clone());
                let task = async move {
                    let news = reception.take(newcomer, &store).await.map_or_else(News::Lost, News::Received);
                    // A receiver that has ended does not listen.
                    let _ = tell.send(news);
                };
                tokio::spawn(task.instrument(span));
            }
        });
    }
}

/// How one file is taken.
struct Reception {
    clock: Clock,
    limit: u64,
    /// Bytes that have come, of all files.
    came: Arc<AtomicU64>,
    log: Option<Shared>,
    connection: u16,
}

impl Reception {
    async fn take(self, newcomer: Newcomer, store: &Store) -> Result<Received, TransferError> {
        let Newcomer { request, connection, mut control, pass, .. } = newcomer;
        let peer = connection.remote_address();
        let outcome = self.file(&request.name, &connection, &mut control, store).await;
        let (code, text) = match &outcome {
            Ok(_) => (0, String::new()),
            Err(Failed::Denied(denied)) => (denied.why as u32, denied.text.clone()),
            // It knows.
            Err(Failed::Broken(_)) => (Refusal::Other as u32, "the connection broke".to_owned()),
        };
        let last = match &outcome {
            Ok(_) => Message::Bye { text: "" },
            Err(Failed::Denied(denied)) => Message::Refused { why: denied.why, text: &denied.text },
            Err(Failed::Broken(_)) => Message::Refused { why: Refusal::Other, text: &text },
        };
        // A sender that is gone need not be told.
        if write(&mut control, &last).await.is_ok() {
            part(&mut control).await;
        }
        connection.close(VarInt::from_u32(code), text.as_bytes());
        let outcome = outcome.map_err(|failed| match failed {
            Failed::Denied(Denied { text, .. }) => {
                TransferError::Denied { peer, name: request.name.clone(), text }
            }
            Failed::Broken(text) => TransferError::Broken { peer, text },
        });
        pass.admission().tally.end(&match &outcome {
            Ok(_) => Ended::Bye(String::new()),
            Err(error) => Ended::Failed(error.to_string()),
        });
        let (bytes, resumed, elapsed) =
            outcome.inspect_err(|error| warn!("the file is not whole: {error}"))?;
        info!(bytes, resumed, name = ?request.name, "the file is whole");
        Ok(Received { peer, name: request.name, bytes, resumed, elapsed })
    }

    /// Its bytes, those that were here before, and how long the others took.
    async fn file(
        &self,
        name: &str,
        connection: &Connection,
        control: &mut SendStream,
        store: &Store,
    ) -> Result<(u64, u64, Span), Failed> {
        let gone = |_| Failed::Broken("the sender is gone".to_owned());
        let mut partial = block_in_place(|| store.open(name))?;
        expect_a_file(connection);
        write(control, &Message::ready(Offer::default())).await.map_err(gone)?;
        tokio::spawn(echo(connection.clone(), self.clock));
        let (bytes, digest) = block_in_place(|| partial.have())?;
        write(control, &Message::Have { bytes, digest }).await.map_err(gone)?;
        let mut stream = connection.accept_uni().await.map_err(broken)?;
        let mut offset = [0; size_of::<u64>()];
        stream.read_exact(&mut offset).await.map_err(broken)?;
        let resumed = u64::from_be_bytes(offset);
        if resumed > bytes {
            return Err(Failed::Broken(format!("it goes on at byte {resumed}, and {bytes} are here")));
        }
        partial.begin(resumed)?;
        let start = Instant::now();
        let whole = match self.receive(&mut stream, &mut partial, resumed).await {
            Ok(bytes) => bytes,
            Err(failed) => {
                if matches!(&failed, Failed::Denied(Denied { why: Refusal::TooLong, .. })) {
                    partial.discard();
                }
                return Err(failed);
            }
        };
        block_in_place(|| partial.finish())?;
        Ok((whole, resumed, Span::from_secs_f64(start.elapsed().as_secs_f64())))
    }

    /// Writes the stream's bytes to `partial`, of which there are `have` already; returns how many there are
    /// then.
    async fn receive(
        &self,
        stream: &mut RecvStream,
        partial: &mut Partial,
        have: u64,
    ) -> Result<u64, Failed> {
        let mut bytes = have;
        while let Some(chunk) = stream.read_chunk(usize::MAX, true).await.map_err(broken)? {
            let length = chunk.bytes.len() as u64;
            self.record(stream, chunk.offset, length);
            bytes += length;
            if bytes > self.limit {
                let text = format!("files of more than {} bytes are not taken here", self.limit);
                return Err(Denied { why: Refusal::TooLong, text }.into());
            }
            partial.write(&chunk.bytes)?;
            self.came.fetch_add(length, Ordering::Relaxed);
        }
        Ok(bytes)
    }

    fn record(&self, stream: &RecvStream, offset: u64, length: u64) {
        let Some(log) = &self.log else { return };
        let event = Event::StreamDataMoved {
            stream: VarInt::from(stream.id()).into_inner(),
            offset,
            length: length.min(u64::from(u32::MAX)) as u32,
        };
        log.record(self.clock.now(), NodeId(self.connection), &event);
    }
}

/// Why a file is not whole.
enum Failed {
    /// We don't take it.
    Denied(Denied),
    /// It stopped coming.
    Broken(String),
}

impl From<Denied> for Failed {
    fn from(denied: Denied) -> Failed {
        Failed::Denied(denied)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Denied(error.into())
    }
}

fn broken(error: impl std::fmt::Display) -> Failed {
    Failed::Broken(error.to_string())
}

impl Drop for FileReceiver {
    fn drop(&mut self) {
        self.listener.endpoint.close(0u32.into(), b"the receiver ends");
    }
}

/// Lets the last message arrive before the connection is closed.
async fn part(control: &mut SendStream) {
    if control.finish().is_ok() {
        let _ = timeout(LAST_WORDS, control.stopped()).await;
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
