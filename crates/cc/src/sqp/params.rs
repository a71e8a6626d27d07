//! SQP's parameters: the paper's, and the preset for paths the paper's form can't take.

use units::{Rate, Span};

use crate::{OptionError, Options};

/// Longest [`Params::hold`]: what is kept for it stays small.
const MOST_HOLD: Span = Span::from_secs(1);

/// The options and what they say.
pub const OPTIONS: &[(&str, &str)] = &[
    ("target", "T, share of a sample that is aimed for, 0.3 to 1 (default 0.9)"),
    ("pace", "m, bursts leave at this multiple of the estimate, 1.1 to 8 (default 2)"),
    ("step", "delta, bit/s of one update, such as 320kbit"),
    ("reward", "r, weight of a higher estimate, 0.01 to 4 (default 0.25)"),
    ("window", "minimum one-way delay is kept for this many sRTT, 0.5 to 16 (default 2)"),
    ("jitter", "frames start up to this much early or late, such as 1ms (default 0ms)"),
    ("jitter_share", "the same as a share of the frame interval, 0 to 0.5 (default 0; robust 0.0625)"),
    ("undershoot", "eq. 2: extrapolate frames smaller than the estimate, on or off (default on)"),
    ("exclude_first", "leave the first packet out of the sample's size, on or off (default off)"),
    ("excess", "most by which few packets overstate the rate, as a share (default inf; robust 0.5)"),
    ("scale_step", "scale delta by frame interval / 16.67 ms, on or off (default off; robust on)"),
    ("gain", "most that a round trip's steps are of the estimate, from 0.01 (default inf; robust 3)"),
    ("memory", "share of a standing queue that the window does not forget, 0 to 1 (default 0; robust 0.02)"),
    ("lone", "the same for a burst of one packet; of n, over n squared, 0 to 1 (default 0; robust 0.25)"),
    ("loss", "of packets lost while a queue stands, each counts as so many, 1 to 8 (default 1; robust 4)"),
    ("flight", "frame intervals in flight beyond the least round trip, from 0.5 (default inf; robust 1)"),
    ("slack", "and so many times the mean wait of a frame's first packet, 0 to 32 (default 0; robust 3)"),
    ("hold", "the window is by the highest estimate of so long, up to 1s (default 0ms; robust 100ms)"),
    ("once", "frames sent at one estimate halve it at most once, on or off (default off; robust on)"),
    (
        "pauses",
        "what was carried while the link paused bounds the estimate, on or off (default off; robust on)",
    ),
    ("overdue", "a frame not heard of bounds the estimate, on or off (default off; robust on)"),
    (
        "proven",
        "a frame of one packet shows m times the rate it was sent at, and no more, on or off (default off; robust on)",
    ),
    ("floor", "share of what has arrived of late that samples leave, 0 to 1 (default 0; robust 0.5)"),
    (
        "lossy",
        "the window has room for what random losses keep in flight, on or off (default off; robust on)",
    ),
];

/// SQP's parameters; [`Default`] is the paper's (sections 4.3 to 4.5, 6.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// T: share of a sample that is aimed for.
    pub target: f64,
    /// m: bursts leave at this multiple of the estimate.
    pub pace: f64,
    /// delta of eq. 4, in bit/s per frame.
    pub step: f64,
    /// r of eq. 4.
    pub reward: f64,
    /// The minimum one-way delay is kept for this many smoothed round-trip times.
    pub window: f64,
    /// Frames start up to this much before or after their nominal time (section 5.2, footnote 5).
    pub jitter: Span,
    /// As `jitter`, as a share of the frame interval; the longer one counts.
    pub jitter_share: f64,
    /// Whether eq. 2 is used, which makes up for encoders that undershoot.
    pub undershoot: bool,
    /// Leave the first packet's bytes out of F: n packets have n - 1 gaps.
    pub exclude_first: bool,
    /// A sample exceeds what the burst showed by at most this share, because of the packet that has no gap;
    /// infinite: as printed.
    pub excess: f64,
    /// Scale delta with the frame interval, so that 30 frames/s ramp as fast as 60.
    pub scale_step: bool,
    /// The steps of a round trip are at most this share of the estimate; above delta in proportion to its
    /// square root only, below in proportion to its square. Infinite: as printed.
    pub gain: f64,
    /// This share of the delay that stands in the window's minimum above the smallest of the last minute
    /// counts as queue ...
    pub memory: f64,
    /// ... and of a burst of n packets this share over n squared, if that is more.
    pub lone: f64,
    /// Of packets lost while a queue stands, each counts as this many.
    pub loss: f64,
    /// The window is the estimate over the least round trip and this many frame intervals; infinite: a guard
    /// only.
    pub flight: f64,
    /// ... and this many times the mean wait of a frame's first packet.
    pub slack: f64,
    /// The window is by the highest estimate of so long.
    pub hold: Span,
    /// Frames sent at one estimate halve it at most once.
    pub once: bool,
    /// What was carried while the link paused bounds the estimate.
    pub pauses: bool,
    /// A frame that is not heard of bounds the estimate by what it shows so far.
    pub overdue: bool,
    /// A frame in one packet shows no more than `pace` times the rate that it was sent at.
    pub proven: bool,
    /// Samples leave this share of what has arrived of late.
    pub floor: f64,
    /// The window has room for what random losses keep in flight.
    pub lossy: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            target: 0.9,
            pace: 2.0,
            step: 320e3,
            reward: 0.25,
            window: 2.0,
            jitter: Span::ZERO,
            jitter_share: 0.0,
            undershoot: true,
            exclude_first: false,
            excess: f64::INFINITY,
            scale_step: false,
            gain: f64::INFINITY,
            memory: 0.0,
            lone: 0.0,
            loss: 1.0,
            flight: f64::INFINITY,
            slack: 0.0,
            hold: Span::ZERO,
            once: false,
            pauses: false,
            overdue: false,
            proven: false,
            floor: 0.0,
            lossy: false,
        }
    }
}

impl Params {
    /// The preset `sqp-robust`. The values are ours: of a few tried, those that held most of the grid of
    /// docs/sqp.md.
    pub fn robust() -> Params {
        Params {
            jitter_share: 1.0 / 16.0,
            excess: 0.5,
            scale_step: true,
            gain: 3.0,
            memory: 0.02,
            lone: 0.25,
            loss: 4.0,
            flight: 1.0,
            slack: 3.0,
            hold: Span::from_millis(100),
            once: true,
            pauses: true,
            overdue: true,
            proven: true,
            floor: 0.5,
            lossy: true,
            ..Params::default()
        }
    }

    /// Whether anything asks for the smallest delay of the last minute: whatever reads it belongs here, for
    /// it is not kept otherwise.
    pub(super) fn looks_back(&self) -> bool {
        let in_samples = self.memory > 0.0 || self.lone > 0.0 || self.loss > 1.0 || self.pauses;
        in_samples || self.gain.is_finite() || self.floor > 0.0 || self.lossy
    }

    /// These, changed by `options`.
    pub fn read(self, options: &Options) -> Result<Params, OptionError> {
        let d = self;
        let step = options.quantity("step", Rate::from_f64(d.step), "a rate such as 320kbit")?;
        Ok(Params {
            target: options.number("target", d.target, 0.3..=1.0)?,
            pace: options.number("pace", d.pace, 1.1..=8.0)?,
            step: step.as_f64(),
            reward: options.number("reward", d.reward, 0.01..=4.0)?,
            window: options.number("window", d.window, 0.5..=16.0)?,
            jitter: options.quantity("jitter", d.jitter, "a time such as 1ms")?,
            jitter_share: options.number("jitter_share", d.jitter_share, 0.0..=0.5)?,
            undershoot: options.switch("undershoot", d.undershoot)?,
            exclude_first: options.switch("exclude_first", d.exclude_first)?,
            excess: options.number("excess", d.excess, 0.0..=f64::INFINITY)?,
            scale_step: options.switch("scale_step", d.scale_step)?,
            gain: options.number("gain", d.gain, 0.01..=f64::INFINITY)?,
            lone: options.number("lone", d.lone, 0.0..=1.0)?,
            memory: options.number("memory", d.memory, 0.0..=1.0)?,
            loss: options.number("loss", d.loss, 1.0..=8.0)?,
            flight: options.number("flight", d.flight, 0.5..=f64::INFINITY)?,
            slack: options.number("slack", d.slack, 0.0..=32.0)?,
            hold: options.quantity("hold", d.hold, "a time such as 100ms")?.min(MOST_HOLD),
            once: options.switch("once", d.once)?,
            pauses: options.switch("pauses", d.pauses)?,
            overdue: options.switch("overdue", d.overdue)?,
            proven: options.switch("proven", d.proven)?,
            floor: options.number("floor", d.floor, 0.0..=1.0)?,
            lossy: options.switch("lossy", d.lossy)?,
        })
    }
}
