//! H.264 by x264 through ffmpeg, as section 5.5 of the thesis sets it up, and what ffmpeg's concealment makes
//! of a stream of which slices are missing or wrong.

use vixnn::Picture;

use super::ffmpeg;
use super::matroska::{self, INTERVAL};
use super::pictures::{Clip, split};
use super::stream::Stream;

/// How frames depend on each other (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Each frame is coded alone.
    Gop1,
    /// A key frame every eight frames.
    Gop8,
    /// Intra refresh: a column of intra blocks wanders across the picture in a second.
    Intra,
}

/// Longest slice asked of x264, which may exceed it by a few bytes.
const SLICE: &str = "slice-max-size=1180";
/// What never changes: no B pictures, no key frames but those that are due, one thread, a delimiter before
/// each frame.
const ALWAYS: &str = "bframes=0:scenecut=0:threads=1:aud=1";
/// Frames that a wave of intra refresh takes: a second. The thesis gives none; x264's default is 250.
pub(super) const WAVE: usize = 25;

impl Coding {
    fn parameters(self) -> String {
        match self {
            Coding::Gop1 => "keyint=1".to_owned(),
            Coding::Gop8 => "keyint=8:min-keyint=8".to_owned(),
            Coding::Intra => format!("intra-refresh=1:keyint={WAVE}"),
        }
    }
}

/// Times that a clip is coded, with another rate each time, until it has the bits that were asked for ...
const TRIES: usize = 5;
/// ... to within this share.
const CLOSE: f64 = 0.01;

/// Codes something with so many bits in the mean: as often as it takes, each time asking for as much more or
/// less as came out too little or too much. `code` says what came out, and its bits.
pub(super) fn to_rate<T>(bits: f64, code: impl Fn(f64) -> Result<(T, f64), String>) -> Result<T, String> {
    let (mut asked, mut best) = (bits, None);
    for _ in 0..TRIES {
        let (coded, found) = code(asked)?;
        let off = (found / bits - 1.0).abs();
        if best.as_ref().is_none_or(|(known, _)| off < *known) {
            best = Some((off, coded));
        }
        if off <= CLOSE {
            break;
        }
        asked *= (bits / found.max(1.0)).clamp(0.5, 2.0);
    }
    best.map(|(_, coded)| coded).ok_or_else(|| "nothing was coded".to_owned())
}

/// Codes a clip with so many bits a frame in the mean; in slices that each fit a packet, or each frame in
/// one.
pub(super) fn code(clip: &Clip, coding: Coding, bits: f64, sliced: bool) -> Result<Stream, String> {
    to_rate(bits, |asked| {
        let stream = code_once(clip, coding, asked, sliced)?;
        let found = stream.bits() as f64 / clip.pictures.len() as f64;
        Ok((stream, found))
    })
}

fn code_once(clip: &Clip, coding: Coding, bits: f64, sliced: bool) -> Result<Stream, String> {
    let second = (bits * 1000.0 / INTERVAL as f64).round().max(1000.0);
    let (rate, buffer) = (second.to_string(), (second / 2.0).round().to_string());
    let slices = if sliced { format!(":{SLICE}") } else { String::new() };
    let parameters = format!("{ALWAYS}:{}{slices}", coding.parameters());
    let input = ffmpeg::raw_input("yuv420p", clip.size.0, clip.size.1);
    // The buffer holds half a second.
    let rates = ["-b:v", &rate, "-maxrate", &rate, "-bufsize", &buffer];
    let output = ["-x264-params", &parameters, "-f", "h264", "pipe:1"];
    let coder = ["-c:v", "libx264", "-preset", "medium"];
    let arguments = [["-v", "error"].as_slice(), &ffmpeg::borrowed(&input), &coder, &rates, &output].concat();
    let stream = Stream::parse(&ffmpeg::run(&arguments, &clip.planes)?.out)?;
    let frames = clip.pictures.len();
    if stream.frames.len() != frames {
        return Err(format!("x264 coded {} of {frames} frames", stream.frames.len()));
    }
    Ok(stream)
}

/// What ffmpeg shows of a received stream, frame by frame; nothing where it shows nothing.
pub(super) fn decode(stream: &Stream, size: (usize, usize)) -> Result<Vec<Option<Picture>>, String> {
    let file = matroska::file(stream, size);
    let decoder = "-v quiet -threads 1 -max_error_rate 1 -flags +output_corrupt+low_delay -err_detect ignore_err -ec guess_mvs+deblock";
    let [flag, scaling] = ffmpeg::UPSAMPLING;
    let outputs = format!(
        "-f matroska -i pipe:0 -map 0:v -fps_mode passthrough {flag} {scaling} -pix_fmt rgb24 -f rawvideo pipe:1 \
         -map 0:v -fps_mode passthrough -enc_time_base 1:1000 -pix_fmt gray -f framecrc pipe:2"
    );
    let arguments: Vec<&str> = decoder.split(' ').chain(outputs.split_whitespace()).collect();
    let output = ffmpeg::run(&arguments, &file)?;
    let mut shown = vec![None; stream.frames.len()];
    if output.out.is_empty() {
        return Ok(shown);
    }
    let pictures = split(&output.out, size)?;
    let times: Vec<usize> = times(&output.err);
    if times.len() != pictures.len() {
        return Err(format!("ffmpeg showed {} pictures and {} times", pictures.len(), times.len()));
    }
    for (frame, picture) in times.into_iter().zip(pictures) {
        if let Some(place) = shown.get_mut(frame) {
            *place = Some(picture);
        }
    }
    Ok(shown)
}

/// Frames by their times, out of lines `stream, decoded, shown, duration, size, sum` in milliseconds.
fn times(lines: &str) -> Vec<usize> {
    let time = |line: &str| line.split(',').nth(2)?.trim().parse::<u64>().ok();
    let lines = lines.lines().filter(|line| line.starts_with("0,"));
    lines.filter_map(time).map(|ms| ((ms + INTERVAL / 2) / INTERVAL) as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vixnn::pictures::quality;
    use crate::vixnn::pictures::tests::drawn;

    #[test]
    fn a_rate_is_asked_for_until_it_comes_out() {
        // A coder that gives a fifth more than asked for and a fixed header.
        let code = |asked: f64| Ok((asked, 1.2 * asked + 50.0));
        let asked = to_rate(1000.0, code).unwrap();
        assert!((1.2 * asked + 50.0 - 1000.0).abs() <= 10.0, "{asked}");
        // One that can't be moved is taken as it is.
        assert_eq!(to_rate(1000.0, |asked| Ok((asked, 700.0))), Ok(1000.0));
        assert_eq!(to_rate(1.0, |_| Err::<((), f64), _>("no".to_owned())), Err("no".to_owned()));
    }

    #[test]
    fn times_are_frames() {
        let lines = "#tb 0: 1/1000\n0,          0,          0,       40,   304128, 0xef474f74\n0, 80, 80, 40, 3, 0x1\n";
        assert_eq!(times(lines), [0, 2]);
    }

    /// 20 pictures that move, as a clip.
    fn moving() -> Result<Clip, String> {
        let size = (176, 144);
        let pictures: Vec<Picture> = (0..20).map(|shift| drawn(size.0, size.1, 2 * shift)).collect();
        let rgb: Vec<u8> = pictures.iter().flat_map(|picture| picture.rgb.clone()).collect();
        let input = ffmpeg::raw_input("rgb24", size.0, size.1);
        let output = ["-pix_fmt", "yuv420p", "-f", "rawvideo", "pipe:1"];
        let arguments = [["-v", "error"].as_slice(), &ffmpeg::borrowed(&input), &output].concat();
        let planes = ffmpeg::run(&arguments, &rgb)?.out;
        Ok(Clip { size, pictures, planes })
    }

    #[test]
    fn frames_keep_their_places_whatever_is_missing() {
        if crate::data::is_lacking("x264") {
            println!("skipped: no ffmpeg with libx264");
            return;
        }
        let clip = moving().unwrap();
        let mut stream = code(&clip, Coding::Gop8, 60_000.0, true).unwrap();
        assert!(stream.packets().iter().all(|packet| packet.bytes.len() <= super::super::stream::PAYLOAD));
        assert!(stream.frames.iter().any(|slices| slices.len() > 2));
        let whole = decode(&stream, clip.size).unwrap();
        let of = |shown: &[Option<Picture>], frame: usize| {
            shown[frame].as_ref().map(|picture| quality(&clip.pictures[frame], picture).unwrap().ssim)
        };
        assert!((0..20).all(|frame| of(&whole, frame).is_some_and(|ssim| ssim > 0.8)));
        // A frame without a slice, a key frame without its last, and one without its first.
        stream.frames[10].clear();
        stream.frames[8].pop();
        stream.frames[16].remove(0);
        let shown = decode(&stream, clip.size).unwrap();
        assert_eq!((0..20).filter(|&frame| shown[frame].is_none()).collect::<Vec<_>>(), [10]);
        assert_eq!(shown[..8], whole[..8]);
        // After a key frame each is nearer to its own original than to the one before: no frame has slipped.
        for frame in [17, 19] {
            let near =
                |other: usize| quality(&clip.pictures[other], shown[frame].as_ref().unwrap()).unwrap().ssim;
            assert!(near(frame) > near(frame - 1), "{frame}");
        }
        assert!(of(&shown, 8) < of(&whole, 8) && of(&shown, 16) < of(&whole, 16));
    }

    #[test]
    fn the_three_codings_differ_in_their_key_frames() {
        if crate::data::is_lacking("x264") {
            println!("skipped: no ffmpeg with libx264");
            return;
        }
        let clip = moving().unwrap();
        let keys = |coding| {
            let stream = code(&clip, coding, 40_000.0, false).unwrap();
            let key = |slices: &Vec<Vec<u8>>| slices.iter().all(|slice| slice[0] & 0x1f == 5);
            stream
                .frames
                .iter()
                .enumerate()
                .filter(|(_, slices)| key(slices))
                .map(|(n, _)| n)
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(Coding::Gop1).len(), 20);
        assert_eq!(keys(Coding::Gop8), [0, 8, 16]);
        assert_eq!(keys(Coding::Intra), [0]);
    }
}
