//! How much larger a frame is that OpenH264 predicts from one further back, relative to what it codes from
//! the frame before: the source of the encoder model's `REFER_BACK`.
//!
//! `cargo run --release -p framewire-media --example refer_back -- CLIP WIDTH HEIGHT [CLIP WIDTH HEIGHT]...`
//! (a clip's path, or `synthetic`)
//!
//! Every 25 frames a recovery is asked for of a peer that knows all but the last few. Its size is divided by
//! the mean of the ten frames before; the geometric mean over a clip is printed for each distance that came
//! out, which is the one asked for or one or two more, since OpenH264 marks every second frame. Beside it the
//! same of key frames.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use framewire_media::{
    Ask, ClipOptions, Encoder, H264Config, H264Encoder, Peer, Source, SyntheticConfig, SyntheticGame,
    open_clip,
};
use units::{Rate, Span, Time};

const INTERVAL: Span = Span::from_nanos(33_333_333);
const FRAMES: u32 = 400;
const EVERY: u32 = 25;

fn source(clip: &str, width: usize, height: usize) -> Result<Box<dyn Source>, Box<dyn Error>> {
    if clip == "synthetic" {
        return Ok(Box::new(SyntheticGame::new(SyntheticConfig {
            interval: INTERVAL,
            ..SyntheticConfig::new(width, height)
        })));
    }
    let options = ClipOptions { size: Some((width, height)), loop_clip: true, ..ClipOptions::default() };
    Ok(open_clip(Path::new(clip), options)?)
}

/// Sums of logarithms of ratios, and how many, by distance; 0 is a key frame.
type Ratios = BTreeMap<u32, (f64, u32)>;

fn measure(
    clip: &str,
    size: (usize, usize),
    rate: Rate,
    lag: u32,
    ratios: &mut Ratios,
) -> Result<(), Box<dyn Error>> {
    let mut source = source(clip, size.0, size.1)?;
    let mut encoder =
        H264Encoder::new(H264Config { initial: rate, ..H264Config::new(size.0, size.1, INTERVAL) })?;
    let mut sizes: Vec<f64> = Vec::new();
    for frame in 0..FRAMES {
        let picture = source.next_picture().ok_or("the clip has ended")?;
        let due = frame > 0 && frame % EVERY == 0;
        let known = frame.checked_sub(lag.max(1));
        let broken_from = known.filter(|_| due && lag > 0).map(|known| known + 1);
        let peer = Some(Peer { known, broken_from });
        let key = frame == 0 || due && lag == 0;
        let ask = Ask { frame, bitrate: rate, interval: INTERVAL, key, largest: None, height: None, peer };
        encoder.submit(Time::ZERO, Some(&picture), &ask)?;
        let coded = encoder.poll(Time::MAX).ok_or("nothing came out")?;
        let asked = due && coded.key == (lag == 0);
        if asked {
            let usual = sizes[sizes.len() - 10..].iter().sum::<f64>() / 10.0;
            let distance = coded.refers_to.map_or(0, |to| frame - to);
            let (sum, count) = ratios.entry(distance).or_default();
            *sum += (f64::from(coded.size) / usual).ln();
            *count += 1;
        }
        sizes.push(f64::from(coded.size));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    for clip in args.chunks(3) {
        let size = (clip[1].parse()?, clip[2].parse()?);
        for kbps in [500, 1_000, 2_000, 4_000] {
            let mut ratios = Ratios::new();
            for lag in [0, 2, 4, 6, 8, 12, 16, 24] {
                measure(&clip[0], size, Rate::from_kbps(kbps), lag, &mut ratios)?;
            }
            let each = ratios.iter().filter(|(_, (_, count))| *count >= 5);
            let text: Vec<String> = each
                .map(|(distance, (sum, count))| format!("{distance}: {:.2}", (sum / f64::from(*count)).exp()))
                .collect();
            println!("{} {}x{} {kbps} kbit/s: {}", clip[0], size.0, size.1, text.join(", "));
        }
    }
    Ok(())
}
