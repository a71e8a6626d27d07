//! Picture quality of what an encoder makes, measured as a receiver would see it.

use std::collections::VecDeque;
use std::sync::Arc;

use units::Time;

use crate::quality::quality;
use crate::{Ask, Codec, CodecError, Coded, Decoder, Encoder, RawFrame};

/// An encoder whose frames say their quality ([`Coded::quality`]): each is decoded and held against its
/// source. For 1280x720 that costs a decoding of 4 ms and a comparison of 1 ms a frame (docs/performance.md
/// says on what machine).
pub struct Measuring<E> {
    encoder: E,
    decoder: Box<dyn Decoder>,
    /// Pictures of frames that have not come out of the encoder yet.
    pictures: VecDeque<(u32, Arc<RawFrame>)>,
}

impl<E: Encoder> Measuring<E> {
    /// Measures what `encoder` makes, an encoder of `codec`.
    ///
    /// # Errors
    /// [`CodecError`] if there is no decoder for it.
    pub fn new(encoder: E, codec: Codec) -> Result<Measuring<E>, CodecError> {
        Ok(Measuring { encoder, decoder: codec.decoder()?, pictures: VecDeque::new() })
    }

    /// The source of a frame that came out of the encoder; those of frames before it are dropped.
    fn source(&mut self, frame: u32) -> Option<Arc<RawFrame>> {
        let at = self.pictures.iter().position(|(of, _)| *of == frame)?;
        self.pictures.drain(..=at).next_back().map(|(_, picture)| picture)
    }
}

impl<E: Encoder> Encoder for Measuring<E> {
    fn submit(&mut self, now: Time, picture: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        self.encoder.submit(now, picture, ask)?;
        self.pictures.extend(picture.map(|picture| (ask.frame, picture.clone())));
        Ok(())
    }

    fn poll(&mut self, now: Time) -> Option<Coded> {
        let mut coded = self.encoder.poll(now)?;
        let source = self.source(coded.frame);
        if let (Some(source), Some(payload)) = (source, &coded.payload)
            && !coded.is_left_out()
        {
            self.decoder.submit(now, coded.frame, payload.clone());
            let seen = self.decoder.poll(Time::MAX).and_then(|decoded| decoded.picture.ok());
            coded.quality = seen.and_then(|seen| quality(&source, &seen).ok());
        }
        Some(coded)
    }

    fn next_ready(&self) -> Option<Time> {
        self.encoder.next_ready()
    }

    fn refers_back(&self) -> bool {
        self.encoder.refers_back()
    }

    fn held(&self) -> usize {
        self.encoder.held()
    }

    fn flush(&mut self, now: Time) {
        self.encoder.flush(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodecConfig, Source, SyntheticConfig, SyntheticGame};
    use units::{Rate, Span};

    #[test]
    fn more_bits_are_better_pictures() {
        let interval = Span::from_millis(33);
        let ssim = |rate: Rate| {
            let mut game = SyntheticGame::new(SyntheticConfig::new(320, 180));
            let (width, height) = game.size();
            let config = CodecConfig {
                width,
                height,
                interval,
                initial: rate,
                max: rate,
                slices: None,
                latency: None,
            };
            let mut encoder = Measuring::new(Codec::H264.encoder(config).unwrap(), Codec::H264).unwrap();
            let frame = |frame| {
                let ask = Ask {
                    frame,
                    bitrate: rate,
                    interval,
                    key: frame == 0,
                    largest: None,
                    height: None,
                    peer: None,
                };
                encoder.submit(Time::ZERO, game.next_picture().as_ref(), &ask).unwrap();
                encoder.poll(Time::MAX).and_then(|coded| coded.quality).expect("each frame is measured").ssim
            };
            (0..20).map(frame).sum::<f64>() / 20.0
        };
        let (poor, good) = (ssim(Rate::from_kbps(200)), ssim(Rate::from_mbps(5)));
        assert!(poor + 0.01 < good && good < 1.0, "{poor} {good}");
    }
}
