//! What comes in: packets as they are read.

use record::Dropped;
use units::{RemoteTime, Time, likely, unlikely};
use wire::{Context, Kind, Media, Near, RxMeta, WireError};

use super::Receiver;

impl Receiver {
    /// A packet of padding of this session.
    #[inline(always)]
    pub(super) fn receive_padding(
        &mut self,
        now: Time,
        packet: u64,
        sent: RemoteTime,
        feedback_seen: u32,
        meta: &RxMeta,
    ) {
        let media = Media::padding(self.session.unwrap_or(0), packet, sent, feedback_seen);
        let mut bare = RxMeta { length: meta.length, payload: None, ecn: meta.ecn };
        self.on_media(now, &media, &[], &mut bare);
    }

    /// Anything but a packet of padding that is handed over.
    // Apart, so that both ends of a backlog take little.
    #[inline(never)]
    pub(super) fn receive_other(&mut self, now: Time, datagram: &[u8], meta: &mut RxMeta) {
        self.reports_only.set(false);
        match self.dialect.frame(datagram) {
            Some((media, head)) if likely(self.is_ours(media.session)) => {
                self.on_media(now, &media, &datagram[head..], meta);
            }
            _ => self.receive_encoded(now, datagram, meta),
        }
    }

    // Apart from what is read at a glance, so that a header of that need not lie in memory.
    #[inline(never)]
    fn receive_encoded(&mut self, now: Time, datagram: &[u8], meta: &mut RxMeta) {
        let mut media = Media::blank();
        match self.read_any(now, datagram, &mut media) {
            Ok(Some(head)) => {
                self.on_media(now, &media, datagram.get(head..).unwrap_or_default(), meta);
            }
            Ok(None) => {}
            Err(_) => self.refuse(now, Dropped::Malformed),
        }
    }

    /// A packet of `session` is of the one that is received, and there is nothing against it.
    #[inline]
    pub(super) fn is_ours(&self, session: u32) -> bool {
        // Without its half at this end the sender would run blind: it had better hear that nobody answers.
        self.trouble.is_none() && self.session == Some(session)
    }

    /// Reads a header into a blank one, and returns its length; or all of what is no media of this session.
    #[inline(never)]
    fn read_any(
        &mut self,
        now: Time,
        datagram: &[u8],
        media: &mut Media,
    ) -> Result<Option<usize>, WireError> {
        let (kind, session) = self.dialect.peek(datagram)?;
        let foreign = self.trouble.is_some() || self.session.is_some_and(|ours| ours != session);
        if unlikely((kind != Kind::Media) | foreign) {
            self.read_rare(now, kind, foreign, datagram)?;
            return Ok(None);
        }
        let context = Context { near: Near::at(self.log.largest()), reported: self.reporter.sequence() };
        self.dialect.media(datagram, &context, media).map(Some)
    }

    /// Reads anything but media of this session.
    #[cold]
    fn read_rare(&mut self, now: Time, kind: Kind, foreign: bool, datagram: &[u8]) -> Result<(), WireError> {
        self.undisturbed.set(false);
        if kind == Kind::Control && !foreign {
            let control = self.dialect.control(datagram)?;
            self.on_control(now, &control);
        } else {
            self.refuse(now, Dropped::Foreign);
        }
        Ok(())
    }
}
