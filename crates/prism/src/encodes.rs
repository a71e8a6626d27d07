//! Real clips by a real encoder: what of them must be coded for a model and for its check, and the coding
//! itself, on several threads, with what was coded before taken from a folder.
//!
//! ```text
//!   plan     key frames alone, at each rate        qualities of key frames
//!            one predicted stream, at each rate    steady states
//!            every few frames and at each rate,    how they rise and fall
//!              one stream after a very bad and one after a very good first frame
//!            random schedules                      the check
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use media::{
    Ask, Clip, ClipError, ClipOptions, CodecError, Encoder, H264Config, H264Decoder, H264Encoder, RawFrame,
    Scaler, Source, quality, size_of_height,
};
use units::{Fingerprint, Rate, Rng, Span, Time};

use crate::cache::Cache;
pub use crate::cache::Coding;
use crate::greedy::Goal;
use crate::model::{Recording, Run, Step};
use crate::study::steady_from;
use crate::table::{Origin, Pictures};
use crate::x264;

/// The encoders that clips can be coded with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coder {
    /// The encoder that live streams have. Its rate control remembers, so that a frame's quality depends on
    /// more than its rate and the frame before it.
    OpenH264,
    /// x264 through ffmpeg, whose version this is. Each frame has its budget, whatever was before.
    X264(String),
}

impl Coder {
    /// x264, if this machine has an ffmpeg with it.
    pub fn x264() -> Option<Coder> {
        x264::version().map(Coder::X264)
    }

    /// What tables call it. A change of the encoder, or of how it is asked, makes older codings worthless.
    pub fn name(&self) -> String {
        match self {
            Coder::OpenH264 => OPENH264.to_owned(),
            Coder::X264(version) => {
                format!("x264 through ffmpeg {version}: veryfast, baseline, a buffer of one frame")
            }
        }
    }
}

const OPENH264: &str = "OpenH264 (openh264-sys2 0.9.9) as H264Encoder sets it up: low complexity, one thread, one slice, filled key frames";

/// Why a clip could not be coded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The clip can't be read.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// It breaks off, and would make another table than the whole clip.
    #[error("{0}")]
    Broken(String),
    /// It is too short for what is to be made of it.
    #[error(
        "{clip}: {found} frames; {needed} are needed for one recovery, what it follows and what follows it"
    )]
    Short {
        /// The clip's name.
        clip: String,
        /// How many frames it has.
        found: usize,
        /// The fewest that would do.
        needed: usize,
    },
    /// A codec refused.
    #[error("{clip}: {source}")]
    Codec {
        /// The clip's name.
        clip: String,
        /// What the codec said.
        source: CodecError,
    },
    /// The folder of what was coded before can't be used.
    #[error("{folder}: {source}")]
    Cache {
        /// The folder as it was named.
        folder: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A clip's pictures in memory, as they are coded.
pub struct Footage {
    name: String,
    pictures: Vec<Arc<RawFrame>>,
    interval: Span,
    fingerprint: Fingerprint,
}

impl Footage {
    /// The first pictures of a clip, at most so many, scaled to so many rows if it has more.
    ///
    /// # Errors
    /// [`EncodeError`] if the clip can't be read or scaled.
    pub fn open(path: &Path, rows: u16, most: usize) -> Result<Footage, EncodeError> {
        let options = ClipOptions { max_frames: Some(most as u64), ..ClipOptions::default() };
        let mut clip = Clip::open(path, options)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let footage = Footage::of(name, &mut clip, rows)?;
        match clip.trouble() {
            Some(trouble) => Err(EncodeError::Broken(trouble.to_string())),
            None => Ok(footage),
        }
    }

    /// Every picture that a source gives, scaled to so many rows if it has more.
    ///
    /// # Errors
    /// [`EncodeError`] if a picture can't be scaled.
    pub fn of(name: String, source: &mut dyn Source, rows: u16) -> Result<Footage, EncodeError> {
        let (width, height) = source.size();
        let size =
            if usize::from(rows) < height { size_of_height((width, height), rows) } else { (width, height) };
        let mut scaler = Scaler::default();
        let mut pictures = Vec::new();
        let mut fingerprint = Fingerprint::default();
        fingerprint.add_bytes(&source.interval().as_nanos().to_le_bytes());
        while let Some(picture) = source.next_picture() {
            let scaled = scaler
                .fit(&picture, size)
                .map_err(|source| EncodeError::Codec { clip: name.clone(), source })?;
            let scaled = Arc::new(scaled.into_owned());
            fingerprint.add_bytes(&size.0.to_le_bytes());
            [&scaled.y, &scaled.u, &scaled.v].iter().for_each(|plane| fingerprint.add_bytes(plane));
            pictures.push(scaled);
        }
        Ok(Footage { name, pictures, interval: source.interval(), fingerprint })
    }

    /// How many pictures there are.
    pub fn frames(&self) -> usize {
        self.pictures.len()
    }

    /// Their size and rate.
    pub fn pictures(&self) -> Pictures {
        let (width, height) = self.pictures.first().map_or((0, 0), |picture| (picture.width, picture.height));
        Pictures::new(width as u32, height as u32, self.interval)
    }

    /// What a table says of this clip.
    pub fn origin(&self) -> Origin {
        Origin { clip: self.name.clone(), frames: self.frames(), fingerprint: self.fingerprint.to_string() }
    }
}

/// A stream to be coded: the first step must be a key frame, as every stream's is.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The clip's frame that it begins with.
    pub start: usize,
    /// What each of its frames is coded as, from the first on.
    pub steps: Vec<Step>,
}

impl Job {
    /// What its coding is kept as: everything that the outcome depends on.
    fn name(&self, footage: &Footage, coder: &Coder) -> String {
        let mut print = footage.fingerprint;
        print.add_bytes(coder.name().as_bytes());
        print.add_bytes(&self.start.to_le_bytes());
        for step in &self.steps {
            print.add_bytes(&[u8::from(matches!(step, Step::Key(_)))]);
            print.add_bytes(&step.rate().as_bps().to_le_bytes());
        }
        print.to_string()
    }

    fn code(&self, footage: &Footage, coder: &Coder) -> Result<Coding, CodecError> {
        match coder {
            Coder::OpenH264 => self.by_openh264(footage),
            Coder::X264(_) => self.by_x264(footage),
        }
    }

    fn by_x264(&self, footage: &Footage) -> Result<Coding, CodecError> {
        let pictures = &footage.pictures[self.start..self.start + self.steps.len()];
        let refused = |what| CodecError::Codec { codec: "x264", what };
        let units = x264::code(pictures, &self.steps, footage.interval).map_err(refused)?;
        let mut decoder = H264Decoder::new()?;
        let mut coding = Coding::default();
        for (unit, picture) in units.iter().zip(pictures) {
            coding.add(picture, decoder.decode(unit)?, unit.len() as u32)?;
        }
        Ok(coding)
    }

    fn by_openh264(&self, footage: &Footage) -> Result<Coding, CodecError> {
        let pictures = &footage.pictures[self.start..self.start + self.steps.len()];
        let interval = footage.interval;
        let (width, height) = pictures.first().map_or((0, 0), |picture| (picture.width, picture.height));
        let config = H264Config {
            initial: self.steps.first().map_or(Rate::from_mbps(1), |step| step.rate()),
            fill_keys: true,
            ..H264Config::new(width, height, interval)
        };
        let (mut encoder, mut decoder) = (H264Encoder::new(config)?, H264Decoder::new()?);
        let mut coding = Coding::default();
        for ((frame, picture), step) in (0u32..).zip(pictures).zip(&self.steps) {
            let (key, bitrate) = (matches!(step, Step::Key(_)), step.rate());
            let largest = key.then(|| bitrate.bytes_in(interval));
            let ask = Ask { frame, bitrate, interval, key, largest, height: None, peer: None };
            let now = Time::ZERO + interval * i64::from(frame);
            encoder.submit(now, Some(picture), &ask)?;
            let lost = |what: &str| CodecError::Codec { codec: "openh264", what: what.to_owned() };
            let coded = encoder.poll(Time::MAX).ok_or_else(|| lost("no frame came out"))?;
            let bytes = coded.payload.ok_or_else(|| lost("a frame without bytes"))?;
            coding.add(picture, decoder.decode(&bytes)?, coded.size)?;
        }
        Ok(coding)
    }
}

impl Coding {
    /// Adds a frame as a viewer sees it.
    fn add(&mut self, source: &RawFrame, seen: Option<RawFrame>, bytes: u32) -> Result<(), CodecError> {
        let none = || CodecError::Codec { codec: "decoder", what: "a frame without a picture".to_owned() };
        self.ssim.push((quality(source, &seen.ok_or_else(none)?)?.ssim * 1e6).round() / 1e6);
        self.bytes.push(bytes);
        Ok(())
    }
}

/// Where codings are kept, and on how many threads they are made.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// What codes.
    pub coder: Coder,
    /// Folder of what was coded before.
    pub folder: PathBuf,
    /// Threads to code on, at least 1. The outcome does not depend on them.
    pub threads: usize,
}

impl Workshop {
    /// Codes every job, or takes it from the folder; `done` is told of frames as they are there, from any
    /// thread.
    ///
    /// # Errors
    /// [`EncodeError`] of the first job that failed; what was coded stays in the folder.
    pub fn code(
        &self,
        footage: &Footage,
        jobs: &[Job],
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Coding>, EncodeError> {
        let of_cache = |source| EncodeError::Cache { folder: self.folder.display().to_string(), source };
        let cache = Cache::open(&self.folder).map_err(of_cache)?;
        let one = |job: &Job| {
            let name = job.name(footage, &self.coder);
            if let Some(coding) = cache.get(&name, job.steps.len()) {
                return Ok(coding);
            }
            let coding = job
                .code(footage, &self.coder)
                .map_err(|source| EncodeError::Codec { clip: footage.name.clone(), source })?;
            cache.put(&name, &coding).map_err(of_cache)?;
            Ok(coding)
        };
        let next = AtomicUsize::new(0);
        let work = || {
            let mut made = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(index) else { return made };
                let outcome = one(job);
                done(job.steps.len());
                if outcome.is_err() {
                    // Nobody begins another one.
                    next.store(jobs.len(), Ordering::Relaxed);
                }
                made.push((index, outcome));
            }
        };
        let mut made: Vec<(usize, Result<Coding, EncodeError>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads.max(1)).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("coding does not panic")).collect()
        });
        made.sort_by_key(|(index, _)| *index);
        made.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// What is coded of a clip.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The rates that are recorded, rising.
    pub rates: Vec<Rate>,
    /// Frames between the starts of streams that rise or fall.
    pub spacing: usize,
    /// Frames of each of them.
    pub length: usize,
    /// Random schedules for the check.
    pub schedules: usize,
    /// Frames of each of them, at most.
    pub schedule_frames: usize,
    /// Seed of the schedules.
    pub seed: u64,
}

/// A very bad first frame, as a share of the lowest rate, ...
const VERY_LOW: f64 = 0.25;
/// ... and a very good one, of the highest: the thesis says "very low" and "very high"; with its 1 to 20
/// Mbit/s these are 0.25 and 50 Mbit/s.
const VERY_HIGH: f64 = 2.5;
/// Chance of a new rate with each frame of a random schedule, and of a key frame: the thesis says "random
/// changes" and "random I-frame insertions". A rate lasts for ten frames on average, as long as the longest
/// recovery, and a key frame comes every half second at 60 Hz.
const CHANGES: (f64, f64) = (0.1, 1.0 / 30.0);

impl Plan {
    /// What is coded in order to know the qualities of so many frames.
    pub fn jobs(&self, frames: usize) -> Vec<Job> {
        let (low, high) =
            (self.rates[0].mul_f64(VERY_LOW), self.rates[self.rates.len() - 1].mul_f64(VERY_HIGH));
        let mut jobs = Vec::new();
        for &rate in &self.rates {
            jobs.push(Job { start: 0, steps: vec![Step::Key(rate); frames] });
            jobs.push(predicted(0, frames, rate, rate));
            for start in (0..frames.saturating_sub(1)).step_by(self.spacing.max(1)) {
                let length = self.length.min(frames - start);
                jobs.extend([low, high].map(|first| predicted(start, length, first, rate)));
            }
        }
        jobs
    }

    /// What the codings of those jobs say.
    pub fn recording(&self, frames: usize, codings: &[Coding]) -> Recording {
        let mut recording =
            Recording { rates: self.rates.clone(), key: Vec::new(), steady: Vec::new(), runs: Vec::new() };
        let jobs = self.jobs(frames);
        for (rate, of_rate) in (0..).zip(
            jobs.chunks(jobs.len() / self.rates.len()).zip(codings.chunks(jobs.len() / self.rates.len())),
        ) {
            let (jobs, codings) = of_rate;
            recording.key.push(codings[0].ssim.clone());
            recording.steady.push(codings[1].ssim.clone());
            let runs = jobs[2..].iter().zip(&codings[2..]);
            recording.runs.extend(runs.map(|(job, coding)| Run {
                rate,
                start: job.start,
                ssim: coding.ssim.clone(),
            }));
        }
        recording
    }

    /// Random schedules: rates of 1 to `steps` times `step`, changes and key frames at random. They begin
    /// where streams from the clip's begin are steady: before, no recovery is decided either.
    pub fn random(&self, frames: usize, step: Rate, steps: usize) -> Vec<Job> {
        let start = steady_from(frames);
        let schedule = |number: usize| {
            let mut rng = Rng::stream(self.seed, &format!("prism/schedule/{number}"));
            let draw = |rng: &mut Rng| Rate::from_bps(step.as_bps() * (1 + rng.below(steps as u64)));
            let mut rate = draw(&mut rng);
            let steps = (0..(frames - start).min(self.schedule_frames)).map(|frame| {
                if rng.chance(CHANGES.0) {
                    rate = draw(&mut rng);
                }
                if frame == 0 || rng.chance(CHANGES.1) { Step::Key(rate) } else { Step::Predicted(rate) }
            });
            Job { start, steps: steps.collect() }
        };
        (0..self.schedules).map(schedule).collect()
    }
}

/// One step of a table's rates for such pictures: the thesis' 1 Mbit/s, scaled to them
/// ([`Pictures::scale_from`]), and rounded to whole kbit a frame, in which x264 counts its buffer.
pub fn step_for(pictures: Pictures) -> Rate {
    let kbit = (1e3 * pictures.scale_from(Pictures::THESIS) / pictures.fps).round().max(1.0);
    Rate::from_f64((kbit * 1e3 * pictures.fps).round())
}

/// Frames of a clip at which recoveries are tried, `spacing` apart: after the clip's begin has settled, and
/// so that the longest recovery and the horizon after it fit.
///
/// # Errors
/// [`EncodeError::Short`] if there is none.
pub fn starts(footage: &Footage, spacing: usize, goal: &Goal) -> Result<Vec<usize>, EncodeError> {
    let (from, room) = (steady_from(footage.frames()), goal.frames + goal.horizon);
    let starts: Vec<usize> =
        (from..(footage.frames() + 1).saturating_sub(room)).step_by(spacing.max(1)).collect();
    if starts.is_empty() {
        // Half of a short clip is for settling.
        let needed = (2 * room).min(room + steady_from(usize::MAX));
        return Err(EncodeError::Short { clip: footage.name.clone(), found: footage.frames(), needed });
    }
    Ok(starts)
}

/// A predicted stream of one rate after a first frame of another.
pub fn predicted(start: usize, frames: usize, first: Rate, rate: Rate) -> Job {
    let mut steps = vec![Step::Predicted(rate); frames];
    steps[0] = Step::Key(first);
    Job { start, steps }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use media::{SyntheticConfig, SyntheticGame};

    use super::*;
    use crate::model::{Model, predict};

    fn footage() -> Footage {
        let config = SyntheticConfig {
            frames: Some(24),
            interval: Span::from_millis(40),
            ..SyntheticConfig::new(96, 64)
        };
        Footage::of("game".to_owned(), &mut SyntheticGame::new(config), 64).unwrap()
    }

    fn plan() -> Plan {
        let rates = [60, 240].map(Rate::from_kbps).to_vec();
        Plan { rates, spacing: 6, length: 10, schedules: 2, schedule_frames: 20, seed: 1 }
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            Folder(std::env::temp_dir().join(format!("framewire-prism-{name}-{}", std::process::id())))
        }

        fn workshop(&self, threads: usize) -> Workshop {
            Workshop { coder: Coder::OpenH264, folder: self.0.clone(), threads }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn threads_and_the_folder_change_nothing() {
        let (footage, jobs) = (footage(), plan().jobs(24));
        let (one, three) = (Folder::new("one"), Folder::new("three"));
        let alone = one.workshop(1).code(&footage, &jobs, &|_| ()).unwrap();
        let counted = Mutex::new(0);
        let together =
            three.workshop(3).code(&footage, &jobs, &|frames| *counted.lock().unwrap() += frames).unwrap();
        assert_eq!(alone, together);
        assert_eq!(counted.into_inner().unwrap(), jobs.iter().map(|job| job.steps.len()).sum::<usize>());
        assert_eq!(one.workshop(2).code(&footage, &jobs, &|_| ()).unwrap(), alone);
    }

    #[test]
    fn a_killed_run_goes_on_with_what_is_there() {
        let (footage, jobs, folder) = (footage(), plan().jobs(24), Folder::new("killed"));
        let whole = folder.workshop(1).code(&footage, &jobs, &|_| ()).unwrap();
        // Half of the files are gone, one is torn; a mark in another shows that it was not coded again.
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), jobs.len());
        files.iter().step_by(2).for_each(|file| std::fs::remove_file(file).unwrap());
        std::fs::write(&files[1], b"{\"ssim\":[0.1").unwrap();
        let kept = std::fs::metadata(&files[3]).unwrap().modified().unwrap();
        assert_eq!(folder.workshop(2).code(&footage, &jobs, &|_| ()).unwrap(), whole);
        assert_eq!(std::fs::metadata(&files[3]).unwrap().modified().unwrap(), kept);
        assert!(files.iter().all(|file| file.exists()));
    }

    #[test]
    fn key_frames_fill_what_they_may_take_and_no_more() {
        let (footage, plan, folder) = (footage(), plan(), Folder::new("filled"));
        let jobs = plan.jobs(24);
        let codings = folder.workshop(1).code(&footage, &jobs, &|_| ()).unwrap();
        let high = jobs.iter().position(|job| job.steps == [Step::Key(plan.rates[1]); 24]).unwrap();
        let budget = plan.rates[1].bytes_in(Span::from_millis(40)).get() as f64;
        let shares: Vec<f64> = codings[high].bytes.iter().map(|&bytes| f64::from(bytes) / budget).collect();
        assert!(shares.iter().all(|share| (0.7..=1.0).contains(share)), "{shares:?}");
    }

    #[test]
    fn a_recorded_clip_is_modelled() {
        let (footage, plan, folder) = (footage(), plan(), Folder::new("model"));
        let jobs = plan.jobs(24);
        let recording = plan.recording(24, &folder.workshop(2).code(&footage, &jobs, &|_| ()).unwrap());
        assert_eq!(recording.runs.len(), 2 * 2 * 4);
        let model = Model::new(&recording);
        // A stream that was recorded is predicted as it was.
        let steady = predict(&model, 1, recording.steady[1][0], &[Step::Predicted(plan.rates[1]); 23]);
        let worst =
            steady.iter().zip(&recording.steady[1][1..]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 0.02, "{worst}");
    }

    #[test]
    fn schedules_come_from_their_seed() {
        let of_seed = |seed| Plan { seed, ..plan() }.random(24, Rate::from_kbps(60), 4);
        assert_eq!(of_seed(1), of_seed(1));
        assert_ne!(of_seed(1), of_seed(2));
        let jobs = of_seed(1);
        assert!(jobs.iter().all(|job| job.steps.len() == 12 && matches!(job.steps[0], Step::Key(_))));
        assert!(jobs.iter().flat_map(|job| &job.steps).all(|step| step.rate().as_bps() % 60_000 == 0));
    }

    #[test]
    fn the_encoder_is_the_one_that_tables_name() {
        let lock = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
        let lock = std::fs::read_to_string(lock).expect("the workspace has a lock file");
        let (_, package) = lock.split_once("name = \"openh264-sys2\"\nversion = \"").expect("it is locked");
        let version = package.split('"').next().unwrap();
        assert!(OPENH264.contains(&format!("openh264-sys2 {version})")), "{OPENH264} is not {version}");
    }
}
