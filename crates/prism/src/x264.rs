//! x264 through an `ffmpeg` process: a stream in which every frame keeps a budget of its own, as a hardware
//! encoder for games does.
//!
//! ```text
//!   pictures -> Y4M on a pipe -> ffmpeg -c:v libx264 -> Annex B on a pipe -> access units -> our decoder
//! ```
//!
//! x264's rate control holds each frame to what its buffer (VBV) has: the buffer is one frame, a zone of
//! its own sets it for each frame, and the quality asked for (`crf=1`) is out of reach, so that the buffer
//! decides. On a racing game at 320x180 frames then take 80 % of their budgets at the median, and one in a
//! hundred more than all of it.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use media::{RawFrame, Y4mWriter};
use std::sync::Arc;
use units::{Rate, Span};

use crate::model::Step;

/// Key frames of the first picture before the stream itself: x264 learns from them what key frames cost, and
/// without one it takes ten budgets for the first.
pub(crate) const WARM_UP: usize = 2;

/// What never changes. No look-ahead, one reference, one thread, no B pictures: each frame is coded when it
/// comes.
const ALWAYS: &str = "bframes=0:scenecut=0:rc-lookahead=0:sync-lookahead=0:sliced-threads=0:threads=1:weightp=0:aud=1:ref=1:\
                      mbtree=0:repeat-headers=1:cabac=0:8x8dct=0:vbv-init=1";

/// What ffmpeg and its libx264 call themselves, or `None` where they are not.
pub(crate) fn version() -> Option<String> {
    let said = |arguments: &[&str]| {
        let output = Command::new("ffmpeg").args(arguments).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    said(&["-v", "quiet", "-encoders"])?.contains("libx264").then_some(())?;
    let first = said(&["-version"])?;
    Some(first.split_whitespace().nth(2).unwrap_or("of unknown version").to_owned())
}

/// A rate as x264's buffer: kbit/s, and whole kbit that hold one frame.
fn buffer(rate: Rate, interval: Span) -> String {
    let kbps = (rate.as_f64() / 1e3).round().max(1.0);
    let kbit = (kbps * interval.as_secs_f64() - 1e-6).ceil().max(1.0);
    format!("vbv-maxrate={kbps}:vbv-bufsize={kbit}")
}

fn parameters(steps: &[Step], interval: Span) -> String {
    let zone = |frame: usize| {
        // What a frame leaves in the buffer is bounded by its own zone: where the next one may take more, its
        // rate must fill the buffer already.
        let next = steps.get(frame + 1).map_or(Rate::ZERO, |step| step.rate());
        let rate = steps[frame].rate().max(next);
        format!("{frame},{frame},b=1,{}", buffer(rate, interval).replace(':', ","))
    };
    let zones: Vec<String> = (0..steps.len()).map(zone).collect();
    let keys = if is_all_keys(steps) { "keyint=1" } else { "keyint=infinite" };
    format!("{ALWAYS}:{keys}:{}:zones={}", buffer(steps[0].rate(), interval), zones.join("/"))
}

fn is_all_keys(steps: &[Step]) -> bool {
    steps.iter().all(|step| matches!(step, Step::Key(_)))
}

/// The access units of a stream that has a delimiter before each (H.264 section 7.4.1.2.3: NAL type 9).
fn access_units(stream: &[u8]) -> Vec<&[u8]> {
    const DELIMITER: [u8; 5] = [0, 0, 0, 1, 9];
    let starts: Vec<usize> = (0..stream.len()).filter(|&at| stream[at..].starts_with(&DELIMITER)).collect();
    let ends = starts.iter().skip(1).copied().chain([stream.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &stream[start..end]).collect()
}

/// Codes `pictures` as `steps` say, an access unit a picture; what went wrong, in words, if it did.
pub(crate) fn code(
    pictures: &[Arc<RawFrame>],
    steps: &[Step],
    interval: Span,
) -> Result<Vec<Vec<u8>>, String> {
    let first = steps.first().ok_or("a stream without frames")?;
    let steps = [vec![Step::Key(first.rate()); WARM_UP], steps.to_vec()].concat();
    let keys = steps.iter().enumerate().filter(|(_, step)| matches!(step, Step::Key(_)));
    let keys: Vec<String> =
        if is_all_keys(&steps) { Vec::new() } else { keys.map(|(n, _)| format!("eq(n,{n})")).collect() };
    let mut command = Command::new("ffmpeg");
    command.args([
        "-v",
        "error",
        "-f",
        "yuv4mpegpipe",
        "-i",
        "-",
        "-c:v",
        "libx264",
        "-preset",
        "veryfast",
        "-crf",
        "1",
    ]);
    command.args(["-profile:v", "baseline", "-x264-params", &parameters(&steps, interval)]);
    if !keys.is_empty() {
        command.args(["-forced-idr", "1", "-force_key_frames", &format!("expr:{}", keys.join("+"))]);
    }
    let command =
        command.args(["-f", "h264", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("ffmpeg: {error}"))?;
    let (mut input, mut output) =
        (child.stdin.take().expect("it is a pipe"), child.stdout.take().expect("it is a pipe"));
    let warm = std::iter::repeat_n(&pictures[0], WARM_UP);
    let mut stream = Vec::new();
    let moved = std::thread::scope(|scope| {
        let writer = scope.spawn(move || -> std::io::Result<()> {
            let mut clip = Vec::new();
            let mut frames = Y4mWriter::new(&mut clip, pictures[0].width, pictures[0].height, interval)?;
            warm.chain(pictures).try_for_each(|picture| frames.write(picture))?;
            input.write_all(&clip)
        });
        let read = output.read_to_end(&mut stream);
        // A process that gave up takes no more; what it says is the better reason.
        let _ = writer.join().expect("writing does not panic");
        read
    });
    let ended = child.wait_with_output().map_err(|error| format!("ffmpeg: {error}"))?;
    moved.map_err(|error| format!("ffmpeg: {error}"))?;
    let units = access_units(&stream);
    if !ended.status.success() || units.len() != steps.len() {
        let said = String::from_utf8_lossy(&ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        return Err(format!("ffmpeg coded {} of {} frames: {said}", units.len(), steps.len()));
    }
    Ok(units[WARM_UP..].iter().map(|unit| unit.to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_has_a_zone_with_room_for_the_next() {
        let steps = [100, 50, 200].map(|kbps| Step::Predicted(Rate::from_kbps(kbps)));
        let said = parameters(&steps, Span::from_millis(40));
        let zones = said.split("zones=").nth(1).unwrap();
        let expected = "0,0,b=1,vbv-maxrate=100,vbv-bufsize=4/1,1,b=1,vbv-maxrate=200,vbv-bufsize=8/2,2,b=1,vbv-maxrate=200,vbv-bufsize=8";
        assert_eq!(zones, expected);
        assert!(said.contains("keyint=infinite"));
        assert!(parameters(&[Step::Key(Rate::from_kbps(1))], Span::from_millis(40)).contains("keyint=1:"));
    }

    #[test]
    fn access_units_begin_with_their_delimiters() {
        let stream = [0, 0, 0, 1, 9, 16, 7, 0, 0, 0, 1, 9, 48, 8, 8];
        assert_eq!(access_units(&stream), [&stream[..7], &stream[7..]]);
        assert!(access_units(b"none").is_empty());
    }
}
