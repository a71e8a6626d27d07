//! What goes out: reports, requests for what is missing.

use record::Event;
use units::{Span, Time, cold_path, unlikely};
use wire::{Control, Draft, KeyFrameRequest, Outgoing, Written};

use super::Receiver;
use crate::chain::Chain;

/// Requests waiting to be sent at most.
const REQUESTS: usize = 64;
/// A gap in packet numbers is asked about again this often: a round trip of most paths, and a few of them
/// within a frame's deadline.
const NACK_INTERVAL: Span = Span::from_millis(80);
/// A key frame is asked for again this often.
const KEY_INTERVAL: Span = Span::from_millis(100);

impl Receiver {
    /// Asks about what has been missing for long enough.
    pub(super) fn ask_for_gaps(&mut self, now: Time) {
        let Some(at) = self.gaps.filter(|at| *at <= now) else { return };
        let mut missing = false;
        let session = self.session.unwrap_or(0);
        for chain in &mut self.chains {
            let (stream, decoded) = (chain.stream, chain.display.newest());
            missing |= chain.assembly.nacks(now, NACK_INTERVAL, session, stream, decoded, |nack| {
                if self.nacks.len() < REQUESTS {
                    self.nacks.push_back(nack);
                }
            });
        }
        self.gaps = missing.then(|| at.max(now) + NACK_INTERVAL);
    }

    /// When a feedback packet is due, for the arrivals' sake or the receiver half's.
    pub(super) fn report_due(&self) -> Option<Time> {
        match &self.half {
            None => self.reporter.due_at(),
            Some(half) => {
                cold_path();
                Time::first(self.reporter.due_at(), half.due_at())
            }
        }
    }

    /// Whether there is something to [request](Receiver::transmit_request).
    #[inline(always)]
    pub(super) fn may_request(&self, now: Time) -> bool {
        let wanted = |chain: &Chain| chain.key_wanted.is_some_and(|(_, at)| at <= now);
        self.welcome_due || !self.nacks.is_empty() || self.chains.iter().any(wanted)
    }

    #[inline(always)]
    pub(super) fn transmit_report(&mut self, now: Time, out: &mut [u8]) -> Written {
        if unlikely(self.half.is_some()) {
            self.report_of_half(now, out)
        } else {
            self.write_report(now, &[], out)
        }
    }

    /// A report with what the half says.
    // Apart, for without it there is nothing to be said, and nobody need look.
    #[inline(never)]
    fn report_of_half(&mut self, now: Time, out: &mut [u8]) -> Written {
        let mut blob = std::mem::take(&mut self.blob);
        blob.clear();
        if let Some(half) = &mut self.half {
            half.write(now, &mut blob);
        }
        let written = self.write_report(now, &blob, out);
        self.blob = blob;
        written
    }

    #[inline(always)]
    fn write_report(&mut self, now: Time, blob: &[u8], out: &mut [u8]) -> Written {
        let (session, refused) = (self.session.unwrap_or(0), self.counters.refused());
        let draft = Draft { session, sequence: 0, sent: now, refused, blob, arrivals: &[] };
        let (sequence, written) = self.reporter.write(&draft, &self.log, &mut self.dialect, out);
        self.counters.feedback += 1;
        self.tap.record(now, Event::FeedbackSent { sequence, size: written.length as u32 });
        written
    }

    #[cold]
    pub(super) fn transmit_request(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        self.undisturbed.set(false);
        let session = self.session.unwrap_or(0);
        if let Some(nack) = self.nacks.pop_front() {
            self.counters.nacks += 1;
            self.tap.record(now, Event::NackSent { count: nack.wanted().count() as u16 });
            return Some(self.dialect.write(Outgoing::Nack(&nack), out));
        }
        for chain in &mut self.chains {
            let Some((after, _)) = chain.key_wanted.filter(|(_, at)| *at <= now) else { continue };
            chain.key_wanted = Some((after, now + KEY_INTERVAL));
            chain.key_sequence = chain.key_sequence.wrapping_add(1);
            self.counters.key_requests += 1;
            let (stream, sequence) = (chain.stream, chain.key_sequence);
            self.tap.record(now, Event::KeyFrameRequested { stream });
            let request = KeyFrameRequest { session, stream, sequence, after };
            return Some(self.dialect.write(Outgoing::KeyFrameRequest(&request), out));
        }
        let welcome = std::mem::take(&mut self.welcome_due).then_some(Control::Welcome { session });
        welcome.map(|welcome| self.dialect.write(Outgoing::Control(&welcome), out))
    }
}
