//! A clip that is coded once and sent again and again.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use media::{Ask, Codec, CodecConfig, CodecError, Coded, Encoder, RawFrame, Source};
use units::{Rate, Span, Time};

use crate::Failure;

/// How much of a clip is coded, in frames.
const FRAMES: usize = 120;

/// A coded clip, which begins with a key frame.
#[derive(Clone)]
pub struct Recorded {
    pub size: (usize, usize),
    pub interval: Span,
    picture: Arc<RawFrame>,
    frames: Arc<[Bytes]>,
}

impl Recorded {
    /// Codes the beginning of `clip` at `rate`.
    pub fn of(clip: &mut dyn Source, rate: Rate) -> Result<Recorded, Failure> {
        let (size, interval) = (clip.size(), clip.interval());
        let (width, height) = size;
        let latency = Some(Span::ZERO);
        let config = CodecConfig { width, height, interval, initial: rate, max: rate, slices: None, latency };
        let mut encoder = Codec::H264.encoder(config).map_err(Failure::input)?;
        let pictures: Vec<_> = std::iter::from_fn(|| clip.next_picture()).take(FRAMES).collect();
        let mut code = |(frame, picture): (usize, &Arc<RawFrame>)| {
            let (frame, key) = (frame as u32, frame == 0);
            let ask = Ask { frame, bitrate: rate, interval, key, largest: None, height: None, peer: None };
            encoder.submit(Time::ZERO, Some(picture), &ask).map_err(Failure::work)?;
            let coded = encoder.poll(Time::MAX).and_then(|coded| coded.payload);
            coded.ok_or_else(|| Failure::work("the encoder left a frame out"))
        };
        let frames = pictures.iter().enumerate().map(&mut code).collect::<Result<Arc<[Bytes]>, _>>()?;
        let picture = pictures.first().cloned().ok_or_else(|| Failure::input("the clip has no pictures"))?;
        Ok(Recorded { size, interval, picture, frames })
    }

    /// An encoder that gives these frames, whatever it is asked for.
    pub fn encoder(&self) -> Replay {
        Replay { frames: self.frames.clone(), next: 0, ready: VecDeque::new() }
    }
}

/// Gives the frames of a clip again and again; from its beginning where a key frame is asked for.
pub struct Replay {
    frames: Arc<[Bytes]>,
    next: usize,
    ready: VecDeque<Coded>,
}

impl Encoder for Replay {
    fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        if ask.key {
            self.next = 0;
        }
        let payload = self.frames[self.next].clone();
        let coded = Coded::of_size(ask, payload.len() as u32);
        self.ready.push_back(Coded { payload: Some(payload), key: self.next == 0, ..coded });
        self.next = (self.next + 1) % self.frames.len();
        Ok(())
    }

    fn poll(&mut self, _: Time) -> Option<Coded> {
        self.ready.pop_front()
    }

    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|_| Time::ZERO)
    }
}

/// So many times the same picture: what a replay is asked for does not matter.
pub struct Still {
    picture: Arc<RawFrame>,
    interval: Span,
    left: u64,
}

impl Still {
    pub fn new(recorded: &Recorded, pictures: u64) -> Still {
        Still { picture: recorded.picture.clone(), interval: recorded.interval, left: pictures }
    }
}

impl Source for Still {
    fn size(&self) -> (usize, usize) {
        (self.picture.width, self.picture.height)
    }
    fn interval(&self) -> Span {
        self.interval
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.picture.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::{SyntheticConfig, SyntheticGame};

    #[test]
    fn a_replay_can_be_decoded_round_after_round() {
        let mut game = SyntheticGame::new(SyntheticConfig::new(64, 48));
        let recorded = Recorded::of(&mut game, Rate::from_kbps(200)).ok().unwrap();
        let mut encoder = recorded.encoder();
        let mut decoder = Codec::H264.decoder().unwrap();
        let (bitrate, interval) = (Rate::ZERO, recorded.interval);
        let mut keys = Vec::new();
        for frame in 0..300 {
            let ask =
                Ask { frame, bitrate, interval, key: frame == 50, largest: None, height: None, peer: None };
            encoder.submit(Time::ZERO, None, &ask).unwrap();
            let coded = encoder.poll(Time::ZERO).unwrap();
            keys.extend(coded.key.then_some(frame));
            decoder.submit(Time::ZERO, frame, coded.payload.unwrap());
            assert!(decoder.poll(Time::MAX).unwrap().picture.is_ok());
        }
        assert_eq!(keys, [0, 50, 170, 290]);
    }
}
