//! TLS 1.3 whose every message has the same size in every run.
//!
//! Ed25519 signatures and X25519 shares have fixed lengths, where ECDSA's do not; there are no session
//! tickets. Certificate and key come with the program, so they prove nothing: they are for the simulator
//! alone, where nobody listens.

use std::sync::Arc;

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Made by `openssl req -x509` with the key beside it, for `framewire.test`.
const CERTIFICATE: &[u8] = include_bytes!("certificate.der");
/// Made by `openssl genpkey -algorithm ed25519`.
const KEY: &[u8] = include_bytes!("key.der");
/// The name in the certificate.
pub const NAME: &str = "framewire.test";

/// The date is always the same one, within the certificate's life.
#[derive(Debug)]
struct Stopped;

impl TimeProvider for Stopped {
    fn current_time(&self) -> Option<UnixTime> {
        // 2030-01-01
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_893_456_000)))
    }
}

/// Takes the certificate that comes with the program and no other.
#[derive(Debug)]
struct Pinned(Arc<CryptoProvider>);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == CERTIFICATE {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer))
        }
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The client's end.
pub fn client() -> Arc<QuicClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_details(provider.clone(), Arc::new(Stopped))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("ring has TLS 1.3");
    let verifier = Arc::new(Pinned(provider));
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(QuicClientConfig::try_from(config).expect("ring has QUIC's first cipher suite"))
}

/// The server's end.
pub fn server() -> Arc<QuicServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_details(provider, Arc::new(Stopped))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("ring has TLS 1.3");
    let chain = vec![CertificateDer::from(CERTIFICATE)];
    let key = PrivatePkcs8KeyDer::from(KEY);
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key.into())
        .expect("the key belongs to the certificate");
    config.send_tls13_tickets = 0;
    Arc::new(QuicServerConfig::try_from(config).expect("ring has QUIC's first cipher suite"))
}
