//! The decision table: what a sender that recovers from a loss spends on key frames, and what on the
//! predicted stream, looked up in a microsecond.
//!
//! ```text
//!   (rate before, rate during, frame of the recovery) -> rate of key frames; the rest is the predicted
//! stream's
//! ```
//!
//! Rates stand on a grid, 1 to `steps` times `step`. Between its points the key frames' *share* of the rate
//! is interpolated, over both rates; points at which everything goes into key frames are a decision of their
//! own and are not mixed with the others: the nearer kind wins. Outside the grid the nearest point counts.
//!
//! A table is made from pictures of one size and frame rate. For others its rates are scaled, see
//! [`Table::fitted`].

use std::path::Path;
use std::sync::Arc;

use units::{Rate, Span};

use crate::file;

/// Widest grid that a file may have: 64 x 64 points are 4,096 lines.
pub const MOST_STEPS: usize = 64;
/// Longest recovery that a file may describe, in frames: 2 s at 60 Hz. Prism gives up long before.
pub const MOST_FRAMES: usize = 120;
/// How a rate grows with the pixels of a second for the same quality: the rule of thumb of those who encode
/// for streaming, that 4 times the pixels take 2.8 times the rate.
const PIXEL_EXPONENT: f64 = 0.75;

/// Size and frame rate of a stream of pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pictures {
    /// Columns, in pixels.
    pub width: u32,
    /// Rows, in pixels.
    pub height: u32,
    /// Pictures a second.
    pub fps: f64,
}

impl Pictures {
    /// Those of the thesis: 1920x1080 at 60 Hz, for which it has 1 to 20 Mbit/s.
    pub const THESIS: Pictures = Pictures { width: 1920, height: 1080, fps: 60.0 };

    /// Pictures of this size, `interval` apart.
    pub fn new(width: u32, height: u32, interval: Span) -> Pictures {
        Pictures { width, height, fps: 1.0 / interval.as_secs_f64().max(1e-9) }
    }

    fn pixels(self) -> f64 {
        f64::from(self.width) * f64::from(self.height) * self.fps
    }

    /// What a rate for `other` pictures is multiplied with to be one for these: the ratio of the pixels in a
    /// second to the power of 0.75.
    ///
    /// Deviation: the thesis has one size and one frame rate, and says nothing of others.
    pub fn scale_from(self, other: Pictures) -> f64 {
        (self.pixels() / other.pixels()).powf(PIXEL_EXPONENT)
    }
}

/// How the rate of a recovery is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// For the stream of key frames, each of which is sent once.
    pub key: Rate,
    /// For the stream of predicted frames, which is sent reliably; zero if there is none.
    pub predicted: Rate,
}

impl Split {
    /// Everything into key frames: traditional recovery.
    pub fn key_only(rate: Rate) -> Split {
        Split { key: rate, predicted: Rate::ZERO }
    }

    /// Whether the predicted stream ends here.
    pub fn is_key_only(self) -> bool {
        self.predicted == Rate::ZERO
    }
}

/// A clip that a table was made from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Name of the clip's file.
    pub clip: String,
    /// Pictures of it that were used.
    pub frames: usize,
    /// Fingerprint of those pictures as they were coded.
    pub fingerprint: String,
}

/// What a table was made for and from.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Kind of content, one word.
    pub style: String,
    /// The clips that were coded for it.
    pub origins: Vec<Origin>,
    /// The encoder that coded them.
    pub encoder: String,
    /// The pictures that its rates are for.
    pub pictures: Pictures,
    /// Frames after the recovery over which quality counts (the thesis' K).
    pub horizon: usize,
    /// Weight of true losses against false alarms, 0 to 1 (the thesis' w).
    pub weight: f64,
    /// Places in the clips over which the objective was averaged.
    pub starts: usize,
}

/// A decision table, complete and consistent: whatever rates are asked for, it has an answer.
///
/// ```
/// use framewire_prism::Table;
/// use units::Rate;
///
/// let table = Table::global();
/// let during = Rate::from_kbps(1_500);
/// let split = table.split(Rate::from_kbps(2_000), during, 0);
/// assert_eq!(split.key.as_bps() + split.predicted.as_bps(), during.as_bps());
/// // After the longest recovery it describes only key frames are left.
/// assert!(table.split(during, during, table.frames()).is_key_only());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    about: About,
    step: Rate,
    steps: usize,
    frames: usize,
    /// Steps of key frames for each rate before, rate during and frame, in this order.
    key: Vec<u8>,
}

/// Why a table can't be used, in one line: which file, where in it, what is there, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {found}; {remedy}")]
pub struct TableError {
    /// The file as it was named.
    pub file: String,
    /// Line and column, or the field.
    pub place: String,
    /// What is wrong there.
    pub found: String,
    /// What would be right, or how to get it.
    pub remedy: String,
}

impl Table {
    /// A table of these decisions: for each rate before, rate during and frame of the recovery, in this
    /// order, how many steps go into key frames, of 1 up to all of the rate during.
    ///
    /// # Panics
    /// If a bound is broken or the decisions are too few, too many or out of their range: [`Table::parse`] is
    /// for what comes from outside.
    pub fn new(about: About, step: Rate, steps: usize, frames: usize, key: Vec<u8>) -> Table {
        assert!(
            (1..=MOST_STEPS).contains(&steps) && (1..=MOST_FRAMES).contains(&frames) && step > Rate::ZERO
        );
        assert_eq!(key.len(), steps * steps * frames);
        let table = Table { about, step, steps, frames, key };
        let fine = |(before, during)| {
            table.row(before, during).iter().all(|&x| (1..=during).contains(&usize::from(x)))
        };
        assert!(table.points().all(fine), "a decision is out of its range");
        table
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`TableError`] if there is no such file, or it holds anything but a table of this version.
    pub fn read(path: &Path) -> Result<Table, TableError> {
        file::read(path)
    }

    /// A table from the text of a file; `name` stands for the file in errors.
    ///
    /// # Errors
    /// [`TableError`] if the text is anything but a table of this version.
    pub fn parse(text: &str, name: &str) -> Result<Table, TableError> {
        file::parse(text, name)
    }

    /// The text of its file: JSON with a line for each pair of rates.
    pub fn to_json(&self) -> String {
        file::text(self)
    }

    /// What it was made for and from.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Distance of two rates of its grid, and the lowest of them.
    pub fn step(&self) -> Rate {
        self.step
    }

    /// Rates of its grid.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Frames of the longest recovery that it describes (the thesis' D). After them only key frames are sent.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Every pair of rates of the grid, before and during, in steps from 1.
    pub(crate) fn points(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let steps = self.steps;
        (1..=steps).flat_map(move |before| (1..=steps).map(move |during| (before, during)))
    }

    /// The decisions at a point of the grid, both rates in steps from 1: steps of key frames, frame by frame.
    ///
    /// # Panics
    /// If the point is not of the grid.
    pub fn row(&self, before: usize, during: usize) -> &[u8] {
        assert!((1..=self.steps).contains(&before) && (1..=self.steps).contains(&during));
        let at = ((before - 1) * self.steps + during - 1) * self.frames;
        &self.key[at..at + self.frames]
    }

    /// The split of the rate `during` for a frame of the recovery, counted from 0, after a stream of the rate
    /// `before`. The two parts add up to `during`.
    pub fn split(&self, before: Rate, during: Rate, frame: usize) -> Split {
        if frame >= self.frames {
            return Split::key_only(during);
        }
        let (before, during_at) = (self.place(before), self.place(during));
        let (mut split, mut whole) = ((0.0, 0.0), 0.0);
        for (b, by_before) in before {
            for (d, by_during) in during_at {
                let (weight, x) = (by_before * by_during, usize::from(self.row(b, d)[frame]));
                if x == d {
                    whole += weight;
                } else {
                    split = (split.0 + weight, split.1 + weight * x as f64 / d as f64);
                }
            }
        }
        if whole >= split.0 {
            return Split::key_only(during);
        }
        let key = during.mul_f64(split.1 / split.0).min(during);
        Split { key, predicted: Rate::from_bps(during.as_bps() - key.as_bps()) }
    }

    /// The two points of the grid around a rate and their weights, which add up to one.
    fn place(&self, rate: Rate) -> [(usize, f64); 2] {
        let at = (rate.as_f64() / self.step.as_f64()).clamp(1.0, self.steps as f64);
        let low = (at as usize).min(self.steps.max(2) - 1);
        let part = at - low as f64;
        [(low, 1.0 - part), ((low + 1).min(self.steps), part)]
    }

    /// This table for a stream of other pictures: its rates are multiplied with
    /// [`Pictures::scale_from`].
    pub fn fitted(self: Arc<Table>, pictures: Pictures) -> Fitted {
        let scale = pictures.scale_from(self.about.pictures);
        Fitted { table: self, scale: if scale.is_finite() && scale > 0.0 { scale } else { 1.0 } }
    }
}

/// A table as a sender of pictures of another size or frame rate uses it.
#[derive(Clone, Debug)]
pub struct Fitted {
    table: Arc<Table>,
    scale: f64,
}

impl Fitted {
    /// [`Table::split`] for the rates of these pictures.
    pub fn split(&self, before: Rate, during: Rate, frame: usize) -> Split {
        let of_table = |rate: Rate| rate.mul_f64(1.0 / self.scale);
        let (before, own) = (of_table(before), of_table(during));
        let split = self.table.split(before, own, frame);
        if split.is_key_only() || own == Rate::ZERO {
            return Split::key_only(during);
        }
        let key = during.mul_f64(split.key.as_f64() / own.as_f64()).min(during);
        Split { key, predicted: Rate::from_bps(during.as_bps() - key.as_bps()) }
    }

    /// The table that is looked up in.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn about() -> About {
        About {
            style: "test".to_owned(),
            origins: vec![Origin { clip: "a.y4m".to_owned(), frames: 200, fingerprint: "00ff".to_owned() }],
            encoder: "none".to_owned(),
            pictures: Pictures { width: 640, height: 360, fps: 30.0 },
            horizon: 60,
            weight: 0.5,
            starts: 12,
        }
    }

    /// A table whose decisions `decide` makes from the rates before and during and the frame.
    pub(crate) fn table(steps: usize, frames: usize, decide: impl Fn(usize, usize, usize) -> usize) -> Table {
        let mut key = Vec::new();
        for (before, during) in (1..=steps).flat_map(|b| (1..=steps).map(move |d| (b, d))) {
            key.extend((0..frames).map(|frame| decide(before, during, frame) as u8));
        }
        Table::new(about(), Rate::from_kbps(100), steps, frames, key)
    }

    const KBPS: fn(u64) -> Rate = Rate::from_kbps;

    #[test]
    fn points_of_the_grid_are_found_as_they_are() {
        let table = table(8, 3, |before, during, frame| ((before + frame) % during).max(1));
        for (before, during) in table.points() {
            for frame in 0..3 {
                let split = table.split(KBPS(100 * before as u64), KBPS(100 * during as u64), frame);
                let expected = 100 * ((before + frame) % during).max(1) as u64;
                assert_eq!(split.key, KBPS(expected), "{before} {during} {frame}");
                assert_eq!(split.predicted, KBPS(100 * during as u64 - expected));
            }
        }
    }

    #[test]
    fn between_points_the_share_is_interpolated() {
        // At 4 steps a quarter, at 5 two fifths: half way 32.5 %.
        let table = table(8, 1, |_, during, _| if during == 5 { 2 } else { 1 });
        let split = table.split(KBPS(300), KBPS(450), 0);
        assert_eq!((split.key.as_bps(), split.predicted.as_bps()), (146_250, 303_750));
    }

    #[test]
    fn key_frames_alone_are_not_mixed_with_a_split() {
        let table = table(8, 1, |_, during, _| if during <= 4 { during } else { 1 });
        assert!(table.split(KBPS(300), KBPS(440), 0).is_key_only());
        // The nearer kind wins, and none of the other gets into it: a fifth.
        assert_eq!(table.split(KBPS(300), KBPS(460), 0).key, KBPS(92));
    }

    #[test]
    fn outside_the_grid_the_nearest_point_counts() {
        let table = table(8, 2, |_, during, _| during.div_ceil(2));
        assert_eq!(table.split(KBPS(9_000), KBPS(8_000), 0).key, KBPS(4_000));
        // One step can't be split.
        assert_eq!(table.split(Rate::ZERO, KBPS(30), 1), Split::key_only(KBPS(30)));
        assert_eq!(table.split(KBPS(500), Rate::ZERO, 0), Split::key_only(Rate::ZERO));
        assert_eq!(table.split(Rate::MAX, Rate::MAX, 2), Split::key_only(Rate::MAX));
        assert_eq!(table.split(KBPS(500), KBPS(800), 2), Split::key_only(KBPS(800)));
    }

    #[test]
    fn a_table_of_one_rate_has_answers_too() {
        let table = table(1, 1, |_, _, _| 1);
        assert!(table.split(KBPS(50), KBPS(5_000), 0).is_key_only());
    }

    #[test]
    fn other_pictures_take_rates_by_their_pixels() {
        let table = Arc::new(table(8, 1, |_, during, _| during.div_ceil(4)));
        // Four times the pixels at the same frame rate: 2.83 times the rate.
        let fitted = table.clone().fitted(Pictures { width: 1280, height: 720, fps: 30.0 });
        let (before, during) = (KBPS(1_131), KBPS(2_263));
        assert!((fitted.scale - 2.828).abs() < 0.001);
        let (own, of_fitted) = (table.split(KBPS(400), KBPS(800), 0), fitted.split(before, during, 0));
        let share = |split: Split| split.key.as_f64() / (split.key.as_f64() + split.predicted.as_f64());
        assert!((share(own) - share(of_fitted)).abs() < 0.001);
        assert_eq!(of_fitted.key.as_bps() + of_fitted.predicted.as_bps(), during.as_bps());
        // The same pictures: the same answer.
        let same = table.clone().fitted(Pictures::new(640, 360, Span::from_secs_f64(1.0 / 30.0)));
        assert!((same.scale - 1.0).abs() < 1e-6);
        // Nonsense does not divide by zero.
        let none = table.fitted(Pictures { width: 0, height: 0, fps: f64::NAN });
        assert_eq!(none.scale, 1.0);
    }
}
