//! Any encoder at any height: the picture is scaled, and an encoder of the new size takes over.
//!
//! ```text
//!   submit(picture, ask.height) -> Scaler -> encoder of that size ---> poll, oldest encoder first
//!                                              '- opened anew at each change, as libwebrtc does; the one before it is
//!                                                 kept until it has given back what it had taken
//! ```
//!
//! A new encoder knows nothing of what was sent: its first frame is a key frame, whatever is asked, and its
//! rate control starts afresh at the bitrate of that frame.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use units::Time;

use crate::{Ask, CodecError, Coded, Encoder, RawFrame, Scaler, size_of_height};

/// Opens an encoder for pictures of a width and height in pixels.
pub type Open = Box<dyn FnMut((usize, usize)) -> Result<Box<dyn Encoder>, CodecError> + Send>;

/// An encoder that changes size when [`Ask::height`] says so.
pub struct Resizing {
    full: (usize, usize),
    open: Open,
    scaler: Scaler,
    /// Size of the newest of the encoders.
    size: (usize, usize),
    /// The newest is last; the others only finish what they were given.
    encoders: VecDeque<Box<dyn Encoder>>,
}

impl Resizing {
    /// An encoder for pictures of `full` size, which `open` makes for that size at once and for any smaller
    /// one when it is asked for.
    ///
    /// # Errors
    /// [`CodecError`] if the one of full size cannot be opened.
    pub fn new(full: (usize, usize), mut open: Open) -> Result<Resizing, CodecError> {
        let encoders = VecDeque::from([open(full)?]);
        Ok(Resizing { full, open, scaler: Scaler::default(), size: full, encoders })
    }

    /// Opens the encoder for a size, unless it is the one that is running. True if that was done.
    fn change(&mut self, now: Time, size: (usize, usize)) -> Result<bool, CodecError> {
        if size == self.size {
            return Ok(false);
        }
        self.flush(now);
        self.encoders.push_back((self.open)(size)?);
        self.size = size;
        Ok(true)
    }

    /// Forgets encoders that have been replaced and have nothing left to give.
    fn retire(&mut self) {
        while self.encoders.len() > 1 && self.encoders[0].next_ready().is_none() {
            self.encoders.pop_front();
        }
    }
}

impl Encoder for Resizing {
    fn submit(&mut self, now: Time, picture: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let changed =
            self.change(now, ask.height.map_or(self.full, |height| size_of_height(self.full, height)))?;
        let scaled = match picture.map(|picture| self.scaler.fit(picture, self.size)).transpose()? {
            Some(Cow::Owned(scaled)) => Some(Arc::new(scaled)),
            Some(Cow::Borrowed(_)) | None => None,
        };
        let ask = Ask { key: ask.key || changed, ..*ask };
        let newest = self.encoders.back_mut().expect("there is one from the start");
        newest.submit(now, scaled.as_ref().or(picture), &ask)
    }

    fn poll(&mut self, now: Time) -> Option<Coded> {
        self.retire();
        self.encoders.front_mut()?.poll(now)
    }

    fn next_ready(&self) -> Option<Time> {
        self.encoders.iter().find_map(|encoder| encoder.next_ready())
    }

    fn refers_back(&self) -> bool {
        self.encoders.back().is_some_and(|newest| newest.refers_back())
    }

    fn held(&self) -> usize {
        self.encoders.back().map_or(0, |newest| newest.held())
    }

    fn flush(&mut self, now: Time) {
        if let Some(newest) = self.encoders.back_mut() {
            newest.flush(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, H264Config, H264Decoder, H264Encoder, quality, testing};
    use units::{Rate, Span};

    const INTERVAL: Span = Span::from_nanos(33_333_333);

    fn h264(full: (usize, usize)) -> Resizing {
        let open = |(width, height)| -> Result<Box<dyn Encoder>, CodecError> {
            Ok(Box::new(H264Encoder::new(H264Config::new(width, height, INTERVAL))?))
        };
        Resizing::new(full, Box::new(open)).unwrap()
    }

    fn ask(frame: u32, height: Option<u16>) -> Ask {
        let bitrate = Rate::from_mbps(1);
        Ask { frame, bitrate, interval: INTERVAL, key: frame == 0, largest: None, height, peer: None }
    }

    #[test]
    fn a_stream_survives_every_change_of_size() {
        let (mut encoder, mut decoder) = (h264((320, 180)), H264Decoder::new().unwrap());
        let heights = [None, None, Some(90), Some(90), Some(46), None, Some(180), Some(90)];
        let sizes =
            [(320, 180), (320, 180), (160, 90), (160, 90), (82, 46), (320, 180), (320, 180), (160, 90)];
        let keys = [true, false, true, false, true, true, false, true];
        let mut scaler = Scaler::default();
        for (frame, &height) in (0u32..).zip(&heights) {
            let picture = Arc::new(testing::textured(320, 180, u64::from(frame)));
            let now = Time::ZERO + INTERVAL * i64::from(frame);
            encoder.submit(now, Some(&picture), &ask(frame, height)).unwrap();
            let coded = encoder.poll(Time::MAX).unwrap();
            assert_eq!((coded.frame, coded.key), (frame, keys[frame as usize]), "frame {frame}");
            decoder.submit(now, frame, coded.payload.unwrap());
            let seen = decoder.poll(now).unwrap().picture.unwrap();
            assert_eq!((seen.width, seen.height), sizes[frame as usize], "frame {frame}");
            let shown = scaler.fit(&seen, (320, 180)).unwrap();
            assert!(quality(&picture, &shown).unwrap().psnr_y > 10.0);
        }
    }

    #[test]
    fn frames_keep_their_order_over_a_change() {
        let mut encoder = h264((320, 180));
        let picture = Arc::new(testing::textured(320, 180, 1));
        // Both are in the making when they are asked for: 4 ms each.
        encoder.submit(Time::ZERO, Some(&picture), &ask(0, None)).unwrap();
        encoder.submit(Time::from_millis(1), Some(&picture), &ask(1, Some(90))).unwrap();
        assert_eq!(encoder.next_ready(), Some(Time::from_millis(4)));
        assert!(encoder.poll(Time::from_millis(3)).is_none());
        let frames: Vec<u32> =
            std::iter::from_fn(|| encoder.poll(Time::from_millis(5))).map(|coded| coded.frame).collect();
        assert_eq!(frames, [0, 1]);
        assert_eq!((encoder.next_ready(), encoder.encoders.len()), (None, 1));
    }

    #[test]
    fn a_size_that_cannot_be_opened_leaves_the_stream_as_it_was() {
        let open = |(width, height): (usize, usize)| -> Result<Box<dyn Encoder>, CodecError> {
            if height < 100 {
                return Err(CodecError::Codec { codec: "test", what: "too small".to_owned() });
            }
            Ok(Box::new(H264Encoder::new(H264Config::new(width, height, INTERVAL))?))
        };
        let mut encoder = Resizing::new((320, 180), Box::new(open)).unwrap();
        let picture = Arc::new(testing::textured(320, 180, 1));
        assert!(encoder.submit(Time::ZERO, Some(&picture), &ask(0, Some(90))).is_err());
        assert!(encoder.submit(Time::ZERO, Some(&picture), &ask(1, None)).is_ok());
    }
}
