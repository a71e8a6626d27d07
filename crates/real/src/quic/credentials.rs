//! The identity a server presents, which can be replaced while it runs.

use std::sync::{Arc, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::identity::{Identity, IdentityError, provider};

/// What a server shows of itself to newcomers. Clones show the same, and what one replaces the others show
/// too.
#[derive(Clone, Debug)]
pub struct Credentials(Arc<Presented>);

#[derive(Debug)]
struct Presented(RwLock<Arc<CertifiedKey>>);

impl Credentials {
    /// Shows `identity`.
    pub(crate) fn new(identity: &Identity) -> Result<Credentials, IdentityError> {
        Ok(Credentials(Arc::new(Presented(RwLock::new(Arc::new(identity.certified_key()?))))))
    }

    /// From now on newcomers are shown `identity`. Connections that exist go on: TLS looks at certificates in
    /// the handshake alone.
    ///
    /// # Errors
    /// [`IdentityError::Unusable`] if key and certificate don't belong together; then the one before stays.
    pub fn replace(&self, identity: &Identity) -> Result<(), IdentityError> {
        let fresh = Arc::new(identity.certified_key()?);
        *self.0.0.write().expect("nothing panics while it holds this") = fresh;
        Ok(())
    }

    /// TLS 1.3 for a server that speaks the protocols `alpn` and shows what is shown here at the time.
    pub(crate) fn server_tls(&self, alpn: &[&[u8]]) -> Result<rustls::ServerConfig, IdentityError> {
        let unusable = |error: rustls::Error| IdentityError::Unusable(error.to_string());
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(self.0.clone());
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        // Media waits for Ready, so there is nothing that 0-RTT could carry, and it can be replayed.
        config.max_early_data_size = 0;
        Ok(config)
    }
}

impl ResolvesServerCert for Presented {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().expect("nothing panics while it holds this").clone())
    }
}
