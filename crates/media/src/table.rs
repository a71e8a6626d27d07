//! What a real encoder made of a real clip, as numbers: size and quality of every frame at several bitrates.
//!
//! ```text
//!   curves[k] = { bps, bytes[frame], psnr_y[frame], psnr_avg[frame], ssim[frame] }      k = 0 .. rising bitrate
//! ```
//!
//! Between recorded bitrates everything is interpolated over the logarithm of the bitrate; outside them the
//! nearest recorded one counts. Tables are JSON: some ship with the crate (`shipped.rs`),
//! [`crate::record_table`] makes more. They hold derived numbers only, no picture.

use serde::{Deserialize, Serialize};
use units::Span;

use crate::Quality;

/// One bitrate of a [`Table`], a column per measure, all in integers to stay small.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Constant target in bit/s.
    pub bps: u64,
    /// Size of each frame in bytes; 0 if the encoder left it out.
    pub bytes: Vec<u32>,
    /// PSNR of luma in hundredths of a dB.
    pub psnr_y: Vec<u16>,
    /// PSNR over all planes in hundredths of a dB.
    pub psnr_avg: Vec<u16>,
    /// SSIM in ten-thousandths.
    pub ssim: Vec<i16>,
    /// Median size of a key frame over its budget at this bitrate; where it was not recorded,
    /// [`Fit::key_frame_ratio`] counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<f64>,
}

/// What a rate control counts its memory in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memorised {
    /// In frames, however long they last.
    Frames,
    /// In seconds of the target: a buffer.
    Seconds,
}

/// How a rate control pays back what it coded beyond its budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// What `payback` and `credit` are counted in.
    pub unit: Memorised,
    /// What is owed is paid back over so long, if the bounds allow it; 0 for an encoder without memory.
    pub payback: f64,
    /// Most that is saved for later frames.
    pub credit: f64,
    /// Share of its budget that a frame gets at least, ...
    pub least: f64,
    /// ... and at most.
    pub most: f64,
}

impl Memory {
    /// No memory: each frame gets its budget, whatever was coded before.
    pub const NONE: Memory =
        Memory { unit: Memorised::Frames, payback: 0.0, credit: 0.0, least: 1.0, most: 1.0 };
    /// OpenH264's, in its bitrate mode: it plans eight frames at a time (`VGOP_SIZE`), gives each 55 to 150 %
    /// of an even share (`iMinBitsTl`, `iMaxBitsTl`), and forgets with each plan what it saved. `credit` is
    /// fitted: of 0, 1, 2, 4 and 8 frames two come nearest to the codec's queue over the courses of
    /// [`crate::trajectory`], with a film and with a game.
    pub const OPENH264: Memory =
        Memory { unit: Memorised::Frames, payback: 8.0, credit: 2.0, least: 0.55, most: 1.5 };
    /// libvpx's at constant bitrate, as libwebrtc sets it up: half of what is missing to the optimal buffer
    /// of 0.6 s is taken off in that time, at most half of a frame; 0.4 s may be saved, and adds 7.5 % at
    /// most (`calc_pframe_target_size`: `percent_low` and `percent_high` over 200, with 100 and 15 % of
    /// under- and overshoot).
    pub const LIBVPX: Memory =
        Memory { unit: Memorised::Seconds, payback: 1.2, credit: 0.4, least: 0.5, most: 1.075 };

    /// `payback` and `credit` in frames of so many seconds.
    pub(crate) fn frames(&self, interval: f64) -> (f64, f64) {
        let unit = match self.unit {
            Memorised::Frames => 1.0,
            Memorised::Seconds => 1.0 / interval.max(1e-9),
        };
        (self.payback * unit, self.credit * unit)
    }

    /// Each number with its name and its range.
    pub(crate) fn fields(&self) -> [(&'static str, f64, f64, f64); 4] {
        [
            ("payback", self.payback, 0.0, 10_000.0),
            ("credit", self.credit, 0.0, 10_000.0),
            ("least", self.least, 0.01, 1.0),
            ("most", self.most, 1.0, 100.0),
        ]
    }

    fn sound(&self) -> bool {
        self.fields().iter().all(|(_, value, low, high)| (*low..=*high).contains(value))
    }
}

/// How the recorded encoder followed a target that changed with every frame: see [`crate::ModelConfig`] for
/// the fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Time constant towards a higher rate in seconds.
    pub lag_up_s: f64,
    /// Time constant towards a lower rate in seconds.
    pub lag_down_s: f64,
    /// Largest excess of a frame over its budget, as a fraction (99th percentile).
    pub overshoot: f64,
    /// Largest shortfall, as a fraction (1st percentile).
    pub undershoot: f64,
    /// Standard deviation of the logarithm of what is left unexplained of the sizes.
    pub size_noise: f64,
    /// Median size of a key frame over its budget, at the bitrates in the middle.
    pub key_frame_ratio: f64,
    /// How it pays back what it coded beyond its budget.
    pub memory: Memory,
}

/// A recorded clip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Name of the clip.
    pub clip: String,
    /// Whose clip it is, under which licence.
    pub credit: String,
    /// The encoder that was recorded.
    pub encoder: String,
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Time between pictures in nanoseconds.
    pub interval_ns: u64,
    /// Frames that begin a new scene, rising.
    pub cuts: Vec<u32>,
    /// How it followed a changing target.
    pub fit: Fit,
    /// Constant targets in bit/s, rising, and the mean quantiser index, 0 to 127, of the pictures that VP8
    /// coded at each: below the curves, too, where it leaves some out. Empty where it was not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantisers: Vec<(u64, u8)>,
    /// What was recorded, by rising bitrate.
    pub curves: Vec<Curve>,
    /// Logarithms of the curves' bitrates.
    #[serde(skip)]
    pub(crate) levels: Vec<f64>,
    /// What the encoder owed before each frame of each curve, in budgets of a frame.
    #[serde(skip)]
    pub(crate) owed: Vec<Vec<f32>>,
}

/// A table that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}")]
pub struct TableError {
    /// The file, or the table's name.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
}

/// Most frames in a table: an hour at 60 Hz, far beyond what is recorded.
const MAX_FRAMES: usize = 216_000;

impl Fit {
    fn sound(&self) -> bool {
        let times = [self.lag_up_s, self.lag_down_s, self.overshoot, self.size_noise];
        times.iter().all(|v| (0.0..100.0).contains(v))
            && (0.0..=1.0).contains(&self.undershoot)
            && (0.1..1000.0).contains(&self.key_frame_ratio)
            && self.memory.sound()
    }
}

impl Table {
    /// Reads a table. `file` names it in errors.
    ///
    /// # Errors
    /// [`TableError`] if it isn't JSON of this shape or its columns contradict each other.
    pub fn parse(json: &str, file: &str) -> Result<Table, TableError> {
        let refuse = |what: String| TableError { file: file.to_owned(), what };
        let mut table: Table = serde_json::from_str(json).map_err(|error| refuse(error.to_string()))?;
        table.check().map_err(refuse)?;
        table.prepare();
        Ok(table)
    }

    /// Works out what lookups need; after every change of the curves.
    pub(crate) fn prepare(&mut self) {
        self.levels = self.curves.iter().map(|curve| (curve.bps as f64).ln()).collect();
        let seconds = self.interval_ns as f64 / 1e9;
        let (_, credit) = self.fit.memory.frames(seconds);
        let course = |curve: &Curve| {
            let budget = curve.bps as f64 * seconds / 8.0;
            let mut owed = 0.0;
            let step = |&bytes: &u32| {
                let before = owed as f32;
                owed = (owed + f64::from(bytes) / budget - 1.0).max(-credit);
                before
            };
            curve.bytes.iter().map(step).collect()
        };
        self.owed = self.curves.iter().map(course).collect();
    }

    fn check(&self) -> Result<(), String> {
        let frames = self.frames();
        if !(1..=MAX_FRAMES).contains(&frames) {
            return Err(format!("{frames} frames; 1 to {MAX_FRAMES} are possible"));
        }
        if !(1_000_000..=100_000_000_000).contains(&self.interval_ns) {
            return Err(format!("interval_ns is {}; 1 ms to 100 s are possible", self.interval_ns));
        }
        if self.curves.first().is_none_or(|c| c.bps == 0)
            || self.curves.windows(2).any(|w| w[0].bps >= w[1].bps)
        {
            return Err("curves need rising bitrates above zero".to_owned());
        }
        if self.quantisers.first().is_some_and(|&(bps, _)| bps == 0)
            || self.quantisers.windows(2).any(|w| w[0].0 >= w[1].0)
        {
            return Err("quantisers need rising bitrates above zero".to_owned());
        }
        for curve in &self.curves {
            let others = [curve.psnr_y.len(), curve.psnr_avg.len(), curve.ssim.len()];
            if curve.bytes.len() != frames || others != [frames; 3] {
                return Err(format!("columns of different lengths at {} bit/s", curve.bps));
            }
            if curve.key.is_some_and(|key| !(0.1..1000.0).contains(&key)) {
                return Err(format!("key is out of range at {} bit/s", curve.bps));
            }
            if curve.bytes.iter().all(|&bytes| bytes == 0) {
                return Err(format!("no frame has any bytes at {} bit/s", curve.bps));
            }
        }
        if self.fit.sound() { Ok(()) } else { Err(format!("{:?} is out of range", self.fit)) }
    }

    /// The table as JSON on few lines, one a curve.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string(self).expect("a table has no keys that are not strings");
        text.replace("{\"bps\"", "\n{\"bps\"") + "\n"
    }

    /// Frames recorded.
    pub fn frames(&self) -> usize {
        self.curves.first().map_or(0, |curve| curve.bytes.len())
    }

    /// Time between pictures.
    pub fn interval(&self) -> Span {
        Span::from_nanos(self.interval_ns as i64)
    }

    /// Whether `frame` (counted on through repetitions of the clip) begins a new scene.
    pub fn is_cut(&self, frame: u32) -> bool {
        self.cuts.binary_search(&(frame % self.frames() as u32)).is_ok()
    }

    /// The two curves around the logarithm of a bitrate and the share of the second.
    fn around(&self, level: f64) -> (&Curve, &Curve, f64) {
        let (low, high, share) = self.places(level);
        (&self.curves[low], &self.curves[high], share)
    }

    /// The places of those two curves, and the share.
    fn places(&self, level: f64) -> (usize, usize, f64) {
        let above = self.levels.iter().take_while(|&&l| l < level).count();
        let (low, high) = (above.saturating_sub(1), above.min(self.levels.len() - 1));
        let share = if low == high {
            0.0
        } else {
            (level - self.levels[low]) / (self.levels[high] - self.levels[low])
        };
        (low, high, share)
    }

    /// What the recorded encoder owed before a frame, in budgets of a frame, by the logarithm of the bitrate.
    pub(crate) fn owed_at(&self, frame: u32, level: f64) -> f64 {
        let index = frame as usize % self.frames();
        let (low, high, share) = self.places(level);
        f64::from(self.owed[low][index]) * (1.0 - share) + f64::from(self.owed[high][index]) * share
    }

    /// Size of a frame relative to its budget at a constant bitrate in bit/s: its complexity weight, as the
    /// encoder felt it. 0 if the encoder left it out; between two bitrates at one of which it did, the nearer
    /// decides.
    pub fn weight(&self, frame: u32, bps: f64) -> f64 {
        self.weight_at(frame, bps.ln())
    }

    /// [`Table::weight`] by the logarithm of the bitrate.
    pub(crate) fn weight_at(&self, frame: u32, level: f64) -> f64 {
        let index = frame as usize % self.frames();
        let (low, high, share) = self.around(level);
        let ratio = |curve: &Curve| f64::from(curve.bytes[index]) / curve.bps as f64;
        let share = if low.bytes[index].min(high.bytes[index]) == 0 { share.round() } else { share };
        (ratio(low) * (1.0 - share) + ratio(high) * share) * (8e9 / self.interval_ns as f64)
    }

    /// Size of a key frame over its budget at the logarithm of a bitrate.
    pub(crate) fn key_ratio_at(&self, level: f64) -> f64 {
        let (low, high, share) = self.around(level);
        let of = |curve: &Curve| curve.key.unwrap_or(self.fit.key_frame_ratio);
        of(low) * (1.0 - share) + of(high) * share
    }

    /// Quality of a frame at a constant bitrate in bit/s.
    pub fn quality(&self, frame: u32, bps: f64) -> Quality {
        self.quality_at(frame, bps.ln())
    }

    /// [`Table::quality`] by the logarithm of the bitrate.
    pub(crate) fn quality_at(&self, frame: u32, level: f64) -> Quality {
        let index = frame as usize % self.frames();
        let (low, high, share) = self.around(level);
        let mix = |a: f64, b: f64| a + (b - a) * share;
        let hundredths = |a: u16, b: u16| mix(f64::from(a), f64::from(b)) / 100.0;
        Quality {
            psnr_y: hundredths(low.psnr_y[index], high.psnr_y[index]),
            psnr_avg: hundredths(low.psnr_avg[index], high.psnr_avg[index]),
            ssim: mix(f64::from(low.ssim[index]), f64::from(high.ssim[index])) / 10_000.0,
        }
    }

    /// Mean quantiser index at the logarithm of a constant bitrate, where it was recorded.
    pub(crate) fn quantiser_at(&self, level: f64) -> Option<u8> {
        let at = |&(bps, quantiser): &(u64, u8)| ((bps as f64).ln(), f64::from(quantiser));
        let above = self.quantisers.iter().position(|point| at(point).0 >= level);
        let last = self.quantisers.len().checked_sub(1)?;
        let (low, high) = (above.unwrap_or(last).saturating_sub(1), above.unwrap_or(last));
        let ((from, coarse), (to, fine)) = (at(&self.quantisers[low]), at(&self.quantisers[high]));
        let share = if to > from { ((level - from) / (to - from)).clamp(0.0, 1.0) } else { 1.0 };
        Some((coarse + (fine - coarse) * share).round() as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Table {
        let curve = |bps: u64, psnr: u16| Curve {
            bps,
            bytes: vec![(bps / 8 / 25) as u32, (bps / 8 / 50) as u32],
            psnr_y: vec![psnr, psnr + 100],
            psnr_avg: vec![psnr, psnr + 100],
            ssim: vec![9_000, 9_500],
            key: None,
        };
        let mut table = Table {
            clip: "tiny".to_owned(),
            credit: "nobody".to_owned(),
            encoder: "none".to_owned(),
            width: 64,
            height: 64,
            interval_ns: 40_000_000,
            cuts: vec![0],
            fit: Fit {
                lag_up_s: 0.0,
                lag_down_s: 0.0,
                overshoot: 0.5,
                undershoot: 0.5,
                size_noise: 0.1,
                key_frame_ratio: 3.0,
                memory: Memory::OPENH264,
            },
            quantisers: vec![(500_000, 80), (2_000_000, 40)],
            curves: vec![curve(1_000_000, 3_000), curve(4_000_000, 4_000)],
            levels: Vec::new(),
            owed: Vec::new(),
        };
        table.prepare();
        table
    }

    #[test]
    fn quality_is_interpolated_over_the_logarithm() {
        let table = tiny();
        assert!((table.quality(0, 2e6).psnr_y - 35.0).abs() < 1e-9);
        assert!((table.quality(1, 1e6).psnr_y - 31.0).abs() < 1e-9);
        assert_eq!(table.quality(0, 1e3), table.quality(0, 1e6));
        assert_eq!(table.quality(2, 9e9), table.quality(0, 4e6));
        assert!((table.weight(1, 2e6) - 0.5).abs() < 1e-9);
        assert!(table.is_cut(4) && !table.is_cut(5));
    }

    #[test]
    fn quantisers_are_interpolated_over_the_logarithm() {
        let table = tiny();
        let at = |mbps: f64| table.quantiser_at((mbps * 1e6).ln());
        assert_eq!([0.1, 0.5, 1.0, 2.0, 9.0].map(at), [80, 80, 60, 40, 40].map(Some));
        assert_eq!(Table { quantisers: Vec::new(), ..table }.quantiser_at(1.0), None);
    }

    #[test]
    fn key_frames_are_by_the_bitrate_where_that_was_recorded() {
        let mut table = tiny();
        table.curves[0].key = Some(8.0);
        let at = |mbps: f64| table.key_ratio_at((mbps * 1e6).ln());
        assert!([0.5, 2.0, 4.0].map(at).into_iter().zip([8.0, 5.5, 3.0]).all(|(a, b)| (a - b).abs() < 1e-9));
    }

    #[test]
    fn a_frame_is_left_out_near_the_rate_at_which_it_was() {
        let mut table = tiny();
        table.curves[0].bytes[1] = 0;
        let at = |mbps: f64| table.weight(1, mbps * 1e6);
        assert_eq!([0.5, 1.0, 1.9, 2.1, 4.0].map(at), [0.0, 0.0, 0.0, 0.5, 0.5]);
        assert!(table.weight(0, 1e6) > 0.0);
    }

    #[test]
    fn tables_survive_json() {
        let table = tiny();
        assert_eq!(Table::parse(&table.to_json(), "x"), Ok(table));
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        let said = |spoil: &dyn Fn(&mut Table)| {
            let mut table = tiny();
            spoil(&mut table);
            Table::parse(&table.to_json(), "t.json").unwrap_err().to_string()
        };
        assert!(
            said(&|t| t.curves[1].ssim.truncate(1))
                .starts_with("t.json: columns of different lengths at 4000000")
        );
        assert!(said(&|t| t.curves.reverse()).contains("rising"));
        assert!(said(&|t| t.quantisers.reverse()).contains("quantisers"));
        assert!(said(&|t| t.curves.clear()).contains("0 frames"));
        assert!(said(&|t| t.curves[0].bytes.fill(0)).contains("no frame has any bytes at 1000000"));
        assert!(said(&|t| t.interval_ns = 0).contains("interval_ns"));
        assert!(said(&|t| t.fit.undershoot = 1.5).contains("out of range"));
        let said = Table::parse("{\"clip\": 3}", "u.json").unwrap_err().to_string();
        assert!(said.starts_with("u.json:") && said.contains("line 1"), "{said}");
    }
}
