//! How good a frame becomes, without coding it: the thesis' black-box model of an encoder (section 4.5.3.1).
//!
//! A key frame's quality depends on its rate and its picture. A predicted frame's depends on the quality of
//! the frame before it, too: for each rate and each frame there is a map from the one to the other. It is
//! known where recorded streams went through this frame and those around it:
//!
//! ```text
//!   distance       |          _.-o  began with a very bad frame
//!   from the       |    _.-o''
//!   steady stream, |_o''           streams that are older are nearer to the steady one, at (0, 0)
//!   this frame     o  began with a very good frame
//!                  +--------------------- distance from the steady stream, the frame before
//! ```
//!
//! The distance is the logarithm of the ratio of distortions, 1 - SSIM: what makes one frame harder than the
//! next makes it harder for every stream, and cancels. Between recorded points the map is linear; it never
//! falls. Between recorded rates, qualities are linear in the logarithm of the rate.
//!
//! Deviation: the thesis calls its combination of trajectories a vector field over frame and quality and does
//! not print it. Here each frame has its map, from the transitions of [`NEAR`] frames on both sides.

use units::Rate;

/// Qualities of coded frames: SSIM as the codecs' measure has it (raw, of all planes), but any measure will
/// do that is larger for better pictures.
pub trait Quality {
    /// Frames of the clip.
    fn frames(&self) -> usize;
    /// Of this frame as a key frame at this rate.
    fn key(&self, rate: Rate, frame: usize) -> f64;
    /// Of this frame as a predicted one at this rate, after a frame of quality `previous`.
    fn next(&self, rate: Rate, frame: usize, previous: f64) -> f64;
    /// Of this frame in a predicted stream that has had this rate for long.
    fn steady(&self, rate: Rate, frame: usize) -> f64;
}

/// What one frame of a schedule is coded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Predicted from the one before it, at this rate.
    Predicted(Rate),
    /// A key frame of this rate.
    Key(Rate),
}

impl Step {
    /// The rate that the frame is coded at, whatever kind it is.
    pub fn rate(self) -> Rate {
        let (Step::Predicted(rate) | Step::Key(rate)) = self;
        rate
    }
}

/// A predicted stream of one rate, whose first frame was coded as something else.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Index of its rate.
    pub rate: usize,
    /// Its first frame.
    pub start: usize,
    /// Quality of that one and of those that follow.
    pub ssim: Vec<f64>,
}

/// Everything that was recorded of one clip.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The rates, rising.
    pub rates: Vec<Rate>,
    /// Quality of each frame as a key frame, for each rate.
    pub key: Vec<Vec<f64>>,
    /// Quality of each frame in one predicted stream over the whole clip, for each rate.
    pub steady: Vec<Vec<f64>>,
    /// Streams that rise or fall to the steady state.
    pub runs: Vec<Run>,
}

/// Frames on both sides of one whose transitions its map is made of: half of the distance at which streams
/// begin by default, so that each map has seen every age of them.
const NEAR: usize = 7;

/// Least distortion that is told from none.
const NO_DISTORTION: f64 = 1e-6;

/// How far a quality is from that of the steady stream.
fn distance(quality: f64, steady: f64) -> f64 {
    ((1.0 - quality).max(NO_DISTORTION) / (1.0 - steady).max(NO_DISTORTION)).ln()
}

/// The quality that is so far from that of the steady stream.
fn at_distance(distance: f64, steady: f64) -> f64 {
    1.0 - (1.0 - steady).max(NO_DISTORTION) * distance.exp()
}

/// A map from the quality of one frame to that of the next.
#[derive(Clone, Debug, Default, PartialEq)]
struct Map {
    /// Rising in both.
    points: Vec<(f64, f64)>,
}

impl Map {
    fn through(mut points: Vec<(f64, f64)>) -> Map {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Map { points: rising(&points) }
    }

    fn at(&self, x: f64) -> f64 {
        let points = &self.points;
        match points.partition_point(|point| point.0 <= x) {
            // Outside what was seen, as steep as the map is on the whole.
            0 => points[0].1 + (x - points[0].0) * self.slope(),
            n if n == points.len() => points[n - 1].1 + (x - points[n - 1].0) * self.slope(),
            n => line(points[n - 1], points[n], x),
        }
    }

    /// Of the whole map, at most one: a difference of quality does not grow from frame to frame.
    fn slope(&self) -> f64 {
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        if last.0 > first.0 { ((last.1 - first.1) / (last.0 - first.0)).clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn line(a: (f64, f64), b: (f64, f64), x: f64) -> f64 {
    a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0)
}

/// The nearest course, by least squares, that never falls (pooling adjacent violators), through points in
/// rising order; those at the same place become one.
fn rising(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    /// Sums over points that became one.
    struct Pool {
        x: f64,
        y: f64,
        count: f64,
    }
    let mut pools: Vec<Pool> = Vec::with_capacity(points.len());
    for &(x, y) in points {
        let mut pool = Pool { x, y, count: 1.0 };
        while let Some(last) = pools.last() {
            let (ours, theirs) =
                ((pool.x / pool.count, pool.y / pool.count), (last.x / last.count, last.y / last.count));
            if theirs.0 < ours.0 && theirs.1 <= ours.1 {
                break;
            }
            pool = Pool { x: pool.x + last.x, y: pool.y + last.y, count: pool.count + last.count };
            pools.pop();
        }
        pools.push(pool);
    }
    pools.iter().map(|pool| (pool.x / pool.count, pool.y / pool.count)).collect()
}

/// The black-box model of one clip.
#[derive(Clone, Debug)]
pub struct Model {
    rates: Vec<Rate>,
    key: Vec<Vec<f64>>,
    steady: Vec<Vec<f64>>,
    /// For each rate, the map into each frame; that into the first is never asked for.
    maps: Vec<Vec<Map>>,
}

impl Model {
    /// The model that a recording gives.
    ///
    /// # Panics
    /// If there is no rate or no frame, or rates and columns differ in number or length.
    pub fn new(recording: &Recording) -> Model {
        let Recording { rates, key, steady, runs } = recording;
        assert!(
            !rates.is_empty() && rates.is_sorted() && key.len() == rates.len() && steady.len() == rates.len()
        );
        let frames = key[0].len();
        assert!(frames > 0 && key.iter().chain(steady).all(|column| column.len() == frames));
        let of_rate = |rate: usize| {
            let steady = &steady[rate];
            let mut points: Vec<Vec<(f64, f64)>> = vec![Vec::new(); frames];
            for run in runs.iter().filter(|run| run.rate == rate) {
                for (at, pair) in (run.start + 1..frames).zip(run.ssim.windows(2)) {
                    points[at].push((distance(pair[0], steady[at - 1]), distance(pair[1], steady[at])));
                }
            }
            let around = |at: usize| {
                let near = &points[at.saturating_sub(NEAR)..(at + NEAR + 1).min(frames)];
                Map::through(near.iter().flatten().copied().chain([(0.0, 0.0)]).collect())
            };
            (0..frames).map(around).collect()
        };
        Model {
            rates: rates.clone(),
            key: key.clone(),
            steady: steady.clone(),
            maps: (0..rates.len()).map(of_rate).collect(),
        }
    }

    /// A quality that is known at the recorded rates, at any rate.
    fn at_rate(&self, rate: Rate, quality: impl Fn(usize) -> f64) -> f64 {
        match self.rates.binary_search(&rate) {
            Ok(index) => quality(index),
            Err(0) => quality(0),
            Err(index) if index == self.rates.len() => quality(index - 1),
            Err(index) => {
                let log = |index: usize| self.rates[index].as_f64().ln();
                let (low, high) = ((log(index - 1), quality(index - 1)), (log(index), quality(index)));
                line(low, high, rate.as_f64().ln())
            }
        }
    }

    /// Beyond its end a clip stands still.
    fn within(&self, frame: usize) -> usize {
        frame.min(self.frames() - 1)
    }
}

impl Quality for Model {
    fn frames(&self) -> usize {
        self.key[0].len()
    }

    fn key(&self, rate: Rate, frame: usize) -> f64 {
        self.at_rate(rate, |index| self.key[index][self.within(frame)])
    }

    fn next(&self, rate: Rate, frame: usize, previous: f64) -> f64 {
        let frame = self.within(frame);
        if frame == 0 {
            return previous;
        }
        self.at_rate(rate, |index| {
            let (before, now) = (self.steady[index][frame - 1], self.steady[index][frame]);
            at_distance(self.maps[index][frame].at(distance(previous, before)), now)
        })
    }

    fn steady(&self, rate: Rate, frame: usize) -> f64 {
        self.at_rate(rate, |index| self.steady[index][self.within(frame)])
    }
}

/// Quality of each frame of a schedule that begins with frame `start`, after a frame of quality `previous`.
pub fn predict(quality: &dyn Quality, start: usize, previous: f64, steps: &[Step]) -> Vec<f64> {
    let mut last = previous;
    let steps = (start..).zip(steps);
    steps
        .map(|(frame, step)| {
            last = match *step {
                Step::Key(rate) => quality.key(rate, frame),
                Step::Predicted(rate) => quality.next(rate, frame, last),
            };
            last
        })
        .collect()
}

/// Remainders of the distance to the steady state after a frame that [`exponential`] tries.
const REMAINDERS: usize = 200;

/// The thesis' simpler model, against which its own is held (Fig. 4.10): the distance from the steady state
/// shrinks by the same factor with every frame. The factor is the one with which the sum of errors against
/// `truth` is smallest, as there: this model is told the answer.
pub fn exponential(
    quality: &dyn Quality,
    start: usize,
    previous: f64,
    steps: &[Step],
    truth: &[f64],
) -> Vec<f64> {
    let course = |remainder: f64| {
        let mut last = previous;
        let steps = (start..).zip(steps);
        let next = |(frame, step): (usize, &Step)| {
            last = match *step {
                Step::Key(rate) => quality.key(rate, frame),
                Step::Predicted(rate) => {
                    let steady = quality.steady(rate, frame);
                    steady + (last - steady) * remainder
                }
            };
            last
        };
        steps.map(next).collect::<Vec<f64>>()
    };
    let error = |course: &[f64]| course.iter().zip(truth).map(|(a, b)| (a - b).abs()).sum::<f64>();
    let courses = (0..REMAINDERS).map(|k| course(k as f64 / REMAINDERS as f64));
    courses.min_by(|a, b| error(a).total_cmp(&error(b))).expect("there are remainders to try")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Qualities by formula: what a rate gives in the long run, `key` times the rate for a key frame, and the
    /// share of the way to the steady state that a frame goes.
    pub(crate) struct Formula {
        pub key: f64,
        pub speed: f64,
    }

    fn long_run(mbps: f64) -> f64 {
        1.0 - 0.1 / (0.2 + mbps)
    }

    impl Quality for Formula {
        fn frames(&self) -> usize {
            200
        }
        fn key(&self, rate: Rate, _: usize) -> f64 {
            long_run(self.key * rate.as_f64() / 1e6)
        }
        fn next(&self, rate: Rate, _: usize, previous: f64) -> f64 {
            previous + (long_run(rate.as_f64() / 1e6) - previous) * self.speed
        }
        fn steady(&self, rate: Rate, _: usize) -> f64 {
            long_run(rate.as_f64() / 1e6)
        }
    }

    /// What would be recorded of a clip whose qualities follow a formula.
    fn recorded(formula: &Formula, rates: &[u64], frames: usize) -> Recording {
        let rates: Vec<Rate> = rates.iter().map(|&mbps| Rate::from_mbps(mbps)).collect();
        let all =
            |quality: &dyn Fn(Rate) -> f64| rates.iter().map(|&rate| vec![quality(rate); frames]).collect();
        let mut runs = Vec::new();
        for (index, &rate) in rates.iter().enumerate() {
            for (start, first) in (0..frames).step_by(10).flat_map(|start| [(start, 0.4), (start, 0.999)]) {
                let steps = vec![Step::Predicted(rate); 20.min(frames - start - 1)];
                let ssim = [vec![first], predict(formula, start + 1, first, &steps)].concat();
                runs.push(Run { rate: index, start, ssim });
            }
        }
        let key = all(&|rate| formula.key(rate, 0));
        let steady = all(&|rate| formula.steady(rate, 0));
        Recording { rates, key, steady, runs }
    }

    #[test]
    fn a_recorded_formula_is_found_again() {
        let formula = Formula { key: 0.3, speed: 0.25 };
        let model = Model::new(&recorded(&formula, &[1, 2, 4, 8, 16], 100));
        let steps: Vec<Step> = (0..80u64)
            .map(|k| {
                if k % 17 == 0 {
                    Step::Key(Rate::from_mbps(4))
                } else {
                    Step::Predicted(Rate::from_mbps(1 << (k / 9 % 5)))
                }
            })
            .collect();
        let (truth, found) = (predict(&formula, 5, 0.9, &steps), predict(&model, 5, 0.9, &steps));
        for (frame, (truth, found)) in truth.iter().zip(&found).enumerate() {
            // A line between two points is no exponential.
            assert!((truth - found).abs() < 5e-3, "frame {frame}: {truth} {found}");
        }
    }

    #[test]
    fn between_rates_qualities_follow_the_logarithm() {
        let model = Model::new(&recorded(&Formula { key: 0.3, speed: 0.25 }, &[1, 4], 50));
        let at = |mbps: u64| model.key(Rate::from_mbps(mbps), 3);
        assert!((at(2) - (at(1) + at(4)) / 2.0).abs() < 1e-12);
        assert_eq!((model.key(Rate::ZERO, 3), at(400)), (at(1), at(4)));
        assert!(model.next(Rate::from_mbps(2), 3, 0.8) > model.next(Rate::from_mbps(1), 3, 0.8));
    }

    #[test]
    fn maps_never_fall_and_go_on_beyond_their_ends() {
        let map = Map::through(vec![(0.9, 0.91), (0.5, 0.7), (0.6, 0.68), (0.6, 0.72), (0.95, 0.9)]);
        let course: Vec<f64> = (0..=100).map(|k| map.at(f64::from(k) / 100.0)).collect();
        assert!(course.is_sorted() && course.iter().all(|q| (0.3..1.0).contains(q)), "{course:?}");
        assert!(map.points.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let single = Map::through(vec![(0.5, 0.6)]);
        assert_eq!((single.at(0.1), single.at(0.9)), (0.6, 0.6));
    }

    #[test]
    fn what_decays_at_different_speeds_beats_the_exponential() {
        // Up to a better picture faster than down to a worse one.
        struct Uneven;
        impl Quality for Uneven {
            fn frames(&self) -> usize {
                100
            }
            fn key(&self, rate: Rate, frame: usize) -> f64 {
                Formula { key: 0.3, speed: 1.0 }.key(rate, frame)
            }
            fn next(&self, rate: Rate, frame: usize, previous: f64) -> f64 {
                let speed = if previous < self.steady(rate, frame) { 0.5 } else { 0.05 };
                Formula { key: 0.3, speed }.next(rate, frame, previous)
            }
            fn steady(&self, rate: Rate, frame: usize) -> f64 {
                Formula { key: 0.3, speed: 1.0 }.steady(rate, frame)
            }
        }
        let steps: Vec<Step> =
            (0..60u64).map(|k| Step::Predicted(Rate::from_mbps(if k % 20 < 10 { 1 } else { 8 }))).collect();
        let truth = predict(&Uneven, 1, 0.9, &steps);
        let naive = exponential(&Uneven, 1, 0.9, &steps, &truth);
        let worst = truth.iter().zip(&naive).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst > 0.005, "{worst}");
        // And it is exact where the world is exponential.
        let formula = Formula { key: 0.3, speed: 0.25 };
        let truth = predict(&formula, 1, 0.9, &steps);
        let same = exponential(&formula, 1, 0.9, &steps, &truth);
        assert!(truth.iter().zip(&same).all(|(a, b)| (a - b).abs() < 1e-9));
    }
}
