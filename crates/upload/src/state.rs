//! What an upload knows: its plan, its pictures, what is on its way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use media::{Archive, Packed, RawFrame};
use session::strategy::{Order, View};
use units::{Bytes, Rate, Span, Time};
use vantage::{Again, Delays, Engine, Settings};
use wire::{Media, Rated, Watchers};

use crate::journal::Frame;

/// The next plan is made with what the network took on average over this long (thesis section 3.5.3).
const MEASURED: Span = Span::from_secs(1);
/// A frame of now is taken for lost so long after it was coded, and four round trips or as long again, if
/// that is shorter: its deadline has passed by then, and its last repair has had time to be heard of. What
/// lay before an outage makes round trips of seconds, and is to be planned with before it is too late.
const GIVEN_UP: Span = Span::from_secs(1);
/// Frames of now whose decoding is in doubt at most: what is coded until one is given up, at 240 Hz.
const CHAIN: usize = 480;
/// A datagram's payload, by which headers are counted: the session's usual size.
const ROOM: u32 = 1200 - Media::LEN as u32;
/// SSIMs that wait to be told to the endpoint at most: 17 s of both captures at 30 Hz. A pause of the network
/// that is longer loses the oldest.
const RATINGS: usize = 1024;
/// Frames are kept for no longer, whatever delay an endpoint offers.
pub const LONGEST: Span = Span::from_secs(600);

/// How an upload stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// Frames captured.
    pub captured: u64,
    /// Bytes of frames of now that were coded, and of frames of before.
    pub live_bytes: u64,
    /// ... of frames of before.
    pub again_bytes: u64,
    /// Frames that the endpoint had no version of until one was sent again.
    pub repaired: u64,
    /// Frames that the endpoint had a poorer version of until one was sent again.
    pub improved: u64,
    /// Frames that can still be sent again, and that the endpoint has no version of.
    pub missing: u64,
    /// Frames that left the archive without any version at the endpoint.
    pub never_sent: u64,
    /// Bytes of the archive.
    pub archive: u64,
    /// Frames whose SSIM was told to the endpoint.
    pub rated: u64,
    /// Frames whose SSIM was dropped, for the endpoint took none for too long.
    pub unrated: u64,
}

/// A frame of now that is on its way.
struct Live {
    quality: f64,
    /// When it is taken for lost.
    until: Time,
}

/// What is to be sent again next, and its picture once that is unpacked.
struct Wanted {
    again: Again,
    picture: Option<Arc<RawFrame>>,
}

pub(crate) struct State {
    settings: Settings,
    engine: Engine,
    pub pictures: Archive,
    /// The number in the upload of the first frame of the present sender.
    base: u32,
    /// When the frames in the archive were captured, and the first one's number.
    times: VecDeque<Time>,
    first: u32,
    next_turn: Option<Time>,
    /// Bytes a second that the network took of late.
    rates: VecDeque<(Time, f64)>,
    wanted: Option<Wanted>,
    /// What the picture is coded for that is in the encoder, and when that has failed.
    taken: Option<(Again, Time)>,
    /// What was coded again, by the sender's number of it, with its SSIM.
    again: BTreeMap<u32, (u32, f64)>,
    live: BTreeMap<u32, Live>,
    /// SSIMs that the endpoint has not been told.
    ratings: VecDeque<Rated>,
    /// Who watches at which delay, as the endpoint said last.
    watchers: Option<Vec<Watchers>>,
    /// They are planned for.
    follows: bool,
    /// Coded frames of now from the first one on that is not known to have arrived, each with whether it has:
    /// those before it can be decoded there.
    chain: BTreeMap<u32, bool>,
    last_key: u32,
    /// Frames of now from this one on can't be decoded until a key frame comes.
    broken: Option<u32>,
    /// Bytes that may follow of frames of before until the next frame of now is captured.
    allowance: f64,
    /// Packets of frames of before that wait to be sent.
    waiting_again: usize,
    /// When the newest frame was captured.
    newest: Option<Time>,
    camera_ended: bool,
    over: bool,
    /// Frames of which something has changed since it was written down, where it is.
    touched: Option<BTreeSet<u32>>,
    /// Frames of a process before this one wait for the first plan.
    restored: bool,
    status: Status,
}

/// Frames that are written down at once: what a burst of acknowledgements changes.
const NOTED: usize = 64;

impl State {
    pub fn new(settings: Settings, pictures: Archive) -> State {
        State {
            engine: Engine::new(settings.clone()),
            settings,
            pictures,
            base: 0,
            times: VecDeque::new(),
            first: 0,
            next_turn: None,
            rates: VecDeque::new(),
            wanted: None,
            taken: None,
            again: BTreeMap::new(),
            live: BTreeMap::new(),
            ratings: VecDeque::new(),
            watchers: None,
            follows: false,
            chain: BTreeMap::new(),
            last_key: 0,
            broken: None,
            allowance: 0.0,
            waiting_again: 0,
            newest: None,
            camera_ended: false,
            over: false,
            touched: None,
            restored: false,
            status: Status::default(),
        }
    }

    /// What changes is to be written down from now on. `before` are the frames of a process that was killed,
    /// one after the other.
    pub fn restore(&mut self, before: &[Frame]) {
        self.touched = Some(before.iter().map(|frame| frame.number).collect());
        self.first = before.first().map_or(0, |first| first.number);
        for frame in before {
            self.times.push_back(frame.captured);
            self.engine.restore(seconds(frame.captured), frame.number, frame.quality, frame.again);
            if self.pictures.stored(frame.number).is_none() {
                self.engine.gone(frame.number);
            }
        }
        self.restored = !before.is_empty();
    }

    /// Some of the frames of which something has changed, to be written down.
    pub fn noted(&mut self) -> Vec<Frame> {
        let Some(touched) = &mut self.touched else { return Vec::new() };
        let numbers: Vec<u32> = std::iter::from_fn(|| touched.pop_first()).take(NOTED).collect();
        numbers.into_iter().filter_map(|number| self.frame(number)).collect()
    }

    fn frame(&self, number: u32) -> Option<Frame> {
        let captured = *self.times.get(number.checked_sub(self.first)? as usize)?;
        let (quality, again) = self.engine.quality(number).unwrap_or_default();
        Some(Frame { number, captured, stored: self.pictures.stored(number), quality, again })
    }

    fn touch(&mut self, frame: u32) {
        if let Some(touched) = &mut self.touched {
            touched.insert(frame);
        }
    }

    /// A version is lost, or can't be decoded.
    fn lost(&mut self, frame: u32) {
        self.engine.lost(frame);
        self.touch(frame);
    }

    /// A picture was packed.
    pub fn packed(&mut self, frame: u32, packed: Packed) {
        self.pictures.packed(frame, packed);
        self.touch(frame);
    }

    /// A sender begins.
    pub fn begin(&mut self, forgot: bool) {
        self.base = self.engine.next_frame();
        let live = std::mem::take(&mut self.live).into_keys();
        let again = std::mem::take(&mut self.again).into_values().map(|(frame, _)| frame);
        live.chain(again).for_each(|frame| self.lost(frame));
        if forgot {
            self.engine.forgotten();
            (self.first..self.base).for_each(|frame| self.touch(frame));
        }
        // What the endpoint knows them by was the last sender's.
        self.status.unrated += std::mem::take(&mut self.ratings).len() as u64;
        (self.wanted, self.taken, self.waiting_again) = (None, None, 0);
        self.chain.clear();
        (self.last_key, self.broken) = (self.base, None);
        self.engine.left(true);
    }

    /// The camera has given a picture.
    pub fn filmed(&mut self, picture: Arc<RawFrame>) {
        self.pictures.push(picture);
        self.status.captured += 1;
    }

    /// ... while there is no sender.
    pub fn filmed_alone(&mut self, now: Time, picture: Arc<RawFrame>) {
        self.filmed(picture);
        let frame = self.engine.next_frame();
        self.remember(now);
        self.measure(now, 0.0);
        self.turn(now);
        self.engine.live(seconds(now), frame, 0.0, 0.0);
    }

    pub fn camera_ended(&mut self) {
        // Nothing of now needs the network any more: what nobody who watches would have seen is repaired for
        // those who watch what is kept.
        if self.follows && !std::mem::replace(&mut self.camera_ended, true) {
            let kept = Delays::uniform(self.engine.horizon().ceil() as u16);
            self.engine.watch(Some(kept), 0.0);
        }
        self.camera_ended = true;
    }

    /// When the last frame was captured, once the camera has ended.
    pub fn last_filmed(&self) -> Option<Time> {
        self.newest.filter(|_| self.camera_ended)
    }

    pub fn is_over(&self) -> bool {
        self.over
    }

    pub fn is_repairing(&self) -> bool {
        self.engine.is_repairing()
    }

    /// Frame `frame` of the sender is captured.
    pub fn captured(&mut self, now: Time, frame: u32) {
        debug_assert_eq!(self.base + frame, self.first + self.times.len() as u32);
        self.remember(now);
    }

    fn remember(&mut self, now: Time) {
        self.touch(self.first + self.times.len() as u32);
        self.times.push_back(now);
        self.newest = Some(now);
        let longest = Span::from_secs_f64(self.engine.horizon());
        while self.times.front().is_some_and(|&at| now - at > longest) {
            self.times.pop_front();
            self.first += 1;
        }
        self.pictures.forget(self.first);
    }

    /// What becomes of the frame just captured, and what is sent again after it.
    pub fn order(&mut self, view: &View<'_>, order: Order) -> Order {
        let frame = self.base + view.frame;
        if frame < self.engine.next_frame() {
            // It was left out, and might be coded after all; the plan has gone on.
            return Order { encode: false, ..order };
        }
        let rate = if view.plan.encode { view.plan.bitrate.as_f64() / 8.0 } else { 0.0 };
        self.measure(view.now, rate);
        self.give_up(view.now, view.srtt);
        self.turn(view.now);
        let waiting = view.tracks.first().map_or(Bytes::ZERO, |track| track.waiting_bytes).get() as f64;
        let size = f64::from(self.engine.live(seconds(view.now), frame, rate, waiting));
        if self.waiting_again == 0 {
            self.engine.left(true);
        }
        let interval = view.interval.as_secs_f64();
        self.allowance = rate * interval - size - waiting - self.waiting_again as f64 * f64::from(ROOM);
        self.want_next(view.now, rate);
        let planned = Rate::from_bps((size * 8.0 / interval) as u64);
        // The engine codes through a short pause; the sender may not want to.
        let encode = view.plan.encode && size > 0.0;
        Order { encode, rate: planned.min(view.plan.bitrate), ..order }
    }

    /// How large the frame of before becomes whose picture was just taken.
    pub fn order_again(&mut self, view: &View<'_>, order: Order) -> Order {
        let Some((again, until)) = &mut self.taken else { return Order { encode: false, ..order } };
        *until = view.now + GIVEN_UP;
        let rate = Rate::average(Bytes::new(u64::from(again.size)), view.interval);
        Order { encode: true, rate, largest_key: None, ..order }
    }

    /// Makes a plan where one is due.
    fn turn(&mut self, now: Time) {
        if self.next_turn.is_some_and(|at| now < at) {
            return;
        }
        // A plan needs a first coded frame to know what bytes are worth; frames of before are not to wait for
        // a period more.
        if self.restored && self.engine.coming().is_none() && !self.camera_ended {
            return;
        }
        self.restored = false;
        let period = Span::from_secs_f64(self.settings.period);
        // A sender that was away for long starts afresh.
        let due = self.next_turn.filter(|&at| now - at < period).unwrap_or(now);
        self.next_turn = Some(due + period);
        let budget = self.mean_rate() * self.settings.period;
        self.engine.turn(seconds(now), budget);
    }

    /// Bytes a second that the network took of late, on average.
    fn mean_rate(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| rate).sum::<f64>() / self.rates.len().max(1) as f64
    }

    fn measure(&mut self, now: Time, rate: f64) {
        self.rates.push_back((now, rate));
        while self.rates.front().is_some_and(|&(at, _)| now - at > MEASURED) {
            self.rates.pop_front();
        }
    }

    /// Has the plan's next frame of before unpacked, if there is room for it.
    fn want_next(&mut self, now: Time, rate: f64) {
        if self.wanted.is_none() && self.taken.is_none() && self.allowance > 0.0 {
            let again = self.engine.again(seconds(now), rate);
            self.wanted = again.map(|again| Wanted { again, picture: None });
        }
    }

    /// Unpacks the picture that is wanted. False if none is.
    pub fn unpack(&mut self) -> bool {
        let Some(wanted) = self.wanted.as_mut().filter(|wanted| wanted.picture.is_none()) else {
            return false;
        };
        let frame = wanted.again.frame;
        wanted.picture = self.pictures.picture(frame);
        if wanted.picture.is_none() {
            self.wanted = None;
            self.engine.gone(frame);
        }
        true
    }

    pub fn has_picture(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.picture.is_some())
    }

    /// The picture that is to be coded again, and when it was captured.
    pub fn take_picture(&mut self) -> Option<(Time, Arc<RawFrame>)> {
        let Wanted { again, picture } = self.wanted.take()?;
        let captured = self.times.get(again.frame.checked_sub(self.first)? as usize).copied();
        let (Some(captured), Some(picture)) = (captured, picture) else {
            self.engine.gone(again.frame);
            return None;
        };
        self.taken = Some((again, Time::MAX));
        Some((captured, picture))
    }

    /// A frame of now came out of its encoder.
    pub fn coded(&mut self, now: Time, frame: u32, size: u32, key: bool, ssim: Option<f64>) {
        let (frame, bytes) = (self.base + frame, with_headers(size));
        let quality = self.quality(bytes, ssim);
        if key {
            (self.last_key, self.broken) = (frame, None);
        }
        self.engine.coded_live(frame, bytes, quality);
        self.status.live_bytes += bytes as u64;
        if self.broken.is_some() {
            self.lost(frame);
        } else {
            self.live.insert(frame, Live { quality, until: now + GIVEN_UP });
            self.chain.insert(frame, false);
            if self.chain.len() > CHAIN {
                self.chain.pop_first();
            }
        }
    }

    /// A frame of before came out of its encoder.
    pub fn coded_again(&mut self, now: Time, frame: u32, size: u32, ssim: Option<f64>) {
        let Some((again, _)) = self.taken.take() else { return };
        let bytes = with_headers(size);
        let quality = self.quality(bytes, ssim);
        self.engine.coded_again(again.frame, bytes, quality);
        self.again.insert(frame, (again.frame, quality));
        self.status.again_bytes += bytes as u64;
        self.waiting_again += (size.div_ceil(ROOM)) as usize;
        self.allowance -= bytes;
        self.want_next(now, self.mean_rate());
    }

    /// SSIM of a frame of `bytes`: as its encoder says, else as others of that size.
    fn quality(&self, bytes: f64, ssim: Option<f64>) -> f64 {
        ssim.or_else(|| Some(self.engine.coming()?.quality(bytes))).unwrap_or(0.5)
    }

    /// A frame of the sender has this SSIM, which the endpoint is to be told.
    pub fn measured(&mut self, stream: u8, frame: u32, ssim: f64) {
        self.ratings.extend(Rated::new(stream, frame, ssim));
        if self.ratings.len() > RATINGS {
            self.ratings.pop_front();
            self.status.unrated += 1;
        }
    }

    /// Hands the SSIMs that wait to `take`, as many at a time as one message has, for as long as it takes
    /// them.
    pub fn tell(&mut self, mut take: impl FnMut(&[Rated]) -> bool) {
        while !self.ratings.is_empty() {
            let some = self.ratings.len().min(wire::Quality::MOST);
            if !take(&self.ratings.make_contiguous()[..some]) {
                return;
            }
            self.ratings.drain(..some);
            self.status.rated += some as u64;
        }
    }

    /// The endpoint says who watches; from the next plan on that is what is planned for, if `planned`.
    pub fn watched(&mut self, watchers: &[Watchers], planned: bool) {
        self.watchers = Some(watchers.to_vec());
        if !planned || self.camera_ended {
            return;
        }
        self.follows = true;
        let delay =
            |watchers: &Watchers| Span::from_millis(i64::from(watchers.delay_ms)).min(LONGEST).as_secs_f64();
        let offered = watchers.iter().map(delay).fold(0.0, f64::max);
        let counts = watchers.iter().map(|watchers| (delay(watchers), f64::from(watchers.viewers)));
        self.engine.watch(Delays::new(counts).ok(), offered);
    }

    pub fn watchers(&self) -> Option<Vec<Watchers>> {
        self.watchers.clone()
    }

    /// So many packets of frames of before wait.
    pub fn waits_again(&mut self, packets: usize) {
        self.waiting_again = packets;
    }

    pub fn arrived(&mut self, frame: u32) {
        let frame = self.base + frame;
        if let Some(live) = self.live.remove(&frame) {
            self.engine.arrived(frame, live.quality);
            self.touch(frame);
        }
        if let Some(there) = self.chain.get_mut(&frame) {
            *there = true;
        }
        while self.chain.first_key_value().is_some_and(|(_, there)| *there) {
            self.chain.pop_first();
        }
    }

    pub fn arrived_again(&mut self, frame: u32) {
        let Some((frame, quality)) = self.again.remove(&frame) else { return };
        self.touch(frame);
        match self.engine.arrived_again(frame, quality) {
            Some(before) if before <= 0.0 => self.status.repaired += 1,
            Some(before) if before < quality => self.status.improved += 1,
            _ => {}
        }
    }

    /// The endpoint can't decode frames of now after this one, until a key frame comes. Up to this one it has
    /// given up what did not arrive, and with it what did but is predicted from that.
    pub fn stuck(&mut self, after: u32) {
        let from = self.base.saturating_add(after).saturating_add(1).max(self.first);
        let later = self.chain.split_off(&from);
        for frame in std::mem::replace(&mut self.chain, later).into_keys() {
            self.live.remove(&frame);
            self.lost(frame);
        }
        let next = self.engine.next_frame();
        let to = if self.last_key >= from { self.last_key } else { next };
        if to == next {
            self.broken = Some(from);
        }
        for frame in from..to {
            self.live.remove(&frame);
            self.lost(frame);
        }
    }

    /// Takes frames for lost that should have come out of the encoder, or arrived, by now.
    fn give_up(&mut self, now: Time, srtt: Span) {
        if let Some((again, _)) = self.taken.take_if(|(_, until)| now > *until) {
            self.lost(again.frame);
        }
        while let Some((&frame, live)) = self.live.first_key_value()
            && now > live.until + (srtt * 4).min(GIVEN_UP)
        {
            self.live.remove(&frame);
            self.lost(frame);
        }
    }

    /// What a frame of now would bring about, when there are no more. False once nothing is left to do.
    pub fn tick_alone(&mut self, now: Time) -> bool {
        if self.camera_ended && !self.over {
            let rate = self.mean_rate();
            self.give_up(now, Span::ZERO);
            self.turn(now);
            self.allowance = rate * self.settings.period / 4.0 - self.waiting_again as f64 * f64::from(ROOM);
            self.want_next(now, rate);
            if self.waiting_again == 0 {
                self.engine.left(true);
            }
            let idle = self.wanted.is_none() && self.taken.is_none() && self.again.is_empty();
            // What is there need not get better once nothing is missing: somebody waits for the end.
            self.over = idle && self.live.is_empty() && self.engine.missing() == 0;
        }
        !self.over
    }

    pub fn status(&self) -> Status {
        Status {
            missing: self.engine.missing() as u64,
            never_sent: self.engine.never_sent() as u64,
            archive: self.pictures.held() as u64,
            ..self.status
        }
    }
}

fn seconds(now: Time) -> f64 {
    (now - Time::ZERO).as_secs_f64()
}

/// Datagram bytes of a frame of `size` bytes.
fn with_headers(size: u32) -> f64 {
    f64::from(size + size.div_ceil(ROOM) * Media::LEN as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State::new(Settings::default(), Archive::in_memory(1 << 20))
    }

    #[test]
    fn ssims_wait_for_room_within_a_bound_and_are_counted() {
        let mut state = state();
        state.measured(0, 7, f64::NAN);
        (0..100).for_each(|frame| state.measured(0, frame, 0.9));
        let mut told = Vec::new();
        let mut room = 1;
        state.tell(|rated| {
            let taken = room > 0;
            room -= i32::from(taken);
            told.extend(rated.iter().filter(|_| taken).map(|rated| rated.frame));
            taken
        });
        assert_eq!((told.len(), state.status().rated), (64, 64));
        state.tell(|rated| {
            told.extend(rated.iter().map(|rated| rated.frame));
            true
        });
        assert_eq!(told, Vec::from_iter(0..100));
        (0..RATINGS as u32 + 10).for_each(|frame| state.measured(1, frame, 0.9));
        assert_eq!((state.status().rated, state.status().unrated), (100, 10));
        // Another sender numbers its frames anew.
        state.begin(false);
        state.tell(|_| panic!("nothing waits"));
        assert_eq!(state.status().unrated, 10 + RATINGS as u64);
    }

    #[test]
    fn who_watches_is_shown_and_planned_for_if_wanted() {
        let mut state = state();
        assert_eq!(state.watchers(), None);
        let watchers = [(500, 3), (45_000, 0)].map(|(delay_ms, viewers)| Watchers { delay_ms, viewers });
        state.watched(&watchers, false);
        assert_eq!((state.watchers(), state.engine.horizon()), (Some(watchers.to_vec()), 30.0));
        state.watched(&watchers, true);
        assert_eq!(state.engine.horizon(), 45.0);
        let endless = [Watchers { delay_ms: u32::MAX, viewers: u32::MAX }];
        state.watched(&endless, true);
        assert_eq!(state.engine.horizon(), LONGEST.as_secs_f64());
        state.watched(&[], true);
        assert_eq!(state.watchers(), Some(Vec::new()));
    }
}
