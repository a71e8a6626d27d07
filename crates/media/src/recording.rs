//! Makes a [`Table`]: plays a clip once through several real encoders at a time.
//!
//! ```text
//!             +-> encoder at rates[0] -> decoder -> size, quality         one curve each
//!   picture --+-> ...
//!             +-> encoder at a new random rate every frame -> size        lag and noise
//!             +-> encoder with a key frame every half second -> size      key frame ratio
//! ```

use std::sync::Arc;

use units::{Rate, Rng, Time};

use crate::table::{Curve, Fit, Table};
use crate::{
    Ask, CodecError, Coded, Encoder, H264Config, H264Decoder, H264Encoder, Quality, RawFrame, Source, quality,
};

/// Frames between the forced key frames of the third encoder.
const KEY_EVERY: u32 = 15;
/// Lags tried when fitting, in frames.
const LAGS: [f64; 11] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];
/// Between neighbouring source pictures, a PSNR-Y in dB below the first, or below the second with an SSIM below the
/// third, means that a new scene has begun. Measured on six films and games: cuts have 4.4 to 10.8 dB, the fastest
/// camera 14.5 dB with an SSIM of 0.62, the shakiest 17.6 dB with 0.42.
const CUT: (f64, f64, f64) = (12.0, 16.0, 0.5);

/// Whether two neighbouring pictures are of different scenes, by their likeness.
fn is_cut(likeness: Quality) -> bool {
    likeness.psnr_y < CUT.0 || (likeness.psnr_y < CUT.1 && likeness.ssim < CUT.2)
}

fn lost(what: &str) -> CodecError {
    CodecError::Codec { codec: "recording", what: what.to_owned() }
}

/// One encoder and its last answer.
struct Lane {
    encoder: H264Encoder,
    decoder: H264Decoder,
}

impl Lane {
    fn new(source: &dyn Source) -> Result<Lane, CodecError> {
        let (width, height) = source.size();
        let encoder = H264Encoder::new(H264Config::new(width, height, source.interval()))?;
        Ok(Lane { encoder, decoder: H264Decoder::new()? })
    }

    fn code(&mut self, picture: &Arc<RawFrame>, ask: &Ask) -> Result<Coded, CodecError> {
        self.encoder.submit(Time::ZERO, Some(picture), ask)?;
        self.encoder.poll(Time::MAX).ok_or_else(|| lost("the encoder gave no frame"))
    }

    fn measure(&mut self, picture: &RawFrame, coded: &Coded) -> Result<Quality, CodecError> {
        let bytes = coded.payload.as_ref().ok_or_else(|| lost("a frame without bytes"))?;
        let seen = self.decoder.decode(bytes)?.ok_or_else(|| lost("a frame without a picture"))?;
        quality(picture, &seen)
    }
}

impl Curve {
    fn empty(rate: Rate) -> Curve {
        let bps = rate.as_bps();
        Curve { bps, bytes: Vec::new(), psnr_y: Vec::new(), psnr_avg: Vec::new(), ssim: Vec::new() }
    }

    fn push(&mut self, size: u32, quality: Quality) {
        self.bytes.push(size);
        self.psnr_y.push((quality.psnr_y * 100.0).round() as u16);
        self.psnr_avg.push((quality.psnr_avg * 100.0).round() as u16);
        self.ssim.push((quality.ssim * 10_000.0).round() as i16);
    }
}

/// What the second encoder was asked and gave, in bit/s.
struct Answer {
    frame: u32,
    asked: f64,
    gave: f64,
}

/// Squared differences of `ln size` from a lagging model, per frame.
fn residuals(table: &Table, answers: &[Answer], up: f64, down: f64) -> Vec<f64> {
    let mut rate = answers.first().map_or(0.0, |answer| answer.asked.ln());
    let predict = |answer: &Answer| {
        let goal = answer.asked.ln();
        let lag = if goal > rate { up } else { down };
        let step = if lag > 0.0 { -(-1.0 / lag).exp_m1() } else { 1.0 };
        rate += (goal - rate) * step;
        answer.gave.ln() - rate - table.weight_at(answer.frame, rate).ln()
    };
    answers.iter().map(predict).collect()
}

fn percentile(sorted: &[f64], p: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * p).round() as usize]
}

/// Median absolute deviation as a standard deviation: a few cuts don't blow it up.
fn spread(residuals: &[f64]) -> f64 {
    let mut distances: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
    distances.sort_by(f64::total_cmp);
    1.4826 * percentile(&distances, 0.5)
}

/// The lags that explain the answers best, and what they leave unexplained.
fn fit(table: &Table, answers: &[Answer], mut keys: Vec<f64>) -> Fit {
    let seconds = table.interval().as_secs_f64();
    let pairs = LAGS.iter().flat_map(|&up| LAGS.iter().map(move |&down| (up, down)));
    let tried = pairs.map(|(up, down)| (spread(&residuals(table, answers, up, down)), up, down));
    let (noise, up, down) = tried.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are lags to try");
    let mut ratios: Vec<f64> = answers.iter().map(|answer| answer.gave / answer.asked).collect();
    ratios.sort_by(f64::total_cmp);
    keys.sort_by(f64::total_cmp);
    let round = |value: f64| (value * 1e4).round() / 1e4;
    Fit {
        lag_up_s: round(up * seconds),
        lag_down_s: round(down * seconds),
        overshoot: round((percentile(&ratios, 0.99) - 1.0).max(0.0)),
        undershoot: round((1.0 - percentile(&ratios, 0.01)).clamp(0.0, 1.0)),
        size_noise: round(noise),
        key_frame_ratio: round(percentile(&keys, 0.5)),
    }
}

/// Everything that is being recorded.
struct Recording {
    lanes: Vec<Lane>,
    curves: Vec<Curve>,
    random: Lane,
    rng: Rng,
    answers: Vec<Answer>,
    keyed: Lane,
    keys: Vec<f64>,
    cuts: Vec<u32>,
    last: Option<Arc<RawFrame>>,
}

impl Recording {
    fn new(source: &dyn Source, rates: &[Rate]) -> Result<Recording, CodecError> {
        Ok(Recording {
            lanes: rates.iter().map(|_| Lane::new(source)).collect::<Result<_, _>>()?,
            curves: rates.iter().map(|&rate| Curve::empty(rate)).collect(),
            random: Lane::new(source)?,
            rng: Rng::stream(1, "recording/targets"),
            answers: Vec::new(),
            keyed: Lane::new(source)?,
            keys: Vec::new(),
            cuts: Vec::new(),
            last: None,
        })
    }

    fn add(&mut self, picture: &Arc<RawFrame>, blank: &Ask) -> Result<(), CodecError> {
        for (lane, curve) in self.lanes.iter_mut().zip(&mut self.curves) {
            let coded = lane.code(picture, &Ask { bitrate: Rate::from_bps(curve.bps), ..*blank })?;
            curve.push(coded.size, lane.measure(picture, &coded)?);
        }
        self.add_random(picture, blank)?;
        self.add_key(picture, blank)?;
        let likeness = self.last.as_ref().map(|last| quality(last, picture)).transpose()?;
        if likeness.is_none_or(is_cut) {
            self.cuts.push(blank.frame);
        }
        self.last = Some(picture.clone());
        Ok(())
    }

    /// Rates uniform over the recorded ones but the lowest and the highest.
    fn add_random(&mut self, picture: &Arc<RawFrame>, blank: &Ask) -> Result<(), CodecError> {
        let inner = &self.curves[1..self.curves.len() - 1];
        let (low, high) = (inner[0].bps as f64, inner[inner.len() - 1].bps as f64);
        let bitrate = Rate::from_f64(self.rng.uniform_in(low, high));
        let coded = self.random.code(picture, &Ask { bitrate, ..*blank })?;
        let gave = f64::from(coded.size) * 8.0 / blank.interval.as_secs_f64();
        // The first frame is a key frame, the next few settle its debt.
        if blank.frame >= 8 {
            self.answers.push(Answer { frame: blank.frame, asked: bitrate.as_f64(), gave });
        }
        Ok(())
    }

    fn add_key(&mut self, picture: &Arc<RawFrame>, blank: &Ask) -> Result<(), CodecError> {
        let bitrate = Rate::from_bps(self.curves[self.curves.len() / 2].bps);
        let key = blank.frame.is_multiple_of(KEY_EVERY);
        let coded = self.keyed.code(picture, &Ask { bitrate, key, ..*blank })?;
        if key {
            let budget = bitrate.as_f64() * blank.interval.as_secs_f64() / 8.0;
            self.keys.push(f64::from(coded.size) / budget);
        }
        Ok(())
    }
}

/// Plays a clip to its end through OpenH264 at each of `rates` (at least three, rising) and returns what came out.
/// `clip` and `credit` are kept in the table.
///
/// Takes about 15 ms a rate and 720p frame in a release build.
///
/// # Errors
/// [`CodecError`] if there are too few rates or frames, or the codec fails.
pub fn record_table(
    source: &mut dyn Source,
    rates: &[Rate],
    clip: &str,
    credit: &str,
) -> Result<Table, CodecError> {
    if rates.len() < 3 || rates[0] == Rate::ZERO || rates.windows(2).any(|w| w[0] >= w[1]) {
        return Err(lost("three or more rising rates are needed"));
    }
    let (width, height) = source.size();
    let interval = source.interval();
    let mut recording = Recording::new(source, rates)?;
    let mut frame = 0;
    while let Some(picture) = source.next_picture() {
        recording.add(
            &picture,
            &Ask { frame, bitrate: Rate::ZERO, interval, key: frame == 0, largest: None, height: None },
        )?;
        frame += 1;
    }
    if recording.answers.is_empty() {
        return Err(lost("a clip of at least nine frames is needed"));
    }
    let (clip, credit, encoder) =
        (clip.to_owned(), credit.to_owned(), "OpenH264, lowest complexity".to_owned());
    let interval_ns = interval.as_nanos() as u64;
    let Recording { curves, answers, keys, cuts, .. } = recording;
    let unknown = Fit {
        lag_up_s: 0.0,
        lag_down_s: 0.0,
        overshoot: 0.0,
        undershoot: 0.0,
        size_noise: 0.0,
        key_frame_ratio: 1.0,
    };
    let levels = Vec::new();
    let mut table = Table {
        clip,
        credit,
        encoder,
        width,
        height,
        interval_ns,
        cuts,
        fit: unknown,
        quantisers: Vec::new(),
        curves,
        levels,
    };
    table.prepare();
    table.fit = fit(&table, &answers, keys);
    drop_saturated(&mut table);
    Ok(table)
}

/// Leaves out the highest rates if they changed nothing: the codec had reached its finest quantiser.
fn drop_saturated(table: &mut Table) {
    let mean = |curve: &Curve| {
        curve.psnr_y.iter().map(|&p| f64::from(p)).sum::<f64>() / 100.0 / curve.psnr_y.len() as f64
    };
    while let [.., below, top] = table.curves.as_slice()
        && table.curves.len() > 2
        && mean(top) < mean(below) + 0.05
    {
        table.curves.pop();
    }
    table.prepare();
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;
    use crate::{EncoderModel, ModelConfig, SyntheticConfig, SyntheticGame};

    const RATES: [u64; 5] = [60, 180, 540, 1_620, 4_860];

    fn game() -> SyntheticGame {
        let interval = Span::from_nanos(33_333_333);
        let config =
            SyntheticConfig { interval, frames: Some(240), seed: 6, ..SyntheticConfig::new(192, 112) };
        SyntheticGame::new(config)
    }

    fn recorded() -> Table {
        record_table(&mut game(), &RATES.map(Rate::from_kbps), "game", "ours").unwrap()
    }

    /// Size over target of each frame of `encoder` for targets drawn uniformly from 0.2 to 1.6 Mbit/s, sorted.
    fn ratios(encoder: &mut dyn Encoder) -> Vec<f64> {
        let mut source = game();
        let interval = source.interval();
        let mut rng = Rng::stream(77, "other targets");
        let mut ratios = Vec::new();
        for frame in 0.. {
            let Some(picture) = source.next_picture() else { break };
            let bitrate = Rate::from_f64(rng.uniform_in(0.2e6, 1.6e6));
            encoder
                .submit(
                    Time::ZERO,
                    Some(&picture),
                    &Ask { frame, bitrate, interval, key: frame == 0, largest: None, height: None },
                )
                .unwrap();
            let coded = encoder.poll(Time::MAX).unwrap();
            ratios.push(f64::from(coded.size) * 8.0 / (bitrate.as_f64() * interval.as_secs_f64()));
        }
        ratios.drain(..8);
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    #[test]
    fn a_recording_makes_a_model_that_behaves_like_the_encoder() {
        let table = recorded();
        assert_eq!(Table::parse(&table.to_json(), "x").as_ref(), Ok(&table));
        assert!(table.cuts.len() >= 2, "the clip has cuts: {:?}", table.cuts);
        let real = ratios(&mut Lane::new(&game()).unwrap().encoder);
        let model = ratios(&mut EncoderModel::new(ModelConfig::recorded(Arc::new(table), 1)).unwrap());
        for p in [0.1, 0.25, 0.5, 0.75, 0.9] {
            let (a, b) = (percentile(&real, p), percentile(&model, p));
            println!("size over target, p{:.0}: codec {a:.3}, model {b:.3}", p * 100.0);
            assert!((a - b).abs() < 0.25, "p{p}: codec {a}, model {b}");
        }
    }

    #[test]
    fn unusable_input_is_refused() {
        let rates = [1, 2].map(Rate::from_mbps);
        assert!(record_table(&mut game(), &rates, "x", "y").unwrap_err().to_string().contains("three"));
        let mut short =
            SyntheticGame::new(SyntheticConfig { frames: Some(8), ..SyntheticConfig::new(64, 64) });
        let error = record_table(&mut short, &RATES.map(Rate::from_kbps), "x", "y").unwrap_err();
        assert!(error.to_string().contains("nine frames"));
    }
}
