//! Listening, for any protocol of ours over QUIC: who is let in, and how many.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connection, Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{Instrument, Span as LogSpan, error_span, info};
use units::Span;
use wire::{Message, Refusal};

use super::admission::{Admission, Occupancy, Pass, Reason, Verdict};
use super::control::{Gate, Messages, Request, write};
use super::credentials::Credentials;
use super::error::BUSY;
use super::identity::{Identity, IdentityError};
use super::limits::{Limits, duration};
use super::tally::AdmissionCounters;
use super::{QuicError, Runtime};
use crate::channel::plain;
use crate::{Clock, RealError, socket};

/// What a [`Listener`] listens for, and on what terms.
pub(crate) struct ListenerConfig {
    pub listen: SocketAddr,
    pub alpn: &'static [u8],
    pub transport: Arc<TransportConfig>,
    pub endpoint: EndpointConfig,
    pub gate: Gate,
    pub limits: Limits,
    pub clock: Clock,
}

/// Listens, and hands over the connections that have shown the token.
pub(crate) struct Listener {
    pub endpoint: Endpoint,
    pub credentials: Credentials,
    admitted: mpsc::Receiver<Newcomer>,
    admission: Arc<Admission>,
}

/// Somebody who has shown the token and waits for an answer.
pub(crate) struct Newcomer {
    pub request: Request,
    pub connection: Connection,
    pub control: SendStream,
    pub messages: Messages<RecvStream>,
    pub pass: Pass,
    /// What the log knows the connection by.
    pub span: LogSpan,
}

impl Listener {
    /// Listens from now on.
    pub fn open(runtime: &Runtime, identity: &Identity, what: ListenerConfig) -> Result<Listener, QuicError> {
        let ListenerConfig { listen, alpn, transport, endpoint, gate, limits, clock } = what;
        let credentials = Credentials::new(identity)?;
        let config = config(&credentials, alpn, transport, &limits)?;
        let wrong = |source| RealError::new(listen, source);
        let socket = socket::bind(listen).map_err(wrong)?;
        let _inside = runtime.handle().enter();
        let endpoint =
            Endpoint::new(endpoint, Some(config), socket, Arc::new(TokioRuntime)).map_err(wrong)?;
        let (sender, admitted) = mpsc::channel(limits.guests.max(1));
        let admission = Arc::new(Admission::new(limits));
        let acceptor = Acceptor {
            endpoint: endpoint.clone(),
            gate,
            clock,
            admission: admission.clone(),
            admitted: sender,
            met: AtomicU64::new(0),
            runtime: runtime.handle().clone(),
        };
        runtime.handle().spawn(Arc::new(acceptor).run());
        Ok(Listener { endpoint, credentials, admitted, admission })
    }

    /// The next who has shown the token; `None` once the endpoint is closed.
    pub async fn next(&mut self) -> Option<Newcomer> {
        self.admitted.recv().await
    }

    pub fn watch(&self) -> AdmissionWatch {
        AdmissionWatch(self.admission.clone())
    }
}

/// What admission control does, for whoever wants to know: it can be asked from any thread, also after the
/// server has ended.
#[derive(Clone, Debug)]
pub struct AdmissionWatch(Arc<Admission>);

impl AdmissionWatch {
    pub(crate) fn new(admission: Arc<Admission>) -> AdmissionWatch {
        AdmissionWatch(admission)
    }

    /// What was done so far.
    pub fn counters(&self) -> AdmissionCounters {
        self.0.tally.counters()
    }

    /// How many connections there are.
    pub fn occupancy(&self) -> Occupancy {
        self.0.occupancy()
    }

    /// The limits that are kept to.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }
}

/// Says why, in the stream and in the close: one of them arrives.
pub(super) async fn refuse(connection: &Connection, control: &mut SendStream, why: Refusal, text: &str) {
    // Whoever is gone need not be told.
    let _ = write(control, &Message::Refused { why, text }).await;
    connection.close(VarInt::from_u32(why as u32), text.as_bytes());
}

fn config(
    credentials: &Credentials,
    alpn: &[u8],
    transport: Arc<TransportConfig>,
    limits: &Limits,
) -> Result<ServerConfig, QuicError> {
    let tls = credentials.server_tls(&[alpn])?;
    let crypto =
        QuicServerConfig::try_from(tls).map_err(|error| IdentityError::Unusable(error.to_string()))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport);
    // Attempts wait here for the acceptor, which looks at each at once.
    config.max_incoming(2 * limits.strangers);
    // A first flight is a few packets; more before the handshake would be 0-RTT, which we don't speak.
    config.incoming_buffer_size(16 << 10);
    config.incoming_buffer_size_total(limits.strangers as u64 * (16 << 10));
    Ok(config)
}

/// Takes each attempt through admission, handshake and greeting.
struct Acceptor {
    endpoint: Endpoint,
    gate: Gate,
    clock: Clock,
    admission: Arc<Admission>,
    admitted: mpsc::Sender<Newcomer>,
    /// Connections begun so far, which numbers them for the log.
    met: AtomicU64,
    runtime: Handle,
}

/// Why somebody does not get in: for the count, for them as a code and as words.
type Objection = (Reason, Refusal, String);

impl Acceptor {
    async fn run(self: Arc<Acceptor>) {
        while let Some(incoming) = self.endpoint.accept().await {
            self.look_at(incoming);
        }
    }

    fn look_at(self: &Arc<Acceptor>, incoming: Incoming) {
        let (now, peer, tally) = (self.clock.now(), incoming.remote_address(), &self.admission.tally);
        match self.admission.decide(now, peer.ip(), incoming.may_retry()) {
            Verdict::Retry => {
                tally.retry();
                // It can only be refused to those it was asked of before, and `may_retry` excludes them.
                let _ = incoming.retry();
            }
            Verdict::Refuse(reason) => {
                let words = reason.words(&self.admission.limits);
                error_span!("attempt", %peer).in_scope(|| tally.refuse(now, reason, &words));
                incoming.refuse();
            }
            Verdict::Enter(pass) => {
                tally.begin();
                let number = self.met.fetch_add(1, Ordering::Relaxed);
                // A span of the highest level: whatever is told of the connection is told with its peer.
                let span = error_span!("connection", number, %peer);
                self.runtime.spawn(self.clone().meet(incoming, pass, span.clone()).instrument(span));
            }
        }
    }

    /// Handshake, greeting, and in.
    async fn meet(self: Arc<Acceptor>, incoming: Incoming, mut pass: Pass, span: LogSpan) {
        let within = duration(self.admission.limits.open_within);
        let note = |reason: Reason, words: &str| self.admission.tally.refuse(self.clock.now(), reason, words);
        let connection = match timeout(within, incoming.into_future()).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return note(Reason::Handshake, &plain(&error.to_string())),
            Err(_) => return note(Reason::Handshake, "the handshake was not finished in time"),
        };
        let Ok(Ok((mut control, receive))) = timeout(within, connection.accept_bi()).await else {
            note(Reason::Late, "nobody said what for");
            return connection.close(VarInt::from_u32(Refusal::Late as u32), b"nobody said what for");
        };
        let mut messages = Messages::new(receive);
        match self.judge(&mut messages, &mut pass).await {
            Ok(request) => {
                self.admission.tally.admit();
                info!(role = ?request.role, name = ?request.name, controller = ?request.controller, "let in");
                // There is room for as many as there are places; only a server that ends takes nobody any
                // more.
                let newcomer = Newcomer { request, connection, control, messages, pass, span };
                let _ = self.admitted.try_send(newcomer);
            }
            Err((reason, why, text)) => {
                note(reason, &told(reason, &text, &self.admission.limits));
                refuse(&connection, &mut control, why, &text).await;
            }
        }
    }

    async fn judge(
        &self,
        messages: &mut Messages<RecvStream>,
        pass: &mut Pass,
    ) -> Result<Request, Objection> {
        let within = duration(self.admission.limits.open_within);
        let request = self.gate.greet(messages, within).await;
        let request = request.map_err(|(why, text)| (Reason::from(why), why, text))?;
        pass.admit().map_err(|reason| (reason, Refusal::Busy, BUSY.to_owned()))?;
        Ok(request)
    }
}

/// What the log is told of a refusal: of nonsense the parser's words, else ours, which are not those for the
/// peer.
pub(crate) fn told(reason: Reason, text: &str, limits: &Limits) -> String {
    match reason {
        Reason::Malformed | Reason::Other | Reason::Handshake => plain(text),
        _ => reason.words(limits),
    }
}

/// Waits for at most `patience`.
pub(super) fn within<T>(
    runtime: &Handle,
    patience: Span,
    work: impl Future<Output = Option<T>>,
) -> Option<T> {
    runtime.block_on(async { timeout(duration(patience), work).await }).ok().flatten()
}
