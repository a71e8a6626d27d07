//! Listening for media.

use std::net::SocketAddr;
use std::sync::Arc;

use quinn::{EndpointConfig, VarInt};
use quinn_proto::HashedConnectionIdGenerator;
use ring::hmac;
use tokio::runtime::Handle;
use units::Span;
use wire::{Message, Offer, Refusal};

use super::control::{Gate, Request, write};
use super::credentials::Credentials;
use super::identity::Identity;
use super::limits::Limits;
use super::link::{Parts, QuicChannel};
use super::listener::{AdmissionWatch, Listener, ListenerConfig, Newcomer, refuse, within};
use super::tally::AdmissionCounters;
use super::{ALPN, QuicError, Runtime};
use crate::channel::Inbox;
use crate::{Clock, RealError};

/// Listens for those who know the token.
pub struct Server {
    listener: Listener,
    limits: Limits,
    clock: Clock,
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
        let (transport, endpoint) = (limits.transport()?, endpoint_config(identity));
        let what = ListenerConfig { listen, alpn: ALPN, transport, endpoint, gate, limits, clock };
        let listener = Listener::open(runtime, identity, what)?;
        Ok(Server { listener, limits, clock, runtime: runtime.handle().clone() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Where the system can't tell.
    pub fn local(&self) -> Result<SocketAddr, RealError> {
        let unknown: SocketAddr = "0.0.0.0:0".parse().expect("an address");
        self.listener.endpoint.local_addr().map_err(|source| RealError::new(unknown, source))
    }

    /// The next who has shown the token; `None` if nobody does within `patience`.
    pub fn accept(&mut self, patience: Span) -> Option<Guest> {
        let newcomer = within(&self.runtime, patience, self.listener.next())?;
        let Newcomer { request, connection, control, messages, pass, span } = newcomer;
        // Without the means to wake a thread nobody can be received; dropped, they are disconnected.
        let inbox = Arc::new(Inbox::new(self.clock).ok()?);
        let (endpoint, idle) = (self.listener.endpoint.clone(), self.limits.idle);
        let parts = Parts { connection, endpoint, inbox, control, messages, place: Some(pass), idle, span };
        Some(Guest { request, parts, runtime: self.runtime.clone() })
    }

    /// What admission control did so far.
    pub fn counters(&self) -> AdmissionCounters {
        self.watch().counters()
    }

    /// To ask from elsewhere what admission control does.
    pub fn watch(&self) -> AdmissionWatch {
        self.listener.watch()
    }

    /// What newcomers are shown, to be replaced when it is renewed. The keys by which a successor of this
    /// server is known to its clients ([`Ended::Restarted`](crate::Ended::Restarted)) stay those of the
    /// identity it was opened with.
    pub fn credentials(&self) -> Credentials {
        self.listener.credentials.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listener.endpoint.close(VarInt::from_u32(0), b"the server ends");
    }
}

impl Guest {
    /// The address they come from.
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

    /// Turns them away, with the reason as a code and as a text for people.
    pub fn refuse(mut self, why: Refusal, text: &str) {
        self.runtime.block_on(refuse(&self.parts.connection, &mut self.parts.control, why, text));
    }
}

/// Settings by which a server recognises the connections of its predecessor: keys that follow from the
/// identity and so outlive the process. It knows nothing of those connections, but can tell their clients so
/// (RFC 9000 section 10.3), who would otherwise wait for their idle timeout.
fn endpoint_config(identity: &Identity) -> EndpointConfig {
    let key = identity.key();
    let seed = hmac::Key::new(hmac::HMAC_SHA256, key.secret_der());
    let reset = hmac::sign(&seed, b"framewire stateless reset");
    let names = hmac::sign(&seed, b"framewire connection id");
    let names = u64::from_be_bytes(names.as_ref()[..8].try_into().expect("32 bytes have eight"));
    let reset = hmac::Key::new(hmac::HMAC_SHA256, reset.as_ref());
    let mut config = EndpointConfig::new(Arc::new(reset));
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(names)));
    config
}
