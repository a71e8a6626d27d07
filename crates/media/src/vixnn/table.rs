//! What a ViXNN network made of a clip, as numbers: how each frame looks by the descriptors that are there.
//!
//! ```text
//!   by_count[n - 1] = { psnr_y[frame], ssim[frame] }     n of the eight descriptors are there, n = 1..8
//!   by_mask[mask - 1]: how much better these descriptors look than others of their number, mean of the clip
//!   held[k]         = { psnr_y[frame], ssim[frame] }     the picture of ages[k] frames before stands still
//! ```
//!
//! A frame of whose blocks different descriptors are there has the mean squared error of its blocks, each by
//! its descriptors, and their mean SSIM:
//! ```text
//!   10^(-psnr / 10) = sum over blocks of 10^(-(by_count[n] + by_mask[mask]) / 10) / blocks
//! ```
//! Blocks of which nothing came show an older picture: `held` at the mean of their ages, plus what this
//! frame's other blocks lose for lack of descriptors. Tables hold derived numbers only, no picture.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use units::Span;
use vixnn::DESCRIPTORS;

use super::is_size;
use crate::TableError;

/// Sets of descriptors: all but none.
pub(super) const MASKS: usize = 255;
/// Every descriptor, as bits.
const ALL: usize = MASKS;
/// Most frames in a table.
const MAX_FRAMES: usize = 216_000;

/// Qualities in integers: PSNR of luma in hundredths of a dB, SSIM in ten-thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qualities {
    /// PSNR of luma in hundredths of a dB.
    pub psnr_y: Vec<i16>,
    /// SSIM in ten-thousandths.
    pub ssim: Vec<i16>,
}

impl Qualities {
    pub(super) fn push(&mut self, look: VixnnLook) {
        self.psnr_y.push((look.psnr_y * 100.0).round() as i16);
        self.ssim.push((look.ssim * 10_000.0).round() as i16);
    }

    fn get(&self, index: usize) -> VixnnLook {
        let (psnr_y, ssim) = (f64::from(self.psnr_y[index]), f64::from(self.ssim[index]));
        VixnnLook { psnr_y: psnr_y / 100.0, ssim: ssim / 10_000.0 }
    }

    fn has(&self, count: usize) -> bool {
        self.psnr_y.len() == count && self.ssim.len() == count
    }
}

/// How a frame looks beside its original.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VixnnLook {
    /// PSNR of luma in dB, at most 60.
    pub psnr_y: f64,
    /// SSIM as [`crate::Quality`] has it.
    pub ssim: f64,
}

/// A clip as a ViXNN network shows it, whatever of it arrives.
///
/// ```
/// use framewire_media::VixnnTable;
///
/// let table = VixnnTable::by_name("big_buck_bunny").expect("it ships with the crate");
/// let mut blocks = [0; 256];
/// blocks[0b0000_0011] = 920; // Of each of the 920 blocks of 640x360 the first two descriptors came.
/// let two = table.look(0, &blocks, 0.0);
/// blocks = [0; 256];
/// blocks[0b1111_1111] = 920;
/// assert!(table.look(0, &blocks, 0.0).psnr_y > two.psnr_y + 1.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VixnnTable {
    /// Name of the clip.
    pub clip: String,
    /// Whose clip it is, under which licence.
    pub credit: String,
    /// The network that was recorded.
    pub model: String,
    /// Its fingerprint, which packets carry.
    pub fingerprint: u16,
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Time between pictures in nanoseconds.
    pub interval_ns: u64,
    /// Every frame by how many descriptors are there, 1 to 8; of each number the mean over eight sets.
    pub by_count: Vec<Qualities>,
    /// Of each set of descriptors, as bits and from 1 on, what it differs from those, mean of the clip.
    pub by_mask: Qualities,
    /// Ages in frames, rising, of an older picture that stands still, ...
    pub ages: Vec<u32>,
    /// ... and every frame as that shows it, all descriptors of the older picture being there.
    pub held: Vec<Qualities>,
}

static SHIPPED: [(&str, &str, OnceLock<Arc<VixnnTable>>); 2] = [
    ("big_buck_bunny", include_str!("../../tables/vixnn_big_buck_bunny.json"), OnceLock::new()),
    ("synthetic_game", include_str!("../../tables/vixnn_synthetic_game.json"), OnceLock::new()),
];

impl VixnnTable {
    /// The names that [`VixnnTable::by_name`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, ..)| *name)
    }

    /// A table that ships with the crate, by name.
    pub fn by_name(name: &str) -> Option<Arc<VixnnTable>> {
        let (name, json, parsed) = SHIPPED.iter().find(|shipped| shipped.0 == name)?;
        let parse = || Arc::new(VixnnTable::parse(json, name).expect("shipped tables are tested"));
        Some(parsed.get_or_init(parse).clone())
    }

    /// Reads a table of a file.
    ///
    /// # Errors
    /// [`TableError`] if it can't be read, and as [`VixnnTable::parse`].
    pub fn read(path: &Path) -> Result<VixnnTable, TableError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(json) => VixnnTable::parse(&json, &file),
            Err(error) => Err(TableError { file, what: error.to_string() }),
        }
    }

    /// Reads a table. `file` names it in errors.
    ///
    /// # Errors
    /// [`TableError`] if it isn't JSON of this shape or its columns contradict each other.
    pub fn parse(json: &str, file: &str) -> Result<VixnnTable, TableError> {
        let refuse = |what: String| TableError { file: file.to_owned(), what };
        let table: VixnnTable = serde_json::from_str(json).map_err(|error| refuse(error.to_string()))?;
        table.check().map_err(refuse)?;
        Ok(table)
    }

    fn check(&self) -> Result<(), String> {
        let frames = self.frames();
        if !(1..=MAX_FRAMES).contains(&frames) {
            return Err(format!("{frames} frames; 1 to {MAX_FRAMES} are possible"));
        }
        if !is_size(self.width, self.height) {
            return Err(format!("{}x{} is no size that ViXNN codes", self.width, self.height));
        }
        if !(1_000_000..=100_000_000_000).contains(&self.interval_ns) {
            return Err(format!("interval_ns is {}; 1 ms to 100 s are possible", self.interval_ns));
        }
        if self.by_count.len() != DESCRIPTORS || !self.by_mask.has(MASKS) {
            return Err(format!("by_count needs {DESCRIPTORS} columns, by_mask {MASKS} numbers"));
        }
        if self.ages.first().is_none_or(|&age| age == 0) || self.ages.windows(2).any(|w| w[0] >= w[1]) {
            return Err("ages need to rise from 1 or more".to_owned());
        }
        if self.held.len() != self.ages.len() {
            return Err(format!("{} columns of held for {} ages", self.held.len(), self.ages.len()));
        }
        match self.by_count.iter().chain(&self.held).all(|column| column.has(frames)) {
            true => Ok(()),
            false => Err(format!("columns of different lengths; the first has {frames} frames")),
        }
    }

    /// The table as JSON on few lines, one for each number of descriptors and each age.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string(self).expect("a table has no keys that are not strings");
        text.replace("{\"psnr_y\"", "\n{\"psnr_y\"") + "\n"
    }

    /// Frames recorded.
    pub fn frames(&self) -> usize {
        self.by_count.first().map_or(0, |column| column.psnr_y.len())
    }

    /// Time between pictures.
    pub fn interval(&self) -> Span {
        Span::from_nanos(self.interval_ns as i64)
    }

    /// How a frame (counted on through repetitions of the clip) looks, where of `blocks[mask]` blocks the
    /// descriptors `mask` are there, as bits. Those of which none is there, `blocks[0]`, show what is `age`
    /// frames old in their mean.
    pub fn look(&self, frame: u32, blocks: &[u32; MASKS + 1], age: f64) -> VixnnLook {
        let index = frame as usize % self.frames();
        let (mut error, mut ssim, mut count) = (0.0, 0.0, 0.0);
        for (mask, &of) in blocks.iter().enumerate().skip(1).filter(|(_, of)| **of > 0) {
            let (of, look) = (f64::from(of), self.of_mask(index, mask));
            error += of * error_of(look.psnr_y);
            ssim += of * look.ssim;
            count += of;
        }
        if blocks[0] > 0 {
            let (of, all, held) = (f64::from(blocks[0]), self.of_mask(index, ALL), self.held_at(index, age));
            // What is shown there was coded with about as many descriptors as its neighbours.
            let coarser = if count > 0.0 { (error / count - error_of(all.psnr_y)).max(0.0) } else { 0.0 };
            let blurred = if count > 0.0 { (ssim / count - all.ssim).min(0.0) } else { 0.0 };
            error += of * (error_of(held.psnr_y) + coarser);
            ssim += of * (held.ssim + blurred);
            count += of;
        }
        let count = f64::max(count, 1.0);
        VixnnLook { psnr_y: (-10.0 * (error / count).log10()).min(crate::PSNR_CAP), ssim: ssim / count }
    }

    /// A frame of all of whose blocks these descriptors are there.
    fn of_mask(&self, index: usize, mask: usize) -> VixnnLook {
        let base = self.by_count[mask.count_ones() as usize - 1].get(index);
        let more = self.by_mask.get(mask - 1);
        VixnnLook { psnr_y: base.psnr_y + more.psnr_y, ssim: base.ssim + more.ssim }
    }

    /// A frame that shows what was there so many frames before, interpolated between recorded ages.
    fn held_at(&self, index: usize, age: f64) -> VixnnLook {
        let above = self.ages.iter().position(|&at| f64::from(at) >= age).unwrap_or(self.ages.len() - 1);
        let below = above.saturating_sub(1);
        let (from, to) = (f64::from(self.ages[below]), f64::from(self.ages[above]));
        let share = if above == below { 0.0 } else { ((age - from) / (to - from)).clamp(0.0, 1.0) };
        let (young, old) = (self.held[below].get(index), self.held[above].get(index));
        let mix = |a: f64, b: f64| a + (b - a) * share;
        VixnnLook { psnr_y: mix(young.psnr_y, old.psnr_y), ssim: mix(young.ssim, old.ssim) }
    }
}

/// Mean squared error over the square of the largest value.
fn error_of(psnr: f64) -> f64 {
    10f64.powf(-psnr / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(mask: usize) -> [u32; MASKS + 1] {
        std::array::from_fn(|at| if at == mask { 100 } else { 0 })
    }

    #[test]
    fn shipped_tables_are_small_and_sensible() {
        for name in VixnnTable::names() {
            let table = VixnnTable::by_name(name).unwrap();
            assert!(table.to_json().len() < 100_000 && table.frames() >= 100, "{name}");
            assert_eq!(VixnnTable::parse(&table.to_json(), name).as_ref(), Ok(&*table));
            let mean = |mask: usize| {
                let frames = 0..table.frames() as u32;
                frames.map(|f| table.look(f, &all_of(mask), 0.0).psnr_y).sum::<f64>() / table.frames() as f64
            };
            let at: Vec<f64> = (0..8).map(|n| mean((2 << n) - 1)).collect();
            assert!(at.windows(2).all(|pair| pair[1] > pair[0] + 0.1), "{name}: {at:?}");
        }
        assert!(VixnnTable::by_name("nope").is_none());
    }

    #[test]
    fn blocks_are_mixed_by_their_squared_errors_and_old_ones_look_worse() {
        let table = VixnnTable::by_name("big_buck_bunny").unwrap();
        let look = |blocks: &[u32; MASKS + 1], age| table.look(7, blocks, age);
        let (one, eight) = (look(&all_of(1), 0.0), look(&all_of(ALL), 0.0));
        let mut half = all_of(1);
        half[ALL] = 100;
        let mixed = look(&half, 0.0);
        let error = (error_of(one.psnr_y) + error_of(eight.psnr_y)) / 2.0;
        assert!((error_of(mixed.psnr_y) / error - 1.0).abs() < 1e-9);
        assert!((mixed.ssim - (one.ssim + eight.ssim) / 2.0).abs() < 1e-9);
        let mut holes = all_of(ALL);
        holes[0] = 50;
        let ages = [1.0, 2.0, 8.0, 80.0].map(|age| look(&holes, age).psnr_y);
        // A picture that hardly moves may look as well when it is a frame old.
        assert!(ages[0] < eight.psnr_y + 0.5 && ages[1] < ages[0] && ages[2] < ages[1], "{ages:?}");
        assert_eq!(ages[3], ages[2]);
    }

    #[test]
    fn what_is_wrong_with_a_table_is_said() {
        let table = VixnnTable::by_name("synthetic_game").unwrap();
        let said = |change: fn(&mut VixnnTable)| {
            let mut table = VixnnTable::clone(&table);
            change(&mut table);
            VixnnTable::parse(&table.to_json(), "x.json").unwrap_err().to_string()
        };
        assert_eq!(said(|t| t.ages[0] = 0), "x.json: ages need to rise from 1 or more");
        assert!(said(|t| t.width = 7).contains("7x288 is no size"));
        assert!(said(|t| t.held.truncate(3)).contains("3 columns of held for 4 ages"));
        assert!(said(|t| t.held[1].ssim.truncate(9)).contains("different lengths"));
        assert!(said(|t| t.by_mask.ssim.truncate(9)).contains("by_mask 255 numbers"));
        assert!(VixnnTable::parse("{", "x.json").is_err());
        assert!(
            VixnnTable::read(Path::new("no-such.json")).unwrap_err().to_string().contains("no-such.json")
        );
    }
}
