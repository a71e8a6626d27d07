//! One video stream at the sender: capture, encode, hand to the outbox.

use std::collections::VecDeque;
use std::sync::Arc;

use media::{Ask, Coded, Encoder, RawFrame, Source};
use record::{Event, Real, Tap};
use units::{Bytes, Rate, Span, Time};
use wire::{Class, FrameId, Media};

use crate::config::SenderConfig;
use crate::counters::SenderCounters;
use crate::outbox::{FrameInfo, Outbox};
use crate::rate::Plan;
use crate::references::References;
use crate::shedding::{Shedding, SlowEncoder};

/// What a sender has to send.
pub enum Supply {
    /// Frames of an encoder.
    Video(Video),
    /// Always something, of no meaning: the backlogged flow of textbooks, as padding.
    Backlog,
}

/// An encoder and what feeds it.
pub struct Video {
    /// The encoder, or a model of one.
    pub encoder: Box<dyn Encoder>,
    /// Pictures; a model needs none. Its end is the stream's end.
    pub source: Option<Box<dyn Source>>,
    /// Time between frames.
    pub interval: Span,
}

/// The longest reference, in captured frames: as many decoded ones as a receiver keeps account of. Beyond it
/// a key frame is due.
const MAX_REFERENCE: u32 = 255;
/// A key frame that is asked for within this long after the one before, which did not arrive whole then, may
/// be half as large as that one: the path's queue may be shorter than a key frame.
const KEY_AGAIN: Span = Span::from_secs(2);
/// On long paths within so many round trips: one until it is missed, and two more for what stands in the
/// queue and for a request that is lost.
const KEY_TRIPS: i64 = 3;
/// A source that has no picture yet is asked again so many times an interval.
const AGAIN: i64 = 4;
/// Bytes that a key frame may always have.
const LEAST_KEY: u32 = 2_400;

/// A captured frame that was left out, and may be encoded after all.
struct Raw {
    frame: u32,
    picture: Option<Arc<RawFrame>>,
    captured: Time,
    /// The last instant at which it is worth it.
    until: Time,
}

/// The running stream.
pub struct VideoStream {
    id: u8,
    video: Video,
    /// Frames on their way out.
    pub outbox: Outbox,
    next_frame: u32,
    next_capture: Option<Time>,
    /// When the frame was captured of which nothing has come out of the encoder yet.
    awaited: Option<Time>,
    kept: Option<Raw>,
    /// What the encoder has not given back, each with when it was given to it.
    in_encoder: VecDeque<(Time, FrameInfo)>,
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
    paused: bool,
    /// The source had no picture when the next frame was due.
    starved: bool,
    ended: bool,
}

impl VideoStream {
    /// A stream that starts with its first wake-up, of pictures of `rows` (0 if they can't be made fewer),
    /// whose frames may wait `longest` after their capture.
    pub fn new(id: u8, video: Video, rows: u16, longest: Span) -> VideoStream {
        VideoStream {
            id,
            shedding: Shedding::new(video.interval, rows),
            video,
            outbox: Outbox::new(Class::Deadline, longest, Media::LEN),
            next_frame: 0,
            next_capture: Some(Time::ZERO),
            awaited: None,
            kept: None,
            in_encoder: VecDeque::new(),
            last_coded: None,
            last_key: None,
            key_out: None,
            key_wanted: true,
            cut: None,
            references: None,
            height: None,
            paused: false,
            starved: false,
            ended: false,
        }
    }

    /// From the first frame on the encoder keeps frames that the peer has, if it can.
    pub fn keep_references(&mut self) {
        self.references = self.video.encoder.refers_back().then(References::default);
    }

    /// Time between frames.
    pub fn interval(&self) -> Span {
        self.video.interval
    }

    /// Rows of the frame that was last given to the encoder, if its size is a matter of policy.
    pub fn height(&self) -> Option<u16> {
        self.height
    }

    /// The encoder, while it is too slow for the source's pictures.
    pub fn slow_encoder(&self) -> Option<SlowEncoder> {
        self.shedding.found()
    }

    /// When the next frame is captured, if one will be.
    pub fn capture_at(&self) -> Option<Time> {
        self.next_capture.filter(|_| !self.paused)
    }

    /// Captures nothing, or goes on. The clip waits meanwhile, and the frame after a pause follows the one
    /// before it.
    pub fn set_paused(&mut self, now: Time, paused: bool) {
        if self.paused && !paused {
            self.next_capture = self.next_capture.map(|_| now);
        }
        self.paused = paused;
    }

    /// When capture or encoder next want attention.
    pub fn next_wake(&self) -> Option<Time> {
        // Once the source has ended nothing else may look at the clock, and the end could not be told.
        let emptying = if self.is_drained() { self.outbox.next_expiry() } else { None };
        let kept = self.kept.as_ref().filter(|_| self.outbox.waiting_packets() == 0).map(|_| Time::ZERO);
        [self.capture_at(), self.video.encoder.next_ready(), emptying, kept].into_iter().flatten().min()
    }

    /// The next frame's capture index.
    pub fn next_frame(&self) -> u32 {
        self.next_frame
    }

    /// When the frame was captured of which nothing has come out of the encoder yet, if there is one.
    pub fn awaited(&self) -> Option<Time> {
        self.awaited
    }

    /// Since when the encoder has had its oldest frame.
    pub fn coding_since(&self) -> Option<Time> {
        self.in_encoder.front().map(|&(since, _)| since)
    }

    /// The source ended and nothing is left in the encoder.
    pub fn is_drained(&self) -> bool {
        self.ended && self.in_encoder.is_empty()
    }

    /// Packet `index` of the `count` of a frame arrived. The frame may be out of the outbox already: a path
    /// may be longer than a deadline.
    pub fn acked(&mut self, id: FrameId, index: u16, count: u16) {
        self.outbox.acked(id, index, count);
        if let Some(references) = &mut self.references {
            references.acked(id.frame, index, count);
        }
    }

    /// A packet of a frame is missing that can't be sent again, since the outbox has forgotten it.
    pub fn missing(&mut self, id: FrameId) {
        if self.references.is_some() && self.outbox.frame(id).is_none() {
            self.refer_back(id.frame);
        }
    }

    /// A frame was given up that what waits is predicted from: the next one must not be.
    pub fn want_key(&mut self) {
        let from = self.outbox.current().map_or(self.next_frame, |frame| frame.info.id.frame);
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

    /// Whether a frame is to be captured now. Where it is, but the source has no picture yet, it is asked
    /// again a little later.
    pub fn is_due(&mut self, now: Time, counters: &mut SenderCounters) -> bool {
        if self.capture_at().is_none_or(|at| at > now) {
            return false;
        }
        let starved = self.video.source.as_mut().is_some_and(|source| !source.is_ready());
        if starved {
            counters.starved += u64::from(!self.starved && self.next_frame > 0);
            self.next_capture = Some(now + self.video.interval / AGAIN);
        }
        self.starved = starved;
        !starved
    }

    /// Captures one frame and, if planned, submits it. The next one comes an interval and `wander` later
    /// (arXiv 2207.11857 section 5.2: a random walk, so that flows do not stay aligned).
    pub fn capture(
        &mut self,
        now: Time,
        plan: Plan,
        wander: Span,
        config: &SenderConfig,
        counters: &mut SenderCounters,
        tap: &Tap,
    ) {
        let scheduled = self.next_capture.unwrap_or(now);
        // A driver that woke us a little late must not slow the clip down; one that was away for long starts
        // afresh.
        let start = if now - scheduled > self.video.interval { now } else { scheduled };
        self.next_capture = Some(start + (self.video.interval + wander).max(Span::from_micros(100)));
        self.give_up_kept(now, counters, tap);
        let picture = match &mut self.video.source {
            Some(source) => match source.next_picture() {
                Some(picture) => Some(picture),
                None => return self.end(),
            },
            None => None,
        };
        let (stream, frame) = (self.id, self.next_frame);
        self.next_frame += 1;
        self.awaited = Some(now);
        counters.captured += 1;
        tap.record(now, Event::FrameCaptured { stream, frame });
        let raw = Raw { frame, picture, captured: now, until: now + plan.keep };
        let open = self.may_encode();
        counters.shed += u64::from(plan.encode && !open);
        if !open || !plan.encode && !plan.keep.is_positive() {
            self.skip(now, frame, counters, tap);
        } else if plan.encode {
            self.encode(now, &raw, plan, config, counters);
        } else {
            self.kept = Some(raw);
        }
    }

    fn may_encode(&self) -> bool {
        self.shedding.is_open(self.in_encoder.len(), self.outbox.waiting_packets() > 0)
    }

    fn skip(&self, now: Time, frame: u32, counters: &mut SenderCounters, tap: &Tap) {
        counters.skipped += 1;
        tap.record(now, Event::FrameSkipped { stream: self.id, frame });
    }

    fn give_up_kept(&mut self, now: Time, counters: &mut SenderCounters, tap: &Tap) {
        if let Some(kept) = self.kept.take() {
            self.skip(now, kept.frame, counters, tap);
        }
    }

    /// The frame that was left out and can be encoded now, for nothing waits any more; one that is too old is
    /// given up.
    pub fn resumable(&mut self, now: Time, counters: &mut SenderCounters, tap: &Tap) -> Option<u32> {
        let kept = self.kept.as_ref().filter(|_| self.outbox.waiting_packets() == 0)?;
        if now <= kept.until {
            return Some(kept.frame);
        }
        self.give_up_kept(now, counters, tap);
        None
    }

    /// Encodes the frame that was left out, or gives it up.
    pub fn resume(
        &mut self,
        now: Time,
        plan: Plan,
        config: &SenderConfig,
        counters: &mut SenderCounters,
        tap: &Tap,
    ) {
        if !plan.encode || !self.may_encode() {
            return self.give_up_kept(now, counters, tap);
        }
        if let Some(kept) = self.kept.take() {
            counters.resumed += 1;
            self.encode(now, &kept, plan, config, counters);
        }
    }

    fn encode(
        &mut self,
        now: Time,
        raw: &Raw,
        plan: Plan,
        config: &SenderConfig,
        counters: &mut SenderCounters,
    ) {
        let (frame, interval) = (raw.frame, self.video.interval);
        let plan = Plan { height: self.shedding.rows(plan.height), ..plan };
        // The first key frame may still be in the making.
        let before = self.last_coded.or(self.in_encoder.front().map(|(_, info)| info.id.frame));
        let back = before.map_or(u32::MAX, |before| frame - before);
        let key = self.key_wanted || back > MAX_REFERENCE || plan.height != self.height;
        let largest = self.largest_key(now, plan);
        let peer = self.references.as_ref().map(References::peer);
        let fresh = key || self.references.as_ref().is_some_and(References::is_broken);
        if self.references.is_some() && self.is_cut() {
            // Nothing that waits can be decoded, and this frame does without.
            counters.expired += self.outbox.drop_waiting();
        }
        let bitrate = coded_rate(plan.bitrate, interval, config.mtu);
        let ask = Ask { frame, bitrate, interval, key, largest, height: plan.height, peer };
        if self.video.encoder.submit(now, raw.picture.as_ref(), &ask).is_err() {
            // Whatever is still inside may never come out.
            counters.encoder_errors += 1 + self.in_encoder.len() as u64;
            self.in_encoder.clear();
            self.key_wanted = true;
            return;
        }
        self.key_wanted = false;
        self.cut = self.cut.filter(|_| !fresh);
        if let Some(references) = &mut self.references {
            references.asked(frame, key);
        }
        counters.resized += u64::from(self.last_coded.is_some() && plan.height != self.height);
        self.height = plan.height;
        self.last_key = if key { Some(frame) } else { self.last_key };
        let (captured, worth) = (raw.captured, config.deadline.unwrap_or(SenderConfig::DEADLINE));
        let deadline = captured + worth;
        let height = plan.height.unwrap_or(config.picture.1);
        let id = FrameId::first(frame);
        let info = FrameInfo { id, captured, born: captured, deadline, reference: None, height };
        self.in_encoder.push_back((now, info));
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
        let dead = !coded.key && references.is_dead(frame);
        if dead || to.is_some_and(|to| frame - to > MAX_REFERENCE) {
            self.key_wanted |= !dead;
            return false;
        }
        self.key_wanted |= references.coded(coded);
        true
    }

    /// Captures nothing more.
    pub fn end(&mut self) {
        self.next_capture = None;
        self.ended = true;
    }

    /// Moves finished frames from the encoder to the outbox; `rtt` is the path's least round trip.
    pub fn collect(&mut self, now: Time, room: u32, rtt: Span, counters: &mut SenderCounters, tap: &Tap) {
        while let Some(coded) = self.video.encoder.poll(now) {
            let Some(at) = self.in_encoder.iter().position(|(_, info)| info.id.frame == coded.frame) else {
                continue;
            };
            // Frames come out in order: what lies before this one failed inside the encoder, and the chain
            // with it.
            self.key_wanted |= at > 0 && !coded.key;
            counters.encoder_errors += at as u64;
            self.in_encoder.drain(..at);
            let Some((submitted, mut info)) = self.in_encoder.pop_front() else { continue };
            self.awaited = None;
            self.shedding.came_out(now, info.height, coded.took);
            if coded.took.is_some() {
                // What took an encoder so long to make would be dropped for that, and the next one, a key
                // frame, takes longer still.
                let held_up = (now - submitted - self.video.interval).max(Span::ZERO);
                info.born += held_up;
                info.deadline += held_up;
            }
            if coded.is_left_out() {
                self.key_wanted |= coded.key;
                if let Some(references) = &mut self.references {
                    references.left_out(coded.frame);
                }
                self.skip(now, coded.frame, counters, tap);
                continue;
            }
            if !self.refer(&mut info, &coded) {
                self.skip(now, coded.frame, counters, tap);
                continue;
            }
            if coded.key {
                // An encoder may decide for a key frame by itself (a scene cut).
                self.last_key = self.last_key.max(Some(info.id.frame));
                self.key_out = Some((now + KEY_AGAIN.max(rtt * KEY_TRIPS), coded.size));
            }
            self.last_coded = Some(info.id.frame);
            counters.encoded += 1;
            let quality = coded.quality.map_or((f64::NAN, f64::NAN), |q| (q.psnr_y, q.ssim));
            tap.record(
                now,
                Event::FrameEncoded {
                    stream: self.id,
                    frame: coded.frame,
                    version: info.id.version,
                    size: coded.size,
                    key: coded.key,
                    target: coded.target,
                    height: info.height,
                    psnr: Real(quality.0),
                    ssim: Real(quality.1),
                },
            );
            if self.outbox.push(info, coded, now, room) {
                counters.expired += 1;
                self.want_key();
            }
        }
    }
}

/// The encoder's share of `bitrate`: what is left of a frame's budget after its packets' headers.
fn coded_rate(bitrate: Rate, interval: Span, mtu: usize) -> Rate {
    let budget = bitrate.bytes_in(interval).get();
    let headers = budget.div_ceil(mtu as u64) * Media::LEN as u64;
    Rate::average(Bytes::new(budget.saturating_sub(headers).max(1)), interval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::CodecError;

    #[test]
    fn headers_are_paid_from_the_budget() {
        let interval = Span::from_nanos(16_666_667);
        // 18 Mbit/s at 60 frames/s: 37500 bytes in 32 packets of 1200.
        let coded = coded_rate(Rate::from_mbps(18), interval, 1200);
        let payload = coded.bytes_in(interval).get();
        assert!((payload + 32 * Media::LEN as u64).abs_diff(37_500) <= 1, "{payload}");
    }

    /// Codes key frames of 16 kB, or of what is allowed.
    struct Large(Option<Coded>);

    impl Encoder for Large {
        fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
            let allowed = ask.largest.map_or(16_000, |largest| largest.get().min(16_000) as u32);
            self.0 = Some(Coded {
                frame: ask.frame,
                size: if ask.key { allowed } else { 1_000 },
                payload: None,
                key: ask.key,
                refers_to: None,
                keeps: None,
                target: ask.bitrate,
                pieces: Vec::new(),
                quality: None,
                quantiser: None,
                took: None,
            });
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
        let video = Video { encoder: Box::new(Large(None)), source: None, interval: Span::from_millis(20) };
        let mut stream = VideoStream::new(0, video, 0, Span::from_secs(1));
        let (config, mut counters, tap) =
            (SenderConfig::default(), SenderCounters::default(), Tap::default());
        let plan = Plan::new(Rate::from_mbps(4), true);
        for now in [Time::ZERO, Time::ZERO + later] {
            stream.key_requested(0);
            stream.capture(now, plan, Span::ZERO, &config, &mut counters, &tap);
            stream.collect(now, 1_200, rtt, &mut counters, &tap);
        }
        stream.key_out.unwrap().1
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
