//! Who a server is: a certificate and its key, from files or made at start.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore, SignatureAlgorithm};

/// How long a certificate made at start is good for. Browsers accept by fingerprint only what is valid for at
/// most 14 days in all (W3C WebTransport, "custom certificate requirements") and of ECDSA P-256.
const VALID_FOR: Duration = Duration::from_secs(13 * 86_400);
/// ... and it is valid from this long ago, for clients whose clocks are behind.
const VALID_BEFORE: Duration = Duration::from_secs(3_600);

/// The longest validity of a certificate that browsers accept by fingerprint.
const BY_FINGERPRINT: Duration = Duration::from_secs(14 * 86_400);
/// The end of the year 9999, which in a certificate stands for no end (RFC 5280 section 4.1.2.5), in seconds
/// since 1970.
const LAST_DAY: u64 = 253_402_300_799;

/// Why there is no identity. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file can't be read.
    #[error("{}: {text}", .path.display())]
    File {
        /// The file of the certificate or the key.
        path: PathBuf,
        /// What is wrong with it, and what it should hold.
        text: String,
    },
    /// The certificate is too old, or too new.
    #[error("{}: the certificate {text}", .path.display())]
    Validity {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong with it, and what helps.
        text: &'static str,
    },
    /// Certificate and key don't belong together, or are of no use to TLS.
    #[error("certificate and key can't be used: {0}; give the key that belongs to the certificate")]
    Unusable(String),
    /// A certificate could not be made.
    #[error("no certificate could be made: {0}")]
    Making(String),
}

/// SHA-256 of a certificate, by which a client may pin it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Fingerprint {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        Fingerprint(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    /// Reads 64 hexadecimal digits; colons between them, as other tools print them, are allowed.
    fn from_str(text: &str) -> Result<Fingerprint, String> {
        let refused = || format!("`{text}` is not a pin: 64 hexadecimal digits, as the receiver prints them");
        let digits: Vec<u8> = text
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16).map(|d| d as u8))
            .collect::<Option<_>>()
            .ok_or_else(refused)?;
        let digits: [u8; 64] = digits.try_into().map_err(|_| refused())?;
        Ok(Fingerprint(std::array::from_fn(|k| digits[2 * k] << 4 | digits[2 * k + 1])))
    }
}

/// A certificate chain and the key of its first certificate.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// From a chain and a key in PEM files.
    ///
    /// # Errors
    /// [`IdentityError`] if a file can't be read, holds nothing of the kind, the certificate is not valid at
    /// present, or the key is not its own.
    pub fn from_pem(certificate: &Path, key: &Path) -> Result<Identity, IdentityError> {
        let chain = read_chain(certificate)?;
        let wrong = |error: rustls::pki_types::pem::Error| {
            file(key, &format!("{error}; a private key in PEM is expected"))
        };
        let identity = Identity { chain, key: PrivateKeyDer::from_pem_file(key).map_err(wrong)? };
        if let Some(text) = out_of_date(&identity.chain[0]) {
            return Err(IdentityError::Validity { path: certificate.to_owned(), text });
        }
        identity.certified_key().map(|_| identity)
    }

    /// A new key, and a certificate that it signs itself, for these host names and addresses.
    ///
    /// # Errors
    /// [`IdentityError::Making`] if a name is none.
    pub fn self_signed(names: &[String]) -> Result<Identity, IdentityError> {
        let now = SystemTime::now();
        Identity::self_signed_for(names, now - VALID_BEFORE, now + VALID_FOR)
    }

    /// The same, valid from `start` to `end`.
    ///
    /// # Errors
    /// As [`self_signed`](Identity::self_signed).
    pub fn self_signed_for(
        names: &[String],
        start: SystemTime,
        end: SystemTime,
    ) -> Result<Identity, IdentityError> {
        let making = |error: rcgen::Error| IdentityError::Making(error.to_string());
        let mut params = rcgen::CertificateParams::new(names).map_err(making)?;
        (params.not_before, params.not_after) = (start.into(), end.into());
        // ECDSA on P-256, rcgen's default and the only kind that browsers accept by fingerprint.
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(making)?;
        let certificate = params.self_signed(&key).map_err(making)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok(Identity { chain: vec![certificate.der().clone()], key })
    }

    /// What a client may pin.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// The certificates, the server's own first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The key of the first certificate.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }

    /// From when and until when the certificate is valid; `None` for an end that it leaves open, or a
    /// certificate so strange that nobody would accept it.
    pub fn validity(&self) -> (Option<SystemTime>, Option<SystemTime>) {
        let date = |time: UnixTime| SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs());
        let at = |secs| dates(&self.chain[0], UnixTime::since_unix_epoch(Duration::from_secs(secs)));
        let start = match at(0) {
            Some(CertificateError::NotValidYetContext { not_before, .. }) => Some(date(not_before)),
            _ => None,
        };
        let end = match at(LAST_DAY) {
            Some(CertificateError::ExpiredContext { not_after, .. }) => Some(date(not_after)),
            _ => None,
        };
        (start, end)
    }

    /// Whether browsers accept it by its fingerprint alone (W3C WebTransport, "custom certificate
    /// requirements"): an ECDSA key, and valid for two weeks at most. Otherwise they ask, as everywhere, who
    /// signed it and for which name.
    pub fn suits_browsers_by_fingerprint(&self) -> bool {
        let (Some(start), Some(end)) = self.validity() else { return false };
        let short = end.duration_since(start).is_ok_and(|length| length <= BY_FINGERPRINT);
        let kind = self.certified_key().map(|certified| certified.key.algorithm());
        short && matches!(kind, Ok(SignatureAlgorithm::ECDSA))
    }

    /// Certificate and key as TLS wants them.
    pub(super) fn certified_key(&self) -> Result<CertifiedKey, IdentityError> {
        let key = CertifiedKey::from_der(self.chain.clone(), self.key(), &provider());
        key.map_err(|error| IdentityError::Unusable(error.to_string()))
    }
}

/// Certificates of a PEM file, at least one.
pub(super) fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let wrong = |error: rustls::pki_types::pem::Error| {
        file(path, &format!("{error}; certificates in PEM are expected"))
    };
    let found = CertificateDer::pem_file_iter(path).map_err(wrong)?;
    let chain = found.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if chain.is_empty() { Err(file(path, "holds no certificate in PEM")) } else { Ok(chain) }
}

fn file(path: &Path, text: &str) -> IdentityError {
    IdentityError::File { path: path.to_owned(), text: text.to_owned() }
}

/// The cryptography everything here uses.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What is wrong with the dates of a certificate, whoever signed it.
fn out_of_date(certificate: &CertificateDer<'static>) -> Option<&'static str> {
    match dates(certificate, UnixTime::now()) {
        Some(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            Some("has expired; renew it, or leave out --cert and --key to have one made")
        }
        Some(_) => Some("is not valid yet; set this machine's clock right"),
        None => None,
    }
}

/// [`CertificateError::Expired`] or [`CertificateError::NotValidYet`] (or their variants) where they are true
/// of a certificate. Dates come before everything else a verifier looks at, so its own root will do.
pub(super) fn dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<CertificateError> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone().into_owned()).ok()?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()?;
    let name = ServerName::try_from("localhost").expect("a name");
    match verifier.verify_server_cert(certificate, &[], &name, &[], now) {
        Err(rustls::Error::InvalidCertificate(error)) if is_of_dates(&error) => Some(error),
        _ => None,
    }
}

fn is_of_dates(error: &CertificateError) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(error, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["localhost".to_owned(), "127.0.0.1".to_owned()]
    }

    #[test]
    fn fingerprints_are_read_as_they_are_written_and_with_colons() {
        let identity = Identity::self_signed(&names()).unwrap();
        let print = identity.fingerprint();
        let text = print.to_string();
        assert_eq!(text.len(), 64);
        assert_eq!(text.parse(), Ok(print));
        let colons: Vec<&str> = (0..32).map(|k| &text[2 * k..2 * k + 2]).collect();
        assert_eq!(colons.join(":").to_uppercase().parse(), Ok(print));
        for bad in ["", "00", &text[1..], &format!("{}g", &text[1..])] {
            assert!(bad.parse::<Fingerprint>().unwrap_err().contains("64 hexadecimal digits"), "{bad}");
        }
        // FIPS 180-4's example of one block.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Fingerprint::of(b"abc").to_string(), abc);
    }

    #[test]
    fn dates_are_checked_whoever_signed() {
        let now = SystemTime::now();
        let day = Duration::from_secs(86_400);
        let of = |start, end| Identity::self_signed_for(&names(), start, end).unwrap();
        assert_eq!(out_of_date(&of(now - day, now + day).chain[0]), None);
        assert!(out_of_date(&of(now - 2 * day, now - day).chain[0]).unwrap().contains("expired"));
        assert!(out_of_date(&of(now + day, now + 2 * day).chain[0]).unwrap().contains("not valid yet"));
        assert_eq!(out_of_date(&Identity::self_signed(&names()).unwrap().chain[0]), None);
    }

    #[test]
    fn validity_is_what_was_asked_for() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let day = Duration::from_secs(86_400);
        let of = |days| Identity::self_signed_for(&names(), start, start + days * day).unwrap();
        assert_eq!(of(14).validity(), (Some(start), Some(start + 14 * day)));
        assert!(of(14).suits_browsers_by_fingerprint() && !of(15).suits_browsers_by_fingerprint());
        assert!(Identity::self_signed(&names()).unwrap().suits_browsers_by_fingerprint());
    }

    #[test]
    fn files_that_hold_nothing_of_the_kind_are_named() {
        let missing = Path::new("no-such-file.pem");
        let error = Identity::from_pem(missing, missing).err().unwrap().to_string();
        assert!(error.starts_with("no-such-file.pem: "), "{error}");
    }
}
