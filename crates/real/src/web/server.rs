//! The WebTransport door: who is let in, and how many.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use units::Span;
use wire::{Message, Offer, Refusal};
use wtransport::endpoint::{IncomingSession, endpoint_side};
use wtransport::{Connection, Endpoint, SendStream, ServerConfig, VarInt};

use super::link::{Parts, WebChannel};
use crate::channel::Inbox;
use crate::quic::{
    Gate, Identity, Limits, Messages, QuicError, Request, Runtime, Turnstile, duration, write,
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
        let tls = identity.server_tls(&[wtransport::tls::WEBTRANSPORT_ALPN])?;
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
        let door = Door {
            local,
            gate,
            limits,
            clock,
            admitted: sender,
            strangers: Arc::new(Semaphore::new(limits.strangers)),
            places: Arc::new(Semaphore::new(limits.guests)),
            runtime: runtime.handle().clone(),
        };
        runtime.handle().spawn(Arc::new(door).watch(endpoint));
        Ok(WebServer { local, admitted, runtime: runtime.handle().clone() })
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
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
struct Door {
    local: SocketAddr,
    gate: Gate,
    limits: Limits,
    clock: Clock,
    admitted: mpsc::Sender<Visitor>,
    strangers: Arc<Semaphore>,
    places: Arc<Semaphore>,
    runtime: Handle,
}

impl Door {
    async fn watch(self: Arc<Door>, endpoint: Endpoint<endpoint_side::Server>) {
        let mut turnstile = Turnstile::new(self.limits.handshakes);
        let within = duration(self.limits.open_within);
        while let Some(incoming) = self.next(&endpoint).await {
            let place = self.strangers.clone().try_acquire_owned().ok();
            let Some(place) = place.filter(|_| turnstile.turn(self.clock.now())) else {
                incoming.refuse();
                continue;
            };
            let door = self.clone();
            self.runtime.spawn(async move {
                // Whoever does not finish is forgotten.
                let _ = timeout(2 * within, door.meet(incoming)).await;
                drop(place);
            });
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

    /// Handshake, request, greeting, and in.
    async fn meet(&self, incoming: IncomingSession) -> Option<()> {
        let request = incoming.await.ok()?;
        if request.path() != PATH {
            request.not_found().await;
            return None;
        }
        let connection = Arc::new(request.accept().await.ok()?);
        let (mut control, receive) = connection.accept_bi().await.ok()?;
        let mut messages = Messages::new(receive);
        match self.judge(&mut messages).await {
            Ok((request, place, inbox)) => {
                let (local, idle) = (self.local, self.limits.idle);
                let parts = Parts { connection, inbox, local, control, messages, place, idle };
                // There is room for as many as there are places; only a server that ends takes nobody any more.
                let _ = self.admitted.try_send(Visitor { request, parts, runtime: self.runtime.clone() });
            }
            Err((why, text)) => refuse(&connection, &mut control, why, &text).await,
        }
        Some(())
    }

    async fn judge<R: tokio::io::AsyncRead + Unpin>(
        &self,
        messages: &mut Messages<R>,
    ) -> Result<(Request, tokio::sync::OwnedSemaphorePermit, Arc<Inbox>), (Refusal, String)> {
        let request = self.gate.greet(messages, duration(self.limits.open_within)).await?;
        let busy = format!("the server has {} viewers, as many as it takes", self.limits.guests);
        let place = self.places.clone().try_acquire_owned().map_err(|_| (Refusal::Busy, busy))?;
        let inbox = Inbox::new(self.clock).map_err(|error| (Refusal::Other, error.to_string()))?;
        Ok((request, place, Arc::new(inbox)))
    }
}
