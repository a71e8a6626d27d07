//! Makes a [`Table`]: plays a clip twice through several real encoders at a time, and keeps the second time.
//! What a stream begins with is larger than what a scene of it begins with, and the model begins anew with
//! every loop of the clip.
//!
//! ```text
//!             +-> encoder at rates[0] -> decoder -> size, quality         one curve each
//!             |   another, with a key frame every second -> size          key frame ratios
//!   picture --+-> ...
//!             +-> encoder at a new random rate every frame -> size        lag and noise
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use units::{Rate, Rng, Span, Time};

use crate::table::{Curve, Fit, Memory, Table};
use crate::{
    Ask, CodecError, Coded, Encoder, H264Config, H264Decoder, H264Encoder, Quality, RawFrame, Scaler, Source,
    quality, size_of_height,
};

/// Seconds between the key frames that are asked for, rounded to frames.
const KEY_EVERY: f64 = 1.0;
/// Lags tried when fitting, in frames.
const LAGS: [f64; 11] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];
/// Between neighbouring source pictures, a PSNR-Y in dB below the first, or below the second with an SSIM
/// below the third, means that a new scene has begun. Measured on six films and games: cuts have 4.4 to 10.8
/// dB, the fastest camera 14.5 dB with an SSIM of 0.62, the shakiest 17.6 dB with 0.42.
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
    fn new((width, height): (usize, usize), interval: Span) -> Result<Lane, CodecError> {
        let encoder = H264Encoder::new(H264Config::new(width, height, interval))?;
        Ok(Lane { encoder, decoder: H264Decoder::new()? })
    }

    fn code(&mut self, picture: &Arc<RawFrame>, ask: &Ask) -> Result<Coded, CodecError> {
        self.encoder.submit(Time::ZERO, Some(picture), ask)?;
        self.encoder.poll(Time::MAX).ok_or_else(|| lost("the encoder gave no frame"))
    }

    /// The picture that a viewer sees.
    fn seen(&mut self, coded: &Coded) -> Result<RawFrame, CodecError> {
        let bytes = coded.payload.as_ref().ok_or_else(|| lost("a frame without bytes"))?;
        self.decoder.decode(bytes)?.ok_or_else(|| lost("a frame without a picture"))
    }
}

impl Curve {
    fn empty(rate: Rate) -> Curve {
        let bps = rate.as_bps();
        let empty = Vec::new;
        Curve { bps, bytes: Vec::new(), psnr_y: empty(), psnr_avg: empty(), ssim: Vec::new(), key: None }
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
fn fit(table: &Table, answers: &[Answer]) -> Fit {
    let seconds = table.interval().as_secs_f64();
    let pairs = LAGS.iter().flat_map(|&up| LAGS.iter().map(move |&down| (up, down)));
    let tried = pairs.map(|(up, down)| (spread(&residuals(table, answers, up, down)), up, down));
    let (noise, up, down) = tried.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are lags to try");
    let mut ratios: Vec<f64> = answers.iter().map(|answer| answer.gave / answer.asked).collect();
    ratios.sort_by(f64::total_cmp);
    let round = |value: f64| (value * 1e4).round() / 1e4;
    Fit {
        lag_up_s: round(up * seconds),
        lag_down_s: round(down * seconds),
        overshoot: round((percentile(&ratios, 0.99) - 1.0).max(0.0)),
        undershoot: round((1.0 - percentile(&ratios, 0.01)).clamp(0.0, 1.0)),
        size_noise: round(noise),
        key_frame_ratio: table.curves[table.curves.len() / 2].key.unwrap_or(1.0),
        memory: table.fit.memory,
    }
}

/// The encoders that are recorded at one constant bitrate, and what they gave so far.
struct Constant {
    plain: Lane,
    keyed: Lane,
    curve: Curve,
    /// Sizes of key frames over their budgets.
    keys: Vec<f64>,
}

impl Constant {
    fn finish(mut self) -> Curve {
        self.keys.sort_by(f64::total_cmp);
        let median = self.keys.get(self.keys.len() / 2);
        Curve { key: median.map(|key| (key * 1e4).round() / 1e4), ..self.curve }
    }
}

/// Everything that is being recorded.
struct Recording {
    /// Pictures are scaled to this size first; qualities are those of the pictures scaled up again.
    size: (usize, usize),
    scaler: Scaler,
    constants: Vec<Constant>,
    random: Lane,
    rng: Rng,
    answers: Vec<Answer>,
    cuts: Vec<u32>,
    /// Frames of the clip so far, the first time included.
    count: u32,
    last: Option<Arc<RawFrame>>,
}

impl Recording {
    fn new(source: &dyn Source, size: (usize, usize), rates: &[Rate]) -> Result<Recording, CodecError> {
        let lane = || Lane::new(size, source.interval());
        let constant = |&rate: &Rate| -> Result<Constant, CodecError> {
            Ok(Constant { plain: lane()?, keyed: lane()?, curve: Curve::empty(rate), keys: Vec::new() })
        };
        Ok(Recording {
            size,
            scaler: Scaler::default(),
            constants: rates.iter().map(constant).collect::<Result<_, _>>()?,
            random: lane()?,
            rng: Rng::stream(1, "recording/targets"),
            answers: Vec::new(),
            cuts: Vec::new(),
            count: 0,
            last: None,
        })
    }

    /// Plays the clip to its end; what comes out is only kept if it `counts`. Returns how many frames it has.
    fn play(&mut self, source: &mut dyn Source, counts: bool) -> Result<u32, CodecError> {
        let mut frames = 0;
        while let Some(picture) = source.next_picture() {
            self.add(&picture, source.interval(), counts.then_some(frames))?;
            frames += 1;
        }
        Ok(frames)
    }

    /// One picture, and its number in the table, if it has one.
    fn add(&mut self, full: &Arc<RawFrame>, interval: Span, number: Option<u32>) -> Result<(), CodecError> {
        let picture = match self.scaler.fit(full, self.size)? {
            Cow::Borrowed(_) => full.clone(),
            Cow::Owned(scaled) => Arc::new(scaled),
        };
        let blank = Ask {
            frame: self.count,
            bitrate: Rate::ZERO,
            interval,
            key: self.count == 0,
            largest: None,
            height: None,
            peer: None,
        };
        self.count += 1;
        let every = (KEY_EVERY / interval.as_secs_f64()).round().max(2.0) as u32;
        for constant in &mut self.constants {
            let ask = Ask { bitrate: Rate::from_bps(constant.curve.bps), ..blank };
            let coded = constant.plain.code(&picture, &ask)?;
            let seen = constant.plain.seen(&coded)?;
            if number.is_some() {
                let shown = self.scaler.fit(&seen, (full.width, full.height))?;
                constant.curve.push(coded.size, quality(full, &shown)?);
            }
            // Not the first, with which the rate control learns what a key frame is.
            let key = ask.frame.is_multiple_of(every);
            let coded = constant.keyed.code(&picture, &Ask { key, ..ask })?;
            if key && ask.frame > 0 {
                let budget = ask.bitrate.as_f64() * interval.as_secs_f64() / 8.0;
                constant.keys.push(f64::from(coded.size) / budget);
            }
        }
        self.add_random(&picture, &blank, number)?;
        if let Some(number) = number {
            let likeness = self.last.as_ref().map(|last| quality(last, full)).transpose()?;
            if likeness.is_none_or(is_cut) {
                self.cuts.push(number);
            }
        }
        self.last = Some(full.clone());
        Ok(())
    }

    /// Rates uniform over the recorded ones but the lowest and the highest.
    fn add_random(
        &mut self,
        picture: &Arc<RawFrame>,
        blank: &Ask,
        number: Option<u32>,
    ) -> Result<(), CodecError> {
        let inner = &self.constants[1..self.constants.len() - 1];
        let (low, high) = (inner[0].curve.bps as f64, inner[inner.len() - 1].curve.bps as f64);
        let bitrate = Rate::from_f64(self.rng.uniform_in(low, high));
        let coded = self.random.code(picture, &Ask { bitrate, ..*blank })?;
        let gave = f64::from(coded.size) * 8.0 / blank.interval.as_secs_f64();
        if let Some(frame) = number {
            self.answers.push(Answer { frame, asked: bitrate.as_f64(), gave });
        }
        Ok(())
    }
}

/// What is recorded.
pub struct Recorded<'a> {
    /// Kept in the table.
    pub clip: &'a str,
    /// Whose clip it is; kept in the table.
    pub credit: &'a str,
    /// Constant targets, at least three, rising.
    pub rates: &'a [Rate],
    /// Pictures are scaled to so many rows first; none leaves them as they are.
    pub rows: Option<u16>,
}

/// Plays a clip, which `open` opens, through OpenH264 at each of the rates and returns what came out.
///
/// Takes about 60 ms a rate and 720p frame in a release build.
///
/// # Errors
/// [`CodecError`] if there are too few rates or frames, or the clip can't be opened, or the codec fails.
pub fn record_table(
    what: &Recorded<'_>,
    open: &mut dyn FnMut() -> Result<Box<dyn Source>, CodecError>,
) -> Result<Table, CodecError> {
    let rates = what.rates;
    if rates.len() < 3 || rates[0] == Rate::ZERO || rates.windows(2).any(|w| w[0] >= w[1]) {
        return Err(lost("three or more rising rates are needed"));
    }
    let mut source = open()?;
    let (interval, full) = (source.interval(), source.size());
    let (width, height) = what.rows.map_or(full, |rows| size_of_height(full, rows));
    let mut recording = Recording::new(source.as_ref(), (width, height), rates)?;
    recording.play(source.as_mut(), false)?;
    if recording.play(open()?.as_mut(), true)? < 9 {
        return Err(lost("a clip of at least nine frames is needed"));
    }
    let Recording { constants, answers, cuts, .. } = recording;
    let unknown = Fit {
        lag_up_s: 0.0,
        lag_down_s: 0.0,
        overshoot: 0.0,
        undershoot: 0.0,
        size_noise: 0.0,
        key_frame_ratio: 1.0,
        memory: Memory::OPENH264,
    };
    let mut table = Table {
        clip: what.clip.to_owned(),
        credit: what.credit.to_owned(),
        encoder: "OpenH264, lowest complexity".to_owned(),
        width,
        height,
        interval_ns: interval.as_nanos() as u64,
        cuts,
        fit: unknown,
        quantisers: Vec::new(),
        curves: constants.into_iter().map(Constant::finish).collect(),
        levels: Vec::new(),
        owed: Vec::new(),
    };
    table.prepare();
    table.fit = fit(&table, &answers);
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
    use super::*;
    use crate::trajectory::{self, Coding, Trajectory};
    use crate::{EncoderModel, ModelConfig, SyntheticConfig, SyntheticGame};

    const RATES: [u64; 5] = [60, 180, 540, 1_620, 4_860];

    const FRAMES: u64 = 240;

    fn game_of(frames: u64) -> SyntheticGame {
        let interval = Span::from_nanos(33_333_333);
        let config =
            SyntheticConfig { interval, frames: Some(frames), seed: 6, ..SyntheticConfig::new(192, 112) };
        SyntheticGame::new(config)
    }

    fn game() -> SyntheticGame {
        game_of(FRAMES)
    }

    fn recording(rates: &[u64], frames: u64) -> Result<Table, CodecError> {
        let rates: Vec<Rate> = rates.iter().map(|&kbps| Rate::from_kbps(kbps)).collect();
        let what = Recorded { clip: "game", credit: "ours", rates: &rates, rows: None };
        record_table(&what, &mut || Ok(Box::new(game_of(frames))))
    }

    fn recorded() -> Table {
        recording(&RATES, FRAMES).unwrap()
    }

    /// Size over target of each frame of `encoder` for targets drawn uniformly from 0.2 to 1.6 Mbit/s,
    /// sorted.
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
                    &Ask {
                        frame,
                        bitrate,
                        interval,
                        key: frame == 0,
                        largest: None,
                        height: None,
                        peer: None,
                    },
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
        let real = ratios(&mut Lane::new(game().size(), game().interval()).unwrap().encoder);
        let model = ratios(&mut EncoderModel::new(ModelConfig::recorded(Arc::new(table), 1)).unwrap());
        for p in [0.1, 0.25, 0.5, 0.75, 0.9] {
            let (a, b) = (percentile(&real, p), percentile(&model, p));
            println!("size over target, p{:.0}: codec {a:.3}, model {b:.3}", p * 100.0);
            assert!((a - b).abs() < 0.25, "p{p}: codec {a}, model {b}");
        }
    }

    /// What `encoder` makes of a course of targets around 540 kbit/s, over the clip again and again.
    fn coding(encoder: &mut dyn Encoder, pictures: &[Arc<RawFrame>], course: &Trajectory) -> Coding {
        let interval = game().interval();
        let mut coding = Coding::new(interval);
        for (frame, wish) in (0u32..).zip(course.wishes(interval)) {
            let picture = &pictures[frame as usize % pictures.len()];
            let bitrate = Rate::from_f64(540e3 * wish.share);
            let ask =
                Ask { frame, bitrate, interval, key: wish.key, largest: None, height: None, peer: None };
            encoder.submit(Time::ZERO, Some(picture), &ask).unwrap();
            coding.push(bitrate, &encoder.poll(Time::MAX).unwrap());
        }
        coding
    }

    #[test]
    fn the_model_owes_what_the_encoder_owes() {
        let table = Arc::new(recorded());
        let mut clip = game();
        let pictures: Vec<_> = std::iter::from_fn(|| clip.next_picture()).collect();
        let config = ModelConfig::recorded(table, 1);
        let play = |memory, course| {
            let config = ModelConfig { memory, ..config.clone() };
            coding(&mut EncoderModel::new(config).unwrap(), &pictures, course)
        };
        let (mut model_apart, mut forgetful_apart) = (0.0, 0.0);
        for course in trajectory::ALL {
            let mut codec = Lane::new(game().size(), game().interval()).unwrap().encoder;
            let real = coding(&mut codec, &pictures, course);
            let (model, forgetful) = (play(config.memory, course), play(Memory::NONE, course));
            let shares = [&real, &model, &forgetful].map(Coding::share);
            println!(
                "{}: coded of what was asked by codec, model, model without memory: {shares:.2?}; queues apart by {:.2} and {:.2}",
                course.name,
                model.apart(&real),
                forgetful.apart(&real)
            );
            model_apart += model.apart(&real);
            forgetful_apart += forgetful.apart(&real);
        }
        let count = trajectory::ALL.len() as f64;
        let both = [model_apart, forgetful_apart];
        assert!(model_apart < 0.25 * count && model_apart < forgetful_apart, "{both:?}");
    }

    #[test]
    fn unusable_input_is_refused() {
        assert!(recording(&[1_000, 2_000], FRAMES).unwrap_err().to_string().contains("three"));
        assert!(recording(&RATES, 8).unwrap_err().to_string().contains("nine frames"));
    }
}
