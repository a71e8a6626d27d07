//! Records a table of VP8 as browsers run it for calls: libvpx in real time, with the settings libwebrtc gave
//! it in 2015 and 2016 (`VP8EncoderImpl`), over a clip that repeats like the virtual camera of seed 002. The
//! codec and the decoder are an `ffmpeg` with libvpx.
//!
//! ```text
//!   clip, some times over  -> ffmpeg -c:v libvpx -> IVF -> sizes of the last times over    one curve a rate
//!                                                    '---> ffmpeg -> pictures -> quality
//! ```
//!
//! `cargo run --release -p framewire-media --example record_vp8 -- OUT.json CLIP NAME CREDIT [HEIGHT] [gaps]`
//!
//! With a height below the clip's the pictures are scaled down before they are coded, and the decoded ones up
//! again before they are compared: quality is always that of the full size. Rates at which libvpx leaves out
//! pictures of that size are skipped, with `gaps` those only at which it leaves out more than one in fifty:
//! at a scene cut it may leave out the first picture and code the next one as coarsely as it can
//! (`vp8_drop_encodedframe_overshoot`), and a table holds that as a frame of no bytes.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use framewire_media::{
    ClipOptions, Memory, RawFrame, Scaler, Table, Y4mWriter, open_clip, quality, size_of_height,
};
use units::Span;

/// Bitrates recorded of a 720p clip, in kbit/s, and of other sizes in proportion to their picture elements.
/// Below, libvpx leaves out pictures, and what the model lacks is not recorded.
const RATES: [u64; 7] = [350, 500, 700, 1_000, 1_400, 2_000, 4_000];
/// ... and of pictures with fewer rows than the clip's: from what 180 rows need at least to the highest rate
/// of the experiments, which no size but the full one fills.
const RATES_BELOW: [u64; 9] = [30, 60, 120, 250, 500, 1_000, 2_000, 4_000, 12_000];
/// At these, too, it is recorded how coarsely the full size is quantised, pictures left out or not.
const RATES_COARSE: [u64; 4] = [30, 60, 120, 250];
/// The picture elements of 720p.
const AREA: usize = 1280 * 720;
/// How often the clip is coded, and how many of these times are kept, the last ones, when nothing is left of
/// the first key frame: of the full size, of others, and of a clip of [`LONG`] or more at any size.
const TIMES: [(usize, usize); 3] = [(5, 2), (5, 1), (2, 1)];
/// Long enough to be recorded once only.
const LONG: Span = Span::from_secs(20);
/// Key frames are asked for this often in the recording that measures them, in frames.
const KEY_EVERY: usize = 60;
/// The largest share of pictures that libvpx may leave out where a clip is recorded with `gaps`.
const MISSING: f64 = 0.02;
/// IVF: bytes before the first frame and before each frame.
const IVF_HEADERS: (usize, usize) = (32, 12);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The settings: one-pass CBR with buffers of 0.5, 0.6 and 1 s, quantisers 2 to 56, error resilience,
/// adaptive denoising, key frames of up to nine times a frame's budget and every 3000 frames, frames left out
/// below 30 % of the buffer. (ffmpeg puts the aimed-at level at 5/6 of the buffer where libwebrtc has 0.6.)
fn libvpx(kbps: u64) -> Vec<String> {
    let fixed = "-c:v libvpx -deadline realtime -cpu-used -6 -threads 1 -lag-in-frames 0 -auto-alt-ref 0 -undershoot-pct 100 \
                 -overshoot-pct 15 -qmin 2 -qmax 56 -g 3000 -error-resilient default -max-intra-rate 900 -noise-sensitivity 3 \
                 -static-thresh 1 -drop-threshold 30";
    let rate = format!(
        "-b:v {kbps}k -minrate {kbps}k -maxrate {kbps}k -bufsize {kbps}k -rc_init_occupancy {}k",
        kbps / 2
    );
    format!("{fixed} {rate}").split_whitespace().map(str::to_owned).collect()
}

fn encode(clip: &Path, frames: usize, kbps: u64, more: &[String], out: &Path) -> Result<()> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y", "-stream_loop", "-1", "-i"]).arg(clip);
    command.args(["-pix_fmt", "yuv420p", "-frames:v", &frames.to_string()]).args(libvpx(kbps)).args(more);
    let status = command.args(["-f", "ivf"]).arg(out).status()?;
    if status.success() { Ok(()) } else { Err(format!("ffmpeg: {status}").into()) }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The decoder of single bits of RFC 6386 section 7.3.
struct Bits<'a> {
    data: std::slice::Iter<'a, u8>,
    value: u32,
    range: u32,
    left: u32,
}

impl Bits<'_> {
    fn new(data: &[u8]) -> Bits<'_> {
        let mut bits = Bits { data: data.iter(), value: 0, range: 255, left: 0 };
        bits.value = bits.byte() << 8 | bits.byte();
        bits
    }

    fn byte(&mut self) -> u32 {
        u32::from(self.data.next().copied().unwrap_or(0))
    }

    /// A bit that is as often set as not, as all of a header are that are needed here.
    fn flag(&mut self) -> bool {
        let split = 1 + (((self.range - 1) * 128) >> 8);
        let set = self.value >= split << 8;
        if set {
            (self.range, self.value) = (self.range - split, self.value - (split << 8));
        } else {
            self.range = split;
        }
        while self.range < 128 {
            (self.value, self.range, self.left) = (self.value << 1, self.range << 1, self.left + 1);
            if self.left == 8 {
                self.left = 0;
                self.value |= self.byte();
            }
        }
        set
    }

    fn number(&mut self, bits: u32) -> u32 {
        (0..bits).fold(0, |value, _| value << 1 | u32::from(self.flag()))
    }

    /// Numbers of so many bits that may be missing, with a sign or without.
    fn pass(&mut self, count: u32, bits: u32) {
        for _ in 0..count {
            if self.flag() {
                self.number(bits);
            }
        }
    }
}

/// A frame's quantiser index, 0 to 127: y_ac_qi of its header (RFC 6386 sections 9.2 to 9.6), which
/// libwebrtc's quality scaler reads.
fn quantiser(frame: &[u8]) -> Option<u8> {
    let key = frame.first()? & 1 == 0;
    let mut bits = Bits::new(frame.get(if key { 10 } else { 3 }..)?);
    if key {
        bits.number(2);
    }
    if bits.flag() {
        let (map, values) = (bits.flag(), bits.flag());
        if values {
            bits.flag();
            bits.pass(4, 8);
            bits.pass(4, 7);
        }
        if map {
            bits.pass(3, 8);
        }
    }
    bits.number(1 + 6 + 3);
    if bits.flag() && bits.flag() {
        bits.pass(8, 7);
    }
    bits.number(2);
    Some(bits.number(7) as u8)
}

/// A coded frame.
struct Frame {
    /// Which picture it is of.
    number: u64,
    size: u32,
    /// RFC 6386 section 9.1: the first bit says that it is not.
    key: bool,
    quantiser: u8,
}

fn frames(ivf: &Path) -> Result<Vec<Frame>> {
    let bytes = fs::read(ivf)?;
    let mut frames = Vec::new();
    let mut rest = bytes.get(IVF_HEADERS.0..).ok_or("an IVF file without its header")?;
    while let Some((header, data)) = rest.split_at_checked(IVF_HEADERS.1) {
        let size = little_endian(&header[..4]);
        let (frame, after) =
            data.split_at_checked(size as usize).ok_or("an IVF file that ends within a frame")?;
        let key = frame.first().is_some_and(|first| first & 1 == 0);
        let quantiser = quantiser(frame).ok_or("a frame without its header")?;
        frames.push(Frame { number: little_endian(&header[4..]), size: size as u32, key, quantiser });
        rest = after;
    }
    Ok(frames)
}

/// Sizes of `count` frames, 0 of those that libvpx left out, which may be this share of them.
fn sizes(frames: &[Frame], count: usize, missing: f64) -> Result<Vec<u32>> {
    let mut sizes = vec![0; count];
    for frame in frames {
        let place = sizes.get_mut(frame.number as usize).ok_or("more frames than the clip has")?;
        *place = frame.size;
    }
    match count - frames.len() {
        gaps if gaps as f64 > missing * count as f64 => {
            Err(format!("libvpx left out {gaps} of {count} frames").into())
        }
        _ => Ok(sizes),
    }
}

/// Median of the absolute values as a standard deviation.
fn spread(values: impl Iterator<Item = f64>) -> f64 {
    1.4826 * median(values.map(f64::abs).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Clip {
    path: PathBuf,
    pictures: Vec<Arc<RawFrame>>,
    full: (usize, usize),
    /// As it is coded.
    size: (usize, usize),
    /// Times over that it is coded, and how many of them are kept.
    times: usize,
    kept: usize,
    interval: Span,
    /// The share of its pictures that may be left out.
    missing: f64,
}

fn open(path: &Path, missing: f64) -> Result<Clip> {
    let mut source = open_clip(path, ClipOptions::default())?;
    let pictures: Vec<_> = std::iter::from_fn(|| source.next_picture()).collect();
    let full = source.size();
    let (path, interval) = (path.to_owned(), source.interval());
    let (times, kept) = if interval * pictures.len() as i64 >= LONG { TIMES[2] } else { TIMES[0] };
    Ok(Clip { path, pictures, full, size: full, times, kept, interval, missing })
}

/// The same clip with fewer rows, as a file at `path`.
fn scaled(clip: Clip, height: u16, path: PathBuf) -> Result<Clip> {
    let size = size_of_height(clip.full, height);
    let file = std::io::BufWriter::new(fs::File::create(&path)?);
    let mut writer = Y4mWriter::new(file, size.0, size.1, clip.interval)?;
    let mut scaler = Scaler::default();
    for picture in &clip.pictures {
        writer.write(scaler.fit(picture, size)?.as_ref())?;
    }
    writer.finish()?;
    let (times, kept) = if clip.kept == 1 { TIMES[2] } else { TIMES[1] };
    Ok(Clip { path, size, times, kept, ..clip })
}

impl Clip {
    /// The coded clip, all times over, as it lies at `scratch`.
    fn coded(&self, kbps: u64, scratch: &Path) -> Result<Vec<Frame>> {
        encode(&self.path, self.times * self.pictures.len(), kbps, &[], scratch)?;
        frames(scratch)
    }

    /// The rate, and the mean quantiser index of the last times over.
    fn quantiser(&self, kbps: u64, coded: &[Frame]) -> (u64, u8) {
        let first = ((self.times - self.kept) * self.pictures.len()) as u64;
        let kept = coded.iter().filter(|frame| frame.number >= first).map(|frame| u32::from(frame.quantiser));
        let (sum, count) = kept.fold((0, 0), |(sum, count), index| (sum + index, count + 1));
        (kbps * 1000, (f64::from(sum) / f64::from(count.max(1))).round() as u8)
    }

    fn recorded(
        &self,
        kbps: u64,
        coded: &[Frame],
        scratch: &Path,
    ) -> Result<(serde_json::Value, Vec<u32>, Vec<u32>)> {
        let once = self.pictures.len();
        let (first, count) = ((self.times - self.kept) * once, self.kept * once);
        let mut scaler = Scaler::default();
        let all = sizes(coded, first + count, self.missing)?;
        let (before, last) = (all[first - count..first].to_vec(), all[first..].to_vec());
        // Where a frame is missing ffmpeg shows the one before it again, but at the end.
        let mut shown = None;
        let mut decoded = open_clip(scratch, ClipOptions::default())?;
        let (mut psnr_y, mut psnr_avg, mut ssim) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..self.times * once {
            shown = decoded.next_picture().or(shown);
            let seen = shown.as_ref().ok_or("the decoder gave no picture")?;
            if index >= first {
                let quality = quality(&self.pictures[index % once], scaler.fit(seen, self.full)?.as_ref())?;
                psnr_y.push((quality.psnr_y * 100.0).round() as u16);
                psnr_avg.push((quality.psnr_avg * 100.0).round() as u16);
                ssim.push((quality.ssim * 10_000.0).round() as i16);
            }
        }
        let curve = serde_json::json!({
            "bps": kbps * 1000,
            "bytes": self.started_at_middle(&last), "psnr_y": self.started_at_middle(&psnr_y),
            "psnr_avg": self.started_at_middle(&psnr_avg), "ssim": self.started_at_middle(&ssim),
        });
        Ok((curve, before, last))
    }

    /// Median size of a key frame that was asked for, over a frame's budget.
    fn key_ratio(&self, kbps: u64, scratch: &Path) -> Result<f64> {
        let force = ["-force_key_frames".to_owned(), format!("expr:gte(n,n_forced*{KEY_EVERY})")];
        encode(&self.path, self.times * self.pictures.len(), kbps, &force, scratch)?;
        let keys =
            frames(scratch)?.into_iter().skip(1).filter(|frame| frame.key).map(|frame| f64::from(frame.size));
        Ok(median(keys.collect()) / self.budget(kbps))
    }

    /// A run begins with a key frame, and should not with the clip's seam too.
    fn started_at_middle<T: Clone>(&self, values: &[T]) -> Vec<T> {
        let (first, second) = values.split_at(self.pictures.len() / 2);
        [second, first].concat()
    }

    /// Where the clip begins again.
    fn seams(&self) -> Vec<usize> {
        let once = self.pictures.len();
        (1..=self.kept).map(|time| time * once - once / 2).collect()
    }

    /// A rate of 720p's as this size has it.
    fn alike(&self, kbps: u64) -> u64 {
        kbps * (self.size.0 * self.size.1) as u64 / AREA as u64
    }

    /// The rate at which key frames are measured: of the full size the middle one, of another that with the
    /// most similar share of bits for a picture element.
    fn middle(&self, rates: &[u64]) -> u64 {
        let wanted = self.alike(RATES[RATES.len() / 2]) as f64;
        let far = |kbps: u64| (kbps as f64 / wanted).ln().abs();
        rates.iter().copied().min_by(|&a, &b| far(a).total_cmp(&far(b))).expect("there are rates")
    }

    fn budget(&self, kbps: u64) -> f64 {
        kbps as f64 * 125.0 * self.interval.as_secs_f64()
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (missing, arguments) = match arguments.split_last() {
        Some((last, before)) if last == "gaps" => (MISSING, before),
        _ => (0.0, arguments.as_slice()),
    };
    let (out, path, name, credit, height) = match arguments {
        [out, path, name, credit] => (out, path, name, credit, None),
        [out, path, name, credit, height] => (out, path, name, credit, Some(height.parse::<u16>()?)),
        _ => return Err("usage: record_vp8 OUT.json CLIP NAME CREDIT [HEIGHT] [gaps]".into()),
    };
    let file = |what: &str| std::env::temp_dir().join(format!("record_vp8-{}.{what}", std::process::id()));
    let (scratch, small) = (file("ivf"), file("y4m"));
    let mut clip = open(Path::new(path), missing)?;
    if let Some(height) = height {
        clip = scaled(clip, height, small.clone())?;
    }
    let rates = match height {
        Some(_) => RATES_BELOW.to_vec(),
        None => RATES.map(|kbps| clip.alike(kbps)).to_vec(),
    };
    let (mut curves, mut noises, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut quantisers = Vec::new();
    if height.is_none() {
        for kbps in RATES_COARSE.map(|kbps| clip.alike(kbps)) {
            quantisers.push(clip.quantiser(kbps, &clip.coded(kbps, &scratch)?));
        }
    }
    for &kbps in &rates {
        let coded = clip.coded(kbps, &scratch)?;
        quantisers.push(clip.quantiser(kbps, &coded));
        let (curve, before, last) = match clip.recorded(kbps, &coded, &scratch) {
            Err(error) => {
                println!("{kbps} kbit/s: {error}");
                continue;
            }
            Ok(recorded) => recorded,
        };
        // The same picture, two times over later: what differs is not the content's. Each has half of the
        // variance.
        let pairs = before.iter().zip(&last).filter(|&(&a, &b)| a > 0 && b > 0);
        let pairs = pairs.map(|(&a, &b)| (f64::from(a) / f64::from(b)).ln() / 2f64.sqrt());
        noises.push(spread(pairs));
        // A seam is a cut, which the bounds do not bind.
        let inner =
            last.chunks(clip.pictures.len()).flat_map(|time| time.iter().skip(1)).filter(|&&bytes| bytes > 0);
        ratios.extend(inner.map(|&bytes| f64::from(bytes) / clip.budget(kbps)));
        println!("{kbps} kbit/s: noise {:.3}", noises[noises.len() - 1]);
        curves.push(curve);
    }
    let round = |value: f64| (value * 1e4).round() / 1e4;
    let key = clip.key_ratio(clip.middle(&rates), &scratch)?;
    fs::remove_file(&scratch)?;
    if height.is_some() {
        fs::remove_file(&small)?;
    }
    let fit = serde_json::json!({
        // A new target is the next frame's budget in libvpx's one-pass control; ffmpeg cannot change it on
        // the way to measure that.
        "lag_up_s": 0.0, "lag_down_s": 0.0,
        "overshoot": round(ratios.iter().copied().fold(0.0, f64::max) - 1.0),
        "undershoot": round(1.0 - ratios.iter().copied().fold(1.0, f64::min)),
        "size_noise": round(median(noises)), "key_frame_ratio": round(key), "memory": Memory::LIBVPX,
    });
    let table = serde_json::json!({
        "clip": name, "credit": credit, "encoder": "libvpx VP8 in real time, as libwebrtc set it in 2016",
        "width": clip.size.0, "height": clip.size.1, "interval_ns": clip.interval.as_nanos(),
        "cuts": clip.seams(), "fit": fit, "quantisers": quantisers, "curves": curves,
    });
    let table = Table::parse(&table.to_string(), out)?;
    fs::write(out, table.to_json())?;
    println!("{out}: {} frames, {:?}", table.frames(), table.fit);
    Ok(())
}
