//! Connecting: TLS, then the greeting.

use std::net::SocketAddr;
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectionError, Endpoint, EndpointConfig, TokioRuntime};
use tracing::{error_span, info};
use units::Span;
use wire::{Message, Offer, Role};

use super::control::{Messages, write};
use super::error::{ended, is_stranger};
use super::identity::IdentityError;
use super::limits::{Limits, duration};
use super::link::{Parts, QuicChannel};
use super::trust::{Trust, Verdict};
use super::{ALPN, QuicError, Runtime, Token};
use crate::channel::{Ended, Inbox};
use crate::{Clock, RealError, socket};

/// Whom to connect to, and what to say.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The server's address.
    pub peer: SocketAddr,
    /// Its name, which its certificate must be for unless it is pinned.
    pub host: &'a str,
    /// Which certificate it must show.
    pub trust: Trust,
    /// What to do there.
    pub role: Role,
    /// The token that the server asks for.
    pub token: &'a Token,
    /// What as; may be empty.
    pub name: &'a str,
    /// What we send with; empty for those who watch.
    pub offer: Offer<'a>,
    /// How long the server may take to answer.
    pub patience: Span,
    /// The clock arrivals are stamped by.
    pub clock: Clock,
    /// How the connection is set up. What concerns servers alone has no effect.
    pub limits: Limits,
}

/// A connection that the server has agreed to.
pub struct Session {
    /// The connection's datagrams, for a driver.
    pub channel: Arc<QuicChannel>,
    /// The codec that a watched server sends with; may be empty.
    pub codec: String,
    /// The controller that a watched server sends with; may be empty.
    pub controller: String,
}

impl Call<'_> {
    /// Connects, says who we are and waits for the server to agree.
    ///
    /// # Errors
    /// [`QuicError`], which says who or what is in the way.
    pub fn connect(&self, runtime: &Runtime) -> Result<Session, QuicError> {
        let handle = runtime.handle();
        let inbox = Inbox::new(self.clock).map_err(|source| RealError::new(self.peer, source))?;
        let (config, verdict) = self.config()?;
        let endpoint = {
            let _inside = handle.enter();
            endpoint_for(self.peer)?
        };
        let patience = duration(self.patience);
        let making = self.make(&endpoint, config, &verdict, Arc::new(inbox), handle);
        handle
            .block_on(async { tokio::time::timeout(patience, making).await })
            .unwrap_or_else(|_| Err(QuicError::Silent { peer: self.peer, waited: self.patience }))
    }

    fn config(&self) -> Result<(ClientConfig, Verdict), QuicError> {
        let (mut config, verdict) = client_config(&self.trust, ALPN)?;
        config.transport_config(self.limits.transport()?);
        Ok((config, verdict))
    }

    async fn make(
        &self,
        endpoint: &Endpoint,
        config: ClientConfig,
        verdict: &Verdict,
        inbox: Arc<Inbox>,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Session, QuicError> {
        let peer = self.peer;
        let connecting = endpoint
            .connect_with(config, peer, self.host)
            .map_err(|error| QuicError::Broken { peer, ended: Ended::Failed(error.to_string()) })?;
        let connection = connecting.await.map_err(|error| self.explain(error, verdict))?;
        let (mut control, receive) =
            connection.open_bi().await.map_err(|error| self.explain(error, verdict))?;
        let open = Message::open(self.role, self.token.secret(), self.name, self.offer);
        let mut messages = Messages::new(receive);
        // A stream that ends is the end of the connection, which has a reason of its own.
        let written = write(&mut control, &open).await.is_ok();
        let offer = match messages.next().await {
            Ok(Message::Ready { offer, .. }) if written => {
                Ok((offer.codec.to_owned(), offer.controller.to_owned()))
            }
            Ok(Message::Refused { why, text }) => Err(Ended::Refused(why, text.to_owned())),
            Ok(other) => Err(Ended::Failed(format!("the server answered with {other:?}"))),
            Err(_) => Err(ended(connection.closed().await, self.limits.idle)),
        };
        let (codec, controller) = offer.map_err(|ended| self.of_end(ended))?;
        let endpoint = endpoint.clone();
        let idle = self.limits.idle;
        let span = error_span!("connection", %peer);
        span.in_scope(|| info!("connected"));
        let parts = Parts { connection, endpoint, inbox, control, messages, place: None, idle, span };
        Ok(Session { channel: Arc::new(QuicChannel::start(parts, runtime)), codec, controller })
    }

    fn explain(&self, error: ConnectionError, verdict: &Verdict) -> QuicError {
        let peer = self.peer;
        match verdict.get() {
            Some(distrust) => QuicError::Distrusted { peer, distrust },
            None if is_stranger(&error) => QuicError::Stranger { peer },
            None => self.of_end(ended(error, self.limits.idle)),
        }
    }

    fn of_end(&self, ended: Ended) -> QuicError {
        let peer = self.peer;
        match ended {
            Ended::Refused(why, text) => QuicError::Refused { peer, why, text },
            Ended::Silent(waited) => QuicError::Silent { peer, waited },
            ended => QuicError::Broken { peer, ended },
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("codec", &self.codec).finish_non_exhaustive()
    }
}

/// What a client of `alpn` is set up with, and what it finds out about the server.
pub(crate) fn client_config(
    trust: &Trust,
    alpn: &'static [u8],
) -> Result<(ClientConfig, Verdict), IdentityError> {
    let (tls, verdict) = trust.client_tls(alpn)?;
    let crypto =
        QuicClientConfig::try_from(tls).map_err(|error| IdentityError::Unusable(error.to_string()))?;
    Ok((ClientConfig::new(Arc::new(crypto)), verdict))
}

/// An endpoint that can reach `peer`; a runtime has to be entered.
pub(crate) fn endpoint_for(peer: SocketAddr) -> Result<Endpoint, RealError> {
    let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let wrong = |source| RealError::new(peer, source);
    let socket = socket::bind(any.parse().expect("an address")).map_err(wrong)?;
    Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime)).map_err(wrong)
}
