//! What an uploader and its endpoint tell each other beside the media, on the control stream.
//!
//! The frame is [`Message`](crate::Message)'s: a length, a kind, fields. A side that does not know these
//! kinds passes them over.
//!
//! ```text
//!   uploader                        endpoint
//!     Quality (frames, SSIM)     ->            how good each frame is that was coded, some times a second
//!     Filmed (time)              ->            the camera has ended, said again until the upload has
//!                                <- Watching   how many watch at which delay, every few seconds
//! ```

use crate::codec::{Reader, WireError, Writer};

/// Kinds, as written; those from 32 to 36 are of viewers.
const QUALITY: u8 = 37;
const WATCHING: u8 = 38;
const FILMED: u8 = 39;
/// Length and kind.
const HEAD: usize = 3;
/// Bytes of a whole `Filmed`.
const FILMED_LEN: usize = HEAD + 8;
/// Bytes of a [`Rated`], and of a [`Watchers`].
const RATED: usize = 7;
const WATCHERS: usize = 8;

/// How good a coded frame is, in the session that its connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rated {
    /// The frame's stream.
    pub stream: u8,
    /// Its number in that stream.
    pub frame: u32,
    /// SSIM in steps of 1/65535.
    steps: u16,
}

impl Rated {
    /// A frame of this SSIM, of which what is below 0 counts as 0; `None` if that is no number.
    pub fn new(stream: u8, frame: u32, ssim: f64) -> Option<Rated> {
        let steps = (ssim.clamp(0.0, 1.0) * f64::from(u16::MAX)).round() as u16;
        (!ssim.is_nan()).then_some(Rated { stream, frame, steps })
    }

    /// SSIM of the decoded frame against its source, 0 to 1.
    pub fn ssim(&self) -> f64 {
        f64::from(self.steps) / f64::from(u16::MAX)
    }
}

/// How many watch at one delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchers {
    /// From capture to being shown at the earliest, in ms.
    pub delay_ms: u32,
    /// Viewers at that delay; 0 where it is offered and nobody watches.
    pub viewers: u32,
}

/// SSIMs of frames: a view of the bytes they came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality<'a>(&'a [u8]);

impl Quality<'_> {
    /// Most frames of one message.
    pub const MOST: usize = 64;

    /// The frames, in the order they were coded.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Rated> {
        self.0.chunks_exact(RATED).map(|bytes| {
            let mut r = Reader(bytes);
            let mut read = || -> Result<Rated, WireError> {
                Ok(Rated { stream: r.u8()?, frame: r.u32()?, steps: r.u16()? })
            };
            read().expect("a chunk is as long as a frame's fields")
        })
    }
}

/// Who watches: a view of the bytes it came in. Each replaces the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watching<'a>(&'a [u8]);

impl Watching<'_> {
    /// Most delays of one message: an endpoint offers no more.
    pub const MOST: usize = 8;

    /// The delays that the endpoint offers, each with its viewers.
    pub fn delays(&self) -> impl ExactSizeIterator<Item = Watchers> {
        self.0.chunks_exact(WATCHERS).map(|bytes| {
            let mut r = Reader(bytes);
            let mut read =
                || -> Result<Watchers, WireError> { Ok(Watchers { delay_ms: r.u32()?, viewers: r.u32()? }) };
            read().expect("a chunk is as long as its fields")
        })
    }
}

/// One message between an uploader and its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uploading<'a> {
    /// The uploader's SSIMs.
    Quality(Quality<'a>),
    /// The endpoint's viewers.
    Watching(Watching<'a>),
    /// The camera has ended: its last frame was captured at this time, in microseconds on the uploader's
    /// clock.
    Filmed(u64),
}

impl<'a> Uploading<'a> {
    /// The longest of these messages, in bytes; it is no longer than
    /// [`Message::MAX_LEN`](crate::Message::MAX_LEN).
    pub const MAX_LEN: usize = HEAD + 1 + Quality::MOST * RATED;

    /// Writes the message, its length before it, to `out` and returns how many bytes it took.
    ///
    /// # Panics
    /// If `out` is too short; [`MAX_LEN`](Uploading::MAX_LEN) bytes never are.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Uploading::Quality(Quality(bytes)) => write(QUALITY, bytes.len() / RATED, bytes, out),
            Uploading::Watching(Watching(bytes)) => write(WATCHING, bytes.len() / WATCHERS, bytes, out),
            Uploading::Filmed(last_us) => {
                let mut w = Writer::plain(out);
                w.u16((FILMED_LEN - 2) as u16);
                w.u8(FILMED);
                w.u64(last_us);
                w.len()
            }
        }
    }

    /// A [`Quality`] of these frames (at most [`Quality::MOST`]; more are left out) as bytes of its own.
    pub fn quality(frames: &[Rated]) -> Vec<u8> {
        let mut bytes = [0; Quality::MOST * RATED];
        let mut w = Writer::plain(&mut bytes);
        for rated in frames.iter().take(Quality::MOST) {
            w.u8(rated.stream);
            w.u32(rated.frame);
            w.u16(rated.steps);
        }
        let length = w.len();
        Uploading::Quality(Quality(&bytes[..length])).to_vec()
    }

    /// A [`Watching`] of these delays (at most [`Watching::MOST`]; more are left out) as bytes of its own.
    pub fn watching(delays: &[Watchers]) -> Vec<u8> {
        let mut bytes = [0; Watching::MOST * WATCHERS];
        let mut w = Writer::plain(&mut bytes);
        for watchers in delays.iter().take(Watching::MOST) {
            w.u32(watchers.delay_ms);
            w.u32(watchers.viewers);
        }
        let length = w.len();
        Uploading::Watching(Watching(&bytes[..length])).to_vec()
    }

    /// A [`Filmed`](Uploading::Filmed) as bytes of its own.
    pub fn filmed(last_us: u64) -> Vec<u8> {
        Uploading::Filmed(last_us).to_vec()
    }

    fn to_vec(self) -> Vec<u8> {
        let mut out = vec![0; Uploading::MAX_LEN];
        let length = self.encode(&mut out);
        out.truncate(length);
        out
    }

    /// Reads a whole message, its length before it, as [`Message::decode`](crate::Message::decode) has found
    /// one of a kind it does not know; `None` if it is of no kind known here either.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no such message, or have more entries than one may have.
    pub fn decode(message: &'a [u8]) -> Result<Option<Uploading<'a>>, WireError> {
        let mut r = Reader(message);
        r.take(2)?;
        Ok(Some(match r.u8()? {
            QUALITY => Uploading::Quality(Quality(read(&mut r, Quality::MOST, RATED)?)),
            WATCHING => Uploading::Watching(Watching(read(&mut r, Watching::MOST, WATCHERS)?)),
            FILMED => Uploading::Filmed(r.u64()?),
            _ => return Ok(None),
        }))
    }
}

fn write(kind: u8, count: usize, entries: &[u8], out: &mut [u8]) -> usize {
    let mut w = Writer::plain(out);
    w.u16(0);
    w.u8(kind);
    w.u8(count as u8);
    w.bytes(entries);
    let length = w.len();
    out[..2].copy_from_slice(&(length as u16 - 2).to_be_bytes());
    length
}

/// A count, at most `most`, and so many entries of `each` bytes.
fn read<'a>(r: &mut Reader<'a>, most: usize, each: usize) -> Result<&'a [u8], WireError> {
    let count = usize::from(r.u8()?);
    if count > most {
        return Err(WireError::Field("count"));
    }
    r.take(count * each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use proptest::prelude::*;

    /// The control stream frames it, it reads as it was written, and nothing shorter does.
    fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
        prop_assert!(bytes.len() <= Uploading::MAX_LEN);
        let framed = Message::decode(bytes);
        prop_assert!(matches!(framed, Ok(Some((Message::Unknown(_), taken))) if taken == bytes.len()));
        for cut in 0..bytes.len() {
            prop_assert_eq!(Uploading::decode(&bytes[..cut]), Err(WireError::Truncated));
        }
        let read = Uploading::decode(bytes).unwrap().expect("it is of a known kind");
        prop_assert_eq!(read.to_vec(), bytes);
        Ok(())
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            frames in proptest::collection::vec((0u8..32, any::<u32>(), 0.0..=1.0f64), 0..100),
            delays in proptest::collection::vec(any::<(u32, u32)>(), 0..12),
            last_us in any::<u64>(),
        ) {
            let rated = |&(stream, frame, ssim): &_| Rated::new(stream, frame, ssim).expect("a number");
            let frames: Vec<Rated> = frames.iter().map(rated).collect();
            let bytes = Uploading::quality(&frames);
            check(&bytes)?;
            let Ok(Some(Uploading::Quality(quality))) = Uploading::decode(&bytes) else { unreachable!() };
            prop_assert!(quality.frames().eq(frames.iter().copied().take(Quality::MOST)));

            let watchers = |&(delay_ms, viewers): &_| Watchers { delay_ms, viewers };
            let delays: Vec<Watchers> = delays.iter().map(watchers).collect();
            let bytes = Uploading::watching(&delays);
            check(&bytes)?;
            let Ok(Some(Uploading::Watching(watching))) = Uploading::decode(&bytes) else { unreachable!() };
            prop_assert!(watching.delays().eq(delays.iter().copied().take(Watching::MOST)));

            let bytes = Uploading::filmed(last_us);
            check(&bytes)?;
            prop_assert_eq!(Uploading::decode(&bytes), Ok(Some(Uploading::Filmed(last_us))));
        }

        #[test]
        fn any_bytes_are_an_error_or_a_message(
            kind in prop_oneof![Just(QUALITY), Just(WATCHING), Just(FILMED), any::<u8>()],
            mut bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            if let Some(place) = bytes.get_mut(2) {
                *place = kind;
            }
            match Uploading::decode(&bytes) {
                Ok(Some(Uploading::Quality(quality))) => {
                    prop_assert!(quality.frames().all(|rated| (0.0..=1.0).contains(&rated.ssim())));
                    prop_assert!(quality.frames().len() <= Quality::MOST);
                }
                Ok(Some(Uploading::Watching(watching))) => {
                    prop_assert!(watching.delays().len() <= Watching::MOST);
                }
                Ok(Some(Uploading::Filmed(_))) => {}
                Ok(None) => prop_assert!(![QUALITY, WATCHING, FILMED].contains(&kind)),
                Err(_) => {}
            }
        }

        #[test]
        fn an_ssim_is_told_to_a_step(ssim in -0.5..1.5f64) {
            let told = Rated::new(0, 1, ssim).expect("a number").ssim();
            prop_assert!((told - ssim.clamp(0.0, 1.0)).abs() <= 0.5 / 65_535.0 + 1e-12);
        }
    }

    #[test]
    fn what_is_no_number_is_not_told_and_later_kinds_are_passed_over() {
        const { assert!(Uploading::MAX_LEN <= Message::MAX_LEN) };
        assert_eq!(Rated::new(0, 1, f64::NAN), None);
        assert_eq!(Uploading::decode(&[0, 1, 99]), Ok(None));
        assert_eq!(Uploading::decode(&[0, 2, QUALITY, 65]), Err(WireError::Field("count")));
        assert_eq!(Uploading::decode(&[0, 2, WATCHING, 9]), Err(WireError::Field("count")));
        assert_eq!(Uploading::decode(&[0, 2, WATCHING, 1]), Err(WireError::Truncated));
    }
}
