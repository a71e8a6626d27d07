//! Listening for WebTransport sessions: who is let in, and how many.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{Instrument, Span as LogSpan, error_span, info};
use units::Span;
use wire::{Message, Offer, Refusal};
use wtransport::endpoint::{IncomingSession, endpoint_side};
use wtransport::{Connection, Endpoint, SendStream, ServerConfig, VarInt};

use super::link::{Parts, WebChannel};
use crate::channel::Inbox;
use crate::quic::{
    Admission, AdmissionWatch, Credentials, Gate, Identity, Limits, Messages, Pass, QuicError, Reason,
    Request, Runtime, Verdict, duration, told, write,
};
use crate::{Clock, RealError, socket};

/// Where the page finds us on our port.
const PATH: &str = "/watch";
/// How long a viewer that was refused may take to read why.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// Listens for viewers who know the token, until it is dropped: then every session is closed.
pub struct WebServer {
    local: SocketAddr,
    admitted: mpsc::Receiver<Visitor>,
    admission: Arc<Admission>,
    credentials: Credentials,
    runtime: Handle,
}

/// Somebody who has shown the token and waits for an answer. Dropped, they are disconnected.
pub struct Visitor {
    /// What they want.
    pub request: Request,
    parts: Parts,
    runtime: Handle,
}

impl WebServer {
    /// Listens at `listen` (port 0 lets the system choose).
    ///
    /// # Errors
    /// [`QuicError`] if there is no such socket to be had, or the identity can't be used.
    pub fn open(
        runtime: &Runtime,
        listen: SocketAddr,
        identity: &Identity,
        gate: Gate,
        limits: Limits,
        clock: Clock,
    ) -> Result<WebServer, QuicError> {
        let wrong = |source| RealError::new(listen, source);
        let credentials = Credentials::new(identity)?;
        let tls = credentials.server_tls(&[wtransport::tls::WEBTRANSPORT_ALPN])?;
        let socket = socket::bind(listen).map_err(wrong)?;
        let local = socket.local_addr().map_err(wrong)?;
        let mut config = ServerConfig::builder()
            .with_bind_socket(socket)
            .with_custom_tls_and_transport(tls, limits.web_transport()?)
            .build();
        config.quic_config_mut().max_incoming(2 * limits.strangers);
        let _inside = runtime.handle().enter();
        let endpoint = Endpoint::server(config).map_err(wrong)?;
        let (sender, admitted) = mpsc::channel(limits.guests.max(1));
        let admission = Arc::new(Admission::new(limits));
        let acceptor = Acceptor {
            local,
            gate,
            clock,
            admission: admission.clone(),
            admitted: sender,
            met: AtomicU64::new(0),
            runtime: runtime.handle().clone(),
        };
        runtime.handle().spawn(Arc::new(acceptor).run(endpoint));
        Ok(WebServer { local, admitted, admission, credentials, runtime: runtime.handle().clone() })
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// To ask from elsewhere what admission control does.
    pub fn watch(&self) -> AdmissionWatch {
        AdmissionWatch::new(self.admission.clone())
    }

    /// What newcomers are shown, to be replaced when it is renewed.
    pub fn credentials(&self) -> Credentials {
        self.credentials.clone()
    }

    /// The next who has shown the token; `None` if nobody does within `patience`.
    pub fn accept(&mut self, patience: Span) -> Option<Visitor> {
        let patience = duration(patience);
        let WebServer { admitted, runtime, .. } = self;
        runtime.block_on(async { timeout(patience, admitted.recv()).await }).ok().flatten()
    }
}

impl Visitor {
    /// Where they are.
    pub fn peer(&self) -> SocketAddr {
        self.parts.connection.remote_address()
    }

    /// Lets them in: from now on media may flow. `None` if they are gone.
    pub fn welcome(mut self, offer: &Offer<'_>) -> Option<Arc<WebChannel>> {
        let ready = Message::ready(*offer);
        self.runtime.block_on(write(&mut self.parts.control, &ready)).ok()?;
        Some(Arc::new(WebChannel::start(self.parts, &self.runtime)))
    }
}

/// Says why, and gives it time to arrive: a connection's close overtakes what is still on the way.
async fn refuse(connection: &Connection, control: &mut SendStream, why: Refusal, text: &str) {
    // Whoever is gone need not be told.
    let _ = write(control, &Message::Refused { why, text }).await;
    let _ = control.shutdown().await;
    let _ = timeout(READ_WITHIN, connection.closed()).await;
    connection.close(VarInt::from_u32(why as u32), text.as_bytes());
}

/// Looks at everybody who comes.
struct Acceptor {
    local: SocketAddr,
    gate: Gate,
    clock: Clock,
    admission: Arc<Admission>,
    admitted: mpsc::Sender<Visitor>,
    /// Connections begun so far, which numbers them for the log.
    met: AtomicU64,
    runtime: Handle,
}

impl Acceptor {
    async fn run(self: Arc<Acceptor>, endpoint: Endpoint<endpoint_side::Server>) {
        while let Some(incoming) = self.next(&endpoint).await {
            self.look_at(incoming);
        }
        endpoint.close(VarInt::from_u32(0), b"the server ends");
    }

    /// The next who comes; `None` once the server is dropped, and nobody will take a visitor any more.
    async fn next(&self, endpoint: &Endpoint<endpoint_side::Server>) -> Option<IncomingSession> {
        let (mut ended, mut incoming) = (pin!(self.admitted.closed()), pin!(endpoint.accept()));
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => incoming.as_mut().poll(context).map(Some),
        })
        .await
    }

    fn look_at(self: &Arc<Acceptor>, incoming: IncomingSession) {
        let (now, peer, tally) = (self.clock.now(), incoming.remote_address(), &self.admission.tally);
        // Whose address is not validated may be asked to show it (quinn's `Incoming`).
        match self.admission.decide(now, peer.ip(), !incoming.remote_address_validated()) {
            Verdict::Retry => {
                tally.retry();
                incoming.retry();
            }
            Verdict::Refuse(reason) => {
                let words = reason.words(&self.admission.limits);
                error_span!("attempt", %peer).in_scope(|| tally.refuse(now, reason, &words));
                incoming.refuse();
            }
            Verdict::Enter(pass) => {
                tally.begin();
                let number = self.met.fetch_add(1, Ordering::Relaxed);
                let span = error_span!("viewer", number, %peer);
                self.runtime.spawn(self.clone().receive(incoming, pass, span.clone()).instrument(span));
            }
        }
    }

    async fn receive(self: Arc<Acceptor>, incoming: IncomingSession, pass: Pass, span: LogSpan) {
        let within = 2 * duration(self.admission.limits.open_within);
        let objection = match timeout(within, self.meet(incoming, pass, span)).await {
            Ok(Ok(())) => return,
            Ok(Err(objection)) => objection,
            Err(_) => (Reason::Late, "handshake and request were not finished in time".to_owned()),
        };
        let words = told(objection.0, &objection.1, &self.admission.limits);
        self.admission.tally.refuse(self.clock.now(), objection.0, &words);
    }

    /// Handshake, request, greeting, and in.
    async fn meet(
        &self,
        incoming: IncomingSession,
        mut pass: Pass,
        span: LogSpan,
    ) -> Result<(), (Reason, String)> {
        let broken = |error: wtransport::error::ConnectionError| (Reason::Handshake, error.to_string());
        let request = incoming.await.map_err(broken)?;
        if request.path() != PATH {
            let text = format!("{} was asked for; the page asks for {PATH}", request.path());
            request.not_found().await;
            return Err((Reason::Malformed, text));
        }
        let connection = Arc::new(request.accept().await.map_err(broken)?);
        let (mut control, receive) = connection.accept_bi().await.map_err(broken)?;
        let mut messages = Messages::new(receive);
        match self.judge(&mut messages, &mut pass).await {
            Ok((request, inbox)) => {
                self.admission.tally.admit();
                info!("let in");
                let (local, idle) = (self.local, self.admission.limits.idle);
                let parts = Parts { connection, inbox, local, control, messages, place: pass, idle, span };
                // There is room for as many as there are places; only a server that ends takes nobody any
                // more.
                let _ = self.admitted.try_send(Visitor { request, parts, runtime: self.runtime.clone() });
                Ok(())
            }
            Err((reason, why, text)) => {
                refuse(&connection, &mut control, why, &text).await;
                Err((reason, text))
            }
        }
    }

    async fn judge<R: tokio::io::AsyncRead + Unpin>(
        &self,
        messages: &mut Messages<R>,
        pass: &mut Pass,
    ) -> Result<(Request, Arc<Inbox>), (Reason, Refusal, String)> {
        let limits = &self.admission.limits;
        let request = self.gate.greet(messages, duration(limits.open_within)).await;
        let request = request.map_err(|(why, text)| (Reason::from(why), why, text))?;
        let busy = |reason| {
            let text = match reason {
                Reason::Guests => format!("the server has {} viewers, as many as it takes", limits.guests),
                _ => "the server is busy: try again later".to_owned(),
            };
            (reason, Refusal::Busy, text)
        };
        pass.admit().map_err(busy)?;
        let inbox = Inbox::new(self.clock);
        let inbox = inbox.map_err(|error| (Reason::Other, Refusal::Other, error.to_string()))?;
        Ok((request, Arc::new(inbox)))
    }
}
