//! The receiving side.

mod inbound;
mod outbound;
mod showing;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::mem::offset_of;

use bytes::Bytes;
use cc::{OptionError, Received, ReceiverHalf, Setup};
use media::Decoder;
use record::{Dropped, Event, Tap, Topic};
use units::{Rate, RelativeDelay, Span, Time, fetch_front, likely, unlikely};
use wire::{
    Announcement, Arrival, Class, Control, Dialect, Endpoint, FrameId, Media, Nack, RxMeta, Spoken, TxMeta,
    Written,
};

use crate::arrivals::{ArrivalLog, Novelty};
use crate::assembly::{Room, Stored};
use crate::chain::{self, Chain};
use crate::clock::Offset;
use crate::config::ReceiverConfig;
use crate::counters::ReceiverCounters;
use crate::decoding::Decoding;
use crate::display::{Progress, Screen};
use crate::feedback::Reporter;
use crate::playout::{self, AtOnce, Playout};
use crate::versions::Versions;

/// A gap in packet numbers is asked about this much later: most gaps are packets passing each other.
pub(crate) const REORDER_WAIT: Span = Span::from_millis(5);

/// Time between frames of a sender that does not say: 30 a second.
const INTERVAL: Span = Span::from_nanos(33_333_333);
/// ... and at most, whatever it says: a frame a second.
const LONGEST_INTERVAL: Span = Span::from_secs(1);

/// Makes a decoder for a stream that is new, if it is to be decoded: the capture's number in the low four
/// bits, the track's in the high ones.
pub type Decoders = Box<dyn FnMut(u8) -> Option<Box<dyn Decoder>> + Send>;

/// The receiving endpoint.
// In this order, and from the start of a line of the caches on: what every packet of a backlog asks for lies
// together, so that a crowd of receivers waits for two thirds of the lines.
#[repr(C, align(64))]
pub struct Receiver {
    session: Option<u32>,
    log: ArrivalLog,
    reporter: Reporter,
    offset: Offset,
    config: ReceiverConfig,
    dialect: Spoken,
    half: Option<Box<dyn ReceiverHalf>>,
    /// What the sender says of its controller is followed, and was not heard yet.
    following: bool,
    welcome_due: bool,
    ended: bool,
    /// Nothing has happened since [`next_wake`](Endpoint::next_wake) last looked at chains and queues but
    /// that packets came into frames that had begun: they still want what they did.
    undisturbed: Cell<bool>,
    /// Nothing is asked for or shown, and no half wants anything: a report may be due, and nothing else. So
    /// it was when [`next_wake`](Endpoint::next_wake) last looked, and no packet but padding has come since.
    reports_only: Cell<bool>,
    /// Why its half could not be built.
    trouble: Option<Box<OptionError>>,
    blob: Vec<u8>,
    /// By number of stream.
    chains: Vec<Chain>,
    nacks: VecDeque<Nack>,
    /// When gaps are next asked about, while there are any.
    gaps: Option<Time>,
    tap: Tap,
    counters: ReceiverCounters,
    // A backlog's packets ask for nothing of what follows.
    wanted: Cell<Option<Time>>,
    /// Decoders of streams that were not heard of yet, ...
    decoders: BTreeMap<u8, Box<dyn Decoder>>,
    /// ... and who makes those of others.
    more: Option<Decoders>,
    screen: Option<Box<dyn Screen>>,
    /// Time between frames, as the sender says: so long a frame of another track waits for the first one's.
    interval: Span,
    /// What is ready and waits to be shown of each capture, once something of it has been heard.
    queues: [Option<Box<playout::Queue>>; chain::CAPTURES as usize],
    /// How many frames of each capture are remembered for those who watch later, ...
    remember: Option<usize>,
    /// ... and what arrived of those.
    versions: BTreeMap<u8, Versions>,
    /// Each capture has one of the kind.
    playout: Box<dyn Playout>,
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
            dialect: Spoken::default(),
            session: config.session,
            half: None,
            following: false,
            trouble: None,
            blob: Vec::new(),
            decoders: decoder.into_iter().map(|decoder| (0, decoder)).collect(),
            screen,
            tap,
            log: ArrivalLog::default(),
            reporter: Reporter::default(),
            offset: Offset::default(),
            more: None,
            interval: INTERVAL,
            chains: Vec::new(),
            queues: Default::default(),
            remember: None,
            versions: BTreeMap::new(),
            nacks: VecDeque::new(),
            gaps: None,
            playout: Box::new(AtOnce),
            welcome_due: false,
            reports_only: Cell::new(false),
            undisturbed: Cell::new(false),
            wanted: Cell::new(None),
            ended: false,
            counters: ReceiverCounters::default(),
        }
    }

    /// The same receiver, which decodes track `track` of capture `capture` with `decoder`. Without one its
    /// frames are shown without pictures.
    ///
    /// # Panics
    /// If a session has no such track: there are four of each.
    pub fn with_decoder(mut self, capture: u8, track: u8, decoder: Box<dyn Decoder>) -> Receiver {
        let stream = chain::stream_of(capture, track);
        assert!(track < 16 && chain::is_allowed(stream), "capture {capture} has no track {track}");
        self.decoders.insert(stream, decoder);
        self
    }

    /// The same receiver, which has a decoder made for each further stream when its first packet arrives.
    pub fn with_decoders(self, more: Decoders) -> Receiver {
        Receiver { more: Some(more), ..self }
    }

    /// The same receiver with the half of a controller that lives on this side.
    pub fn with_half(self, half: Option<Box<dyn ReceiverHalf>>) -> Receiver {
        Receiver { half, ..self }
    }

    /// The same receiver, which writes and reads packets in another encoding than [`wire::Native`].
    pub fn speaking(self, dialect: Box<dyn Dialect>) -> Receiver {
        Receiver { dialect: Spoken::Other(dialect), ..self }
    }

    /// The same receiver, for a sender that [hands its packets over](crate::Sender::handing_over) as plain
    /// numbers; its reports are such numbers, too.
    pub fn handing_over(self) -> Receiver {
        Receiver { dialect: Spoken::Plain, ..self }
    }

    /// The same receiver, which shows frames when `playout` says; a new one shows each at once ([`playout`]).
    pub fn with_playout(self, playout: Box<dyn Playout>) -> Receiver {
        Receiver { playout, ..self }
    }

    /// The same receiver, which remembers what arrived of the newest `frames` frames of each capture, and
    /// when ([`versions`](Receiver::versions)): better versions may come long after a frame was shown.
    pub fn remembering(self, frames: usize) -> Receiver {
        Receiver { remember: Some(frames), ..self }
    }

    /// What has arrived of a capture's frames, where that is remembered.
    pub fn versions(&self, capture: u8) -> Option<&Versions> {
        self.versions.get(&capture)
    }

    /// The same receiver, which builds that half of what the sender says of its controller in its hello, if
    /// it says anything.
    pub fn following(self) -> Receiver {
        Receiver { following: true, ..self }
    }

    /// Why the half of the sender's controller could not be built, if it could not. Such a sender is not
    /// welcomed.
    pub fn trouble(&self) -> Option<&OptionError> {
        self.trouble.as_deref()
    }

    /// Exchanges that half while packets arrive: who sends may be heard of before how it does so is known.
    pub fn set_half(&mut self, half: Option<Box<dyn ReceiverHalf>>) {
        self.reports_only.set(false);
        self.half = half;
    }

    /// Counts since the start.
    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    /// The streams of which a packet of a frame arrived at `since` or later, in order: what the sender makes
    /// of each capture at present, as far as its packets tell.
    pub fn streams_since(&self, since: Time) -> impl Iterator<Item = u8> {
        self.chains.iter().filter(move |chain| chain.heard >= since).map(|chain| chain.stream)
    }

    /// The sender said that nothing more will come, and what came has been shown.
    pub fn is_finished(&self) -> bool {
        self.ended && self.queues.iter().flatten().all(|queue| queue.next_due().is_none())
    }

    #[cold]
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

    /// A packet of frames or padding, with what follows its header.
    // Inlined by force, thrice: of padding little is left.
    #[inline(always)]
    fn on_media(&mut self, now: Time, media: &Media, rest: &[u8], meta: &mut RxMeta) {
        let padding = media.class == Class::Padding;
        // Where its stream's chain stands, looked up once.
        let known = if padding { None } else { self.position(media.stream) };
        if !padding && !chain::is_allowed(media.stream) {
            return self.refuse(now, Dropped::Malformed);
        }
        // Before the packet counts as arrived: what is acknowledged is not sent again.
        if !padding && !self.make_room(now, known, media, rest, meta.payload.as_ref()) {
            return self.refuse(now, Dropped::BufferFull);
        }
        let novelty = self.log.insert(media.packet);
        match novelty {
            Novelty::Duplicate => return self.refuse(now, Dropped::Duplicate),
            Novelty::Stale => return self.refuse(now, Dropped::Stale),
            Novelty::FarFuture => return self.refuse(now, Dropped::FarFuture),
            Novelty::Next | Novelty::AfterGap | Novelty::Filling => {}
        }
        self.accept(now, media, meta);
        let complete = !padding && self.assemble(now, known, media, rest, meta);
        if unlikely(novelty == Novelty::AfterGap) {
            self.log.forget(now);
            if self.config.nack && !padding {
                self.gaps = Some(now + REORDER_WAIT);
            }
        }
        let urgent = complete || novelty == Novelty::AfterGap || media.index + 1 == media.count && !padding;
        let arrival = Arrival { packet: media.packet, at: now.on_wire(), ecn: meta.ecn };
        self.reporter.arrived(now, arrival, padding, urgent, novelty == Novelty::Filling, &self.config);
    }

    #[inline(always)]
    fn accept(&mut self, now: Time, media: &Media, meta: &RxMeta) {
        if unlikely(self.session.is_none()) {
            self.session = Some(media.session);
        }
        self.counters.packets += 1;
        self.counters.bytes += meta.length as u64;
        self.offset.insert(media.sent, now);
        let rtt = self.reporter.confirm(now, media.feedback_seen);
        if let Some(half) = &mut self.half {
            let (packet, size) = (media.packet, meta.length as u32);
            half.on_packet(&Received { now, packet, sent: media.sent, size, ecn: meta.ecn, rtt });
        }
        if self.tap.wants(Topic::Packets) {
            let owd = RelativeDelay::between(media.sent, now);
            let frame = if media.class == Class::Padding { u32::MAX } else { media.frame };
            let (packet, size) = (media.packet, meta.length as u32);
            let (stream, version) = (media.stream, media.version);
            self.tap.record(now, Event::PacketReceived { packet, size, stream, frame, version, owd });
        }
    }

    /// The payload of a datagram that came over a socket, where it follows the header; none where nobody
    /// would decode it.
    fn over_socket<'a>(&self, known: Option<usize>, stream: u8, rest: &'a [u8]) -> Option<&'a [u8]> {
        if rest.is_empty() {
            return None;
        }
        let real = match known {
            Some(index) => self.chains[index].decoding.is_real(),
            None => self.more.is_some() || self.decoders.contains_key(&stream),
        };
        real.then_some(rest)
    }

    /// Where a stream's chain stands among the chains, once something of it has been heard.
    #[inline]
    fn position(&self, stream: u8) -> Option<usize> {
        self.chains.iter().position(|chain| chain.stream == stream)
    }

    /// Begins the chain of a stream of which nothing has been heard before, and says where it stands.
    #[cold]
    fn begin(&mut self, stream: u8, class: Class) -> usize {
        let at = self.chains.partition_point(|chain| chain.stream < stream);
        let made = self.decoders.remove(&stream);
        let decoder = made.or_else(|| self.more.as_mut().and_then(|more| more(stream)));
        let decoding = Decoding::new(decoder, self.config.decode_time);
        self.chains.insert(at, Chain::new(stream, class, decoding));
        let queue = &mut self.queues[usize::from(chain::capture_of(stream))];
        queue.get_or_insert_with(|| Box::new(playout::Queue::new(self.playout.fresh())));
        at
    }

    /// Gives up the oldest frames of a stream where a packet needs their room. False if there is none for it
    /// even so.
    #[inline(always)]
    fn make_room(
        &mut self,
        now: Time,
        known: Option<usize>,
        media: &Media,
        rest: &[u8],
        handle: Option<&Bytes>,
    ) -> bool {
        let Some(index) = known else { return true };
        let read = || self.over_socket(known, media.stream, rest).map(<[u8]>::len);
        let bytes = handle.map(Bytes::len).or_else(read);
        let Chain { assembly, display, .. } = &self.chains[index];
        match assembly.room_for(media, bytes.unwrap_or(0), || display.may_decode(media.reference)) {
            Room::Free => true,
            Room::Beyond(frame) => {
                self.give_up(now, index, frame);
                true
            }
            Room::None => false,
        }
    }

    /// Gives up every frame of a stream up to this one.
    #[cold]
    fn give_up(&mut self, now: Time, index: usize, frame: u32) {
        self.undisturbed.set(false);
        let mut progress = Progress::default();
        let Chain { assembly, display, .. } = &mut self.chains[index];
        display.give_up(frame, assembly, &mut progress);
        self.counters.crowded_out += progress.abandoned.len() as u64;
        self.follow(now, index, progress);
    }

    /// Puts a packet into its frame; true if that is complete now.
    #[inline(always)]
    fn assemble(
        &mut self,
        now: Time,
        known: Option<usize>,
        media: &Media,
        rest: &[u8],
        meta: &mut RxMeta,
    ) -> bool {
        let index = known.unwrap_or_else(|| self.begin(media.stream, media.class));
        let read = || self.over_socket(Some(index), media.stream, rest).map(Bytes::copy_from_slice);
        let payload = meta.payload.take().or_else(read);
        let payload_length = meta.length.saturating_sub(self.dialect.header());
        let chain = &mut self.chains[index];
        chain.heard = now;
        let begun = chain.assembly.begun();
        let deadline = || match media.class {
            Class::Reliable => Time::MAX,
            _ => self.offset.localise(media.captured).unwrap_or(now) + media.deadline,
        };
        let stored = chain.assembly.insert(media, payload_length, payload, deadline);
        if unlikely(stored != Stored::Kept || chain.assembly.begun() != begun) {
            self.undisturbed.set(false);
        }
        match stored {
            Stored::Kept | Stored::Spare => {
                // It may be what an older frame has waited for of which parts are missing.
                if chain.begins(media.id()) {
                    self.advance(now, index);
                }
                false
            }
            Stored::Complete => {
                self.counters.assembled += 1;
                let size = chain.assembly.completed(media.id(), now);
                let Media { stream, frame, version, .. } = *media;
                self.tap.record(now, Event::FrameAssembled { stream, frame, version, size });
                self.advance(now, index);
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
        self.undisturbed.set(false);
        let progress = self.chains[index].advance(now, &self.config);
        self.follow(now, index, progress);
        self.collect(now);
    }

    /// Asks for a key frame where one is needed, and counts what was given up.
    fn follow(&mut self, now: Time, index: usize, progress: Progress) {
        let Progress { abandoned, concealed, need_key_after } = progress;
        self.counters.concealed += concealed;
        let chain = &mut self.chains[index];
        if let Some(after) = need_key_after {
            chain.want_key(after, now);
        } else if !chain.display.is_broken() {
            chain.key_wanted = None;
        }
        let stream = chain.stream;
        for FrameId { frame, version } in abandoned {
            self.counters.abandoned += 1;
            self.tap.record(now, Event::FrameAbandoned { stream, frame, version });
        }
    }

    #[cold]
    fn on_control(&mut self, now: Time, control: &Control<'_>) {
        match *control {
            Control::Hello { session, interval_us, announcement, .. } => {
                self.session.get_or_insert(session);
                if interval_us > 0 {
                    self.interval = Span::from_micros(i64::from(interval_us)).min(LONGEST_INTERVAL);
                }
                if let Some(announcement) = announcement.filter(|_| std::mem::take(&mut self.following)) {
                    match half(&announcement, interval_us) {
                        Ok(half) => self.half = half,
                        Err(error) => self.trouble = Some(Box::new(error)),
                    }
                }
                if self.half.is_none() && !self.following {
                    self.reporter.forget_times();
                }
                self.welcome_due = self.trouble.is_none();
            }
            Control::Bye { .. } => self.ended = true,
            Control::Welcome { .. } => self.refuse(now, Dropped::Foreign),
        }
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
    fn receive(&mut self, now: Time, datagram: &[u8], mut meta: RxMeta) {
        match self.dialect.padding(datagram) {
            Some(Media { session, packet, sent, feedback_seen, .. }) if likely(self.is_ours(session)) => {
                self.receive_padding(now, packet, sent, feedback_seen, &meta);
            }
            _ => self.receive_other(now, datagram, &mut meta),
        }
    }

    fn wake(&mut self, now: Time) {
        self.undisturbed.set(false);
        self.reports_only.set(false);
        self.chains.iter_mut().for_each(|chain| chain.waited = chain.decoding.is_full());
        self.collect(now);
        for index in 0..self.chains.len() {
            let chain = &self.chains[index];
            let resumed = chain.waited && !chain.decoding.is_full();
            if resumed || chain.next_expiry().is_some_and(|at| at <= now) {
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
        if self.asks_nothing() {
            return self.reporter.due_at();
        }
        if self.undisturbed.get() & self.half.is_none() & self.gaps.is_none() {
            return Time::first(self.reporter.due_at(), self.shown_next());
        }
        self.next_wake_of_any()
    }

    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if self.asks_nothing() {
            return if self.reporter.is_due(now) { Some(self.report(now, out)) } else { None };
        }
        // Nothing is due behind most packets: found out here, where no registers need be saved.
        if self.half.is_none() && !self.reporter.is_due(now) && !self.may_request(now) {
            return None;
        }
        self.transmit_any(now, out)
    }

    fn fetch(&self) {
        fetch_front(self, offset_of!(Receiver, wanted));
    }

    fn expect(&self) {
        self.reporter.expect();
    }
}

impl Receiver {
    /// Nothing but a report may be due, as far as that is known.
    #[inline(always)]
    fn asks_nothing(&self) -> bool {
        debug_assert!(!self.reports_only.get() || self.is_bare());
        self.reports_only.get()
    }

    /// When something is next to be done, whatever it is.
    // Apart: most packets change nothing of it.
    #[inline(never)]
    fn next_wake_of_any(&self) -> Option<Time> {
        let mut first = Time::first(self.report_due(), self.gaps);
        if let Some(half) = &self.half {
            first = Time::first(first, half.next_timer());
        }
        if self.chains.is_empty() {
            // A backlog has none.
            self.reports_only.set(self.is_bare());
            return first;
        }
        Time::first(first, self.shown_next())
    }

    /// Transmits what is due, be it a report or not.
    // Apart, so that both ends of a backlog take little.
    #[inline(never)]
    fn transmit_any(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let due = self.may_request(now) || self.report_due().is_some_and(|at| at <= now);
        if due { self.transmit_due(now, out) } else { None }
    }

    /// Nothing but a report may be due.
    fn is_bare(&self) -> bool {
        let wants_nothing = self.chains.is_empty() && self.half.is_none() && self.gaps.is_none();
        wants_nothing && self.nacks.is_empty() && !self.welcome_due
    }

    // Apart, so that to find nothing due takes little.
    #[inline(never)]
    fn transmit_due(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        if unlikely(self.may_request(now))
            && let Some(length) = self.transmit_request(now, out)
        {
            return Some(TxMeta { head: length, length, ..TxMeta::default() });
        }
        if self.report_due().is_none_or(|at| at > now) {
            return None;
        }
        Some(self.report(now, out))
    }

    /// Writes the report that is due, and says whether another one follows at once.
    // Apart, so that to find none due takes little.
    #[inline(never)]
    fn report(&mut self, now: Time, out: &mut [u8]) -> TxMeta {
        let Written { head, length, .. } = self.transmit_report(now, out);
        // What did not fit into it goes into that.
        let last = self.report_due().is_none_or(|at| at > now);
        TxMeta { head, length, last, ..TxMeta::default() }
    }
}
