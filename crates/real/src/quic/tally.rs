//! What a server's admission control did: counted for metrics, and told to the log.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{info, warn};
use units::{Span, Time};

use super::admission::Reason;
use crate::channel::Ended;

/// What a server's admission control did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionCounters {
    /// Handshakes begun.
    pub handshakes: u64,
    /// Connection attempts asked to show first that they receive what is sent to them.
    pub retried: u64,
    /// Connections that passed admission.
    pub admitted: u64,
    /// Connection attempts and connections that were not, in the order of [`Reason::ALL`].
    pub refused: [u64; Reason::ALL.len()],
    /// Connections that were let in and have ended, in the order of [`Ended::KINDS`].
    pub ended: [u64; Ended::KINDS.len()],
}

impl AdmissionCounters {
    /// How many were refused for this reason.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused[reason as usize]
    }

    /// Connection attempts refused before anything was spent on them: too many, in one way or the other.
    pub fn turned_away(&self) -> u64 {
        let limits = [Reason::Strangers, Reason::Address, Reason::Handshakes, Reason::AddressHandshakes];
        limits.into_iter().map(|reason| self.refused(reason)).sum()
    }
}

/// Each reason has a line a second in the log, whatever a stranger does.
const TOLD_EVERY: Span = Span::from_secs(1);

/// When a reason was last told of, and how many times it was not since.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    last: Option<Time>,
    since: u64,
}

/// Counts what admission control does.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    handshakes: AtomicU64,
    retried: AtomicU64,
    admitted: AtomicU64,
    refused: [AtomicU64; Reason::ALL.len()],
    ended: [AtomicU64; Ended::KINDS.len()],
    told: Mutex<[Told; Reason::ALL.len()]>,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Tally {
    pub fn begin(&self) {
        count(&self.handshakes);
    }

    pub fn retry(&self) {
        count(&self.retried);
    }

    pub fn admit(&self) {
        count(&self.admitted);
    }

    pub fn end(&self, how: &Ended) {
        count(&self.ended[how.kind()]);
    }

    /// Somebody was not let in. `words` are ours, or were made fit for a log; whose span this is in is told
    /// with them.
    pub fn refuse(&self, now: Time, reason: Reason, words: &str) {
        count(&self.refused[reason as usize]);
        let Some(unsaid) = self.is_worth_telling(now, reason) else { return };
        let (label, unsaid) = (reason.label(), (unsaid > 0).then_some(unsaid));
        match reason {
            // What the internet's background noise does.
            Reason::Handshake | Reason::Late | Reason::Malformed => {
                info!(reason = label, unsaid, "refused: {words}");
            }
            _ => warn!(reason = label, unsaid, "refused: {words}"),
        }
    }

    /// `None` if the log has heard of this reason within the last second, else how many times it did not hear
    /// of it since.
    fn is_worth_telling(&self, now: Time, reason: Reason) -> Option<u64> {
        let told = &mut self.told.lock().expect("nothing panics while it holds this")[reason as usize];
        if told.last.is_some_and(|last| now - last < TOLD_EVERY) {
            told.since += 1;
            return None;
        }
        told.last = Some(now);
        Some(std::mem::take(&mut told.since))
    }

    pub fn counters(&self) -> AdmissionCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AdmissionCounters {
            handshakes: get(&self.handshakes),
            retried: get(&self.retried),
            admitted: get(&self.admitted),
            refused: std::array::from_fn(|k| get(&self.refused[k])),
            ended: std::array::from_fn(|k| get(&self.ended[k])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_a_second_and_counted_always() {
        let tally = Tally::default();
        let at = |ms| Time::from_millis(ms);
        (0..50).for_each(|k| tally.refuse(at(k), Reason::Token, "the token is wrong"));
        assert_eq!(tally.is_worth_telling(at(500), Reason::Role), Some(0), "another reason has its own line");
        assert_eq!(tally.is_worth_telling(at(999), Reason::Token), None);
        assert_eq!(tally.is_worth_telling(at(1_000), Reason::Token), Some(50));
        assert_eq!(tally.is_worth_telling(at(2_500), Reason::Token), Some(0));
        assert_eq!(tally.counters().refused(Reason::Token), 50);
    }
}
