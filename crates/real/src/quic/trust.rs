//! Whom a client believes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::identity::{Fingerprint, IdentityError, dates, provider, read_chain};

/// Whose certificates a client accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that this machine trusts.
    #[default]
    System,
    /// Those signed by the certificates of a PEM file.
    File(PathBuf),
    /// This very certificate, whatever name it is for and whoever signed it, as long as it is valid.
    Pin(Fingerprint),
}

/// Why a server was not believed. Each prints as one line with what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// Another certificate than the pinned one.
    #[error(
        "the server's certificate has the fingerprint {found}, the pin is {pinned}: if the server was started anew, take \
         the pin it prints now; otherwise this is not your server"
    )]
    Pin {
        /// What was expected.
        pinned: Fingerprint,
        /// What was presented.
        found: Fingerprint,
    },
    /// Too old.
    #[error("the server's certificate has expired: renew it there, or set this machine's clock right")]
    Expired,
    /// Too new.
    #[error("the server's certificate is not valid yet: set this machine's clock right")]
    NotYet,
    /// Signed by somebody we don't know.
    #[error(
        "nobody this machine trusts has signed the server's certificate ({0}): pin it with --pin if it is yours, or name \
         who signed it with --ca"
    )]
    Unknown(Fingerprint),
    /// For another name.
    #[error("the server's certificate is not for `{0}`: connect to a name it is for, or pin it with --pin")]
    Name(String),
    /// Anything else.
    #[error("the server's certificate can't be used: {0}")]
    Other(String),
}

/// Where a verifier leaves its verdict: what TLS passes on of it is a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict(Arc<Mutex<Option<Distrust>>>);

impl Verdict {
    pub(crate) fn get(&self) -> Option<Distrust> {
        self.0.lock().expect("nothing panics while it holds this").clone()
    }

    fn set(&self, distrust: Distrust) {
        *self.0.lock().expect("nothing panics while it holds this") = Some(distrust);
    }
}

impl Trust {
    /// TLS 1.3 for a client that speaks `alpn`, and where the verdict on the server will stand if it is bad.
    pub(crate) fn client_tls(&self, alpn: &[u8]) -> Result<(rustls::ClientConfig, Verdict), IdentityError> {
        let unusable = |error: rustls::Error| IdentityError::Unusable(error.to_string());
        let verdict = Verdict::default();
        let means = match self {
            Trust::Pin(pinned) => Means::Pin(*pinned),
            Trust::System => Means::Roots(roots(rustls_native_certs::load_native_certs().certs)?),
            Trust::File(path) => Means::Roots(roots(read_chain(path)?)?),
        };
        let verifier = Arc::new(Verifier { means, verdict: verdict.clone() });
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.to_vec()];
        Ok((config, verdict))
    }
}

/// A verifier against these roots. Without any, nobody is believed.
fn roots(
    certificates: Vec<CertificateDer<'static>>,
) -> Result<Option<Arc<WebPkiServerVerifier>>, IdentityError> {
    let mut roots = RootCertStore::empty();
    // A system's store may hold certificates of forms not known here; the others are still good.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Ok(None);
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    verifier.map(Some).map_err(|error| IdentityError::Unusable(error.to_string()))
}

#[derive(Debug)]
enum Means {
    Roots(Option<Arc<WebPkiServerVerifier>>),
    Pin(Fingerprint),
}

#[derive(Debug)]
struct Verifier {
    means: Means,
    verdict: Verdict,
}

impl Means {
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Distrust> {
        let found = Fingerprint::of(certificate);
        let outcome = match self {
            Means::Pin(pinned) if *pinned != found => return Err(Distrust::Pin { pinned: *pinned, found }),
            Means::Pin(_) => dates(certificate, now).map_or(Ok(()), |error| Err(error.into())),
            Means::Roots(None) => return Err(Distrust::Unknown(found)),
            Means::Roots(Some(roots)) => {
                roots.verify_server_cert(certificate, rest, name, &[], now).map(drop)
            }
        };
        outcome.map_err(|error| explain(error, found, name))
    }
}

fn explain(error: rustls::Error, found: Fingerprint, name: &ServerName<'_>) -> Distrust {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    match error {
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => Distrust::Expired,
        rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => Distrust::NotYet,
        // A signature by another key of a name we know is as good as one by a name we don't.
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => Distrust::Unknown(found),
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            Distrust::Name(name.to_str().into_owned())
        }
        other => Distrust::Other(other.to_string()),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.means.judge(end_entity, intermediates, server_name, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(distrust) => {
                self.verdict.set(distrust);
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
