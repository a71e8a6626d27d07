//! A clip looked at for a table and for the thesis' figures: what is coded of it, and what the codings show.

use units::Rate;

use crate::encodes::{Coding, EncodeError, Footage, Job, Plan, Workshop, predicted, starts, step_for};
use crate::greedy::{Goal, Place};
use crate::model::{Model, Quality, Recording, Step};
use crate::study::{Course, Errors, steady_from};

/// Rates that are coded, as shares of the highest: those between are interpolated. They are the nearer, the
/// lower they are, since qualities change with the logarithm of the rate.
const RATES: [usize; 10] = [1, 2, 3, 4, 6, 8, 10, 13, 16, 20];
/// The same for a first look.
const FEW_RATES: [usize; 4] = [1, 3, 8, 20];
/// Steps that [`RATES`] is written for.
const OF_STEPS: usize = 20;
/// Frames of a course (Fig. 4.4 and 4.7a).
const COURSE: usize = 90;
/// Frames of Fig. 4.7a's loss.
const LOSS: std::ops::RangeInclusive<usize> = 5..=10;
/// Its rates in steps: of all, of key frames inserted, and of the predicted frames beside smaller ones.
const LOSS_STEPS: [usize; 3] = [20, 10, 2];

/// How thoroughly clips are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Survey {
    /// Steps of a table's rates.
    pub steps: usize,
    /// Fewer rates and places, for a first look.
    pub quick: bool,
    /// Random schedules that check the model, and their seed.
    pub schedules: (usize, u64),
    /// Code Fig. 4.7a's loss, too.
    pub loss: bool,
    /// What a recovery is to be good for.
    pub goal: Goal,
}

/// What was found out about a clip.
pub struct Surveyed {
    /// Its pictures, at the size in which they were coded.
    pub footage: Footage,
    /// One step of rates for them.
    pub step: Rate,
    /// Frames at which recoveries are tried.
    pub starts: Vec<usize>,
    /// What was coded for the model, ...
    pub recording: Recording,
    /// ... the model, ...
    pub model: Model,
    /// ... and how it predicts the schedules.
    pub errors: Errors,
    /// Fig. 4.4a: predicted frames at half of the highest rate, with a key frame every 15, key frames alone.
    pub insertion: Course,
    /// Fig. 4.4b: predicted frames and key frames, from half to the highest rate at frame 30 and back at 60.
    pub change: Course,
    /// Fig. 4.7a: undisturbed, with six key frames inserted, with six frames of a tenth of the rate. Empty if
    /// it was not asked for.
    pub loss: Course,
}

impl Surveyed {
    /// The places at which recoveries are tried.
    pub fn places(&self) -> impl Iterator<Item = Place<'_>> {
        let place = |&frame| Place { quality: &self.model as &dyn Quality, frame, step: self.step };
        self.starts.iter().map(place)
    }

    /// The frame of the clip that courses begin with.
    pub fn course_start(&self) -> usize {
        steady_from(self.footage.frames())
    }
}

impl Survey {
    /// Frames between streams that are coded, and between places.
    pub fn spacing(&self) -> usize {
        if self.quick { 30 } else { 15 }
    }

    fn plan(&self, step: Rate) -> Plan {
        let shares: &[usize] = if self.quick { &FEW_RATES } else { &RATES };
        let mut steps: Vec<usize> =
            shares.iter().map(|&share| (share * self.steps).div_ceil(OF_STEPS)).collect();
        steps.dedup();
        Plan {
            rates: steps.into_iter().map(|steps| times(step, steps)).collect(),
            spacing: self.spacing(),
            length: 30,
            schedules: self.schedules.0,
            schedule_frames: 150,
            seed: self.schedules.1,
        }
    }

    /// What is coded of a clip: for the model, for its check, for Fig. 4.4 and 4.7a.
    pub fn jobs(&self, footage: &Footage) -> Vec<Job> {
        let (step, frames) = (step_for(footage.pictures()), footage.frames());
        let plan = self.plan(step);
        let mut jobs = plan.jobs(frames);
        jobs.extend(plan.random(frames, step, self.steps));
        jobs.extend(self.courses(step, frames));
        if self.loss {
            jobs.extend(losses(step, frames));
        }
        jobs
    }

    /// The streams of Fig. 4.4: at half of the highest rate, with key frames every 15 frames, key frames
    /// alone; then a predicted stream and key frames whose rate is doubled for a while.
    fn courses(&self, step: Rate, frames: usize) -> [Job; 5] {
        let half = times(step, self.steps / 2);
        let twice = Rate::from_bps(2 * half.as_bps());
        let rate = |frame: usize| if (30..60).contains(&frame) { twice } else { half };
        [
            course(frames, &|_| Step::Predicted(half)),
            course(frames, &|frame| if frame % 15 == 0 { Step::Key(half) } else { Step::Predicted(half) }),
            course(frames, &|_| Step::Key(half)),
            course(frames, &|frame| Step::Predicted(rate(frame))),
            course(frames, &|frame| Step::Key(rate(frame))),
        ]
    }

    /// Codes [`jobs`](Survey::jobs) of a clip, or takes them from the workshop's folder, and says what they
    /// show; `done` is told of frames as they are there.
    ///
    /// # Errors
    /// [`EncodeError`] if the clip is too short, or a codec or the folder refuses.
    pub fn look(
        &self,
        footage: Footage,
        workshop: &Workshop,
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<Surveyed, EncodeError> {
        let starts = starts(&footage, self.spacing(), &self.goal)?;
        let jobs = self.jobs(&footage);
        let codings = workshop.code(&footage, &jobs, done)?;
        let step = step_for(footage.pictures());
        let plan = self.plan(step);
        let recording = plan.recording(footage.frames(), &codings);
        let model = Model::new(&recording);
        let recorded = plan.jobs(footage.frames()).len();
        let (checks, courses) = codings[recorded..].split_at(plan.schedules);
        let mut errors = Errors::default();
        for (job, coding) in jobs[recorded..].iter().zip(checks) {
            errors.add(&model, job.start, &job.steps, &coding.ssim);
        }
        let named = |labels: &[&str], of: &[Coding]| Course {
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            ssim: of.iter().map(|coding| coding.ssim.clone()).collect(),
        };
        let insertion = named(&["predicted", "with key frames", "key frames alone"], &courses[..3]);
        let change = named(&["predicted", "key frames"], &courses[3..5]);
        let loss = match &courses[5..] {
            [] => Course::default(),
            lost => named(&["undisturbed", "key frames inserted", "split"], lost),
        };
        Ok(Surveyed { footage, step, starts, recording, model, errors, insertion, change, loss })
    }
}

fn times(step: Rate, steps: usize) -> Rate {
    Rate::from_bps(step.as_bps() * steps as u64)
}

/// A stream from where the clip is steady; its first frame is a key frame, as every stream's is.
fn course(frames: usize, of: &dyn Fn(usize) -> Step) -> Job {
    let start = steady_from(frames);
    let mut steps: Vec<Step> = (0..(frames - start).min(COURSE)).map(of).collect();
    steps[0] = Step::Key(steps[0].rate());
    Job { start, steps }
}

/// The streams of Fig. 4.7a, preceded by as many frames as make them steady.
fn losses(step: Rate, frames: usize) -> [Job; 3] {
    let [all, key, predicted_share] = LOSS_STEPS.map(|steps| times(step, steps));
    let start = steady_from(frames);
    let with = |within: Step| {
        let mut job = predicted(0, (start + COURSE).min(frames), all, all);
        LOSS.filter(|frame| start + frame < frames).for_each(|frame| job.steps[start + frame] = within);
        job
    };
    [with(Step::Predicted(all)), with(Step::Key(key)), with(Step::Predicted(predicted_share))]
}

/// Frames of Fig. 4.7a after which its loss is over.
pub fn loss_ends() -> usize {
    LOSS.end() + 1
}

/// What the thesis' settings (section 4.5.3: 20 rates, a clip of 20 s at 60 Hz, 100 places, 1 s each) would
/// cost, in seconds of video to be coded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Every schedule of one place: rates before, during, splits and lengths, each with a second before and
    /// after.
    pub brute_force: f64,
    /// Key frames, for the black-box model.
    pub key: f64,
    /// Streams that rise and fall, for it.
    pub runs: f64,
}

/// The cost as [`Plan`] has it.
pub fn thesis_cost() -> Cost {
    const FPS: usize = 60;
    const RATES: usize = 20;
    const FRAMES: usize = 20 * FPS;
    let rates: Vec<Rate> = (1..=RATES as u64).map(Rate::from_mbps).collect();
    let spacing = FRAMES / 100;
    let plan = Plan { rates, spacing, length: FPS, schedules: 0, schedule_frames: 0, seed: 1 };
    let seconds = |jobs: &mut dyn Iterator<Item = Job>| {
        jobs.map(|job| job.steps.len()).sum::<usize>() as f64 / FPS as f64
    };
    let jobs = plan.jobs(FRAMES);
    let is_key = |job: &Job| job.steps.iter().all(|step| matches!(step, Step::Key(_)));
    let whole = |job: &Job| job.steps.len() == FRAMES;
    Cost {
        // Splits and lengths as the thesis rounds them: ten each.
        brute_force: (RATES * RATES * 10 * 10 * 2) as f64,
        key: seconds(&mut jobs.iter().filter(|job| is_key(job) && whole(job)).cloned()),
        runs: seconds(&mut jobs.iter().filter(|job| !whole(job)).cloned()),
    }
}

#[cfg(test)]
mod tests {
    use media::{SyntheticConfig, SyntheticGame};
    use units::Span;

    use super::*;
    use crate::encodes::Coder;

    #[test]
    fn a_survey_finds_its_own_codings_again() {
        let config = SyntheticConfig {
            frames: Some(48),
            interval: Span::from_millis(40),
            ..SyntheticConfig::new(96, 64)
        };
        let footage = Footage::of("game".to_owned(), &mut SyntheticGame::new(config), 64).unwrap();
        let goal = Goal { horizon: 10, frames: 4, ..Goal::default() };
        let survey = Survey { steps: 20, quick: true, schedules: (2, 1), loss: true, goal };
        let folder = std::env::temp_dir().join(format!("framewire-prism-survey-{}", std::process::id()));
        let workshop = Workshop { coder: Coder::OpenH264, folder: folder.clone(), threads: 2 };
        let jobs = survey.jobs(&footage);
        let seen = survey.look(footage, &workshop, &|_| ()).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((seen.insertion.ssim.len(), seen.change.ssim.len(), seen.loss.ssim.len()), (3, 2, 3));
        assert_eq!((seen.course_start(), seen.places().count()), (24, 1));
        assert!(seen.errors.model.len() >= 2 * 20);
        let of_loss = &jobs[jobs.len() - 3..];
        assert_eq!(of_loss[1].steps.iter().filter(|step| matches!(step, Step::Key(_))).count(), 1 + 6);
        assert!(seen.loss.ssim[0][..29] == seen.loss.ssim[1][..29] && seen.loss.ssim[0] != seen.loss.ssim[1]);
    }

    #[test]
    fn the_thesis_settings_cost_what_it_says() {
        let cost = thesis_cost();
        assert_eq!((cost.brute_force, cost.key), (80_000.0, 400.0));
        // The last places have less than a second left.
        assert!((3_900.0..=4_000.0).contains(&cost.runs), "{}", cost.runs);
    }
}
