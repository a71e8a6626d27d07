//! Frames on their way through the decoder.

use std::collections::VecDeque;

use bytes::Bytes;
use media::{Decoder, Earlier, Parts};
use units::{RemoteTime, Span, Time};

use crate::display::Shown;
use crate::playout::Arrival;

/// Frames handed to the decoder and not yet back, at most: further ones wait in the assembly, where they can
/// be given up.
const IN_DECODER: usize = 4;

#[derive(Debug)]
struct Pending {
    shown: Shown,
    deadline: Time,
    /// Bytes that the decoder got.
    size: usize,
    /// When it is decoded, of one that no decoder has; otherwise the decoder says so.
    ready: Option<Time>,
}

/// A frame that is decoded.
#[derive(Debug)]
pub struct Done {
    /// The frame, and how it came.
    pub shown: Shown,
    /// How long after now its turn comes to be shown: those of one coding come at once, and are shown at the
    /// pace at which they were captured.
    pub turn: Span,
    /// It came in the coding of a later one, as so many bytes of it: no packet had its number.
    pub within: Option<u32>,
}

/// A decoder, if there is any, and what it has not given back yet.
#[derive(Default)]
pub struct Decoding {
    decoder: Option<Box<dyn Decoder>>,
    /// What a frame takes that has no bytes to decode: a decoder's model.
    time: Span,
    /// When the model has decoded all that it was given.
    free: Time,
    pending: VecDeque<Pending>,
    /// What came out of the decoder together with the frame that [`poll`](Decoding::poll) gave last.
    together: VecDeque<Done>,
    /// The last coding of several frames, where the stream has such.
    series: Option<Series>,
}

/// A coding of several frames.
#[derive(Clone, Copy, Debug)]
struct Series {
    /// Time between two frames.
    pace: Span,
    /// Frames of a coding, of the fullest so far.
    frames: usize,
    /// When its last one has its turn, ...
    turn: Time,
    /// ... and when that was captured.
    captured: RemoteTime,
}

impl Decoding {
    /// Frames that have no bytes take `time` each, one after the other.
    pub fn new(decoder: Option<Box<dyn Decoder>>, time: Span) -> Decoding {
        Decoding { decoder, time, ..Decoding::default() }
    }

    /// Whether anybody wants frames' bytes.
    pub fn is_real(&self) -> bool {
        self.decoder.is_some()
    }

    /// No further frame may be submitted for now.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= IN_DECODER
    }

    /// Begins a frame. Without a decoder or bytes it has no picture, and is ready after the model's time.
    pub fn submit(&mut self, now: Time, shown: Shown, deadline: Time, bytes: Option<Bytes>) {
        let size = bytes.as_ref().map_or(0, Bytes::len);
        let ready = match (&mut self.decoder, bytes) {
            (Some(decoder), Some(bytes)) => {
                decoder.submit(now, shown.frame, bytes);
                None
            }
            _ => {
                self.free = self.free.max(now) + self.time;
                Some(self.free)
            }
        };
        self.pending.push_back(Pending { shown, deadline, size, ready });
    }

    /// Begins a frame of which parts are missing.
    pub fn submit_parts(&mut self, now: Time, shown: Shown, deadline: Time, parts: &Parts) {
        if let Some(decoder) = &mut self.decoder {
            decoder.submit_parts(now, shown.frame, parts);
            let size = parts.present.iter().map(|part| part.bytes.len()).sum();
            self.pending.push_back(Pending { shown, deadline, size, ready: None });
        }
    }

    /// Whether the decoder makes pictures of frames of which parts are missing.
    pub fn uses_parts(&self) -> bool {
        self.decoder.as_ref().is_some_and(|decoder| decoder.uses_parts())
    }

    /// How to tell a packet that decodes without any other ([`Decoder::standalone`]).
    pub fn standalone(&self) -> Option<fn(&[u8]) -> bool> {
        self.decoder.as_ref()?.standalone()
    }

    /// Where frames come several in one coding, the time between two of them; unless no further one may be
    /// submitted.
    pub fn pace(&self) -> Option<Span> {
        self.series.filter(|_| !self.is_full()).map(|series| series.pace)
    }

    /// The oldest frame that is ready, in order of submission; as an error if it would not decode.
    pub fn poll(&mut self, now: Time) -> Option<Result<Done, Shown>> {
        if let Some(done) = self.together.pop_front() {
            return Some(Ok(done));
        }
        let front = self.pending.front_mut()?;
        let (mut decodes, mut earlier) = (true, Vec::new());
        if let Some(ready) = front.ready {
            if now < ready {
                return None;
            }
        } else {
            let decoded = self.decoder.as_mut()?.poll(now)?;
            debug_assert_eq!(decoded.frame, front.shown.frame, "decoders keep the order");
            front.shown.concealed = decoded.concealed;
            front.shown.picture = decoded.picture.ok().map(Box::new);
            decodes = front.shown.picture.is_some();
            earlier = decoded.earlier;
        }
        let mut pending = self.pending.pop_front()?;
        if decodes && (!earlier.is_empty() || self.series.is_some()) {
            self.spread(now, pending, earlier);
            return self.together.pop_front().map(Ok);
        }
        pending.shown.late = now > pending.deadline;
        let shown = pending.shown;
        Some(if decodes { Ok(Done { shown, turn: Span::ZERO, within: None }) } else { Err(shown) })
    }

    /// Gives the frames of one coding their turns, as far apart as they were captured.
    ///
    /// The first of a full coding has its turn now. One that has fewer, as at the end of a clip, is there
    /// sooner than those before it were and waits for as long. A coding that comes sooner than the one before
    /// did, of which something was missing, would be shown over the last frames of that one: it waits for one
    /// frame's time at most, and half of such a wait is made good with each coding.
    fn spread(&mut self, now: Time, pending: Pending, earlier: Vec<Earlier>) {
        let Pending { mut shown, deadline, size, .. } = pending;
        let before = self.series.take();
        let known = before.map_or(Span::ZERO, |before| before.pace);
        let (pace, whole) = earlier.first().map_or((known, Span::ZERO), |oldest| {
            (oldest.before / i64::from(oldest.back.max(1)), oldest.before)
        });
        let frames = before.map_or(0, |before| before.frames).max(earlier.len() + 1);
        let ready = now + whole.max(pace * (frames - 1) as i64);
        let even = |before: Series| before.turn + (shown.captured - before.captured) - pace / 2;
        let last = before.map_or(ready, even).clamp(ready, ready + pace);
        if !earlier.is_empty() {
            self.series = Some(Series { pace, frames, turn: last, captured: shown.captured });
        }
        let share = (size / (earlier.len() + 1)) as u32;
        let picture = shown.picture.take();
        let mut give = |shown: Shown, before: Span, within: Option<u32>| {
            let turn = last - before - now;
            let arrival = Arrival { completed: shown.arrival.completed + turn, ..shown.arrival };
            let shown = Shown { late: now + turn > deadline - before, arrival, ..shown };
            self.together.push_back(Done { shown, turn, within });
        };
        for Earlier { back, before, picture } in earlier {
            if let Some(frame) = shown.frame.checked_sub(back) {
                let captured = shown.captured + -before;
                let picture = Some(Box::new(picture));
                give(Shown { frame, captured, picture, ..shown.clone() }, before, Some(share));
            }
        }
        give(Shown { picture, ..shown }, Span::ZERO, None);
    }

    /// No decoder is at work, on a thread of its own, that may be done whenever it is asked.
    pub fn is_foreseeable(&self) -> bool {
        self.pending.front().is_none_or(|oldest| oldest.ready.is_some())
    }

    /// When [`poll`](Decoding::poll) will next give something back, if that is known.
    pub fn next_ready(&self) -> Option<Time> {
        match self.pending.front()?.ready {
            Some(ready) => Some(ready),
            None => self.decoder.as_ref()?.next_ready(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(frame: u32) -> Shown {
        let (captured, arrival) = Default::default();
        Shown {
            stream: 0,
            frame,
            version: 0,
            captured,
            late: false,
            arrival,
            concealed: false,
            picture: None,
        }
    }

    #[test]
    fn frames_without_bytes_take_the_models_time_one_after_the_other() {
        let ms = Time::from_millis;
        let mut decoding = Decoding::new(None, Span::from_millis(10));
        (0..3).for_each(|number| decoding.submit(ms(100), frame(number), ms(115), None));
        assert_eq!(decoding.next_ready(), Some(ms(110)));
        assert!(decoding.poll(ms(109)).is_none());
        let first = decoding.poll(ms(110)).unwrap().unwrap();
        assert_eq!((first.shown.frame, first.shown.late, decoding.next_ready()), (0, false, Some(ms(120))));
        assert!(decoding.poll(ms(110)).is_none());
        assert!(decoding.poll(ms(130)).unwrap().unwrap().shown.late && decoding.poll(ms(130)).is_some());
        // By default it takes no time.
        let mut decoding = Decoding::new(None, Span::ZERO);
        decoding.submit(ms(7), frame(0), ms(9), None);
        assert!(decoding.next_ready() == Some(ms(7)) && decoding.poll(ms(7)).is_some());
    }

    /// Gives pictures of as many frames as a coding has bytes, 20 ms apart.
    #[derive(Default)]
    struct Several(VecDeque<media::Decoded>);

    impl Decoder for Several {
        fn submit(&mut self, _: Time, frame: u32, coded: Bytes) {
            let picture = || media::RawFrame::filled(2, 2, 0, 0, 0);
            let earlier = |back: u32| {
                let before = Span::from_millis(20) * i64::from(back);
                Earlier { back, before, picture: picture() }
            };
            let earlier = (1..coded.len() as u32).rev().map(earlier).collect();
            self.0.push_back(media::Decoded { earlier, ..media::Decoded::whole(frame, Ok(picture())) });
        }
        fn poll(&mut self, _: Time) -> Option<media::Decoded> {
            self.0.pop_front()
        }
        fn next_ready(&self) -> Option<Time> {
            self.0.front().map(|_| Time::ZERO)
        }
    }

    #[test]
    fn frames_of_one_coding_are_shown_as_they_were_captured() {
        let mut decoding = Decoding::new(Some(Box::<Several>::default()), Span::ZERO);
        // Of a coding of `count` frames that is ready at a time: number, time of capture and turn of each,
        // and whether it is late. It may take 150 ms.
        let mut turns = |number: u32, count: usize, at: u64| {
            let captured = Time::from_millis(20 * u64::from(number)).on_wire();
            let shown = Shown { captured, ..frame(number) };
            let (now, deadline) = (Time::from_millis(at), Time::from_millis(20 * u64::from(number) + 150));
            decoding.submit(now, shown, deadline, Some(vec![0; count].into()));
            let done = std::iter::from_fn(|| decoding.poll(now)).map(|done| done.unwrap());
            let of = |Done { shown, turn, within }: Done| {
                assert_eq!(within, (shown.frame < number).then_some(1));
                assert_eq!(shown.captured.as_nanos(), i64::from(shown.frame) * 20_000_000);
                (shown.frame, (now + turn).as_millis_f64(), shown.late)
            };
            done.map(of).collect::<Vec<_>>()
        };
        assert_eq!(
            turns(3, 4, 100),
            [(0, 100.0, false), (1, 120.0, false), (2, 140.0, false), (3, 160.0, false)]
        );
        // Ready 20 ms sooner than that one, shown 10 ms sooner, and then 20.
        assert_eq!(turns(7, 4, 160)[..2], [(4, 170.0, false), (5, 190.0, false)]);
        assert_eq!(turns(11, 4, 240)[3], (11, 300.0, false));
        // Much later: at once.
        assert_eq!(turns(15, 4, 400)[..2], [(12, 400.0, true), (13, 420.0, true)]);
        // Soon after that, in part over its frames.
        assert_eq!(turns(19, 4, 420)[..2], [(16, 440.0, false), (17, 460.0, false)]);
        // Two and one at the end are there sooner.
        assert_eq!(turns(21, 2, 490), [(20, 530.0, false), (21, 550.0, false)]);
        assert_eq!(turns(22, 1, 500), [(22, 560.0, false)]);
        // Which was the end.
        assert_eq!(turns(23, 1, 501), [(23, 501.0, false)]);
        assert!(decoding.pace().is_none());
    }
}
