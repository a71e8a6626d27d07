//! The receiving side.

use std::collections::VecDeque;

use bytes::Bytes;
use cc::{OptionError, Received, ReceiverHalf, Setup};
use media::Decoder;
use record::{Dropped, Event, Tap};
use units::{Rate, RelativeDelay, Span, Time};
use wire::{Announcement, Class, Control, Endpoint, KeyFrameRequest, Kind, Media, Nack, RxMeta, TxMeta};

use crate::arrivals::{ArrivalLog, Novelty};
use crate::assembly::{Assembly, Room, Stored};
use crate::clock::Offset;
use crate::config::ReceiverConfig;
use crate::counters::ReceiverCounters;
use crate::decoding::Decoding;
use crate::display::{Display, Progress, Screen, Shown};
use crate::feedback::Reporter;
use crate::playout::{self, AtOnce, Playout, Ready};

/// Streams a session may carry: stream numbers beyond are malformed. Each costs its buffers.
const STREAMS: u8 = 4;
/// Requests waiting to be sent at most.
const REQUESTS: usize = 64;
/// A gap in packet numbers is asked about this much later: most gaps are packets passing each other.
pub(crate) const REORDER_WAIT: Span = Span::from_millis(5);
/// ... and asked about again this often: a round trip of most paths, and a few of them within a frame's
/// deadline.
const NACK_INTERVAL: Span = Span::from_millis(80);
/// A key frame is asked for again this often.
const KEY_INTERVAL: Span = Span::from_millis(100);

#[derive(Debug)]
struct InStream {
    assembly: Assembly,
    display: Display,
    /// What is ready and waits to be shown.
    queue: playout::Queue,
    key_sequence: u16,
    /// A key frame is wanted: after this frame, asked for next at this time.
    key_wanted: Option<(u32, Time)>,
}

impl InStream {
    fn new(playout: Box<dyn Playout>) -> InStream {
        InStream {
            assembly: Assembly::default(),
            display: Display::default(),
            queue: playout::Queue::new(playout),
            key_sequence: 0,
            key_wanted: None,
        }
    }
}

/// The receiving endpoint.
pub struct Receiver {
    config: ReceiverConfig,
    session: Option<u32>,
    half: Option<Box<dyn ReceiverHalf>>,
    /// What the sender says of its controller is followed, and was not heard yet.
    following: bool,
    /// Why its half could not be built.
    trouble: Option<OptionError>,
    blob: Vec<u8>,
    decoding: Decoding,
    screen: Option<Box<dyn Screen>>,
    tap: Tap,
    log: ArrivalLog,
    reporter: Reporter,
    offset: Offset,
    streams: Vec<InStream>,
    nacks: VecDeque<Nack>,
    /// When gaps are next asked about, while there are any.
    gaps: Option<Time>,
    /// Each stream has one of the kind.
    playout: Box<dyn Playout>,
    welcome_due: bool,
    ended: bool,
    counters: ReceiverCounters,
}

impl Receiver {
    /// A receiver that decodes with `decoder` and shows on `screen`, where there are any. One decoder serves
    /// stream 0.
    pub fn new(
        config: ReceiverConfig,
        decoder: Option<Box<dyn Decoder>>,
        screen: Option<Box<dyn Screen>>,
        tap: Tap,
    ) -> Receiver {
        Receiver {
            config,
            session: config.session,
            half: None,
            following: false,
            trouble: None,
            blob: Vec::new(),
            decoding: Decoding::new(decoder),
            screen,
            tap,
            log: ArrivalLog::default(),
            reporter: Reporter::default(),
            offset: Offset::default(),
            streams: Vec::new(),
            nacks: VecDeque::new(),
            gaps: None,
            playout: Box::new(AtOnce),
            welcome_due: false,
            ended: false,
            counters: ReceiverCounters::default(),
        }
    }

    /// The same receiver with the half of a controller that lives on this side.
    pub fn with_half(self, half: Option<Box<dyn ReceiverHalf>>) -> Receiver {
        Receiver { half, ..self }
    }

    /// The same receiver, which shows frames when `playout` says; a new one shows each at once ([`playout`]).
    pub fn with_playout(self, playout: Box<dyn Playout>) -> Receiver {
        Receiver { playout, ..self }
    }

    /// The same receiver, which builds that half of what the sender says of its controller in its hello, if
    /// it says anything.
    pub fn following(self) -> Receiver {
        Receiver { following: true, ..self }
    }

    /// Why the half of the sender's controller could not be built, if it could not. Such a sender is not
    /// welcomed.
    pub fn trouble(&self) -> Option<&OptionError> {
        self.trouble.as_ref()
    }

    /// Exchanges that half while packets arrive: who sends may be heard of before how it does so is known.
    pub fn set_half(&mut self, half: Option<Box<dyn ReceiverHalf>>) {
        self.half = half;
    }

    /// Counts since the start.
    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    /// The sender said that nothing more will come, and what came has been shown.
    pub fn is_finished(&self) -> bool {
        self.ended && self.streams.iter().all(|stream| stream.queue.next_due().is_none())
    }

    fn refuse(&mut self, now: Time, cause: Dropped) {
        let counter = match cause {
            Dropped::Malformed => &mut self.counters.malformed,
            Dropped::Foreign => &mut self.counters.foreign,
            Dropped::Duplicate => &mut self.counters.duplicates,
            Dropped::FarFuture => &mut self.counters.far_future,
            Dropped::BufferFull => &mut self.counters.buffer_full,
            _ => &mut self.counters.stale,
        };
        *counter += 1;
        self.tap.record(now, Event::HostDropped { cause });
    }

    fn on_media(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        let Ok(media) = Media::decode(datagram) else { return self.refuse(now, Dropped::Malformed) };
        if media.stream >= STREAMS {
            return self.refuse(now, Dropped::Malformed);
        }
        let padding = media.class == Class::Padding;
        // Before the packet counts as arrived: what is acknowledged is not sent again.
        if !padding && !self.make_room(now, &media, datagram, meta.payload.as_ref()) {
            return self.refuse(now, Dropped::BufferFull);
        }
        let novelty = self.log.insert(media.packet);
        match novelty {
            Novelty::Duplicate => return self.refuse(now, Dropped::Duplicate),
            Novelty::Stale => return self.refuse(now, Dropped::Stale),
            Novelty::FarFuture => return self.refuse(now, Dropped::FarFuture),
            Novelty::Next | Novelty::AfterGap | Novelty::Filling => {}
        }
        self.accept(now, &media, &meta);
        let complete = !padding && self.assemble(now, &media, datagram, meta.payload, meta.length);
        if novelty == Novelty::AfterGap && self.config.nack && !padding {
            self.gaps = Some(now + REORDER_WAIT);
        }
        let urgent = complete || novelty == Novelty::AfterGap || media.index + 1 == media.count && !padding;
        self.reporter.arrived(now, media.packet, meta.ecn, padding, urgent, &self.config);
    }

    #[inline]
    fn accept(&mut self, now: Time, media: &Media, meta: &RxMeta) {
        self.session.get_or_insert(media.session);
        self.counters.packets += 1;
        self.counters.bytes += meta.length as u64;
        self.offset.insert(media.sent, now);
        let rtt = self.reporter.confirm(now, media.feedback_seen);
        if let Some(half) = &mut self.half {
            let (packet, size) = (media.packet, meta.length as u32);
            half.on_packet(&Received { now, packet, sent: media.sent, size, ecn: meta.ecn, rtt });
        }
        if self.tap.is_on() {
            let owd = RelativeDelay::between(media.sent, now);
            let frame = if media.class == Class::Padding { u32::MAX } else { media.frame };
            let (packet, size, stream) = (media.packet, meta.length as u32, media.stream);
            self.tap.record(now, Event::PacketReceived { packet, size, stream, frame, owd });
        }
    }

    /// The payload of a datagram that came over a socket, where it follows the header; none where nobody
    /// would decode it.
    fn over_socket<'a>(&self, datagram: &'a [u8]) -> Option<&'a [u8]> {
        datagram.get(Media::LEN..).filter(|bytes| self.decoding.is_real() && !bytes.is_empty())
    }

    /// Gives up the oldest frames of a stream where a packet needs their room. False if there is none for it
    /// even so.
    fn make_room(&mut self, now: Time, media: &Media, datagram: &[u8], handle: Option<&Bytes>) -> bool {
        let bytes = handle.map(Bytes::len).or_else(|| self.over_socket(datagram).map(<[u8]>::len));
        let index = usize::from(media.stream);
        let Some(stream) = self.streams.get_mut(index) else { return true };
        match stream.assembly.room_for(media, bytes.unwrap_or(0)) {
            Room::Free => true,
            Room::Beyond(frame) => {
                let mut progress = Progress::default();
                stream.display.give_up(frame, &mut stream.assembly, &mut progress);
                self.counters.crowded_out += progress.abandoned.len() as u64;
                self.follow(now, index, progress);
                true
            }
            Room::None => false,
        }
    }

    /// Puts a packet into its frame; true if that is complete now.
    fn assemble(
        &mut self,
        now: Time,
        media: &Media,
        datagram: &[u8],
        handle: Option<Bytes>,
        length: usize,
    ) -> bool {
        let deadline = self.offset.localise(media.captured).unwrap_or(now) + media.deadline;
        while self.streams.len() <= usize::from(media.stream) {
            self.streams.push(InStream::new(self.playout.fresh()));
        }
        let payload = handle.or_else(|| self.over_socket(datagram).map(Bytes::copy_from_slice));
        let payload_length = length.saturating_sub(Media::LEN);
        let stream = &mut self.streams[usize::from(media.stream)];
        match stream.assembly.insert(media, payload_length, payload, deadline) {
            Stored::Kept => false,
            Stored::Complete => {
                self.counters.assembled += 1;
                let size = stream.assembly.completed(media.frame, now);
                let (stream, frame) = (media.stream, media.frame);
                self.tap.record(now, Event::FrameAssembled { stream, frame, size });
                self.advance(now, usize::from(stream));
                true
            }
            Stored::Duplicate => {
                self.refuse(now, Dropped::Duplicate);
                false
            }
            Stored::Stale => {
                self.refuse(now, Dropped::Stale);
                false
            }
            Stored::Implausible => {
                self.refuse(now, Dropped::Malformed);
                false
            }
        }
    }

    /// Decodes, shows and gives up what is due in a stream.
    fn advance(&mut self, now: Time, index: usize) {
        let stream = &mut self.streams[index];
        let progress = stream.display.advance(now, index as u8, &mut stream.assembly, &mut self.decoding);
        self.follow(now, index, progress);
        self.collect(now);
    }

    /// Asks for a key frame where one is needed, and counts what was given up.
    fn follow(&mut self, now: Time, index: usize, progress: Progress) {
        let Progress { abandoned, need_key_after } = progress;
        let stream = &mut self.streams[index];
        if let Some(after) = need_key_after {
            stream.key_wanted = Some((after, now));
        } else if !stream.display.is_broken() {
            stream.key_wanted = None;
        }
        for frame in abandoned {
            self.counters.abandoned += 1;
            self.tap.record(now, Event::FrameAbandoned { stream: index as u8, frame });
        }
    }

    /// Takes back what the decoder has done, and shows what is due.
    fn collect(&mut self, now: Time) {
        while let Some(result) = self.decoding.poll(now) {
            match result {
                Ok(shown) => {
                    let Shown { captured, arrival, stream, .. } = shown;
                    let captured_local = self.offset.localise(captured).unwrap_or(now);
                    let ready = Ready { now, captured, captured_local, arrival };
                    self.streams[usize::from(stream)].queue.push(shown, &ready);
                }
                Err(failed) => self.miss(now, &failed),
            }
        }
        self.play(now);
    }

    /// A frame would not decode.
    fn miss(&mut self, now: Time, failed: &Shown) {
        self.counters.decode_errors += 1;
        let stream = &mut self.streams[usize::from(failed.stream)];
        if stream.display.failed(failed.frame) {
            stream.key_wanted = Some((failed.frame, now));
        }
    }

    fn show(&mut self, now: Time, shown: Shown) {
        self.counters.displayed += 1;
        self.counters.late += u64::from(shown.late);
        let captured_local = self.offset.localise(shown.captured).unwrap_or(now);
        let Shown { stream, frame, version, late, .. } = shown;
        self.tap.record(now, Event::FrameDisplayed { stream, frame, version, captured_local, late });
        if let Some(screen) = &mut self.screen {
            screen.show(now, &shown);
        }
    }

    /// Shows what is due. Of several frames of a stream that are due at once only the newest is shown: a
    /// screen could show each of the others for no time at all.
    fn play(&mut self, now: Time) {
        for index in 0..self.streams.len() {
            let passed_over = &mut self.counters.passed_over;
            if let Some(shown) = self.streams[index].queue.take(now, |_| *passed_over += 1) {
                self.show(now, shown);
            }
        }
    }

    fn ask_for_gaps(&mut self, now: Time) {
        let Some(at) = self.gaps.filter(|at| *at <= now) else { return };
        let mut missing = false;
        let session = self.session.unwrap_or(0);
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let decoded = stream.display.decoded();
            missing |= stream.assembly.nacks(now, NACK_INTERVAL, session, index as u8, decoded, |nack| {
                if self.nacks.len() < REQUESTS {
                    self.nacks.push_back(nack);
                }
            });
        }
        self.gaps = missing.then(|| at.max(now) + NACK_INTERVAL);
    }

    fn on_control(&mut self, now: Time, datagram: &[u8]) {
        match Control::decode(datagram) {
            Ok(Control::Hello { session, interval_us, announcement, .. }) => {
                self.session.get_or_insert(session);
                if let Some(announcement) = announcement.filter(|_| std::mem::take(&mut self.following)) {
                    match half(&announcement, interval_us) {
                        Ok(half) => self.half = half,
                        Err(error) => self.trouble = Some(error),
                    }
                }
                self.welcome_due = self.trouble.is_none();
            }
            Ok(Control::Bye { .. }) => self.ended = true,
            Ok(Control::Welcome { .. }) => self.refuse(now, Dropped::Foreign),
            Err(_) => self.refuse(now, Dropped::Malformed),
        }
    }

    /// When a feedback packet is due, for the arrivals' sake or the receiver half's.
    fn report_due(&self) -> Option<Time> {
        let half = self.half.as_ref().and_then(|half| half.due_at());
        [self.reporter.due_at(), half].into_iter().flatten().min()
    }

    fn transmit_request(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        let session = self.session.unwrap_or(0);
        if let Some(nack) = self.nacks.pop_front() {
            self.counters.nacks += 1;
            self.tap.record(now, Event::NackSent { count: nack.wanted().count() as u16 });
            return Some(nack.encode(out));
        }
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let Some((after, _)) = stream.key_wanted.filter(|(_, at)| *at <= now) else { continue };
            stream.key_wanted = Some((after, now + KEY_INTERVAL));
            stream.key_sequence = stream.key_sequence.wrapping_add(1);
            self.counters.key_requests += 1;
            self.tap.record(now, Event::KeyFrameRequested { stream: index as u8 });
            let request =
                KeyFrameRequest { session, stream: index as u8, sequence: stream.key_sequence, after };
            return Some(request.encode(out));
        }
        std::mem::take(&mut self.welcome_due).then(|| Control::Welcome { session }.encode(out))
    }
}

/// The half of the controller that is announced, if it has one.
fn half(
    announcement: &Announcement<'_>,
    interval_us: u32,
) -> Result<Option<Box<dyn ReceiverHalf>>, OptionError> {
    let &Announcement { controller, initial_bps, min_bps, max_bps } = announcement;
    let [initial, min, max] = [initial_bps, min_bps, max_bps].map(Rate::from_bps);
    let defaults = Setup::default();
    let frame_interval = match interval_us {
        0 => defaults.frame_interval,
        us => Span::from_micros(i64::from(us)),
    };
    let setup = Setup { initial, min, max: max.max(min), frame_interval, ..defaults };
    cc::build_receiver(&controller.parse()?, &setup)
}

impl Endpoint for Receiver {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        match wire::peek(datagram) {
            // Without its half at this end the sender would run blind: it had better hear that nobody
            // answers.
            Ok(_) if self.trouble.is_some() => self.refuse(now, Dropped::Foreign),
            Ok((_, session)) if self.session.is_some_and(|ours| ours != session) => {
                self.refuse(now, Dropped::Foreign)
            }
            Ok((Kind::Media, _)) => self.on_media(now, datagram, meta),
            Ok((Kind::Control, _)) => self.on_control(now, datagram),
            Ok(_) => self.refuse(now, Dropped::Foreign),
            Err(_) => self.refuse(now, Dropped::Malformed),
        }
    }

    fn wake(&mut self, now: Time) {
        let waited = self.decoding.is_full();
        self.collect(now);
        let resumed = waited && !self.decoding.is_full();
        for index in 0..self.streams.len() {
            let stream = &self.streams[index];
            if resumed || stream.display.next_expiry(&stream.assembly).is_some_and(|at| at <= now) {
                self.advance(now, index);
            }
        }
        self.ask_for_gaps(now);
        self.play(now);
        if let Some(half) = self.half.as_mut().filter(|half| half.next_timer().is_some_and(|at| at <= now)) {
            half.on_timer(now);
        }
    }

    fn next_wake(&self) -> Option<Time> {
        let streams = self.streams.iter().flat_map(|stream| {
            let key = stream.key_wanted.map(|(_, at)| at);
            [stream.display.next_expiry(&stream.assembly), key, stream.queue.next_due()]
        });
        let half = self.half.as_ref().and_then(|half| half.next_timer());
        streams.chain([self.report_due(), self.gaps, self.decoding.next_ready(), half]).flatten().min()
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let head = match self.transmit_request(now, out) {
            Some(head) => head,
            None => {
                self.report_due().filter(|at| *at <= now)?;
                let (session, refused) = (self.session.unwrap_or(0), self.counters.refused());
                self.blob.clear();
                if let Some(half) = &mut self.half {
                    half.write(now, &mut self.blob);
                }
                let (sequence, length) =
                    self.reporter.write(now, session, refused, &self.blob, &self.log, out);
                self.counters.feedback += 1;
                self.tap.record(now, Event::FeedbackSent { sequence, size: length as u32 });
                length
            }
        };
        Some(TxMeta { head, length: head, ..TxMeta::default() })
    }
}
