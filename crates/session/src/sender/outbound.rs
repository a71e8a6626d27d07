//! What goes out: control, probes, repairs, frames, padding.

use cc::FrameTag;
use record::Event;
use units::{Bytes, Span, Time, cold_path, unlikely};
use wire::{Announcement, Control, FrameId, Media, Outgoing, TxMeta};

use super::{PROBE_SIZE, Sender};
use crate::capture::Capture;
use crate::config::SenderConfig;
use crate::track::Track;

/// Hello is repeated this often until anything is heard.
const HELLO_INTERVAL: Span = Span::from_millis(250);

impl Sender {
    pub(super) fn control_due(&self, now: Time) -> bool {
        !self.heard & self.hello_at.is_some_and(|at| at <= now)
    }

    /// A hello is due, or the end may have to be told.
    #[inline]
    pub(super) fn may_have_control(&self, now: Time) -> bool {
        self.control_due(now) || (self.byes_left > 0) & !self.backlogged && self.captures_ended()
    }

    #[cold]
    pub(super) fn transmit_control(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let session = self.config.session;
        let control = if self.control_due(now) {
            self.hello_at = Some(now + HELLO_INTERVAL);
            let (width, height) = self.config.picture;
            let interval = self.captures.first().map_or(Span::ZERO, |capture| capture.interval);
            let announcement = self.announced.as_deref().map(|(controller, setup)| Announcement {
                controller,
                initial_bps: setup.initial.as_bps(),
                min_bps: setup.min.as_bps(),
                max_bps: setup.max.as_bps(),
            });
            Control::Hello { session, width, height, interval_us: interval.as_micros() as u32, announcement }
        } else if self.byes_left > 0 && self.is_drained() {
            self.byes_left -= 1;
            Control::Bye { session }
        } else {
            return None;
        };
        let head = self.dialect.write(Outgoing::Control(&control), out);
        Some(TxMeta { head, length: head, ..TxMeta::default() })
    }

    /// A capture that dummies go between the frames of, while one is being captured, and its first track.
    fn filled(&self) -> Option<(&Capture, &Track)> {
        let capture = self.filler.and_then(|_| self.captures.iter().find(|c| c.next_at().is_some()))?;
        Some((capture, &self.tracks[capture.tracks.start]))
    }

    /// When a dummy may leave, as far as is known, if nothing else does.
    #[inline(never)]
    pub(super) fn dummy_at(&self) -> Option<Time> {
        let filler = self.filler.filter(|filler| self.core.window_allows(filler.size()))?;
        self.filled().map(|_| self.core.paced_until().max(filler.next()))
    }

    /// Nothing waits: a dummy, if the policy wants one and window and camera allow it.
    #[inline(never)]
    pub(super) fn transmit_dummy(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let frames = self.filled().and_then(|(capture, track)| Some((capture.next_at()?, track.awaited())));
        let size = self
            .filler
            .as_mut()
            .zip(frames)
            .and_then(|(filler, (next, awaited))| filler.may(now, next, awaited).then(|| filler.size()))
            .map(|size| size.min(self.mtu()));
        if let Some(size) = size {
            if let Some(repeat) = self.next_repeat(now) {
                return self.transmit_repeat(now, repeat, out);
            }
            if self.core.window_allows(size) {
                self.counters.dummies += 1;
                self.counters.dummy_bytes += size as u64;
                return Some(self.transmit_padding(now, size, out));
            }
            self.core.hold_back();
        }
        self.core.pause();
        None
    }

    /// A packet to repeat instead of sending a dummy, if the policy wants that and there is one.
    fn next_repeat(&mut self, now: Time) -> Option<(u8, FrameId, u16)> {
        let repeats = self.manner.dummies.is_some_and(|dummies| dummies.repeat);
        if !repeats || !self.core.window_allows(self.mtu()) {
            return None;
        }
        // What left earlier has been acknowledged or is being asked for.
        let since = now.saturating_sub(self.srtt());
        let repeated = |track: &mut Track| {
            let (id, index) = track.outbox.next_repeat(since)?;
            Some((track.stream, id, index))
        };
        self.tracks.iter_mut().find_map(repeated)
    }

    #[cold]
    fn transmit_repeat(&mut self, now: Time, repeat: (u8, FrameId, u16), out: &mut [u8]) -> Option<TxMeta> {
        let meta = self.transmit_again(now, repeat, out)?;
        self.counters.dummies += 1;
        self.counters.dummy_bytes += meta.length as u64;
        self.counters.repeats += 1;
        Some(meta)
    }

    /// Whether the controller will be told that the flow has run dry when the next packet has left.
    fn runs_dry(&self) -> bool {
        let waiting = match &self.tracks[..] {
            [track] => track.outbox.waiting_packets(),
            tracks => tracks.iter().map(|track| track.outbox.waiting_packets()).sum(),
        };
        !self.backlogged && self.filler.is_none() && self.repairs.is_empty() && waiting <= 1
    }

    /// A probe for an answer.
    #[cold]
    pub(super) fn transmit_probe(&mut self, now: Time, out: &mut [u8]) -> TxMeta {
        self.look_at_fresh();
        let waiting = self.manner.probe.and_then(|_| self.fresh.iter().position(|&waiting| waiting > 0));
        let video = waiting.and_then(|track| self.transmit_fresh(now, track, out));
        match video {
            Some((meta, _)) => meta,
            None => self.transmit_padding(now, PROBE_SIZE.min(self.mtu()), out),
        }
    }

    /// Writes a packet of no frame, `length` bytes in all.
    #[inline]
    pub(super) fn transmit_padding(&mut self, now: Time, length: usize, out: &mut [u8]) -> TxMeta {
        let app_limited = !self.backlogged && self.filler.is_none();
        self.write_padding(now, length, app_limited, out)
    }

    /// The same. `app_limited`: nothing else waits to be sent.
    #[inline(always)]
    fn write_padding(&mut self, now: Time, length: usize, app_limited: bool, out: &mut [u8]) -> TxMeta {
        // Written first: a driver copies it, which takes a processor long where it has just been stored.
        let packet = self.core.next_packet();
        let (session, feedback_seen) = (self.config.session, self.feedback_seen);
        let media = Media::padding(session, packet, now.on_wire(), feedback_seen);
        let head = self.dialect.write_media(media, out);
        let sent = self.dispatch(now, length, None, app_limited);
        debug_assert_eq!(sent, packet);
        TxMeta { head, length, ecn: self.config.ecn, ..TxMeta::default() }
    }

    /// Transmits what is due where there is a backlog and nothing beside it: its next packet, as far as pacer
    /// and window allow, but for a hello or a probe.
    // Apart: inlined, it would have `transmit` save registers for frames, too, which save them again.
    #[inline(never)]
    pub(super) fn transmit_backlog(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        // What it wants of the clock is looked at anew.
        self.undisturbed.set(false);
        if unlikely(self.control_due(now))
            && let Some(meta) = self.transmit_control(now, out)
        {
            return Some(meta);
        }
        if unlikely(self.core.probe_is_due()) && self.core.take_probe() {
            return Some(self.transmit_probe(now, out));
        }
        self.core.watch_window(now);
        if self.core.paced_until() > now {
            return None;
        }
        if unlikely(!self.core.window_is_open()) {
            self.core.stand_if(true);
            return None;
        }
        let meta = self.write_padding(now, self.mtu(), false, out);
        let (paced, full) = (self.core.paced_until() > now, !self.core.window_is_open());
        if unlikely(self.core.wants_whole_intervals()) && paced | full {
            self.core.watch_window(now);
        }
        self.core.stand_if(full & !paced);
        Some(TxMeta { last: paced | full, ..meta })
    }

    /// Enters a packet of `length` bytes everywhere and returns its number.
    #[inline(always)]
    fn dispatch(&mut self, now: Time, length: usize, frame: Option<FrameTag>, app_limited: bool) -> u64 {
        let packet = self.core.sent(now, length as u32, frame, app_limited);
        if let Some(filler) = &mut self.filler {
            filler.sent(now, Bytes::new(length as u64));
        }
        if let Some(watch) = &mut self.watch {
            cold_path();
            watch.sent(now);
        }
        packet
    }

    /// Sends a packet of the frame at `position` in the outbox: packet `again`, which has left before, or the
    /// next one, and then says, too, whether all of the frame has left with it.
    #[inline(always)]
    fn transmit_part(
        &mut self,
        now: Time,
        track: usize,
        position: usize,
        again: Option<u16>,
        out: &mut [u8],
    ) -> Option<(TxMeta, bool)> {
        let app_limited = self.runs_dry();
        let Track { stream, outbox, .. } = &mut self.tracks[track];
        let (stream, class, retransmission) = (*stream, outbox.class, again.is_some());
        let frame = outbox.at_mut(position)?;
        let index = again.unwrap_or(frame.next);
        if again.is_none() && index == 0 && self.config.deadline.is_none() {
            frame.begin(now + self.core.rtt().min() * SenderConfig::REPAIR_TRIPS);
        }
        let (bytes, payload) = frame.part(index);
        let length = bytes + self.dialect.header();
        let (session, packet) = (self.config.session, self.core.next_packet());
        let (sent, feedback_seen) = (now.on_wire(), self.feedback_seen);
        let media = Media {
            session,
            packet,
            sent,
            feedback_seen,
            retransmission,
            ..frame.media(stream, class, index)
        };
        let head = self.dialect.write_media(media, out);
        let (id, packets, count) = (frame.info.id, frame.count, frame.total());
        let done = !retransmission && frame.leave(now);
        if retransmission {
            outbox.resent(now, id, index);
        } else {
            outbox.advance(now, bytes as u32, done);
        }
        let FrameId { frame, version } = id;
        let tag = FrameTag { stream, frame, version, index, count, retransmission };
        let entered = self.dispatch(now, length, Some(tag), app_limited);
        debug_assert_eq!(entered, packet);
        if unlikely(done) {
            self.tap.record(now, Event::FrameSent { stream, frame, version, packets });
        }
        Some((TxMeta { head, length, payload, ecn: self.config.ecn, last: false }, done))
    }

    #[inline(never)]
    pub(super) fn transmit_repair(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let repair = self.repairs.pop_front()?;
        // What found no room among the repairs finds it now.
        let wanted = |track: &mut Track| {
            let (id, index) = track.outbox.take_wanted()?;
            Some((track.stream, id, index))
        };
        self.repairs.extend(self.tracks.iter_mut().find_map(wanted));
        let meta = self.transmit_again(now, repair, out)?;
        self.counters.retransmissions += 1;
        Some(meta)
    }

    /// Sends a packet that has left before, if its frame is still kept.
    #[inline(never)]
    fn transmit_again(
        &mut self,
        now: Time,
        (stream, id, index): (u8, FrameId, u16),
        out: &mut [u8],
    ) -> Option<TxMeta> {
        let track = self.position(stream)?;
        let position = self.tracks[track].outbox.position(id)?;
        self.transmit_part(now, track, position, Some(index), out).map(|(meta, _)| meta)
    }

    /// Sends the next packet of a track, or one of the backlog, which stands behind the tracks; and says
    /// whether all of its frame has left with it.
    #[inline(always)]
    pub(super) fn transmit_fresh(
        &mut self,
        now: Time,
        track: usize,
        out: &mut [u8],
    ) -> Option<(TxMeta, bool)> {
        match self.tracks.get(track).map(|track| track.outbox.sending()) {
            Some(position) => self.transmit_part(now, track, position, None, out),
            None => Some((self.transmit_padding(now, self.mtu(), out), false)),
        }
    }
}
