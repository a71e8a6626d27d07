//! Measures what the viewer saw: every shown picture against its own source, matched by frame number.
//!
//! ```text
//! Source --> Watched ---------> encoder ... decoder --> Judge (a Screen) --> Event::FrameQuality
//!               '--> Originals (by capture index) --------^
//! ```
//!
//! A picture that was coded with fewer rows is scaled up to its source's size first, as it is where it is
//! shown.
//!
//! Where a model makes the frames there are no pictures: a `Reader` tells what its table says of what
//! arrived.
//!
//! With barcodes on, the number burned into each picture must come out again on the frame that claims to be
//! it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use media::{Clip, RawFrame, Scaler, Source, barcode};
use record::{Event, Real, Tap};
use session::{Screen, Shown};
use units::{Span, Time};

use super::stills::Album;

/// Originals are kept until they are shown or this much memory is full; then the oldest go unmeasured.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// Source pictures on their way to the viewer.
#[derive(Debug, Default)]
struct Pictures {
    waiting: VecDeque<(u32, Arc<RawFrame>)>,
    next: u32,
    trouble: Option<String>,
}

/// A handle to the originals of one flow, shared by its source and its screen, and to what is kept of the
/// pictures shown.
#[derive(Clone, Default)]
pub(super) struct Originals {
    pictures: Arc<Mutex<Pictures>>,
    album: Album,
}

impl Originals {
    fn lock(&self) -> MutexGuard<'_, Pictures> {
        self.pictures.lock().expect("neither side panics while it holds the lock")
    }

    /// Why the clip broke off, if it did.
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// What is kept of the pictures shown.
    pub fn album(&self) -> &Album {
        &self.album
    }

    fn keep(&self, picture: &Arc<RawFrame>) {
        let mut pictures = self.lock();
        let frame = pictures.next;
        pictures.next += 1;
        pictures.waiting.push_back((frame, Arc::clone(picture)));
        let bytes = picture.width * picture.height * 3 / 2;
        if pictures.waiting.len() > (MOST_BYTES / bytes).max(2) {
            pictures.waiting.pop_front();
        }
    }

    /// The original of `frame`; older ones will not be asked for again.
    fn take(&self, frame: u32) -> Option<Arc<RawFrame>> {
        let mut pictures = self.lock();
        while pictures.waiting.front().is_some_and(|(number, _)| *number < frame) {
            pictures.waiting.pop_front();
        }
        let is_it = pictures.waiting.front().is_some_and(|(number, _)| *number == frame);
        is_it.then(|| pictures.waiting.pop_front()).flatten().map(|(_, picture)| picture)
    }
}

/// What pictures come from.
pub(super) enum Footage {
    /// A clip of a file, which can break off.
    Clip(Box<Clip>),
    /// Anything that cannot break off.
    Endless(Box<dyn Source>),
}

/// A source whose pictures are remembered. The session reads one picture per captured frame, so that the
/// count of pictures is the frame's number.
pub(super) struct Watched {
    pub footage: Footage,
    pub originals: Originals,
    /// Each picture carries its number.
    pub barcode: bool,
}

impl Watched {
    fn source(&self) -> &dyn Source {
        match &self.footage {
            Footage::Clip(clip) => clip.as_ref(),
            Footage::Endless(source) => source.as_ref(),
        }
    }
}

impl Source for Watched {
    fn size(&self) -> (usize, usize) {
        self.source().size()
    }

    fn interval(&self) -> Span {
        self.source().interval()
    }

    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        let picture = match &mut self.footage {
            Footage::Clip(clip) => {
                let picture = clip.next_picture();
                if let Some(trouble) = clip.trouble() {
                    self.originals.lock().trouble = Some(trouble.to_string());
                }
                picture
            }
            Footage::Endless(source) => source.next_picture(),
        };
        let mut picture = picture?;
        if self.barcode {
            let number = self.originals.lock().next;
            barcode::burn(Arc::make_mut(&mut picture), number);
        }
        self.originals.keep(&picture);
        Some(picture)
    }
}

/// The screen that compares.
pub(super) struct Judge {
    originals: Originals,
    tap: Tap,
    scaler: Scaler,
}

impl Judge {
    pub fn new(originals: Originals, tap: Tap) -> Judge {
        Judge { originals, tap, scaler: Scaler::default() }
    }
}

impl Screen for Judge {
    fn show(&mut self, now: Time, shown: &Shown) {
        let (Some(picture), Some(original)) = (&shown.picture, self.originals.take(shown.frame)) else {
            return;
        };
        let size = (original.width, original.height);
        let scaled = (picture.width, picture.height) != size;
        // A picture that cannot be brought to its source's size has no quality to speak of.
        let Ok(picture) = self.scaler.fit(picture, size) else { return };
        // Where pictures carry their numbers, the one on the screen must be the one the session says it is;
        // where parts are made up, the number may be, too.
        if !scaled
            && !shown.concealed
            && barcode::read(&original) == Some(shown.frame)
            && let Some(other) = barcode::read(&picture).filter(|&number| number != shown.frame)
        {
            let trouble = format!("frame {} was shown with the picture of frame {other}", shown.frame);
            self.originals.lock().trouble.get_or_insert(trouble);
        }
        if let Ok(quality) = media::quality(&original, &picture) {
            let (psnr, ssim) = (Real(quality.psnr_y), Real(quality.ssim));
            self.originals.album.show(now, shown.frame, quality.psnr_y, &original, &picture);
            self.tap.record(
                now,
                Event::FrameQuality {
                    stream: shown.stream,
                    frame: shown.frame,
                    version: shown.version,
                    psnr,
                    ssim,
                },
            );
        }
    }
}

/// The screen of a flow without pictures, of which a table says how what arrived looks.
#[cfg(feature = "vixnn")]
pub(super) struct Reader {
    looks: media::VixnnLooks,
    tap: Tap,
}

#[cfg(feature = "vixnn")]
impl Reader {
    pub fn new(looks: media::VixnnLooks, tap: Tap) -> Reader {
        Reader { looks, tap }
    }
}

#[cfg(feature = "vixnn")]
impl Screen for Reader {
    fn show(&mut self, now: Time, shown: &Shown) {
        let Shown { stream, frame, version, .. } = *shown;
        if let Some(look) = self.looks.take(stream, frame) {
            let (psnr, ssim) = (Real(look.psnr_y), Real(look.ssim));
            self.tap.record(now, Event::FrameQualityModelled { stream, frame, version, psnr, ssim });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(level: u8) -> Arc<RawFrame> {
        Arc::new(RawFrame::filled(16, 16, level, 128, 128))
    }

    #[test]
    fn originals_are_matched_by_number_and_forgotten_once_passed() {
        let originals = Originals::default();
        (0..10).for_each(|level| originals.keep(&grey(level)));
        assert_eq!(originals.take(3).unwrap().y[0], 3);
        assert!(originals.take(3).is_none() && originals.take(2).is_none());
        assert_eq!(originals.take(9).unwrap().y[0], 9);
        assert!(originals.take(10).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let originals = Originals::default();
        let large = Arc::new(RawFrame::filled(3840, 2160, 0, 128, 128));
        (0..100).for_each(|_| originals.keep(&large));
        assert_eq!(originals.lock().waiting.len(), MOST_BYTES / (3840 * 2160 * 3 / 2));
        assert!(originals.take(0).is_none());
    }
}
