//! Listening: who is let in, and how many.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connection, Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, TokioRuntime,
    VarInt,
};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use units::Span;
use wire::{Message, Offer, Refusal};

use super::control::{Gate, Messages, OPEN_WITHIN, Request, write};
use super::error::BUSY;
use super::identity::{Identity, IdentityError};
use super::limits::{Limits, Turnstile};
use super::link::{Parts, QuicChannel};
use super::{ALPN, QuicError, Runtime};
use crate::channel::Inbox;
use crate::{Clock, RealError, socket};

/// What a server did at its door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorCounters {
    /// Handshakes begun.
    pub handshakes: u64,
    /// Connection attempts refused at once: too many a second, or too many at a time.
    pub turned_away: u64,
    /// Connection attempts asked to show first that they receive what is sent to them.
    pub retried: u64,
    /// Handshakes that came to nothing.
    pub failed: u64,
    /// Connections refused for what they said, or for saying nothing.
    pub refused: u64,
    /// Connections let in.
    pub admitted: u64,
}

#[derive(Debug, Default)]
struct Tally {
    handshakes: AtomicU64,
    turned_away: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    admitted: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Listens for those who know the token.
pub struct Server {
    endpoint: Endpoint,
    admitted: mpsc::Receiver<Guest>,
    tally: Arc<Tally>,
    runtime: Handle,
}

/// Somebody who has shown the token and waits for an answer. Dropped, they are disconnected.
pub struct Guest {
    /// What they want.
    pub request: Request,
    parts: Parts,
    runtime: Handle,
}

impl Server {
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
    ) -> Result<Server, QuicError> {
        let config = config(identity, &limits)?;
        let wrong = |source| RealError::new(listen, source);
        let socket = socket::bind(listen).map_err(wrong)?;
        // A key that outlives the process lets a server tell the clients of its predecessor that it knows nothing of them
        // (RFC 9000 section 10.3).
        let endpoint_config = EndpointConfig::new(Arc::new(reset_key(identity)));
        let _inside = runtime.handle().enter();
        let endpoint = Endpoint::new(endpoint_config, Some(config), socket, Arc::new(TokioRuntime));
        let endpoint = endpoint.map_err(wrong)?;
        let (sender, admitted) = mpsc::channel(limits.guests.max(1));
        let tally = Arc::new(Tally::default());
        let door = Door {
            endpoint: endpoint.clone(),
            gate,
            limits,
            clock,
            tally: tally.clone(),
            admitted: sender,
            strangers: Arc::new(Semaphore::new(limits.strangers)),
            places: Arc::new(Semaphore::new(limits.guests)),
            runtime: runtime.handle().clone(),
        };
        runtime.handle().spawn(Arc::new(door).watch());
        Ok(Server { endpoint, admitted, tally, runtime: runtime.handle().clone() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Where the system can't tell.
    pub fn local(&self) -> Result<SocketAddr, RealError> {
        let unknown: SocketAddr = "0.0.0.0:0".parse().expect("an address");
        self.endpoint.local_addr().map_err(|source| RealError::new(unknown, source))
    }

    /// The next who has shown the token; `None` if nobody does within `patience`.
    pub fn accept(&mut self, patience: Span) -> Option<Guest> {
        let patience = Duration::from_nanos(patience.as_nanos().max(0) as u64);
        let Server { admitted, runtime, .. } = self;
        runtime.block_on(async { timeout(patience, admitted.recv()).await }).ok().flatten()
    }

    /// What was done at the door so far.
    pub fn counters(&self) -> DoorCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Tally { handshakes, turned_away, retried, failed, refused, admitted } = &*self.tally;
        DoorCounters {
            handshakes: get(handshakes),
            turned_away: get(turned_away),
            retried: get(retried),
            failed: get(failed),
            refused: get(refused),
            admitted: get(admitted),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.endpoint.close(VarInt::from_u32(0), b"the server ends");
    }
}

impl Guest {
    /// Where they are.
    pub fn peer(&self) -> SocketAddr {
        self.parts.connection.remote_address()
    }

    /// Lets them in: from now on media may flow.
    ///
    /// # Errors
    /// [`QuicError::Broken`] if they are gone.
    pub fn welcome(mut self, offer: &Offer<'_>) -> Result<Arc<QuicChannel>, QuicError> {
        let peer = self.peer();
        let ready = Message::ready(*offer);
        let written = self.runtime.block_on(write(&mut self.parts.control, &ready));
        written.map_err(|_| QuicError::Broken { peer, ended: crate::Ended::Bye(String::new()) })?;
        Ok(Arc::new(QuicChannel::start(self.parts, &self.runtime)))
    }

    /// Turns them away.
    pub fn refuse(mut self, why: Refusal, text: &str) {
        self.runtime.block_on(refuse(&self.parts.connection, &mut self.parts.control, why, text));
    }
}

/// Says why, in the stream and in the close: one of them arrives.
async fn refuse(connection: &Connection, control: &mut SendStream, why: Refusal, text: &str) {
    // Whoever is gone need not be told.
    let _ = write(control, &Message::Refused { why, text }).await;
    connection.close(VarInt::from_u32(why as u32), text.as_bytes());
}

fn config(identity: &Identity, limits: &Limits) -> Result<ServerConfig, QuicError> {
    let tls = identity.server_tls(&[ALPN])?;
    let crypto =
        QuicServerConfig::try_from(tls).map_err(|error| IdentityError::Unusable(error.to_string()))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(limits.transport()?);
    // Attempts wait here for the door, which looks at each at once.
    config.max_incoming(2 * limits.strangers);
    // A first flight is a few packets; more before the handshake would be 0-RTT, which we don't speak.
    config.incoming_buffer_size(16 << 10);
    config.incoming_buffer_size_total(limits.strangers as u64 * (16 << 10));
    Ok(config)
}

fn reset_key(identity: &Identity) -> ring::hmac::Key {
    let key = identity.key();
    let seed = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.secret_der());
    let derived = ring::hmac::sign(&seed, b"framewire stateless reset");
    ring::hmac::Key::new(ring::hmac::HMAC_SHA256, derived.as_ref())
}

/// Looks at everybody who comes.
struct Door {
    endpoint: Endpoint,
    gate: Gate,
    limits: Limits,
    clock: Clock,
    tally: Arc<Tally>,
    admitted: mpsc::Sender<Guest>,
    strangers: Arc<Semaphore>,
    places: Arc<Semaphore>,
    runtime: Handle,
}

impl Door {
    async fn watch(self: Arc<Door>) {
        let mut turnstile = Turnstile::new(self.limits.handshakes);
        while let Some(incoming) = self.endpoint.accept().await {
            self.look_at(incoming, &mut turnstile);
        }
    }

    fn look_at(self: &Arc<Door>, incoming: Incoming, turnstile: &mut Turnstile) {
        if turnstile.is_busy() && incoming.may_retry() {
            count(&self.tally.retried);
            // It can only be refused to those it was asked of before, and `may_retry` excludes them.
            let _ = incoming.retry();
            return;
        }
        let place = self.strangers.clone().try_acquire_owned().ok();
        let Some(place) = place.filter(|_| turnstile.turn(self.clock.now())) else {
            count(&self.tally.turned_away);
            incoming.refuse();
            return;
        };
        count(&self.tally.handshakes);
        let door = self.clone();
        self.runtime.spawn(async move {
            door.meet(incoming).await;
            drop(place);
        });
    }

    /// Handshake, greeting, and in.
    async fn meet(&self, incoming: Incoming) {
        let Ok(Ok(connection)) = timeout(OPEN_WITHIN, incoming.into_future()).await else {
            count(&self.tally.failed);
            return;
        };
        let Ok(Ok((mut control, receive))) = timeout(OPEN_WITHIN, connection.accept_bi()).await else {
            count(&self.tally.refused);
            connection.close(VarInt::from_u32(Refusal::Late as u32), b"nobody said what for");
            return;
        };
        let mut messages = Messages::new(receive);
        match self.judge(&mut messages).await {
            Ok((request, place, inbox)) => {
                count(&self.tally.admitted);
                let (endpoint, idle) = (self.endpoint.clone(), self.limits.idle);
                let parts =
                    Parts { connection, endpoint, inbox, control, messages, place: Some(place), idle };
                // There is room for as many as there are places; only a server that ends takes nobody any more.
                let _ = self.admitted.try_send(Guest { request, parts, runtime: self.runtime.clone() });
            }
            Err((why, text)) => {
                count(&self.tally.refused);
                refuse(&connection, &mut control, why, &text).await;
            }
        }
    }

    async fn judge(
        &self,
        messages: &mut Messages<RecvStream>,
    ) -> Result<(Request, OwnedSemaphorePermit, Arc<Inbox>), (Refusal, String)> {
        let request = self.gate.greet(messages).await?;
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| (Refusal::Busy, BUSY.to_owned()))?;
        let inbox = Inbox::new(self.clock).map_err(|error| (Refusal::Other, error.to_string()))?;
        Ok((request, place, Arc::new(inbox)))
    }
}
