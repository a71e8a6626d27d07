//! Any other clip through an `ffmpeg` process, if there is one: it decodes to Y4M on a pipe, [`Y4mReader`]
//! reads that.
//!
//! ```text
//!   clip.mp4 -> ffmpeg -i clip.mp4 -pix_fmt yuv420p -f yuv4mpegpipe - -> pipe -> Y4mReader
//! ```
//!
//! The process is killed when the reader goes away; what it says on its standard error ends up in our error.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use crate::{ClipError, Y4mReader};

/// Last bytes of ffmpeg's complaints that are kept.
const KEPT: usize = 2048;

/// What ffmpeg does to the clip on the way.
#[derive(Clone, Debug)]
pub struct FfmpegOptions {
    /// The program: a name looked up on `PATH`, or a path.
    pub program: PathBuf,
    /// Scale to this width and height in pixels; both even.
    pub size: Option<(usize, usize)>,
    /// Resample to this many pictures a second, dropping or repeating pictures.
    pub fps: Option<f64>,
}

impl Default for FfmpegOptions {
    fn default() -> FfmpegOptions {
        FfmpegOptions { program: PathBuf::from("ffmpeg"), size: None, fps: None }
    }
}

impl FfmpegOptions {
    fn filters(&self) -> String {
        let scale = match self.size {
            Some((width, height)) => format!("scale={width}:{height}:flags=bicubic"),
            // 4:2:0 has no odd sides; half a chroma sample is cut off.
            None => "crop=trunc(iw/2)*2:trunc(ih/2)*2:0:0".to_owned(),
        };
        match self.fps {
            Some(fps) => format!("fps={fps},{scale}"),
            None => scale,
        }
    }

    fn command(&self, path: &Path) -> Command {
        // "file:" keeps a file name such as "-x" or "http:..." from being taken for an option or an address.
        let mut input = OsString::from("file:");
        input.push(path);
        let mut command = Command::new(&self.program);
        command.args(["-v", "error", "-nostdin", "-i"]).arg(input);
        self.to_pipe(command)
    }

    /// A camera is asked for size and rate; what it gives instead is scaled and resampled.
    fn camera(&self, device: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-v", "error", "-nostdin", "-fflags", "nobuffer", "-f", "v4l2"]);
        if let Some((width, height)) = self.size {
            command.args(["-video_size", &format!("{width}x{height}")]);
        }
        if let Some(fps) = self.fps {
            command.args(["-framerate", &fps.to_string()]);
        }
        command.arg("-i").arg(device);
        self.to_pipe(command)
    }

    fn to_pipe(&self, mut command: Command) -> Command {
        command.args(["-map", "0:v:0", "-vf", &self.filters(), "-pix_fmt", "yuv420p"]);
        command.args(["-f", "yuv4mpegpipe", "-"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// The output of a running ffmpeg. Killed on drop.
pub struct FfmpegPipe {
    child: Child,
    out: ChildStdout,
    said: Option<JoinHandle<String>>,
}

/// Reads everything, so that ffmpeg never blocks on complaining, and keeps the end of it.
fn listen(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 512];
    while let Ok(n @ 1..) = stderr.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..n]);
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).trim().replace('\n', "; ")
}

impl FfmpegPipe {
    /// Starts ffmpeg on `path`.
    ///
    /// # Errors
    /// [`ClipError::NoFfmpeg`] if there is no such program, [`ClipError::Read`] if it can't be started.
    pub fn start(path: &Path, options: &FfmpegOptions) -> Result<FfmpegPipe, ClipError> {
        FfmpegPipe::spawn(options.command(path), path, options)
    }

    /// Starts ffmpeg on a camera, a device of Video4Linux.
    ///
    /// # Errors
    /// As [`start`](FfmpegPipe::start).
    pub fn camera(device: &Path, options: &FfmpegOptions) -> Result<FfmpegPipe, ClipError> {
        FfmpegPipe::spawn(options.camera(device), device, options)
    }

    fn spawn(mut command: Command, path: &Path, options: &FfmpegOptions) -> Result<FfmpegPipe, ClipError> {
        let file = path.display().to_string();
        let mut child = command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                ClipError::NoFfmpeg { file: file.clone(), program: options.program.display().to_string() }
            }
            _ => ClipError::Read { file: file.clone(), source },
        })?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (out, err) = out.zip(err).expect("both pipes were asked for");
        let said = std::thread::spawn(move || listen(err));
        Ok(FfmpegPipe { child, out, said: Some(said) })
    }

    /// Number of the process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process and says what it complained about.
    fn complaint(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.said.take().and_then(|listener| listener.join().ok()).unwrap_or_default()
    }
}

impl Read for FfmpegPipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.out.read(buffer)? {
            // The end: a process that failed must not look like a clip that is over.
            0 if !buffer.is_empty() && self.said.is_some() && !self.child.wait()?.success() => {
                Err(io::Error::other(format!("ffmpeg: {}", self.complaint())))
            }
            n => Ok(n),
        }
    }
}

impl Drop for FfmpegPipe {
    fn drop(&mut self) {
        self.complaint();
    }
}

/// Whether ffmpeg finds sound in a clip; `false` also where it can't say.
pub(crate) fn has_sound(path: &Path, options: &FfmpegOptions) -> bool {
    let mut input = OsString::from("file:");
    input.push(path);
    // Without an output ffmpeg describes the input and ends.
    let mut command = Command::new(&options.program);
    command.args(["-hide_banner", "-nostdin", "-i"]).arg(input).stdin(Stdio::null());
    command.output().is_ok_and(|output| names_sound(&String::from_utf8_lossy(&output.stderr)))
}

/// Whether ffmpeg's description of a clip names a stream of sound: `Stream #0:1[0x2](und): Audio: aac (LC)`.
fn names_sound(description: &str) -> bool {
    description.lines().any(|line| line.trim_start().starts_with("Stream #") && line.contains(": Audio:"))
}

/// Opens any clip ffmpeg can read as a stream of pictures.
///
/// # Errors
/// [`ClipError::NoFfmpeg`] without ffmpeg, [`ClipError::Read`] with what ffmpeg said if it can't read the
/// clip.
pub fn open_ffmpeg(path: &Path, options: &FfmpegOptions) -> Result<Y4mReader<FfmpegPipe>, ClipError> {
    Y4mReader::new(FfmpegPipe::start(path, options)?, &path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn options() -> FfmpegOptions {
        FfmpegOptions::default()
    }

    #[test]
    fn a_missing_program_is_named_with_its_remedy() {
        let options = FfmpegOptions { program: "no-such-ffmpeg".into(), ..options() };
        let error = open_ffmpeg(Path::new("clip.mp4"), &options).err().unwrap().to_string();
        assert!(error.contains("clip.mp4") && error.contains("no-such-ffmpeg"), "{error}");
        assert!(error.contains("apt-get install ffmpeg") && error.contains(".y4m"), "{error}");
    }

    #[test]
    fn ffmpeg_scales_and_resamples() {
        if !testing::have_ffmpeg() {
            println!("skipped: no ffmpeg");
            return;
        }
        let folder = testing::TempFolder::new("ffmpeg");
        let frames: Vec<_> = (0..10).map(|i| testing::textured(64, 48, i)).collect();
        testing::write_y4m(&folder.path("-in.y4m"), &frames);
        let plain = open_ffmpeg(&folder.path("-in.y4m"), &options()).unwrap().next_frame().unwrap().unwrap();
        assert_eq!(plain, frames[0]);
        let changed = FfmpegOptions { size: Some((32, 24)), fps: Some(12.5), ..options() };
        let mut reader = open_ffmpeg(&folder.path("-in.y4m"), &changed).unwrap();
        assert_eq!((reader.header().width, reader.header().height), (32, 24));
        assert_eq!(reader.header().interval, Some(units::Span::from_millis(80)));
        let count = std::iter::from_fn(|| reader.next_frame().unwrap()).count();
        assert_eq!(count, 5);
    }

    #[test]
    fn sound_is_noticed() {
        assert!(names_sound(
            "Input #0\n  Stream #0:0: Video: h264\n  Stream #0:1[0x2](und): Audio: aac (LC)\n"
        ));
        assert!(!names_sound("Metadata:\n  title: Audio: a history\n  Stream #0:0: Video: h264\n"));
        if !testing::have_ffmpeg() {
            println!("skipped: no ffmpeg");
            return;
        }
        let folder = testing::TempFolder::new("sound");
        testing::write_y4m(&folder.path("dumb.y4m"), &vec![testing::textured(64, 48, 1); 3]);
        assert!(!has_sound(&folder.path("dumb.y4m"), &options()));
        // Half a second of a tone, as a WAV file of 8000 samples a second, 8 bits each (RIFF).
        let samples: Vec<u8> = (0..4_000u32).map(|n| if n / 10 % 2 == 0 { 100 } else { 150 }).collect();
        let head =
            [&b"WAVEfmt "[..], &[16, 0, 0, 0, 1, 0, 1, 0, 64, 31, 0, 0, 64, 31, 0, 0, 1, 0, 8, 0], b"data"]
                .concat();
        let size = |bytes: usize| (bytes as u32).to_le_bytes();
        let wave =
            [&b"RIFF"[..], &size(head.len() + 4 + samples.len()), &head, &size(samples.len()), &samples]
                .concat();
        std::fs::write(folder.path("tone.wav"), wave).unwrap();
        assert!(has_sound(&folder.path("tone.wav"), &options()));
    }

    #[test]
    fn what_ffmpeg_says_is_passed_on() {
        if !testing::have_ffmpeg() {
            println!("skipped: no ffmpeg");
            return;
        }
        let folder = testing::TempFolder::new("ffmpeg");
        std::fs::write(folder.path("junk.mp4"), b"this is no clip").unwrap();
        let error = open_ffmpeg(&folder.path("junk.mp4"), &options()).err().unwrap().to_string();
        assert!(error.contains("junk.mp4") && error.contains("Invalid data"), "{error}");
    }

    #[test]
    fn the_process_dies_with_its_reader() {
        if !testing::have_ffmpeg() || !Path::new("/proc").is_dir() {
            println!("skipped: no ffmpeg or no /proc");
            return;
        }
        let folder = testing::TempFolder::new("ffmpeg");
        testing::write_y4m(&folder.path("a.y4m"), &vec![testing::textured(320, 240, 1); 60]);
        let pipe = FfmpegPipe::start(&folder.path("a.y4m"), &options()).unwrap();
        let entry = format!("/proc/{}", pipe.process());
        assert!(Path::new(&entry).exists());
        drop(pipe);
        assert!(!Path::new(&entry).exists());
    }
}
