//! A few of the pictures that were shown, small, beside their sources: for the report. Nothing that runs
//! reads them back.
//!
//! ```text
//! shown frames of a second --> mean PSNR --> the worst second so far: its worst frame
//!                                       '--> every 1st, 2nd, 4th ... second: its first frame   (at most MOST of them)
//! ```
//!
//! Memory is bounded however long the run: a pair of pictures for the worst second, one for each of at most
//! [`MOST`] others, and two pairs of the second that is going on, at full size.

use std::sync::{Arc, Mutex, MutexGuard};

use media::{RawFrame, Scaler, size_of_height};
use units::{Span, Time};

use crate::metrics::psnr_summary;

/// Seconds kept besides the worst one; with more, every other is dropped.
const MOST: usize = 16;
/// Pixels that a kept picture has at most either way.
const LARGEST: (usize, usize) = (480, 270);
const SECOND: Span = Span::from_secs(1);

/// A frame as it was shown, and as it should have looked, scaled down.
#[derive(Clone, Debug, PartialEq)]
pub struct Still {
    /// Capture index.
    pub frame: u32,
    /// When it was shown.
    pub shown_at: Time,
    /// Its luma PSNR in dB.
    pub psnr: f64,
    /// The picture that was captured.
    pub source: RawFrame,
    /// The picture on the viewer's screen.
    pub shown: RawFrame,
}

/// A second of the run in which frames were shown, and one of those.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// When the second begins.
    pub begin: Time,
    /// PSNR in dB of all frames shown in it, averaged over squared errors.
    pub mean_psnr: f64,
    /// A frame shown in that second, beside its source.
    pub still: Still,
}

/// What an album comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Stills {
    /// The second with the lowest mean PSNR, and its worst frame.
    pub worst: Moment,
    /// Of the seconds kept, the one nearest to the median of all seconds' means, and its first frame.
    pub median: Moment,
}

/// A frame that may be kept, at full size.
struct Candidate {
    frame: u32,
    at: Time,
    psnr: f64,
    source: Arc<RawFrame>,
    shown: RawFrame,
}

/// The second that is going on.
struct Current {
    begin: Time,
    psnrs: Vec<f64>,
    first: Candidate,
    /// If another than the first.
    worst: Option<Candidate>,
}

#[derive(Default)]
struct Pages {
    scaler: Scaler,
    current: Option<Current>,
    /// Of each second in which a frame was shown.
    means: Vec<f64>,
    worst: Option<Moment>,
    kept: Vec<Moment>,
    /// Seconds from one that is kept to the next.
    stride: usize,
}

/// Collects pictures of one flow as they are shown.
#[derive(Clone, Default)]
pub(super) struct Album(Arc<Mutex<Pages>>);

impl Album {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().expect("nobody panics while holding the lock")
    }

    /// Looks at a frame that was shown at `at`; times never go back.
    pub fn show(&self, at: Time, frame: u32, psnr: f64, source: &Arc<RawFrame>, shown: &RawFrame) {
        let mut pages = self.pages();
        let begin = Time::ZERO + SECOND * ((at - Time::ZERO).as_nanos() / SECOND.as_nanos());
        if pages.current.as_ref().is_some_and(|current| current.begin != begin) {
            pages.turn();
        }
        let candidate = || Candidate { frame, at, psnr, source: source.clone(), shown: shown.clone() };
        match &mut pages.current {
            None => {
                let first = candidate();
                pages.current = Some(Current { begin, psnrs: vec![psnr], first, worst: None });
            }
            Some(current) => {
                current.psnrs.push(psnr);
                if psnr < current.worst.as_ref().unwrap_or(&current.first).psnr {
                    current.worst = Some(candidate());
                }
            }
        }
    }

    /// What was collected, if frames were shown.
    pub fn stills(&self) -> Option<Stills> {
        let mut pages = self.pages();
        pages.turn();
        let mut means = pages.means.clone();
        means.sort_unstable_by(f64::total_cmp);
        let median = crate::metrics::nearest_rank(&means, 50.0)?;
        let off = |moment: &&Moment| (moment.mean_psnr - median).abs();
        let nearest = pages.kept.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
        Some(Stills { worst: pages.worst.clone()?, median: nearest.clone() })
    }
}

impl Pages {
    /// Ends the second that is going on.
    fn turn(&mut self) {
        let Some(Current { begin, psnrs, first, worst }) = self.current.take() else { return };
        let Some(mean_psnr) = psnr_summary(&psnrs) else { return };
        if self.worst.as_ref().is_none_or(|so_far| mean_psnr < so_far.mean_psnr) {
            self.worst =
                self.moment(begin, mean_psnr, worst.as_ref().unwrap_or(&first)).or(self.worst.take());
        }
        self.stride = self.stride.max(1);
        if self.means.len().is_multiple_of(self.stride) {
            let moment = self.moment(begin, mean_psnr, &first);
            self.kept.extend(moment);
        }
        self.means.push(mean_psnr);
        if self.kept.len() > MOST {
            let mut number = 0;
            self.kept.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// The candidate, scaled down; nothing if its sides cannot be.
    fn moment(&mut self, begin: Time, mean_psnr: f64, of: &Candidate) -> Option<Moment> {
        let size = small((of.source.width, of.source.height));
        let mut scaled = |picture: &RawFrame| Some(self.scaler.fit(picture, size).ok()?.into_owned());
        let (source, shown) = (scaled(&of.source)?, scaled(&of.shown)?);
        let still = Still { frame: of.frame, shown_at: of.at, psnr: of.psnr, source, shown };
        Some(Moment { begin, mean_psnr, still })
    }
}

/// The size of a kept picture: the shape of `full`, and not larger.
fn small(full: (usize, usize)) -> (usize, usize) {
    let (width, height) = full;
    let rows = height.min(LARGEST.1).min(height * LARGEST.0 / width.max(1));
    size_of_height(full, rows as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of two frames each: one of this PSNR, and one a decibel worse.
    fn album(psnrs: &[f64]) -> Album {
        let album = Album::default();
        for (second, psnr) in (0..).zip(psnrs) {
            for (half, psnr) in [(0, *psnr), (1, psnr - 1.0)] {
                let frame = 2 * second + half;
                let at = Time::from_millis(1_000 * u64::from(second) + 500 * u64::from(half));
                let picture = |level: u32| RawFrame::filled(64, 32, level as u8, 128, 128);
                album.show(at, frame, psnr, &Arc::new(picture(frame)), &picture(frame));
            }
        }
        album
    }

    #[test]
    fn the_worst_and_the_median_second_are_found() {
        let stills = album(&[40.0, 31.0, 35.0, 36.0, 38.0]).stills().unwrap();
        let worst = &stills.worst;
        assert_eq!((worst.begin, worst.still.frame, worst.still.psnr), (Time::from_secs(1), 3, 30.0));
        assert_eq!((worst.still.source.y[0], worst.still.shown.y[0]), (3, 3));
        let median = &stills.median;
        assert_eq!((median.begin, median.still.frame, median.still.psnr), (Time::from_secs(3), 6, 36.0));
        assert!((35.0..36.0).contains(&median.mean_psnr), "{}", median.mean_psnr);
        assert_eq!(Album::default().stills(), None);
    }

    #[test]
    fn an_hour_keeps_no_more_than_a_minute() {
        let psnrs: Vec<f64> = (0..3_600).map(|second| 30.0 + f64::from(second % 600) / 60.0).collect();
        let album = album(&psnrs);
        assert!(album.pages().kept.len() <= MOST);
        let stills = album.stills().unwrap();
        assert!((stills.median.mean_psnr - 34.5).abs() < 1.0, "{}", stills.median.mean_psnr);
        assert!((stills.worst.mean_psnr - 29.5).abs() < 0.1, "{}", stills.worst.mean_psnr);
    }

    #[test]
    fn kept_pictures_are_small_and_keep_their_shape() {
        assert_eq!(small((1920, 1080)), (480, 270));
        assert_eq!(small((720, 1280)), (152, 270));
        assert_eq!(small((2560, 720)), (480, 136));
        assert_eq!(small((320, 180)), (320, 180));
    }
}
