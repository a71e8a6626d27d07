//! How much larger than asked for frames are: the send window makes room for that ("Calculate Frame Size").

/// Frames remembered: the draft leaves open how fast the histogram forgets; this is a second of video.
const MEMORY: usize = 64;
/// The draft's, "Calculate Frame Size".
const PERCENTILE: f64 = 0.75;

/// Sizes of recent frames that were larger than asked for, relative to that.
#[derive(Clone, Debug, Default)]
pub struct FrameSizes {
    /// Bytes of the frame that is leaving, and which one it is.
    leaving: Option<(u8, u32, u64)>,
    ratios: Vec<f64>,
    next: usize,
    high: Option<f64>,
}

impl FrameSizes {
    /// A packet of `size` bytes left; `last` tells that its frame is whole, and `asked` how many bytes that
    /// should have had.
    pub fn sent(&mut self, stream: u8, frame: u32, size: u32, last: bool, asked: f64) {
        let before = match self.leaving {
            Some((s, f, bytes)) if (s, f) == (stream, frame) => bytes,
            _ => 0,
        };
        let bytes = before + u64::from(size);
        self.leaving = (!last).then_some((stream, frame, bytes));
        let ratio = bytes as f64 / asked;
        if last && ratio > 1.0 && ratio.is_finite() {
            self.insert(ratio);
        }
    }

    fn insert(&mut self, ratio: f64) {
        if self.ratios.len() < MEMORY {
            self.ratios.push(ratio);
        } else {
            self.ratios[self.next] = ratio;
            self.next = (self.next + 1) % MEMORY;
        }
        let mut sorted = [f64::INFINITY; MEMORY];
        sorted[..self.ratios.len()].copy_from_slice(&self.ratios);
        sorted.sort_unstable_by(f64::total_cmp);
        self.high = Some(sorted[((self.ratios.len() - 1) as f64 * PERCENTILE) as usize]);
    }

    /// The high percentile, at least 1 (rel_framesize_high).
    pub fn high(&self) -> f64 {
        self.high.unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_of_the_large_frames_fit() {
        let mut frames = FrameSizes::default();
        frames.sent(0, 0, 900, true, 1000.0);
        assert_eq!(frames.high(), 1.0);
        for frame in 1..=101 {
            // 1.01, 1.02 ... 2.01, in two packets each; the last 64 count: 1.38 to 2.01.
            frames.sent(0, frame, 1000, false, 1000.0);
            frames.sent(0, frame, 10 * frame, true, 1000.0);
        }
        assert!((frames.high() - 1.85).abs() < 1e-9, "{}", frames.high());
    }
}
