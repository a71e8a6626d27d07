//! Going on with an upload whose endpoint was killed.

use std::io::{Seek, Write};

use media::{Codec, RawFrame};

use super::*;
use crate::ResumeError;
use crate::journal::{JOURNAL, Journal, MOST_SEGMENTS, Opened, Past, VERSION, span_ms};

impl<M: Write + Seek> Ingest<M> {
    /// The upload of this name that an endpoint before this one was killed over, at most `patience` ago, to
    /// be gone on with; `None` if there was none. `unix_ms` is the date at `now`.
    ///
    /// Playlists, dates and media time go on. The frames of segments that a class has not listed yet are
    /// read out of the files of the classes before it, and give way to better versions that arrive.
    ///
    /// # Errors
    /// [`ResumeError`] if it can't be gone on with. What is there stays as it is.
    pub fn resume(
        settings: Settings,
        shelf: Box<dyn Shelf>,
        (now, unix_ms): (Time, i64),
        patience: Span,
    ) -> Result<Option<Ingest<M>>, ResumeError> {
        let mut ingest = Ingest::new(settings, shelf, None, now, unix_ms);
        let Some(bytes) = ingest.find(JOURNAL)? else { return Ok(None) };
        let journal = Journal::read(&bytes, &ingest.settings, unix_ms, patience)?;
        ingest.encoding = ingest.encoding_of(&journal.encoder)?;
        ingest.take_over(&journal, (now, unix_ms));
        for past in &journal.classes {
            let listed = ingest.listed(past)?;
            ingest.classes.push(listed);
        }
        let next = ingest.classes.iter().map(|listed| listed.next).max().unwrap_or(0);
        let settled = journal.made.first().map_or(0, |first| first.number);
        if let Some(behind) = ingest.classes.iter().find(|listed| listed.next < settled) {
            return Err(ResumeError::Playlist(format!("{}.m3u8", behind.class.name)));
        }
        if ingest.newest > ingest.begins(next + 1) + LEAP {
            return Err(ResumeError::Journal("its newest frame is far from its segments".to_owned()));
        }
        // What was put after a playlist may be missing.
        (0..ingest.classes.len()).filter(|_| next > 0).for_each(|class| ingest.list(class));
        Ok(Some(ingest))
    }

    /// The whole of it goes to `movie`, where it was not begun with one.
    pub fn film_to(&mut self, movie: M) {
        self.movie = Some(movie);
    }

    fn find(&self, path: &str) -> Result<Option<bytes::Bytes>, ResumeError> {
        self.shelf.get(&format!("{}/{path}", self.settings.name)).map_err(ResumeError::Unreachable)
    }

    fn encoding_of(&self, opened: &Opened) -> Result<Encoding, ResumeError> {
        let description = opened.description()?;
        let how = (opened.interval(), opened.rate());
        Encoding::resume(self.settings.rate, &description, how)
            .map_err(|error| ResumeError::Encoder(error.to_string()))
    }

    /// Takes over what the journal says; `now` is at `unix_ms`.
    fn take_over(&mut self, journal: &Journal, (now, unix_ms): (Time, i64)) {
        // A machine that was started since has a clock that is younger than the stream.
        self.ahead = journal.newest() + LEAP * 8;
        self.now = now + self.ahead;
        self.epoch_ms = unix_ms - (self.now - Time::ZERO).as_nanos() / 1_000_000;
        let zero = self.now - span_ms(unix_ms.saturating_sub(journal.zero_ms));
        self.shift = Shift { begun: self.now, now: None, before: Some(zero) };
        (self.origin, self.newest) = (Some(journal.origin()), journal.newest());
        (self.usual, self.most) = (journal.encoder.interval(), journal.most());
        (self.began_ms, self.lives) = (journal.began_ms, journal.lives + 1);
        for listed in &journal.made {
            let (held, seen, path) = (listed.held(), listed.seen(), listed.path());
            let made = Made { held, seen, path, samples: Arc::new([]), variation: listed.variation };
            self.made.insert(listed.number, made);
            self.past.insert(listed.number, listed.clone());
        }
    }

    /// A class as its files have it.
    fn listed(&self, past: &Past) -> Result<Listed, ResumeError> {
        let class = self.settings.classes[self.classes.len()].clone();
        let (name, segment) = (class.name.clone(), self.settings.segment);
        let broken = || ResumeError::Playlist(format!("{name}.m3u8"));
        let describe = |number: u32| {
            let (from, to) = (ticks(self.begins(number)), ticks(self.begins(number.saturating_add(1))));
            (from, u32::try_from(to - from).unwrap_or(0))
        };
        let playlist = match self.find(&format!("{name}.m3u8"))? {
            Some(listing) => {
                let listing = std::str::from_utf8(&listing).map_err(|_| broken())?;
                Playlist::resume(self.playlist_settings(), listing, describe).map_err(|_| broken())?
            }
            None => Playlist::new(self.playlist_settings()).map_err(|_| broken())?,
        };
        if playlist.segments().last().is_some_and(|last| last.number >= MOST_SEGMENTS) {
            return Err(broken());
        }
        let history = self.find(&format!("{name}.json"))?.unwrap_or_default();
        Ok(Listed::new(class, playlist, self.most_told()).resume(past.gone(), &history, segment))
    }

    /// Puts the journal.
    pub(super) fn note(&mut self) {
        let (Some(origin), Some(zero_ms)) = (self.origin, self.date_ms()) else { return };
        let description = self.encoding.description.as_ref();
        let Some((description, (interval, rate))) = description.zip(self.encoding.opened()) else { return };
        let classes = self.classes.iter();
        let made = self
            .made
            .iter()
            .map(|(&number, made)| journal::Listed::new(number, made.variation, made.held, &made.seen));
        let journal = Journal {
            version: VERSION,
            saved_ms: self.epoch_ms + (self.now - Time::ZERO).as_nanos() / 1_000_000,
            ended: self.ended,
            lives: self.lives,
            origin_ns: origin.as_nanos(),
            began_ms: self.began_ms,
            zero_ms,
            newest_ns: self.newest.as_nanos(),
            segment_ns: self.settings.segment.as_nanos(),
            encoder: Opened::new(interval, rate, description),
            most_bps: self.most.as_bps(),
            classes: classes.map(|listed| Past::new(&listed.class.name, &listed.gone)).collect(),
            made: made.collect(),
        };
        self.put(JOURNAL, journal.to_bytes().into(), Kind::Listing);
    }

    /// Takes the frames of a segment that an endpoint before this one made into the store.
    pub(super) fn restore(&mut self, number: u32) {
        let Some(past) = self.past.remove(&number) else { return };
        let (held, seen) = (usize::from(past.held().is_some()), past.seen());
        let pictures = self.pictures(&past.path()).unwrap_or_default();
        // Of one that can't be read, or is another, only what is sent again is there.
        if pictures.len() == held + seen.len() {
            let pictures = pictures.iter().skip(held);
            seen.into_iter().zip(pictures).for_each(|(seen, picture)| self.store.restore(seen, picture));
        }
    }

    /// Looks for the picture that a class showed last in its last segment.
    pub(super) fn restore_last(&mut self, class: usize) {
        let listed = &self.classes[class];
        let Some(last) = listed.playlist.segments().last().filter(|_| listed.last.is_none()) else { return };
        let (number, path) = (last.number, last.path.clone());
        if let Some(picture) = self.pictures(&path).and_then(|mut pictures| pictures.pop()) {
            self.classes[class].last = Some(((self.begins(number), 0), Arc::new(picture)));
        }
    }

    /// What a segment shows.
    fn pictures(&self, path: &str) -> Option<Vec<RawFrame>> {
        let description = self.encoding.description.as_ref()?;
        let mut decoder = Codec::H264.decoder().ok()?;
        let mut picture = |(number, sample): (u32, &Sample)| {
            decoder.submit(Time::ZERO, number, sample.to_annex_b(description)?);
            decoder.poll(Time::MAX)?.picture.ok()
        };
        let samples = mp4::samples(&self.find(path).ok()??).ok()?;
        (0..).zip(&samples).map(&mut picture).collect()
    }

    /// Makes the movie of the files that the last class lists, if an endpoint before this one was killed
    /// while it wrote it.
    pub(super) fn film_anew(&mut self) -> Result<(), mp4::Mp4Error> {
        let Some(description) = self.encoding.description.as_ref().filter(|_| self.lives > 0) else {
            return Ok(());
        };
        let (Some(file), Some(last)) = (self.movie.take(), self.classes.last()) else { return Ok(()) };
        let mut movie = Movie::new(file, description)?;
        for number in 0..last.next {
            let missing = mp4::Mp4Error::Segment("a file of the last playlist is missing");
            let path = self.file_of(last, number);
            let file = path.and_then(|path| self.find(&path).ok().flatten()).ok_or(missing)?;
            movie.add(&mp4::samples(&file)?)?;
        }
        self.writing = Some(movie);
        Ok(())
    }

    /// Where a segment of the last class is, listed still or not.
    fn file_of(&self, last: &Listed, number: u32) -> Option<String> {
        let mut segments = last.playlist.segments();
        let first = segments.next()?;
        let listed = match number.checked_sub(first.number) {
            Some(0) => Some(first),
            Some(behind) => segments.nth(behind as usize - 1),
            None => None,
        };
        if let Some(segment) = listed {
            return Some(segment.path.clone());
        }
        let notes = self.find(&format!("s/{number:06}.json")).ok()??;
        let notes: Value = serde_json::from_slice(&notes).ok()?;
        let variation = u32::try_from(notes.get("variation")?.as_u64()?).ok()?;
        Some(journal::path(number, variation))
    }
}
