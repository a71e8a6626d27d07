//! One upload at its endpoint.

mod resume;

use std::collections::{BTreeMap, VecDeque};
use std::io::{Seek, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use units::{Bytes, Rate, RemoteTime, Span, Time};

use crate::class::{Class, Listed, Tally, rounded};
use crate::encoding::{Encoding, Shown, black, ticks};
use crate::gaps::{intervals, left_out, usual};
use crate::journal;
use crate::mp4::{self, Movie, Sample};
use crate::playlist::{self, Playlist, Segment};
use crate::store::{Arrival, Seen, Store};
use crate::{Kind, Shelf};

/// How an upload is packaged.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The stream's name: the folder of its files.
    pub name: String,
    /// The delays at which it can be watched, rising.
    pub classes: Vec<Class>,
    /// How long a segment is.
    pub segment: Span,
    /// Bits a second that segments are coded at; `None` for what suits the pictures.
    pub rate: Option<Rate>,
    /// How much of the past a playlist lists; `None` for all.
    pub window: Option<Span>,
    /// Bytes of pictures that are kept at most.
    pub memory: usize,
}

/// How an upload stands at its endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Media time of the newest frame.
    pub newest: Span,
    /// Of each class, by rising delay.
    pub classes: Vec<ClassStatus>,
    /// Bytes of pictures.
    pub held: usize,
    /// Pictures dropped for want of room.
    pub dropped: u64,
    /// Segments that could not be coded, or that a full shelf refused; they were made again later.
    pub refused: u64,
}

/// How a class stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassStatus {
    /// How it is called in paths.
    pub name: String,
    /// Segments listed.
    pub segments: u32,
    /// Frames captured in them, ...
    pub frames: usize,
    /// ... of these those that are shown as they were first sent, ...
    pub arrived: usize,
    /// ... and as they were sent again. Of the others nothing was there in time.
    pub repaired: usize,
    /// Of those shown, the ones whose SSIM is known, ...
    pub rated: usize,
    /// ... and the mean of it; `None` if it is of none.
    pub ssim: Option<f64>,
}

/// What players read before the first segment.
const HEADER: &str = "init.mp4";
/// The delay of the fastest frame is looked for over this long, twice: two clocks drift apart.
const SHIFT_WINDOW: Span = Span::from_secs(30);
/// Frames are taken for so far apart until two have arrived, and then for no less and no more than this.
const INTERVAL: Span = Span::from_nanos(33_333_333);
const INTERVALS: std::ops::RangeInclusive<Span> = Span::from_millis(4)..=Span::from_secs(1);
/// Times of capture are told in microseconds, each rounded.
const ROUNDING: Span = Span::from_millis(1);
/// A frame this much newer than the newest is none: segments up to it would have to be filled.
const LEAP: Span = Span::from_secs(3_600);

/// When media time zero was, by the endpoint's clock: as early as the fastest frame of late says.
#[derive(Debug, Default)]
struct Shift {
    begun: Time,
    now: Option<Time>,
    before: Option<Time>,
}

impl Shift {
    fn hear(&mut self, at: Time, zero: Time) {
        if at - self.begun > SHIFT_WINDOW {
            (self.begun, self.before, self.now) = (at, self.now, None);
        }
        self.now = Some(self.now.map_or(zero, |least| least.min(zero)));
    }

    fn zero(&self) -> Option<Time> {
        self.now.into_iter().chain(self.before).min()
    }
}

/// A segment that was made, to be listed by later classes if nothing has become better.
struct Made {
    /// The picture before it, if it shows that on at first.
    held: Option<Seen>,
    seen: Vec<Seen>,
    path: String,
    /// Empty if an endpoint before this one made it.
    samples: Arc<[Sample]>,
    /// The number in its path that tells the files of one segment apart.
    variation: u32,
}

/// Makes segments and playlists of what arrives of one upload.
pub struct Ingest<M> {
    settings: Settings,
    shelf: Box<dyn Shelf>,
    store: Store,
    encoding: Encoding,
    classes: Vec<Listed>,
    movie: Option<M>,
    writing: Option<Movie<M>>,
    /// Added to the endpoint's clock, so that media time zero lies after the clock's own.
    ahead: Span,
    /// Unix time in ms of that clock's zero, and its time when it was told last.
    epoch_ms: i64,
    now: Time,
    origin: Option<RemoteTime>,
    shift: Shift,
    /// Media times of the newest frames of now, for their interval, and what it is until some have arrived.
    recent: VecDeque<Span>,
    usual: Span,
    newest: Span,
    /// Media time of the camera's last frame, once it has ended.
    filmed: Option<Span>,
    /// The highest rate of a segment so far.
    most: Rate,
    made: BTreeMap<u32, Made>,
    /// The date of media time zero in the playlists.
    began_ms: Option<u64>,
    /// How often an endpoint that was killed was gone on from, and the segments it had made whose frames are
    /// not in the store yet.
    lives: u32,
    past: BTreeMap<u32, journal::Listed>,
    ended: bool,
    refused: u64,
}

impl<M: Write + Seek> Ingest<M> {
    /// An upload that has not begun. Its files go to `shelf`, and the whole of it in its final version, where
    /// that is wanted, to `movie`. `unix_ms` is the date at `now`.
    pub fn new(
        settings: Settings,
        shelf: Box<dyn Shelf>,
        movie: Option<M>,
        now: Time,
        unix_ms: i64,
    ) -> Ingest<M> {
        Ingest {
            store: Store::new(settings.memory),
            encoding: Encoding::new(settings.rate),
            classes: Vec::new(),
            settings,
            shelf,
            movie,
            writing: None,
            ahead: Span::ZERO,
            epoch_ms: unix_ms - (now - Time::ZERO).as_nanos() / 1_000_000,
            now,
            origin: None,
            shift: Shift::default(),
            recent: VecDeque::new(),
            usual: INTERVAL,
            newest: Span::ZERO,
            filmed: None,
            most: Rate::ZERO,
            made: BTreeMap::new(),
            began_ms: None,
            lives: 0,
            past: BTreeMap::new(),
            ended: false,
            refused: 0,
        }
    }

    /// A version of a frame is there. False if it is of no use: older than all that is kept, or further from
    /// the others than an hour.
    pub fn take(&mut self, arrival: &Arrival) -> bool {
        let origin = *self.origin.get_or_insert(arrival.captured);
        let time = arrival.captured - origin;
        let oldest = self.begins(self.classes.last().map_or(0, |last| last.next));
        if time < oldest || time > self.newest + LEAP || self.ended {
            return false;
        }
        let at = arrival.at + self.ahead;
        let zero = at - time;
        self.now = self.now.max(at);
        if !arrival.again {
            self.shift.hear(at, zero);
            self.recent.push_back(time);
            if self.recent.len() > 60 {
                self.recent.pop_front();
            }
        }
        self.newest = self.newest.max(time);
        // Another uploader goes on under the name.
        self.filmed = self.filmed.filter(|&filmed| time <= filmed + ROUNDING);
        self.store.insert(time, zero - self.shift.zero().unwrap_or(zero), arrival);
        true
    }

    /// The camera has ended with the frame captured at `last`. No segment is made of what comes after it, so
    /// that nothing is missing there; the upload goes on with what it sends again. What makes no sense is not
    /// heeded.
    pub fn filmed(&mut self, last: RemoteTime) {
        let Some(origin) = self.origin else { return };
        let time = last - origin;
        if (self.newest - ROUNDING..=self.newest + LEAP).contains(&time) {
            self.filmed = Some(time);
        }
    }

    /// Media time of the last frame there is, as far as is known.
    fn last(&self) -> Span {
        self.filmed.map_or(self.newest, |filmed| filmed.max(self.newest))
    }

    /// Makes and lists the segment that is due, the one that has been for the longest if several are, and
    /// says when to look again: at once if there are more. Pictures that have come meanwhile should be taken
    /// first.
    pub fn wake(&mut self, now: Time) -> Option<Time> {
        let now = now + self.ahead;
        self.now = self.now.max(now);
        let zero = self.shift.zero().filter(|_| !self.ended)?;
        self.begin();
        let due = (0..self.classes.len()).filter_map(|class| Some((self.due(class, zero)?, class)));
        // On a machine that is too slow every class gets its turn: what one has coded is the next one's file.
        let (at, class) = due.min()?;
        if at > now {
            return Some(at - self.ahead);
        }
        // Where the shelf is full, or the encoder fails: a second later they may not.
        let wait = if self.advance(class, None) { Span::ZERO } else { Span::from_secs(1) };
        Some(now + wait - self.ahead)
    }

    /// The upload has ended: all that remains is listed at once, since nothing becomes better any more.
    ///
    /// # Errors
    /// [`mp4::Mp4Error`] if the movie can't be finished.
    pub fn finish(&mut self) -> Result<Option<M>, mp4::Mp4Error> {
        if self.shift.zero().is_none() {
            return Ok(None);
        }
        self.begin();
        let end = self.last() + self.interval();
        for class in 0..self.classes.len() {
            while self.begins(self.classes[class].next) <= self.last() && self.advance(class, Some(end)) {}
            self.classes[class].playlist.end();
        }
        // Before the lists say so: an endpoint that is killed here must not go on with what players take for
        // ended.
        self.ended = true;
        (0..self.classes.len()).for_each(|class| self.list(class));
        let filmed = self.film_anew();
        self.describe();
        filmed?;
        self.writing.take().map(Movie::finish).transpose()
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        let of = |listed: &Listed| {
            let Tally { frames, arrived, repaired, rated, .. } = listed.total;
            let (name, segments, ssim) = (listed.class.name.clone(), listed.next, listed.total.mean_ssim());
            ClassStatus { name, segments, frames, arrived, repaired, rated, ssim }
        };
        Status {
            newest: self.newest,
            classes: self.classes.iter().map(of).collect(),
            held: self.store.held(),
            dropped: self.store.dropped(),
            refused: self.refused,
        }
    }

    /// Unix time in ms of media time zero, once something has arrived.
    pub fn date_ms(&self) -> Option<i64> {
        let zero = self.shift.zero()?;
        Some(self.epoch_ms + (zero - Time::ZERO).as_nanos() / 1_000_000)
    }

    /// Opens the playlists, once there is a first frame to date them by.
    fn begin(&mut self) {
        if !self.classes.is_empty() {
            return;
        }
        self.began_ms = self.date_ms().and_then(|ms| u64::try_from(ms).ok());
        for class in self.settings.classes.clone() {
            let playlist =
                Playlist::new(self.playlist_settings()).expect("the length of segments was checked");
            self.classes.push(Listed::new(class, playlist, self.most_told()));
        }
    }

    fn playlist_settings(&self) -> playlist::Settings {
        let &Settings { segment, window, .. } = &self.settings;
        playlist::Settings { target: segment, window, header: HEADER.to_owned(), began: self.began_ms }
    }

    /// Segments that a class's history tells of at most.
    fn most_told(&self) -> usize {
        let Settings { segment, window, .. } = &self.settings;
        window.map_or(usize::MAX, |window| (window.as_nanos() / segment.as_nanos()) as usize + 2)
    }

    fn begins(&self, number: u32) -> Span {
        self.settings.segment * i64::from(number)
    }

    /// When a class gets its next segment. What the camera's last frame lies in is the upload's end to list:
    /// another upload may go on from it.
    fn due(&self, class: usize, zero: Time) -> Option<Time> {
        let listed = self.classes.get(class)?;
        let ends = self.begins(listed.next + 1);
        let is_filmed = self.filmed.is_none_or(|filmed| ends <= filmed);
        is_filmed.then_some(zero + ends + listed.class.delay)
    }

    /// Time between frames of late.
    fn interval(&self) -> Span {
        let times = self.recent.iter().zip(self.recent.iter().skip(1));
        let gaps = times.map(|(&before, &after)| after - before).filter(|gap| gap.is_positive());
        usual(gaps.collect()).unwrap_or(self.usual).clamp(*INTERVALS.start(), *INTERVALS.end())
    }

    /// Gives a class its next segment, of what there is now; the upload's last one ends at `end`. False if
    /// that failed, and is to be tried again.
    fn advance(&mut self, class: usize, end: Option<Span>) -> bool {
        let number = self.classes[class].next;
        let (from, to) = (self.begins(number), self.begins(number + 1));
        let to = end.map_or(to, |end| end.min(to));
        self.restore(number);
        let seen = self.store.seen(from, to);
        let held = self.held(class, from, &seen);
        let same = self.made.get(&number).is_some_and(|made| made.seen == seen && made.held == held);
        if !same && !self.make(class, number, (from, to), (held, &seen)) {
            self.refused += 1;
            return false;
        }
        self.keep_last(class, &seen);
        self.add(class, number, (from, to), &seen);
        let last = class + 1 == self.classes.len();
        if last {
            // Before the playlist, out of which the segment may slide: which file shows it.
            let notes = self.notes(number, from, to);
            // Who wants to know of each frame can do without, if there is no room.
            self.put(&format!("s/{number:06}.json"), notes.into(), Kind::Segment);
        }
        // At the upload's end all is listed at once: players that see it go on growing would leap to its end.
        if end.is_none() {
            self.list(class);
        }
        if class == 0 {
            self.store.may_pack(to);
        }
        if last {
            self.settle(number, to);
        }
        true
    }

    /// The version of the picture before a segment, if that is shown on because the first frames are missing.
    fn held(&mut self, class: usize, from: Span, seen: &[Seen]) -> Option<Seen> {
        let late = seen.first().is_none_or(|(first, _)| *first - from > self.interval() / 2);
        if late {
            self.restore_last(class);
        }
        self.classes[class].last.as_ref().filter(|_| late).map(|(last, _)| *last)
    }

    /// Codes a segment and puts it on the shelf.
    fn make(
        &mut self,
        class: usize,
        number: u32,
        (from, to): (Span, Span),
        (held, seen): (Option<Seen>, &[Seen]),
    ) -> bool {
        let shown = self.shown(class, from, held, seen);
        let Ok(samples) = self.encoding.segment(&shown, to, self.interval()) else { return false };
        if samples.is_empty() || !self.describe_once() {
            return false;
        }
        let first = journal::first_variation(self.lives);
        let variation = self.made.get(&number).map_or(first, |made| first.max(made.variation + 1));
        let path = journal::path(number, variation);
        let bytes = mp4::segment(number, ticks(from), &samples);
        let size = bytes.len() as u64;
        if !self.put(&path, bytes.into(), Kind::Segment) {
            return false;
        }
        self.most = self.most.max(Rate::average(Bytes::new(size), to - from));
        let made = Made { held, seen: seen.to_vec(), path, samples: samples.into(), variation };
        self.made.insert(number, made);
        true
    }

    /// The pictures of a segment and when each is shown. At the very beginning, what nothing has arrived of
    /// shows the picture after it.
    fn shown(&self, class: usize, from: Span, held: Option<Seen>, seen: &[Seen]) -> Vec<Shown> {
        let last = self.classes[class].last.as_ref().filter(|_| held.is_some());
        let held = last.map(|(_, picture)| Shown { from, picture: picture.clone() });
        let pictures =
            seen.iter().filter_map(|&(from, _)| Some(Shown { from, picture: self.store.picture(from)? }));
        let mut shown: Vec<Shown> = held.into_iter().chain(pictures).collect();
        if let Some(description) = self.encoding.description.as_ref().filter(|_| shown.is_empty()) {
            // Only after an endpoint was killed, if its last segment can't be read either.
            shown.push(Shown { from, picture: Arc::new(black(description)) });
        }
        shown.iter_mut().take(1).for_each(|first| first.from = from);
        shown
    }

    fn keep_last(&mut self, class: usize, seen: &[Seen]) {
        let last = seen.last().and_then(|&last| Some((last, self.store.picture(last.0)?)));
        self.classes[class].last = last.or(self.classes[class].last.take());
    }

    fn add(&mut self, class: usize, number: u32, (from, to): (Span, Span), seen: &[Seen]) {
        let made = &self.made[&number];
        let duration = (ticks(to) - ticks(from)) as u32;
        let segment = Segment { number, path: made.path.clone(), begins: ticks(from), duration };
        let repaired = seen.iter().filter(|(_, again)| *again > 0).count();
        let arrived = seen.len() - repaired;
        let frames = seen.len() + self.missing((from, to), seen);
        let ssims: Vec<f64> = seen.iter().filter_map(|&(time, _)| self.store.ssim(time)).collect();
        let (rated, ssim) = (ssims.len(), ssims.iter().sum());
        let listed = &mut self.classes[class];
        listed.playlist.add(segment).expect("it continues the one before");
        listed.note(Tally { number, begins: from, frames, arrived, repaired, rated, ssim });
        listed.next = number + 1;
    }

    /// Frames captured from `from` to before `to` of which nothing is there, as far as their usual interval
    /// tells: no more than that leaves room for, and none where frames follow each other.
    fn missing(&self, (from, to): (Span, Span), seen: &[Seen]) -> usize {
        let interval = self.interval();
        if seen.is_empty() {
            return intervals(to - from, interval);
        }
        let before = self.store.seen(from - interval, from).last().map(|(time, _)| *time);
        let times: Vec<Span> = seen.iter().map(|(time, _)| *time).collect();
        intervals(to - from, interval).saturating_sub(seen.len()).min(left_out(
            (before, from, to),
            &times,
            interval,
        ))
    }

    /// The last class has a segment: nothing of it becomes better.
    fn settle(&mut self, number: u32, to: Span) {
        if self.lives == 0
            && self.writing.is_none()
            && let (Some(file), Some(description)) = (self.movie.take(), &self.encoding.description)
        {
            self.writing = Movie::new(file, description).ok();
        }
        if let (Some(movie), Some(made)) = (&mut self.writing, self.made.get(&number))
            && movie.add(&made.samples).is_err()
        {
            self.writing = None;
        }
        self.made = self.made.split_off(&(number + 1));
        self.past = self.past.split_off(&(number + 1));
        self.store.forget(to);
    }

    /// What arrived of each frame, how long after its capture, whether it was sent again, and how good it is;
    /// and which file shows them.
    fn notes(&self, number: u32, from: Span, to: Span) -> String {
        let frames: Vec<Value> = self
            .store
            .notes(from, to)
            .map(|(time, notes)| {
                let each = notes.iter().map(|note| {
                    json!([note.delay.as_secs_f64(), note.again, note.rating.ssim().map(rounded)])
                });
                json!({ "at_s": time.as_secs_f64(), "arrived": each.collect::<Vec<_>>() })
            })
            .collect();
        let variation = self.made.get(&number).map(|made| made.variation);
        json!({ "frames": frames, "variation": variation }).to_string()
    }

    /// Puts what players read before anything else, once.
    fn describe_once(&mut self) -> bool {
        let first = self.made.is_empty() && self.classes.iter().all(|listed| listed.next == 0);
        let Some(description) = self.encoding.description.clone().filter(|_| first) else { return true };
        let header = mp4::header(&description);
        if !self.put(HEADER, header.into(), Kind::Segment) {
            return false;
        }
        self.describe();
        true
    }

    /// What there is to watch, for a page.
    fn describe(&mut self) {
        let Some(description) = &self.encoding.description else { return };
        let classes: Vec<Value> = self
            .classes
            .iter()
            .map(|Listed { class: Class { name, delay }, .. }| {
                json!({
                    "name": name, "delay_s": delay.as_secs_f64(), "playlist": format!("{name}.m3u8"),
                    "manifest": format!("{name}.mpd"), "history": format!("{name}.json"),
                })
            })
            .collect();
        let movie = (self.ended && self.writing.is_some()).then_some("movie.mp4");
        let index = json!({
            "name": self.settings.name, "width": description.width, "height": description.height,
            "codec": description.codec(),
            "interval_s": self.interval().as_secs_f64(), "segment_s": self.settings.segment.as_secs_f64(),
            "date_ms": self.date_ms(), "ended": self.ended, "classes": classes, "movie": movie,
        });
        self.put("index.json", index.to_string().into(), Kind::Listing);
    }

    /// Puts a class's playlists and history, and the journal before them: what is listed an endpoint that is
    /// killed must be able to go on from.
    fn list(&mut self, class: usize) {
        self.note();
        let listed = &self.classes[class];
        let name = listed.class.name.clone();
        let codec = self.encoding.description.as_ref();
        let manifest = codec.map(|description| listed.playlist.to_dash(description, self.most));
        let files =
            [("json", Some(listed.history())), ("m3u8", Some(listed.playlist.to_hls())), ("mpd", manifest)];
        for (kind, text) in files {
            if let Some(text) = text {
                self.put(&format!("{name}.{kind}"), text.into(), Kind::Listing);
            }
        }
    }

    fn put(&mut self, path: &str, bytes: bytes::Bytes, kind: Kind) -> bool {
        self.shelf.put(&format!("{}/{path}", self.settings.name), bytes, kind)
    }
}
