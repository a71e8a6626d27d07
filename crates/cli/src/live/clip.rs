//! Clips as real time plays them: read ahead on a thread of their own, for as long as asked for.

use std::sync::{Arc, Mutex};

use media::{ClipOptions, RawFrame, Source, SyntheticConfig, SyntheticGame};
use real::{Newest, Prefetched};
use units::Span;

use crate::failure::Failure;
use crate::values::{Feed, Input, PictureSize};

/// Pictures read ahead of the encoder: a hiccup of a disk or of ffmpeg costs no frame.
const READ_AHEAD: usize = 8;
/// The synthetic clip, where nothing else is asked for.
const SYNTHETIC: PictureSize = PictureSize { width: 1280, height: 720 };
const SYNTHETIC_FPS: f64 = 30.0;

/// How a clip is shown.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Look {
    /// Picture size, WIDTHxHEIGHT, even; of the clip itself if left out, 1280x720 for the synthetic one
    #[arg(long, value_name = "WxH")]
    pub size: Option<PictureSize>,
    /// Pictures a second, 1 to 240; the clip's own if left out, 30 for the synthetic one
    #[arg(long)]
    pub fps: Option<f64>,
    /// Burn each picture's number into its corner, so that it can be read from what is shown
    #[arg(long)]
    pub barcode: bool,
}

/// A clip as it is to be played.
#[derive(Clone, Copy, Debug)]
pub struct Clip<'a> {
    /// The clip, the camera or the pipe to read.
    pub input: &'a Feed,
    /// How it looks.
    pub look: Look,
    /// Repeated for this long; played once if `None`.
    pub length: Option<Span>,
}

/// Why a clip broke off, if it did.
#[derive(Clone, Debug, Default)]
pub struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    /// An error if the clip broke off.
    pub fn check(&self) -> Result<(), Failure> {
        let trouble = self.0.lock().expect("nothing panics while it holds this");
        trouble.clone().map_or(Ok(()), |what| Err(Failure::Work(what)))
    }
}

/// A clip that tells why it broke off, from whatever thread reads it.
struct Watched {
    clip: media::Clip,
    trouble: Trouble,
}

impl Source for Watched {
    fn size(&self) -> (usize, usize) {
        self.clip.size()
    }
    fn interval(&self) -> Span {
        self.clip.interval()
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        let picture = self.clip.next_picture();
        if let Some(trouble) = self.clip.trouble().filter(|_| picture.is_none()) {
            *self.trouble.0.lock().expect("nothing panics while it holds this") = Some(trouble.to_string());
        }
        picture
    }
}

/// The first pictures of a clip.
struct FirstOf {
    source: Box<dyn Source>,
    left: u64,
    barcode: bool,
    next: u32,
}

impl Source for FirstOf {
    fn size(&self) -> (usize, usize) {
        self.source.size()
    }
    fn interval(&self) -> Span {
        self.source.interval()
    }
    fn is_ready(&mut self) -> bool {
        self.left == 0 || self.source.is_ready()
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        self.left = self.left.checked_sub(1)?;
        let mut picture = self.source.next_picture()?;
        if self.barcode {
            media::barcode::burn(Arc::make_mut(&mut picture), self.next);
        }
        self.next += 1;
        Some(picture)
    }
}

/// Opens a clip.
pub fn open(clip: &Clip<'_>) -> Result<(Box<dyn Source>, Trouble), Failure> {
    if clip.look.fps.is_some_and(|fps| !(1.0..=240.0).contains(&fps)) {
        return Err(Failure::input("--fps: pictures a second are between 1 and 240"));
    }
    let trouble = Trouble::default();
    let watched = |clip| Box::new(Watched { clip, trouble: trouble.clone() });
    let size = clip.look.size.map(|size| (size.width, size.height));
    let options = ClipOptions { loop_clip: false, fps: clip.look.fps, size, max_frames: None };
    let source: Box<dyn Source> = match clip.input {
        Feed::Clip(Input::Synthetic) => ahead(Box::new(synthetic(clip))),
        Feed::Clip(Input::File(path)) => {
            let options = ClipOptions { loop_clip: clip.length.is_some(), ..options };
            ahead(watched(media::Clip::open(path, options).map_err(Failure::input)?))
        }
        Feed::Stdin => {
            let stdin = Box::new(std::io::stdin());
            ahead(watched(media::Clip::stream(stdin, "standard input", options).map_err(Failure::input)?))
        }
        Feed::Camera(device) => {
            Box::new(Newest::new(watched(media::Clip::camera(device, options).map_err(Failure::input)?)))
        }
    };
    let pictures = |length: Span| (length.as_secs_f64() / source.interval().as_secs_f64()).round() as u64;
    let left = clip.length.map_or(u64::MAX, pictures);
    Ok((Box::new(FirstOf { source, left, barcode: clip.look.barcode, next: 0 }), trouble))
}

fn ahead(source: Box<dyn Source>) -> Box<dyn Source> {
    Box::new(Prefetched::new(source, READ_AHEAD))
}

fn synthetic(clip: &Clip<'_>) -> SyntheticGame {
    let size = clip.look.size.unwrap_or(SYNTHETIC);
    let interval = Span::from_secs_f64(1.0 / clip.look.fps.unwrap_or(SYNTHETIC_FPS));
    SyntheticGame::new(SyntheticConfig { interval, ..SyntheticConfig::new(size.width, size.height) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pictures(clip: &Clip<'_>) -> (usize, Result<(), Failure>) {
        let (mut source, trouble) = open(clip).expect("the clip opens");
        (std::iter::from_fn(|| source.next_picture()).count(), trouble.check())
    }

    #[test]
    fn a_clip_ends_after_the_time_asked_for() {
        let size = Some(PictureSize { width: 64, height: 64 });
        let length = Some(Span::from_millis(100));
        let clip = Clip {
            input: &Feed::Clip(Input::Synthetic),
            look: Look { size, fps: Some(30.0), barcode: true },
            length,
        };
        let (count, trouble) = pictures(&clip);
        assert_eq!(count, 3);
        assert!(trouble.is_ok());
        assert!(open(&Clip { look: Look { fps: Some(0.5), ..clip.look }, ..clip }).is_err());
    }

    #[test]
    fn a_clip_that_breaks_off_says_so() {
        let path = std::env::temp_dir().join(format!("framewire-cut-{}.y4m", std::process::id()));
        let picture = [b"FRAME\n".as_slice(), &[128; 16 * 16 * 3 / 2]].concat();
        let whole = [b"YUV4MPEG2 W16 H16 F30:1 C420jpeg\n".as_slice(), &picture, &picture[..40]].concat();
        std::fs::write(&path, whole).expect("the temporary folder can be written");
        let input = Feed::Clip(Input::File(path.clone()));
        let (count, trouble) = pictures(&Clip { input: &input, look: Look::default(), length: None });
        std::fs::remove_file(&path).expect("the file is there");
        assert_eq!(count, 1);
        assert!(matches!(trouble, Err(Failure::Work(what)) if what.contains("framewire-cut")));
    }
}
