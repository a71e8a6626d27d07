//! An `ffmpeg` process that is fed through one pipe and read through two.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// What a process wrote: its standard output, and its standard error, which the caller may have made a second
/// output (`pipe:2`).
pub(super) struct Output {
    pub out: Vec<u8>,
    pub err: String,
}

/// Runs ffmpeg on `input` to its end. What went wrong, in words, if it failed.
pub(super) fn run(arguments: &[&str], input: &[u8]) -> Result<Output, String> {
    let words = |error: std::io::Error| format!("ffmpeg: {error}");
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-nostats"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(words)?;
    let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
    let ((mut stdin, mut stdout), mut stderr) = pipes.expect("all three pipes were asked for");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let read = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A process that gave up takes no more; what it says is the better reason.
            let _ = stdin.write_all(input);
        });
        let listener = scope.spawn(|| stderr.read_to_end(&mut err));
        let read = stdout.read_to_end(&mut out);
        listener.join().expect("reading does not panic").and(read)
    });
    let status = child.wait().map_err(words)?;
    read.map_err(words)?;
    let err = String::from_utf8_lossy(&err).into_owned();
    if !status.success() {
        let said = err.split_whitespace().collect::<Vec<_>>().join(" ");
        let end: String = said.chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect();
        return Err(format!("ffmpeg failed: {end}"));
    }
    Ok(Output { out, err })
}

/// How chroma of half the resolution becomes RGB: by lines between its samples, as libjpeg does. ffmpeg's
/// own way, unless asked for another, repeats samples, which costs JPEG 0.3 dB.
pub(super) const UPSAMPLING: [&str; 2] = ["-sws_flags", "bilinear+full_chroma_int+accurate_rnd"];

/// Arguments that describe raw pictures of this size on standard input, 25 a second.
pub(super) fn raw_input(format: &str, width: usize, height: usize) -> Vec<String> {
    let size = format!("{width}x{height}");
    ["-f", "rawvideo", "-pix_fmt", format, "-s", &size, "-r", "25", "-i", "pipe:0"].map(str::to_owned).into()
}

/// References to the arguments, as [`run`] takes them.
pub(super) fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// Whether there is an ffmpeg at all.
#[cfg(test)]
pub(super) fn is_there() -> bool {
    run(&["-v", "quiet", "-version"], &[]).is_ok()
}
