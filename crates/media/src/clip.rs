//! Opening a clip whatever it is: Y4M is read directly, everything else through ffmpeg, and both become a
//! [`Source`].

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use units::Span;

use crate::ffmpeg::{FfmpegOptions, FfmpegPipe};
use crate::shelf::Player;
use crate::{RawFrame, Source, Y4mHeader, Y4mReader};

/// Why a clip can't be read, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ClipError {
    /// The file isn't there or may not be read.
    #[error("{file}: cannot be opened: {source}")]
    Open {
        /// The file as it was named.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file is something else than what is read here.
    #[error("{file}: {found}; accepted: {accepted}")]
    Format {
        /// The file as it was named.
        file: String,
        /// What the file holds instead.
        found: String,
        /// What would have been read.
        accepted: &'static str,
    },
    /// Reading stopped in the middle.
    #[error("{file}: cannot be read: {source}")]
    Read {
        /// The file as it was named.
        file: String,
        /// What the system, or ffmpeg, said.
        source: io::Error,
    },
    /// The file needs ffmpeg, and there is none.
    #[error(
        "{file}: needs the program `{program}`, which was not found; install it (apt-get install ffmpeg) or convert \
         the clip to .y4m elsewhere"
    )]
    NoFfmpeg {
        /// The file as it was named.
        file: String,
        /// The program that was looked for.
        program: String,
    },
}

/// How to play a clip.
#[derive(Clone, Debug, Default)]
pub struct ClipOptions {
    /// Start again at the end, for runs longer than the clip.
    pub loop_clip: bool,
    /// End after this many pictures.
    pub max_frames: Option<u64>,
    /// Play at this many pictures a second (1 to 1000) whatever the clip's own rate; no picture is dropped or
    /// repeated.
    pub fps: Option<f64>,
    /// Scale to this width and height (even, at most 8192); needs ffmpeg.
    pub size: Option<(usize, usize)>,
}

pub(crate) type Stream = Y4mReader<Box<dyn Read + Send>>;

/// Where a clip's pictures come from.
pub(crate) enum Frames {
    /// As they are read.
    Read(Stream),
    /// From memory, where others play the same clip.
    Kept(Player),
}

impl Frames {
    fn header(&self) -> Y4mHeader {
        match self {
            Frames::Read(stream) => stream.header(),
            Frames::Kept(player) => player.header(),
        }
    }

    fn next(&mut self) -> Result<Option<Arc<RawFrame>>, ClipError> {
        match self {
            Frames::Read(stream) => Ok(stream.next_frame()?.map(Arc::new)),
            Frames::Kept(player) => player.next(),
        }
    }
}

/// A clip being played: a [`Source`]. A stream that breaks off ends the clip, and [`Clip::trouble`] says why.
pub struct Clip {
    path: PathBuf,
    options: ClipOptions,
    frames: Frames,
    /// Read ahead, so that a clip that opens has at least one picture.
    ahead: Option<Arc<RawFrame>>,
    interval: Span,
    played: u64,
    trouble: Option<ClipError>,
}

const ACCEPTED_OPTIONS: &str = "1 to 1000 pictures a second and even sides from 16 to 8192";

impl ClipOptions {
    pub(crate) fn check(&self, file: &str) -> Result<(), ClipError> {
        let refuse = |found: String| {
            Err(ClipError::Format { file: file.to_owned(), found, accepted: ACCEPTED_OPTIONS })
        };
        let good = |side: usize| side.is_multiple_of(2) && (16..=crate::y4m::MAX_SIDE).contains(&side);
        match (self.fps, self.size) {
            (Some(fps), _) if !(1.0..=1000.0).contains(&fps) => {
                refuse(format!("{fps} pictures a second asked for"))
            }
            (_, Some((w, h))) if !(good(w) && good(h)) => refuse(format!("a size of {w}x{h} asked for")),
            _ => Ok(()),
        }
    }

    fn interval(&self, header: Option<Span>) -> Option<Span> {
        self.fps.map(|fps| Span::from_secs_f64(1.0 / fps)).or(header)
    }
}

/// What a Y4M file begins with.
const Y4M: &[u8] = b"YUV4MPEG2";

/// The first bytes of a file, enough to recognise Y4M. They are put back in front by chaining, so a pipe will
/// do as well.
fn magic(file: &mut File) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.by_ref().take(9).read_to_end(&mut start)?;
    Ok(start)
}

/// Whether a clip has sound, which nothing here reads: Y4M never has, and of other clips ffmpeg knows.
pub fn has_sound(path: &Path) -> bool {
    let start = File::open(path).and_then(|mut file| magic(&mut file)).unwrap_or_default();
    !start.is_empty() && start != Y4M && crate::ffmpeg::has_sound(path, &FfmpegOptions::default())
}

fn is_called(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending))
}

/// Whether a clip with these first bytes is Y4M at the size asked for; one that is called so must be.
fn is_ready(start: &[u8], path: &Path, options: &ClipOptions) -> bool {
    (start == Y4M || is_called(path, "y4m")) && options.size.is_none()
}

/// Whether a clip is in a file and must be decoded or scaled.
pub(crate) fn needs_ffmpeg(path: &Path, options: &ClipOptions) -> bool {
    // Of a pipe nobody may read the first bytes but its player.
    path.is_file()
        && File::open(path)
            .and_then(|mut file| magic(&mut file))
            .is_ok_and(|start| !is_ready(&start, path, options))
}

pub(crate) fn open_stream(path: &Path, options: &ClipOptions) -> Result<Stream, ClipError> {
    let name = path.display().to_string();
    let fail = |source| ClipError::Open { file: name.clone(), source };
    let mut file = File::open(path).map_err(fail)?;
    if file.metadata().map_err(fail)?.is_dir() {
        return Err(fail(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    let start = magic(&mut file).map_err(fail)?;
    if is_ready(&start, path, options) {
        return Y4mReader::new(Box::new(io::Cursor::new(start).chain(file)), &name);
    }
    if is_called(path, "yuv") {
        let found = "raw samples with neither size nor rate".to_owned();
        let accepted =
            "a clip that says its size; `ffmpeg -f rawvideo -s WxH -r FPS -i IN.yuv OUT.y4m` makes one";
        return Err(ClipError::Format { file: name, found, accepted });
    }
    let ffmpeg = FfmpegOptions { size: options.size, ..FfmpegOptions::default() };
    Y4mReader::new(Box::new(FfmpegPipe::start(path, &ffmpeg)?), &name)
}

impl Clip {
    /// Opens a clip and reads its first picture.
    ///
    /// # Errors
    /// [`ClipError`]: no file, no clip, no picture in it, no frame rate, no ffmpeg, or options out of range.
    pub fn open(path: &Path, options: ClipOptions) -> Result<Clip, ClipError> {
        options.check(&path.display().to_string())?;
        let stream = open_stream(path, &options)?;
        Clip::begin(Frames::Read(stream), path.to_owned(), options)
    }

    pub(crate) fn begin(mut frames: Frames, path: PathBuf, options: ClipOptions) -> Result<Clip, ClipError> {
        let name = path.display().to_string();
        let lacking = |found: &str, accepted| ClipError::Format {
            file: name.clone(),
            found: found.to_owned(),
            accepted,
        };
        let interval = options.interval(frames.header().interval);
        let interval =
            interval.ok_or_else(|| lacking("no frame rate", "a clip with one, or an explicit fps"))?;
        let first = frames.next()?;
        let first = first.ok_or_else(|| lacking("a clip without pictures", "at least one picture"))?;
        Ok(Clip { path, options, frames, ahead: Some(first), interval, played: 0, trouble: None })
    }

    /// A Y4M stream that is played once as it comes, such as a pipe; `name` stands for it in errors.
    ///
    /// # Errors
    /// [`ClipError`]: no Y4M, no picture in it, no frame rate, or options out of range. Such a stream can be
    /// neither scaled nor repeated: asked to, it is refused.
    pub fn stream(stream: Box<dyn Read + Send>, name: &str, options: ClipOptions) -> Result<Clip, ClipError> {
        options.check(name)?;
        if options.size.is_some() || options.loop_clip {
            let found = "asked to be scaled or repeated".to_owned();
            let accepted = "a stream as it comes; ffmpeg can do either before it";
            return Err(ClipError::Format { file: name.to_owned(), found, accepted });
        }
        Clip::begin(Frames::Read(Y4mReader::new(stream, name)?), PathBuf::from(name), options)
    }

    /// A camera of this machine (Video4Linux) through ffmpeg, at the size and rate of the options if it has
    /// them.
    ///
    /// # Errors
    /// [`ClipError`]: no ffmpeg, or what ffmpeg said if it can't read the device.
    pub fn camera(device: &Path, options: ClipOptions) -> Result<Clip, ClipError> {
        let name = device.display().to_string();
        options.check(&name)?;
        let ffmpeg = FfmpegOptions { size: options.size, fps: options.fps, ..FfmpegOptions::default() };
        let stream: Box<dyn Read + Send> = Box::new(FfmpegPipe::camera(device, &ffmpeg)?);
        Clip::begin(Frames::Read(Y4mReader::new(stream, &name)?), device.to_owned(), options)
    }

    /// Why the clip ended early, if it did.
    pub fn trouble(&self) -> Option<&ClipError> {
        self.trouble.as_ref()
    }

    /// The next picture, from the start again where the clip loops.
    fn advance(&mut self) -> Result<Option<Arc<RawFrame>>, ClipError> {
        let next = self.frames.next()?;
        if next.is_some() || !self.options.loop_clip {
            return Ok(next);
        }
        match &mut self.frames {
            Frames::Read(stream) => *stream = open_stream(&self.path, &self.options)?,
            Frames::Kept(player) => player.rewind(),
        }
        self.frames.next()
    }
}

impl Source for Clip {
    fn size(&self) -> (usize, usize) {
        (self.frames.header().width, self.frames.header().height)
    }

    fn interval(&self) -> Span {
        self.interval
    }

    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        if self.options.max_frames.is_some_and(|most| self.played >= most) {
            return None;
        }
        let picture = self.ahead.take().or_else(|| match self.advance() {
            Ok(next) => next,
            Err(trouble) => {
                self.trouble = Some(trouble);
                None
            }
        })?;
        self.played += 1;
        Some(picture)
    }
}

/// Opens a clip: `.y4m` (by its first bytes or its name) directly, anything else through ffmpeg.
///
/// # Errors
/// As [`Clip::open`].
pub fn open_clip(path: &Path, options: ClipOptions) -> Result<Box<dyn Source>, ClipError> {
    Ok(Box::new(Clip::open(path, options)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn three() -> (testing::TempFolder, PathBuf, Vec<RawFrame>) {
        let folder = testing::TempFolder::new("clip");
        let frames: Vec<_> = (0..3).map(|i| testing::textured(32, 16, i)).collect();
        let path = folder.path("three.y4m");
        testing::write_y4m(&path, &frames);
        (folder, path, frames)
    }

    fn play(path: &Path, options: ClipOptions) -> Vec<Arc<RawFrame>> {
        let mut clip = open_clip(path, options).unwrap();
        std::iter::from_fn(|| clip.next_picture()).collect()
    }

    #[test]
    fn clips_end_loop_and_stop() {
        let (_folder, path, frames) = three();
        assert_eq!(play(&path, ClipOptions::default()).len(), 3);
        let looped = ClipOptions { loop_clip: true, max_frames: Some(8), ..ClipOptions::default() };
        let pictures = play(&path, looped);
        assert_eq!(pictures.len(), 8);
        assert!(pictures.iter().enumerate().all(|(i, picture)| **picture == frames[i % 3]));
    }

    #[test]
    fn fps_retimes_without_dropping() {
        let (_folder, path, _) = three();
        let options = ClipOptions { fps: Some(60.0), ..ClipOptions::default() };
        let clip = open_clip(&path, options).unwrap();
        assert_eq!((clip.interval(), clip.size()), (Span::from_nanos(16_666_667), (32, 16)));
        assert_eq!(open_clip(&path, ClipOptions::default()).unwrap().interval(), Span::from_millis(40));
    }

    fn refused(path: &Path, options: ClipOptions) -> String {
        open_clip(path, options).err().expect("must be refused").to_string()
    }

    #[test]
    fn errors_name_file_and_remedy() {
        let (folder, path, _) = three();
        let none = ClipOptions::default;
        assert!(refused(Path::new("nowhere.y4m"), none()).starts_with("nowhere.y4m: cannot be opened"));
        assert!(refused(&folder.path(""), none()).contains("cannot be opened"));
        let fps = ClipOptions { fps: Some(0.0), ..none() };
        assert!(refused(&path, fps).contains("0 pictures a second asked for; accepted: 1 to 1000"));
        assert!(refused(&path, ClipOptions { size: Some((33, 20)), ..none() }).contains("size of 33x20"));
        std::fs::write(folder.path("empty.y4m"), b"").unwrap();
        assert!(refused(&folder.path("empty.y4m"), none()).contains("an empty file"));
        std::fs::write(folder.path("bare.y4m"), b"YUV4MPEG2 W32 H16 F25:1\n").unwrap();
        assert!(refused(&folder.path("bare.y4m"), none()).contains("without pictures"));
        std::fs::write(folder.path("x.yuv"), b"0000").unwrap();
        assert!(refused(&folder.path("x.yuv"), none()).contains("rawvideo"));
        std::fs::write(folder.path("open.y4m"), b"YUV4MPEG2 W32 H16\nFRAME\n").unwrap();
        assert!(refused(&folder.path("open.y4m"), none()).contains("no frame rate"));
    }

    #[test]
    fn a_stream_is_played_once_as_it_comes() {
        let (_folder, path, frames) = three();
        let open = |options| Clip::stream(Box::new(File::open(&path).unwrap()), "-", options);
        let mut clip = open(ClipOptions::default()).unwrap();
        let played: Vec<_> = std::iter::from_fn(|| clip.next_picture()).collect();
        assert!(played.iter().map(|picture| &**picture).eq(&frames));
        let looped = open(ClipOptions { loop_clip: true, ..ClipOptions::default() });
        assert!(looped.err().unwrap().to_string().contains("a stream as it comes"));
        let nothing = Clip::stream(Box::new(io::empty()), "-", ClipOptions::default());
        assert!(nothing.err().unwrap().to_string().starts_with("-: "));
    }

    #[test]
    fn a_camera_that_is_not_there_is_named() {
        if !testing::have_ffmpeg() {
            return println!("skipped: no ffmpeg");
        }
        let error =
            Clip::camera(Path::new("/dev/video97"), ClipOptions::default()).err().unwrap().to_string();
        assert!(error.contains("/dev/video97") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_broken_clip_ends_and_says_why() {
        let (folder, path, _) = three();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(folder.path("cut.y4m"), &bytes[..bytes.len() - 9]).unwrap();
        let mut clip = Clip::open(&folder.path("cut.y4m"), ClipOptions::default()).unwrap();
        assert_eq!(std::iter::from_fn(|| clip.next_picture()).count(), 2);
        assert!(clip.trouble().unwrap().to_string().contains("middle of picture 2"));
    }

    #[test]
    fn real_clips_open_through_ffmpeg() {
        let Some(data) = testing::data_folder().filter(|_| testing::have_ffmpeg()) else {
            println!("skipped: no data folder or no ffmpeg");
            return;
        };
        let path = data.join("video/cif-classics/akiyo_cif.mp4");
        let options = ClipOptions { max_frames: Some(5), size: Some((176, 144)), ..ClipOptions::default() };
        let mut clip = open_clip(&path, options).unwrap();
        assert_eq!((clip.size(), clip.interval()), ((176, 144), Span::from_millis(40)));
        assert_eq!(std::iter::from_fn(|| clip.next_picture()).count(), 5);
    }
}
