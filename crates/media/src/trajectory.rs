//! Targets that change in the ways in which controllers change them, and measures of what an encoder makes of
//! them. Shared by the tests that hold the encoder model against real encoders, and by
//! `examples/trajectories.rs`.

use units::{Rate, Span};

use crate::Coded;

/// What is asked for one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Target, as a share of the trajectory's base rate.
    pub share: f64,
    /// A key frame is due.
    pub key: bool,
}

/// A course of targets.
#[derive(Clone, Copy)]
pub struct Trajectory {
    /// Its name in tables.
    pub name: &'static str,
    /// How long it is.
    pub seconds: f64,
    /// What is asked for at a time in seconds; `key` is true of all times of the span in which one is due.
    pub shape: fn(f64) -> Wish,
}

impl Trajectory {
    /// What is asked for, frame by frame; the first is a key frame.
    pub fn wishes(&self, interval: Span) -> impl Iterator<Item = Wish> + use<'_> {
        let seconds = interval.as_secs_f64();
        let frames = (self.seconds / seconds).round() as usize;
        (0..frames).map(move |frame| {
            let wish = (self.shape)(frame as f64 * seconds);
            // A key frame is asked for once in each span in which one is due.
            let due = frame == 0 || wish.key && !(self.shape)((frame as f64 - 1.0) * seconds).key;
            Wish { key: due, ..wish }
        })
    }
}

fn rate(share: f64) -> Wish {
    Wish { share, key: false }
}

/// Targets in kbit/s every tenth of a second that SQP asked for under `live` in the first ten seconds of
/// `framewire demo --input synthetic`.
const SQP: [u16; 100] = [
    2894, 2894, 2842, 857, 1561, 1663, 1753, 2098, 2457, 3054, 3321, 3321, 3349, 3349, 4037, 4037, 4266,
    4155, 3717, 2471, 1813, 1178, 642, 281, 281, 684, 955, 1073, 1491, 1558, 1773, 2285, 2431, 2993, 3389,
    3686, 4003, 4248, 4487, 4678, 4767, 5218, 5131, 5031, 4900, 4547, 4258, 3557, 2805, 2747, 3168, 3232,
    3660, 3503, 4000, 4620, 4918, 4918, 5169, 5169, 5458, 5754, 5550, 5550, 5550, 5203, 4722, 4334, 3433,
    3529, 3815, 4070, 4361, 4652, 3618, 3824, 3824, 3824, 4021, 4021, 4021, 3896, 4249, 4446, 4469, 4872,
    4872, 4865, 4872, 5432, 5292, 5687, 6006, 6288, 6362, 6724, 6724, 7161, 7536, 8527,
];

/// Every course that is tried.
pub const ALL: &[Trajectory] = &[
    Trajectory { name: "steady", seconds: 12.0, shape: |_| rate(1.0) },
    Trajectory {
        name: "quarter",
        seconds: 12.0,
        shape: |t| rate(if (4.0..8.0).contains(&t) { 0.25 } else { 1.0 }),
    },
    Trajectory { name: "low", seconds: 16.0, shape: |t| rate(if t < 4.0 { 1.5 } else { 0.22 }) },
    Trajectory { name: "steps", seconds: 12.0, shape: |t| rate(0.25 * 2f64.powi((t / 3.0) as i32)) },
    Trajectory { name: "keys", seconds: 12.0, shape: |t| Wish { share: 1.0, key: t % 2.0 >= 1.0 } },
    Trajectory { name: "low keys", seconds: 12.0, shape: |t| Wish { share: 0.25, key: t % 3.0 >= 1.5 } },
    Trajectory {
        name: "saw",
        seconds: 12.0,
        // Ten times a second between a third and 1.67 of the base: a controller that wavers.
        shape: |t| rate(if ((t * 10.0) as u64).is_multiple_of(2) { 1.67 } else { 0.33 }),
    },
    Trajectory {
        name: "sqp",
        seconds: 10.0,
        shape: |t| rate(f64::from(SQP[((t * 10.0) as usize).min(SQP.len() - 1)]) / 3_900.0),
    },
];

/// What was asked for and what came out, frame by frame.
#[derive(Clone, Debug)]
pub struct Coding {
    /// Seconds between frames.
    pub interval: f64,
    /// Bits that each frame was asked to have.
    pub asked: Vec<f64>,
    /// Bits that came out.
    pub coded: Vec<f64>,
    /// Key frames among them.
    pub keys: usize,
}

impl Coding {
    /// Nothing yet, of frames `interval` apart.
    pub fn new(interval: Span) -> Coding {
        Coding { interval: interval.as_secs_f64(), asked: Vec::new(), coded: Vec::new(), keys: 0 }
    }

    /// Adds what became of one frame, which was asked for at the rate `asked`.
    pub fn push(&mut self, asked: Rate, coded: &Coded) {
        self.asked.push(asked.as_f64() * self.interval);
        self.coded.push(f64::from(coded.size) * 8.0);
        self.keys += usize::from(coded.key);
    }

    /// The frames from this many seconds on.
    pub fn after(&self, seconds: f64) -> Coding {
        let from = (seconds / self.interval) as usize;
        Coding { asked: self.asked[from..].to_vec(), coded: self.coded[from..].to_vec(), ..*self }
    }

    /// Mean of what was asked for, in bit/s.
    pub fn asked_rate(&self) -> f64 {
        self.asked.iter().sum::<f64>() / (self.asked.len() as f64 * self.interval)
    }

    /// Bits that came out over bits asked for.
    pub fn share(&self) -> f64 {
        self.coded.iter().sum::<f64>() / self.asked.iter().sum::<f64>()
    }

    /// Frames of no bytes.
    pub fn left_out(&self) -> usize {
        self.coded.iter().filter(|&&bits| bits == 0.0).count()
    }

    /// For each frame the time in seconds until a link that carries just what is asked for has carried it,
    /// beyond its own interval; frame by frame.
    pub fn queue_course(&self) -> Vec<f64> {
        let mut waiting = 0f64;
        let pairs = self.asked.iter().zip(&self.coded);
        pairs
            .map(|(asked, coded)| {
                waiting = (waiting + coded - asked).max(0.0);
                waiting / asked * self.interval
            })
            .collect()
    }

    /// [`Coding::queue_course`], sorted.
    pub fn queue(&self) -> Vec<f64> {
        let mut queue = self.queue_course();
        queue.sort_by(f64::total_cmp);
        queue
    }

    /// How far the 95th percentiles of two courses' queues are apart, as the logarithm of their ratio; 30 ms,
    /// a frame, count as none.
    pub fn apart(&self, other: &Coding) -> f64 {
        let at = |coding: &Coding| {
            let queue = coding.queue();
            queue[((queue.len() - 1) as f64 * 0.95) as usize] + 0.03
        };
        (at(self) / at(other)).ln().abs()
    }

    /// Bits that came out over bits asked for in each window of so many seconds, in order.
    pub fn window_course(&self, seconds: f64) -> Vec<f64> {
        let length = ((seconds / self.interval).round() as usize).clamp(1, self.asked.len());
        let windows = self.asked.windows(length).zip(self.coded.windows(length));
        windows.map(|(asked, coded)| coded.iter().sum::<f64>() / asked.iter().sum::<f64>()).collect()
    }

    /// [`Coding::window_course`], sorted.
    pub fn windows(&self, seconds: f64) -> Vec<f64> {
        let mut shares = self.window_course(seconds);
        shares.sort_by(f64::total_cmp);
        shares
    }
}
