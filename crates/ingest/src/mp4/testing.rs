//! What this crate's tests share: real frames, a scratch folder, and players that judge files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use media::{Ask, Codec, CodecConfig, Encoder, Source, SyntheticConfig, SyntheticGame};
use units::{Rate, Span, Time};

use super::{AccessUnit, Description, Sample};

const RATE: Rate = Rate::from_mbps(1);
const INTERVAL: Span = Span::from_nanos(33_333_333);
/// Ticks from frame to frame.
pub const TICKS: u32 = 3_000;
/// Frames of a segment of a second.
pub const FRAMES: u32 = 30;

/// Frames of 160x96 behind start codes, `count` segments of [`FRAMES`], in several slices where they are
/// large.
/// Those whose number in their segment `missing` names did not arrive, and no other refers to them.
pub fn annex_b(count: u32, missing: impl Fn(u32) -> bool) -> Vec<Option<Bytes>> {
    let config = CodecConfig {
        width: 160,
        height: 96,
        interval: INTERVAL,
        initial: RATE,
        max: RATE,
        slices: Some(500),
        latency: Some(Span::ZERO),
    };
    let mut encoder = Codec::H264.encoder(config).unwrap();
    let mut game =
        SyntheticGame::new(SyntheticConfig { interval: INTERVAL, ..SyntheticConfig::new(160, 96) });
    let mut code = |frame: u32| {
        let picture = game.next_picture();
        let key = frame.is_multiple_of(FRAMES);
        if missing(frame % FRAMES) {
            return None;
        }
        let ask =
            Ask { frame, bitrate: RATE, interval: INTERVAL, key, largest: None, height: None, peer: None };
        encoder.submit(Time::ZERO, picture.as_ref(), &ask).unwrap();
        encoder.poll(Time::ZERO).unwrap().payload
    };
    (0..count * FRAMES).map(&mut code).collect()
}

/// The same as samples, of which one before a missing frame lasts longer.
pub fn segments(count: u32, missing: impl Fn(u32) -> bool) -> (Description, Vec<Vec<Sample>>) {
    let frames = annex_b(count, missing);
    let first = AccessUnit::read(frames[0].as_ref().unwrap()).unwrap();
    let cut = |frames: &[Option<Bytes>]| {
        let mut samples: Vec<Sample> = Vec::new();
        for frame in frames {
            match frame {
                Some(frame) => samples.push(AccessUnit::read(frame).unwrap().lasting(TICKS)),
                None => samples.last_mut().expect("a segment's first frame is there").duration += TICKS,
            }
        }
        samples
    };
    let description = first.description.expect("a key frame brings its parameter sets");
    (description, frames.chunks(FRAMES as usize).map(cut).collect())
}

/// Whether a program runs; says so if not.
pub fn there_is(program: &str) -> bool {
    let there = Command::new(program).arg("-version").output().is_ok();
    if !there {
        println!("skipped: there is no {program} here");
    }
    there
}

/// What `ffmpeg` says of an input that it plays to its end: nothing, if all is well.
pub fn complaints(input: &Path) -> String {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "warning", "-i"]).arg(input);
    let output = command.args(["-f", "null", "-"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { said } else { format!("{said} and fails: {}", output.status) }
}

/// One number or name that `ffprobe` reads out of the stream of pictures, such as `nb_read_frames`.
pub fn probe(field: &str, input: &Path) -> String {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-count_frames", "-select_streams", "v", "-of", "csv=p=0"]);
    command.args(["-show_entries", &format!("stream={field}")]).arg(input);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // A stream that belongs to a program is told twice.
    said.lines().next().unwrap_or_default().trim_end_matches(',').to_owned()
}

/// A folder that goes away with its owner.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("framewire-ingest-{process}-{number}"));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Writes a file, in a folder of its own if `name` says so.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
