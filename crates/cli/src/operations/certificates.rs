//! A server's certificate: from files, or made at start; looked after while the server runs.
//!
//! A thread looks at the files every five seconds and reads them again once they have changed and then stayed
//! the same for a look: whoever writes a certificate and its key one after the other is not caught between
//! the two. A hangup signal (SIGHUP) has them read at once. What can't be used is reported and the old one
//! stays. Connections that exist go on in every case.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use prometheus_client::registry::Unit;
use real::quic::{Credentials, Identity, IdentityError};
use tracing::{error, info, warn};

use super::Exposition;
use crate::failure::Failure;
use crate::live::hung_up;

/// How often files are looked at. An operator who waits for it sees it happen, and a look is two system
/// calls.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often it is asked whether there was a hangup, or the server has ended.
const TICK: Duration = Duration::from_millis(200);
/// A certificate made here is replaced this long before its end, where that may be.
const RENEW_BEFORE: Duration = Duration::from_secs(86_400);
/// From this long before the end of a certificate from files on, the log says so once a day: renewals
/// commonly run a month ahead.
const WARN_BEFORE: Duration = Duration::from_secs(7 * 86_400);
const DAY: Duration = Duration::from_secs(86_400);

/// Which certificate a server shows.
#[derive(Debug, Clone, clap::Args)]
pub struct Certificate {
    /// Our certificate and those that signed it, in PEM; read again when the file changes, or on SIGHUP. One
    /// is made if left out, for 13 days
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}

impl Certificate {
    /// Reads it, or makes one for these names.
    pub fn identity(&self, names: &[String]) -> Result<Identity, Failure> {
        match self.files() {
            Some((cert, key)) => Identity::from_pem(cert, key).map_err(Failure::input),
            None => Identity::self_signed(names).map_err(Failure::work),
        }
    }

    fn files(&self) -> Option<(&PathBuf, &PathBuf)> {
        self.cert.as_ref().zip(self.key.as_ref())
    }
}

/// Where the next certificate comes from.
#[derive(Debug, Clone)]
pub enum Renewal {
    /// From files that somebody else renews.
    Files(PathBuf, PathBuf),
    /// It is made here, for these names: clients ask us for its fingerprint whenever they connect.
    Made(Vec<String>),
    /// Nowhere: clients were told to accept this one alone.
    Never,
}

impl Renewal {
    /// Files if there are any; else what `otherwise` says.
    pub fn of(certificate: &Certificate, otherwise: Renewal) -> Renewal {
        certificate.files().map_or(otherwise, |(cert, key)| Renewal::Files(cert.clone(), key.clone()))
    }

    fn next(&self) -> Result<Identity, IdentityError> {
        match self {
            Renewal::Files(cert, key) => Identity::from_pem(cert, key),
            Renewal::Made(names) => Identity::self_signed(names),
            Renewal::Never => {
                Err(IdentityError::Making("clients were told to accept this one alone".to_owned()))
            }
        }
    }

    /// Changes when the files do; always the same where there are none.
    fn look(&self) -> Option<[(SystemTime, u64); 2]> {
        let Renewal::Files(cert, key) = self else { return None };
        let [cert, key] = [cert, key].map(|file| {
            let about = std::fs::metadata(file).ok()?;
            Some((about.modified().ok()?, about.len()))
        });
        Some([cert?, key?])
    }
}

/// What metrics show of a certificate.
#[derive(Debug, Default)]
pub struct Status {
    /// When it ends, in seconds since 1970; 0 if that is not known.
    expires: AtomicU64,
    replaced: AtomicU64,
    kept: AtomicU64,
}

impl Status {
    fn note(&self, identity: &Identity) {
        self.expires.store(seconds(identity.validity().1), Ordering::Relaxed);
    }

    /// Writes the certificate's metrics.
    pub fn show(&self, out: &mut Exposition<'_>) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let expires = Some(get(&self.expires)).filter(|seconds| *seconds > 0);
        let help = "When the certificate ends, in seconds since 1970";
        let values = expires.map(|seconds| (vec![], seconds as f64));
        out.gauge("framewire_certificate_expiry_timestamp", help, Some(Unit::Seconds), values);
        let outcome = |name: &str| vec![("outcome", name.to_owned())];
        let reloads = [(outcome("replaced"), get(&self.replaced)), (outcome("kept_old"), get(&self.kept))];
        let help = "Times another certificate was there; kept_old if it could not be used";
        out.counter("framewire_certificate_reloads", help, None, reloads);
    }
}

fn seconds(date: Option<SystemTime>) -> u64 {
    date.and_then(|date| date.duration_since(SystemTime::UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}

/// Looks after a certificate until it is dropped.
pub struct Keeper {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Looks after what `credentials` show, which is `identity` at first; `told` hears of every replacement.
pub fn keep(
    renewal: Renewal,
    identity: &Identity,
    credentials: Credentials,
    status: &Arc<Status>,
    told: impl Fn(&Identity) + Send + 'static,
) -> Keeper {
    status.note(identity);
    let over = Arc::new(AtomicBool::new(false));
    let at_first = renewal.look();
    let mut care = Care {
        renewal,
        credentials,
        status: status.clone(),
        told: Box::new(told),
        expires: identity.validity().1,
        shown: identity.fingerprint(),
        read: at_first,
        seen: at_first,
        warned: None,
    };
    // From here on a hangup means this.
    hung_up();
    let ended = over.clone();
    let thread = std::thread::spawn(move || {
        let mut ticks = 0u32;
        while !ended.load(Ordering::Relaxed) {
            std::thread::park_timeout(TICK);
            ticks += 1;
            if hung_up() {
                care.renew("SIGHUP");
            } else if ticks.is_multiple_of((LOOK_EVERY.as_millis() / TICK.as_millis()) as u32) {
                care.look();
            }
        }
    });
    Keeper { over, thread: Some(thread) }
}

type Looks = Option<[(SystemTime, u64); 2]>;

struct Care {
    renewal: Renewal,
    credentials: Credentials,
    status: Arc<Status>,
    told: Box<dyn Fn(&Identity) + Send>,
    expires: Option<SystemTime>,
    shown: real::quic::Fingerprint,
    /// How the files looked when they were last read, and at the last look.
    read: Looks,
    seen: Looks,
    /// When the log was last warned of the end.
    warned: Option<SystemTime>,
}

impl Care {
    fn look(&mut self) {
        let looks = self.renewal.look();
        // Changed, and no longer changing.
        if looks.is_some() && looks != self.read && looks == self.seen {
            self.renew("the files have changed");
        }
        self.seen = looks;
        let left = self.expires.and_then(|end| end.duration_since(SystemTime::now()).ok());
        let left = left.unwrap_or(if self.expires.is_some() { Duration::ZERO } else { Duration::MAX });
        match self.renewal {
            Renewal::Made(_) if left < RENEW_BEFORE => self.renew("its end is near"),
            _ if left < WARN_BEFORE => self.warn(left),
            _ => {}
        }
    }

    fn warn(&mut self, left: Duration) {
        let now = SystemTime::now();
        if self.warned.is_none_or(|last| now.duration_since(last).is_ok_and(|since| since > DAY)) {
            self.warned = Some(now);
            warn!(
                hours = left.as_secs() / 3_600,
                "the certificate ends soon: renew it, or clients will refuse it"
            );
        }
    }

    fn renew(&mut self, why: &str) {
        if matches!(self.renewal, Renewal::Never) {
            return warn!("{why}: the certificate was made at start and stays; clients were told its pin");
        }
        self.read = self.renewal.look();
        let next = self.renewal.next().and_then(|next| self.credentials.replace(&next).map(|()| next));
        match next {
            Ok(next) if next.fingerprint() == self.shown => {
                info!(fingerprint = %self.shown, "{why}: it is the same certificate");
            }
            Ok(next) => {
                self.shown = next.fingerprint();
                self.expires = next.validity().1;
                self.status.note(&next);
                self.status.replaced.fetch_add(1, Ordering::Relaxed);
                info!(fingerprint = %self.shown, "{why}: newcomers get the new certificate");
                (self.told)(&next);
            }
            Err(wrong) => {
                self.status.kept.fetch_add(1, Ordering::Relaxed);
                error!("{why}: the new certificate can't be used, the old one stays: {wrong}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use real::Clock;
    use real::quic::{Fingerprint, Gate, Limits, Runtime, Server, Token};
    use std::sync::Mutex;

    /// The care of a server whose certificate ends in `left`, the server, and the fingerprints it told of.
    fn care(renewal: Renewal, left: Duration) -> (Care, (Server, Runtime), Arc<Mutex<Vec<Fingerprint>>>) {
        let names = ["localhost".to_owned()];
        let now = SystemTime::now();
        let identity = Identity::self_signed_for(&names, now - DAY, now + left).unwrap();
        let runtime = Runtime::new(1).unwrap();
        let gate = Gate::new(Token::generate(), true, false);
        let listen = "127.0.0.1:0".parse().unwrap();
        let server =
            Server::open(&runtime, listen, &identity, gate, Limits::default(), Clock::shared()).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = told.clone();
        let care = Care {
            renewal,
            credentials: server.credentials(),
            status: Arc::default(),
            told: Box::new(move |next| hears.lock().unwrap().push(next.fingerprint())),
            expires: identity.validity().1,
            shown: identity.fingerprint(),
            read: None,
            seen: None,
            warned: None,
        };
        (care, (server, runtime), told)
    }

    #[test]
    fn a_certificate_made_here_is_followed_by_another_before_its_end() {
        let names = vec!["localhost".to_owned()];
        let (mut fresh, _server, told) = care(Renewal::Made(names.clone()), DAY * 2);
        fresh.look();
        assert!(told.lock().unwrap().is_empty());
        let (mut old, _server, told) = care(Renewal::Made(names), DAY / 2);
        let before = old.shown;
        old.look();
        old.look();
        assert_eq!(*told.lock().unwrap(), [old.shown]);
        assert!(old.shown != before && old.expires.unwrap() > SystemTime::now() + 12 * DAY);
    }

    #[test]
    fn a_pinned_one_stays_and_its_end_is_told_once_a_day() {
        let (mut pinned, _server, told) = care(Renewal::Never, DAY / 2);
        pinned.look();
        let warned = pinned.warned;
        pinned.look();
        pinned.renew("SIGHUP");
        assert!(warned.is_some() && pinned.warned == warned && told.lock().unwrap().is_empty());
    }

    #[test]
    fn files_are_read_once_they_have_changed_and_stopped_changing() {
        let folder = std::env::temp_dir().join(format!("framewire-care-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
        let (mut files, _server, _) = care(Renewal::Files(cert.clone(), key.clone()), DAY * 30);
        let tries = |care: &Care| care.status.kept.load(Ordering::Relaxed);
        files.look();
        assert_eq!(tries(&files), 0, "there are none");
        std::fs::write(&cert, "a").unwrap();
        std::fs::write(&key, "b").unwrap();
        files.look();
        std::fs::write(&key, "still being written").unwrap();
        files.look();
        assert_eq!(tries(&files), 0, "they change");
        files.look();
        files.look();
        assert_eq!(tries(&files), 1, "read once, and of no use");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
