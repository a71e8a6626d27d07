//! Pictures on their way into a segment.

use std::sync::Arc;

use media::{Ask, Codec, CodecConfig, CodecError, Encoder, RawFrame};
use units::{Rate, Span, Time};

use crate::mp4::{AccessUnit, Description, Sample, TIMESCALE};

/// Ticks of a media time.
pub fn ticks(time: Span) -> u64 {
    let nanos = u128::from(time.as_nanos().max(0).unsigned_abs());
    ((nanos * u128::from(TIMESCALE) + 500_000_000) / 1_000_000_000) as u64
}

/// A picture, and from when on it is shown.
pub struct Shown {
    pub from: Span,
    pub picture: Arc<RawFrame>,
}

/// Codes segments, each of which begins with a key frame.
pub struct Encoding {
    encoder: Option<Box<dyn Encoder>>,
    /// Columns and rows of the pictures.
    size: (usize, usize),
    rate: Option<Rate>,
    frame: u32,
    /// Time between frames and rate that the encoder was opened with: its parameter sets follow from them.
    opened: Option<(Span, Rate)>,
    /// What the samples of all segments so far are decoded with.
    pub description: Option<Description>,
}

/// Bits a sample of luma when no rate is given: 4.1 Mbit/s for 1280x720 at 30 Hz, twice what uploads over the
/// thesis' uplinks have (section 3.6), so that coding once more costs little of their quality.
const USUAL: f64 = 0.15;
const LEAST: Rate = Rate::from_kbps(300);

impl Encoding {
    /// Codes at this rate; without one, at what suits the pictures.
    pub fn new(rate: Option<Rate>) -> Encoding {
        Encoding { encoder: None, size: (0, 0), rate, frame: 0, opened: None, description: None }
    }

    /// Goes on where an encoder stopped that was opened like this: its samples need the same header.
    ///
    /// # Errors
    /// [`CodecError`] if this encoder's would need another one, or it refuses.
    pub fn resume(
        rate: Option<Rate>,
        of: &Description,
        opened: (Span, Rate),
    ) -> Result<Encoding, CodecError> {
        let mut encoding = Encoding { opened: Some(opened), ..Encoding::new(rate) };
        let black = Arc::new(black(of));
        encoding.picture(&black, true, opened.0)?;
        match &encoding.description {
            Some(description) if description == of => Ok(encoding),
            _ => Err(refused("its parameter sets are others".to_owned())),
        }
    }

    /// What the encoder was opened with.
    pub fn opened(&self) -> Option<(Span, Rate)> {
        self.opened
    }

    /// The samples of a segment that shows these pictures until `end`, `interval` apart if none is missing.
    ///
    /// # Errors
    /// [`CodecError`] if the encoder refuses. The next segment is a new attempt.
    pub fn segment(&mut self, shown: &[Shown], end: Span, interval: Span) -> Result<Vec<Sample>, CodecError> {
        let mut samples = Vec::with_capacity(shown.len());
        for (at, Shown { from, picture }) in shown.iter().enumerate() {
            let until = shown.get(at + 1).map_or(end, |next| next.from);
            let lasts = ticks(until).saturating_sub(ticks(*from)).clamp(1, u64::from(u32::MAX)) as u32;
            samples.push(self.picture(picture, at == 0, interval)?.lasting(lasts));
        }
        Ok(samples)
    }

    fn picture(
        &mut self,
        picture: &Arc<RawFrame>,
        key: bool,
        interval: Span,
    ) -> Result<AccessUnit, CodecError> {
        let size = (picture.width, picture.height);
        if self.size != size {
            self.opened.take_if(|_| self.encoder.is_some());
            (self.encoder, self.size) = (None, size);
        }
        let usual = || Rate::from_bps((USUAL * (size.0 * size.1) as f64 / interval.as_secs_f64()) as u64);
        let bitrate = self.rate.unwrap_or_else(usual).max(LEAST);
        if self.encoder.is_none() {
            let (interval, bitrate) = *self.opened.get_or_insert((interval, bitrate));
            self.encoder = Some(opened(size, interval, bitrate)?);
        }
        let encoder = self.encoder.as_mut().expect("it was just opened");
        self.frame += 1;
        let ask = Ask { frame: self.frame, bitrate, interval, key, largest: None, height: None, peer: None };
        encoder.submit(Time::ZERO, Some(picture), &ask)?;
        let coded = encoder.poll(Time::MAX).and_then(|coded| coded.payload);
        let unit = coded.ok_or_else(|| refused("it left a picture out".to_owned()))?;
        let mut unit = AccessUnit::read(&unit).map_err(|error| refused(error.to_string()))?;
        if let Some(description) = unit.description.take() {
            self.description = Some(description);
        }
        Ok(unit)
    }
}

/// What is shown where there is nothing at all.
pub fn black(of: &Description) -> RawFrame {
    RawFrame::filled(usize::from(of.width) & !1, usize::from(of.height) & !1, 16, 128, 128)
}

fn opened(
    (width, height): (usize, usize),
    interval: Span,
    initial: Rate,
) -> Result<Box<dyn Encoder>, CodecError> {
    let latency = Some(Span::ZERO);
    let config = CodecConfig { width, height, interval, initial, max: initial, slices: None, latency };
    Ok(Box::new(Codec::H264.encoder(config)?))
}

fn refused(what: String) -> CodecError {
    CodecError::Codec { codec: "h264", what }
}
