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
        video.unwrap_or_else(|| self.transmit_padding(now, PROBE_SIZE.min(self.mtu()), out))
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
        let head =
            self.dialect.write_padding(self.config.session, packet, now.on_wire(), self.feedback_seen, out);
        let sent = self.dispatch(now, length, None, app_limited);
        debug_assert_eq!(sent, packet);
        TxMeta { head, length, ecn: self.config.ecn, ..TxMeta::default() }
    }

    /// Transmits what is due where there is a backlog and nothing beside it: its next packet, as far as pacer
    /// and window allow, but for a hello or a probe.
    #[inline(always)]
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
            self.stand();
            return None;
        }
        let meta = self.write_padding(now, self.mtu(), false, out);
        let (paced, full) = (self.core.paced_until() > now, !self.core.window_is_open());
        if paced | full {
            self.core.watch_window(now);
        }
        if full & !paced {
            self.stand();
        }
        Some(TxMeta { last: paced | full, ..meta })
    }

    /// The window is full.
    #[inline]
    fn stand(&mut self) {
        self.core.hold_back();
        self.core.pause();
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

    /// Sends packet `index` of the frame at `position` in the outbox: the current one's next packet, or one
    /// that has left before.
    #[inline(always)]
    pub(super) fn transmit_part(
        &mut self,
        now: Time,
        track: usize,
        position: usize,
        index: u16,
        retransmission: bool,
        out: &mut [u8],
    ) -> Option<TxMeta> {
        let Track { stream, outbox, .. } = &self.tracks[track];
        let stream = *stream;
        let class = outbox.class;
        let queued = outbox.at(position)?;
        let id = queued.info.id;
        let (bytes, payload) = queued.part(index);
        let length = bytes + self.dialect.header();
        let packet = self.core.next_packet();
        let media = Media {
            session: self.config.session,
            packet,
            sent: now.on_wire(),
            feedback_seen: self.feedback_seen,
            stream,
            class,
            frame: id.frame,
            version: id.version,
            index,
            count: queued.count,
            part: queued.piece(index),
            captured: queued.info.captured.on_wire(),
            deadline: queued.info.deadline - queued.info.captured,
            reference: queued.info.reference,
            retransmission,
            alone: queued.is_alone(index),
        };
        let FrameId { frame, version } = id;
        let count = queued.total();
        let tag = FrameTag { stream, frame, version, index, count, retransmission };
        let head = self.dialect.write(Outgoing::Media(&media), out);
        let app_limited = self.runs_dry();
        let sent = self.dispatch(now, length, Some(tag), app_limited);
        debug_assert_eq!(sent, packet);
        let outbox = &mut self.tracks[track].outbox;
        if retransmission {
            outbox.resent(now, id, index);
        } else if outbox.advance(now, bytes as u32) {
            self.tap.record(now, Event::FrameSent { stream, frame, version, packets: media.count });
        }
        Some(TxMeta { head, length, payload, ecn: self.config.ecn, last: false })
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
        self.transmit_part(now, track, position, index, true, out)
    }

    /// Sends the next packet of a track, or one of the backlog, which stands behind the tracks.
    #[inline(always)]
    pub(super) fn transmit_fresh(&mut self, now: Time, track: usize, out: &mut [u8]) -> Option<TxMeta> {
        if track == self.tracks.len() {
            return Some(self.transmit_padding(now, self.mtu(), out));
        }
        self.transmit_next(now, track, out)
    }

    /// Sends the next packet of a track. Apart, so that what a backlog runs stays short.
    #[inline(never)]
    fn transmit_next(&mut self, now: Time, track: usize, out: &mut [u8]) -> Option<TxMeta> {
        let outbox = &mut self.tracks[track].outbox;
        let position = outbox.sending();
        let index = outbox.at(position)?.next;
        if index == 0 && self.config.deadline.is_none() {
            outbox.begin(now + self.core.rtt().min() * SenderConfig::REPAIR_TRIPS);
        }
        self.transmit_part(now, track, position, index, false, out)
    }
}
