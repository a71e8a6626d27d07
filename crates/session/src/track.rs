//! One track of a capture at the sender: encode what was captured, hand it to the outbox.

use std::collections::VecDeque;

use media::{Ask, Coded, Encoder};
use record::{Event, Real, Tap};
use units::{Bytes, Rate, Span, Time};
use wire::{Class, FrameId};

use crate::capture::Raw;
use crate::chain;
use crate::config::SenderConfig;
use crate::counters::SenderCounters;
use crate::outbox::{FrameInfo, Outbox};
use crate::rate::Plan;
use crate::references::References;
use crate::shedding::{Shedding, SlowEncoder};
use crate::strategy::{Base, News, Order};

/// The longest reference, in captured frames: as many decoded ones as a receiver keeps account of. Beyond it
/// a key frame is due.
const MAX_REFERENCE: u32 = 255;
/// A key frame that is asked for within this long after the one before, which did not arrive whole then, may
/// be half as large as that one: the path's queue may be shorter than a key frame.
const KEY_AGAIN: Span = Span::from_secs(2);
/// On long paths within so many round trips: one until it is missed, and two more for what stands in the
/// queue and for a request that is lost.
const KEY_TRIPS: i64 = 3;
/// Bytes that a key frame may always have.
const LEAST_KEY: u32 = 2_400;

/// A captured frame that was left out, and may be encoded after all.
struct Kept {
    raw: Raw,
    /// The last instant at which it is worth it.
    until: Time,
}

/// What a track is told with each call: the time, the path, and where it counts and records.
pub struct Context<'a> {
    /// The time, by the sender's clock.
    pub now: Time,
    /// The sender's settings.
    pub config: &'a SenderConfig,
    /// The longest datagram at present, in bytes.
    pub mtu: usize,
    /// Bytes of a packet before its payload.
    pub header: usize,
    /// The path's least round trip.
    pub rtt: Span,
    /// The capture index that the next frame will have.
    pub next_frame: u32,
    /// The sender's counters.
    pub counters: &'a mut SenderCounters,
    /// What the strategy will hear.
    pub news: &'a mut Vec<News>,
    /// Where it records.
    pub tap: &'a Tap,
}

impl Context<'_> {
    /// Payload that a packet carries, in bytes.
    fn room(&self) -> u32 {
        (self.mtu - self.header) as u32
    }
}

/// What a track's frames have in common.
pub struct Terms {
    /// The stream's number.
    pub stream: u8,
    /// How hard the session tries to deliver it.
    pub class: Class,
    /// Time between frames.
    pub interval: Span,
    /// Rows of its pictures; 0 if they can't be made fewer.
    pub rows: u16,
    /// How long a frame may wait after its capture.
    pub longest: Span,
    /// Bytes of a packet before its payload.
    pub header: usize,
}

/// An encoder at work.
pub struct Track {
    /// The stream's number.
    pub stream: u8,
    encoder: Box<dyn Encoder>,
    interval: Span,
    /// Frames on their way out.
    pub outbox: Outbox,
    /// When the frame was captured of which nothing has come out of the encoder yet.
    awaited: Option<Time>,
    kept: Option<Kept>,
    /// What the encoder has not given back, each with when it was given to it.
    in_encoder: VecDeque<(Time, FrameInfo)>,
    /// The encoder was told that no frame follows what it has.
    flushed: bool,
    /// What is given up where the encoder is too slow.
    shedding: Shedding,
    /// The last frame that came out of the encoder: what the next one refers to.
    last_coded: Option<u32>,
    last_key: Option<u32>,
    /// Until when a key frame that follows the last one has half of its size, and that one's bytes.
    key_out: Option<(Time, u32)>,
    key_wanted: bool,
    /// From this frame on nothing can be decoded, until a key frame comes or one that refers to what arrived.
    cut: Option<u32>,
    /// What is known of the peer's decoder, where a policy wants it and the encoder can use it.
    references: Option<References>,
    /// Rows of the frame that was last given to the encoder, where that is not the source's matter.
    height: Option<u16>,
}

impl Track {
    /// A track that has coded nothing yet.
    pub fn new(terms: &Terms, encoder: Box<dyn Encoder>) -> Track {
        let &Terms { stream, class, interval, rows, longest, header } = terms;
        Track {
            stream,
            encoder,
            interval,
            outbox: Outbox::new(class, longest, header),
            awaited: None,
            kept: None,
            in_encoder: VecDeque::new(),
            flushed: false,
            shedding: Shedding::new(interval, rows),
            last_coded: None,
            last_key: None,
            key_out: None,
            key_wanted: true,
            cut: None,
            references: None,
            height: None,
        }
    }

    /// From the first frame on the encoder keeps frames that the peer has, if it can.
    pub fn keep_references(&mut self) {
        self.references = self.encoder.refers_back().then(References::default);
    }

    /// Rows of the frame that was last given to the encoder, if its size is a matter of policy.
    pub fn height(&self) -> Option<u16> {
        self.height
    }

    /// The encoder, while it is too slow for the source's pictures.
    pub fn slow_encoder(&self) -> Option<SlowEncoder> {
        self.shedding.found()
    }

    /// When outbox or encoder next want attention; `ended`: nothing more is captured.
    pub fn next_wake(&self, ended: bool) -> Option<Time> {
        // Once the source has ended nothing else may look at the clock, and the end could not be told.
        let emptying = if ended && self.is_idle() { self.outbox.next_expiry() } else { None };
        let kept = self.kept.as_ref().filter(|_| self.outbox.waiting_packets() == 0).map(|_| Time::ZERO);
        Time::first(Time::first(self.encoder.next_ready(), emptying), kept)
    }

    /// When the frame was captured of which nothing has come out of the encoder yet, if there is one.
    pub fn awaited(&self) -> Option<Time> {
        self.awaited.filter(|_| self.at_work() > 0)
    }

    /// How many frames the encoder is at: what it [holds](Encoder::held) for others it is done with.
    fn at_work(&self) -> usize {
        self.in_encoder.len().saturating_sub(self.encoder.held())
    }

    /// Nothing more is captured for now: what the encoder holds for more is to come out.
    pub fn flush(&mut self, now: Time) {
        if !self.flushed && !self.is_idle() {
            self.flushed = true;
            self.encoder.flush(now);
        }
    }

    /// Whether there is something to [`flush`](Track::flush).
    pub fn holds(&self) -> bool {
        !self.flushed && self.encoder.held() > 0
    }

    /// Since when the encoder has had its oldest frame.
    pub fn coding_since(&self) -> Option<Time> {
        self.in_encoder.front().map(|&(since, _)| since)
    }

    /// Nothing is in the encoder, and nothing was put aside for it.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.in_encoder.is_empty() && self.kept.is_none()
    }

    /// Nothing is left in the encoder.
    pub fn is_idle(&self) -> bool {
        self.in_encoder.is_empty()
    }

    /// Packet `index` of the `count` of a frame arrived. The frame may be out of the outbox already: a path
    /// may be longer than a deadline. True if all of it has arrived, which was not known.
    #[inline]
    pub fn acked(&mut self, id: FrameId, index: u16, count: u16) -> bool {
        let complete = self.outbox.acked(id, index, count);
        if let Some(references) = &mut self.references {
            references.acked(id.frame, index, count);
        }
        complete
    }

    /// A packet of a frame is missing that can't be sent again, since the outbox has forgotten it.
    pub fn missing(&mut self, id: FrameId) {
        if self.references.is_some() && self.outbox.frame(id).is_none() {
            self.refer_back(id.frame);
        }
    }

    /// A frame was given up that what waits is predicted from: the next one, captured as `next_frame`, must
    /// not be.
    pub fn want_key(&mut self, next_frame: u32) {
        let from = self.outbox.current().map_or(next_frame, |frame| frame.info.id.frame);
        match &mut self.references {
            Some(references) => {
                references.given_up();
                self.cut_from(from);
            }
            None => self.break_chain(from),
        }
    }

    /// Frame `after` can't be shown any more, or so its receiver says; a key frame encoded since answers it,
    /// or one that refers to what is known to have arrived.
    pub fn key_requested(&mut self, after: u32) {
        let answered = self.references.as_mut().is_some_and(|references| references.requested(after));
        match answered {
            true if self.references.as_ref().is_some_and(References::is_broken) => self.cut_from(after),
            true => {}
            false => self.key_frame_for(after),
        }
    }

    /// Frame `after` can't be shown any more; a key frame encoded since answers that.
    pub fn key_frame_for(&mut self, after: u32) {
        if self.last_key.is_none_or(|key| key <= after) {
            self.break_chain(after);
        }
    }

    /// Frame `frame` will not arrive whole: what comes next is predicted from one before it, or from nothing.
    pub fn refer_back(&mut self, frame: u32) {
        match self.references.as_mut().map(|references| references.lost(frame)) {
            Some(true) => self.cut_from(frame),
            Some(false) => {}
            None => self.key_frame_for(frame),
        }
    }

    fn break_chain(&mut self, from: u32) {
        self.key_wanted = true;
        self.cut_from(from);
    }

    fn cut_from(&mut self, from: u32) {
        self.cut = Some(self.cut.map_or(from, |cut| cut.min(from)));
    }

    /// Whether the chain is broken in front of all that waits, and nothing has been encoded since that does
    /// without.
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Whether `frame` can't be decoded, whatever arrives of it.
    pub fn is_useless(&self, frame: u32) -> bool {
        self.cut.is_some_and(|cut| frame >= cut)
    }

    /// Takes a captured frame, and submits it if that is planned.
    pub fn take(&mut self, raw: Raw, plan: Plan, order: Order, ctx: &mut Context<'_>) {
        self.awaited = Some(ctx.now);
        let open = self.may_encode();
        let full = self.outbox.is_full();
        ctx.counters.shed += u64::from(plan.encode && !open && !full);
        ctx.counters.held_back += u64::from(plan.encode && full);
        if !open || !plan.encode && !plan.keep.is_positive() {
            self.skip(raw.frame, ctx);
        } else if plan.encode {
            self.encode(&raw, plan, order, ctx);
        } else {
            self.kept = Some(Kept { until: ctx.now + plan.keep, raw });
        }
    }

    /// The encoder keeps up, and the outbox has room: a frame that is taken now is not left out.
    pub fn may_encode(&self) -> bool {
        !self.outbox.is_full() && self.shedding.is_open(self.at_work(), self.outbox.waiting_packets() > 0)
    }

    fn skip(&self, frame: u32, ctx: &mut Context<'_>) {
        // What a further track leaves out is its strategy's choice, such as a key frame that nobody needs.
        ctx.counters.skipped += u64::from(chain::track_of(self.stream) == 0);
        ctx.tap.record(ctx.now, Event::FrameSkipped { stream: self.stream, frame });
    }

    /// The frame that was left out is left out for good.
    pub fn give_up_kept(&mut self, ctx: &mut Context<'_>) {
        if let Some(kept) = self.kept.take() {
            self.skip(kept.raw.frame, ctx);
        }
    }

    /// The frame that was left out and can be encoded now, for nothing waits any more; one that is too old is
    /// given up.
    pub fn resumable(&mut self, ctx: &mut Context<'_>) -> Option<u32> {
        let kept = self.kept.as_ref().filter(|_| self.outbox.waiting_packets() == 0)?;
        if ctx.now <= kept.until {
            return Some(kept.raw.frame);
        }
        self.give_up_kept(ctx);
        None
    }

    /// Encodes the frame that was left out, or gives it up.
    pub fn resume(&mut self, plan: Plan, order: Order, ctx: &mut Context<'_>) {
        if !plan.encode || !self.may_encode() {
            return self.give_up_kept(ctx);
        }
        if let Some(kept) = self.kept.take() {
            ctx.counters.resumed += 1;
            self.encode(&kept.raw, plan, order, ctx);
        }
    }

    fn encode(&mut self, raw: &Raw, plan: Plan, order: Order, ctx: &mut Context<'_>) {
        let (now, frame, interval) = (ctx.now, raw.frame, self.interval);
        let Order { base, parity, .. } = order;
        let plan = Plan { height: self.shedding.rows(plan.height), ..plan };
        // The first key frame may still be in the making.
        let before = self.last_coded.or(self.in_encoder.front().map(|(_, info)| info.id.frame));
        let back = before.map_or(u32::MAX, |before| frame - before);
        let key = self.key_wanted || back > MAX_REFERENCE || plan.height != self.height;
        let key = key || base == Base::Nothing || base == Base::Acked && !self.depart(frame);
        let largest = self.largest_key(now, plan);
        let peer = self.references.as_ref().map(References::peer);
        let fresh = key || self.references.as_ref().is_some_and(References::is_broken);
        if self.references.is_some() && self.is_cut() {
            // Nothing that waits can be decoded, and this frame does without.
            ctx.counters.expired += self.outbox.drop_waiting();
        }
        let bitrate = coded_rate(plan.bitrate, interval, ctx.mtu, ctx.header);
        let ask = Ask { frame, bitrate, interval, key, largest, height: plan.height, peer };
        if self.encoder.submit(now, raw.picture.as_ref(), &ask).is_err() {
            // Whatever is still inside may never come out.
            ctx.counters.encoder_errors += 1 + self.in_encoder.len() as u64;
            self.in_encoder.clear();
            self.key_wanted = true;
            return;
        }
        self.flushed = false;
        self.key_wanted = false;
        self.cut = self.cut.filter(|_| !fresh);
        if let Some(references) = &mut self.references {
            references.asked(frame, key);
        }
        ctx.counters.resized += u64::from(self.last_coded.is_some() && plan.height != self.height);
        self.height = plan.height;
        self.last_key = if key { Some(frame) } else { self.last_key };
        let (captured, worth) = (raw.captured, ctx.config.deadline.unwrap_or(SenderConfig::DEADLINE));
        let deadline = captured + worth;
        let height = plan.height.unwrap_or(ctx.config.picture.1);
        let id = FrameId::first(frame);
        let info = FrameInfo { id, captured, born: captured, deadline, reference: None, height, parity };
        self.in_encoder.push_back((now, info));
    }

    /// The next frame builds on what is known to have arrived alone. False if nothing is known.
    fn depart(&mut self, frame: u32) -> bool {
        let Some(references) = &mut self.references else { return false };
        let known = references.peer().known.filter(|&known| frame - known <= MAX_REFERENCE);
        if known.is_some() {
            references.given_up();
        }
        known.is_some()
    }

    /// The most bytes that a key frame may have at present, if there is a limit; an encoder may begin a scene
    /// with one of its own accord.
    fn largest_key(&self, now: Time, plan: Plan) -> Option<Bytes> {
        let again = self.key_out.filter(|&(until, _)| self.cut.is_some() && now < until);
        let smaller = again.map(|(_, size)| Bytes::new(u64::from((size / 2).max(LEAST_KEY))));
        [plan.largest_key, smaller].into_iter().flatten().min()
    }

    /// Notes what a frame refers to. False if it is not worth sending: nothing that follows builds on it, or
    /// its reference lies too far back to be named.
    fn refer(&mut self, info: &mut FrameInfo, coded: &Coded) -> bool {
        let frame = info.id.frame;
        let to = coded.refers_to.or(self.last_coded).filter(|_| !coded.key);
        info.reference = to.map(FrameId::first);
        let Some(references) = &mut self.references else { return true };
        let stands = coded.refers_to.is_some_and(|to| references.stands(to));
        let dead = !coded.key && references.is_dead(frame) && !stands;
        if dead || to.is_some_and(|to| frame - to > MAX_REFERENCE) {
            self.key_wanted |= !dead;
            return false;
        }
        self.key_wanted |= references.coded(coded);
        true
    }

    /// The encoder left a frame out.
    fn left_out(&mut self, coded: &Coded) {
        self.key_wanted |= coded.key;
        if let Some(references) = &mut self.references {
            references.left_out(coded.frame);
        }
    }

    /// Counts and records a coded frame and those that came out in it, each with its share of the bytes.
    fn note_coded(&self, earlier: &[FrameInfo], info: &FrameInfo, coded: &Coded, ctx: &mut Context<'_>) {
        let share = coded.size / (earlier.len() as u32 + 1);
        let unknown = (f64::NAN, f64::NAN);
        let known = coded.quality.map_or(unknown, |quality| (quality.psnr_y, quality.ssim));
        let rest = coded.size - share * earlier.len() as u32;
        let sizes = earlier.iter().map(|info| (info, share, unknown)).chain([(info, rest, known)]);
        for (info, size, (psnr, ssim)) in sizes {
            ctx.counters.encoded += 1;
            ctx.tap.record(
                ctx.now,
                Event::FrameEncoded {
                    stream: self.stream,
                    frame: info.id.frame,
                    version: info.id.version,
                    size,
                    key: coded.key,
                    target: coded.target,
                    height: info.height,
                    psnr: Real(psnr),
                    ssim: Real(ssim),
                },
            );
        }
    }

    /// Moves finished frames from the encoder to the outbox.
    pub fn collect(&mut self, ctx: &mut Context<'_>) {
        let now = ctx.now;
        loop {
            // Taken apart where it lies: it is long.
            let mut polled = self.encoder.poll(now);
            let Some(coded) = &mut polled else { break };
            let Some(at) = self.in_encoder.iter().position(|(_, info)| info.id.frame == coded.frame) else {
                continue;
            };
            // Frames come out in order: what lies before this one and is not coded in it failed inside the
            // encoder, and the chain with it.
            let failed = at.saturating_sub(coded.earlier as usize);
            self.key_wanted |= failed > 0 && !coded.key;
            ctx.counters.encoder_errors += failed as u64;
            self.in_encoder.drain(..failed);
            let earlier: Vec<_> = self.in_encoder.drain(..at - failed).map(|(_, info)| info).collect();
            let Some((submitted, mut info)) = self.in_encoder.pop_front() else { continue };
            self.awaited = None;
            self.shedding.came_out(now, info.height, coded.took);
            if coded.took.is_some() {
                // What took an encoder so long to make would be dropped for that, and the next one, a key
                // frame, takes longer still.
                let held_up = (now - submitted - self.interval).max(Span::ZERO);
                info.born += held_up;
                info.deadline += held_up;
            }
            if coded.is_left_out() || !self.refer(&mut info, coded) {
                if coded.is_left_out() {
                    self.left_out(coded);
                }
                earlier.iter().chain([&info]).for_each(|info| self.skip(info.id.frame, ctx));
                continue;
            }
            if coded.key {
                // An encoder may decide for a key frame by itself (a scene cut).
                self.last_key = self.last_key.max(Some(info.id.frame));
                self.key_out = Some((now + KEY_AGAIN.max(ctx.rtt * KEY_TRIPS), coded.size));
            }
            self.last_coded = Some(info.id.frame);
            self.note_coded(&earlier, &info, coded, ctx);
            let ssim = coded.quality.map(|quality| quality.ssim);
            let (stream, id, size, key) = (self.stream, info.id, coded.size, coded.key);
            ctx.news.push(News::Coded { stream, id, size, key, ssim });
            if self.outbox.push(info, coded, now, ctx.room()) {
                ctx.counters.expired += 1;
                self.want_key(ctx.next_frame);
            }
        }
    }
}

/// The encoder's share of `bitrate`: what is left of a frame's budget after its packets' headers.
fn coded_rate(bitrate: Rate, interval: Span, mtu: usize, header: usize) -> Rate {
    let budget = bitrate.bytes_in(interval).get();
    let headers = budget.div_ceil(mtu as u64) * header as u64;
    Rate::average(Bytes::new(budget.saturating_sub(headers).max(1)), interval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::{CodecError, RawFrame};
    use std::sync::Arc;
    use wire::Media;

    #[test]
    fn headers_are_paid_from_the_budget() {
        let interval = Span::from_nanos(16_666_667);
        // 18 Mbit/s at 60 frames/s: 37500 bytes in 32 packets of 1200.
        let coded = coded_rate(Rate::from_mbps(18), interval, 1200, Media::LEN);
        let payload = coded.bytes_in(interval).get();
        assert!((payload + 32 * Media::LEN as u64).abs_diff(37_500) <= 1, "{payload}");
    }

    /// Codes key frames of 16 kB, or of what is allowed.
    struct Large(Option<Coded>);

    impl Encoder for Large {
        fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
            let allowed = ask.largest.map_or(16_000, |largest| largest.get().min(16_000) as u32);
            self.0 = Some(Coded::of_size(ask, if ask.key { allowed } else { 1_000 }));
            Ok(())
        }
        fn poll(&mut self, _: Time) -> Option<Coded> {
            self.0.take()
        }
        fn next_ready(&self) -> Option<Time> {
            None
        }
    }

    /// The size of a key frame that is asked for `later` than the one before, on a path of `rtt`.
    fn second_key(rtt: Span, later: Span) -> u32 {
        let interval = Span::from_millis(20);
        let (class, longest, header) = (Class::Deadline, Span::from_secs(1), Media::LEN);
        let terms = Terms { stream: 0, class, interval, rows: 0, longest, header };
        let mut track = Track::new(&terms, Box::new(Large(None)));
        let (config, tap) = (&SenderConfig::default(), &Tap::default());
        let plan = Plan::new(Rate::from_mbps(4), true);
        for (frame, now) in [(0, Time::ZERO), (1, Time::ZERO + later)] {
            let counters = &mut SenderCounters::default();
            let news = &mut Vec::new();
            let mut ctx = Context {
                now,
                config,
                mtu: config.mtu,
                header,
                rtt,
                next_frame: frame + 1,
                counters,
                news,
                tap,
            };
            track.key_requested(0);
            let order = Order::whole(&plan);
            track.take(Raw { frame, picture: None, captured: now }, plan, order, &mut ctx);
            track.collect(&mut ctx);
        }
        track.key_out.unwrap().1
    }

    #[test]
    fn a_key_frame_that_is_asked_for_again_is_half_as_large_also_on_a_long_path() {
        let (short, long) = (Span::from_millis(40), Span::from_secs(1));
        assert_eq!(second_key(short, Span::from_millis(1_900)), 8_000);
        assert_eq!(second_key(short, Span::from_millis(2_100)), 16_000);
        assert_eq!(second_key(long, Span::from_millis(2_900)), 8_000);
        assert_eq!(second_key(long, Span::from_millis(3_100)), 16_000);
    }
}
