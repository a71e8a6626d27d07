//! What an encoder makes of targets that change: sizes held against what was asked, for each trajectory of
//! targets and each clip.
//!
//! ```text
//!   share     bits coded over bits asked for
//!   queue     time that the last frame waits behind a link that carries just what is asked for, frame by frame: 99th percentile and largest
//!   windows   bits coded over bits asked for in windows of half a second: 5th, 50th and 95th percentile
//! ```
//!
//! `cargo run --release -p framewire-media --features vpx --example trajectories -- CODEC CLIP [ROWS [FPS]]`,
//! where CODEC is `h264`, `vp8`, `recorded:TABLE`, `forgetful:TABLE` (without [`Memory`]) or `perfect:TABLE`,
//! and CLIP a file or `synthetic`. `least` as fifth argument prints the least rates that the codec holds
//! instead.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use framewire_media::trajectory::{self, Coding, Trajectory};
use framewire_media::{
    Ask, ClipOptions, Codec, CodecConfig, Encoder, EncoderModel, Memory, ModelConfig, RawFrame, Scaler,
    Source, SyntheticConfig, SyntheticGame, Table, open_clip, size_of_height,
};
use units::{Rate, Span, Time};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Frames of a clip that are kept, to play them in turn.
const KEPT: usize = 600;

/// A clip in memory, that repeats.
struct Clip {
    pictures: Vec<Arc<RawFrame>>,
    interval: Span,
    size: (usize, usize),
}

fn source(name: &str, fps: Option<f64>) -> Result<Box<dyn Source>> {
    if name != "synthetic" {
        return Ok(open_clip(Path::new(name), ClipOptions { fps, ..ClipOptions::default() })?);
    }
    let interval = Span::from_secs_f64(1.0 / fps.unwrap_or(30.0));
    let config = SyntheticConfig { interval, frames: Some(KEPT as u64), ..SyntheticConfig::new(1280, 720) };
    Ok(Box::new(SyntheticGame::new(config)))
}

fn clip(name: &str, rows: Option<u16>, fps: Option<f64>) -> Result<Clip> {
    let mut source = source(name, fps)?;
    let (interval, full) = (source.interval(), source.size());
    let size = rows.map_or(full, |rows| size_of_height(full, rows));
    let mut scaler = Scaler::default();
    let mut pictures = Vec::new();
    while let Some(picture) = source.next_picture().filter(|_| pictures.len() < KEPT) {
        pictures.push(Arc::new(scaler.fit(&picture, size)?.into_owned()));
    }
    Ok(Clip { pictures, interval, size })
}

fn encoder(codec: &str, clip: &Clip) -> Result<Box<dyn Encoder>> {
    let (name, table) = codec.split_once(':').unwrap_or((codec, "big_buck_bunny"));
    // Of the sizes that were recorded, the clip's.
    let sizes = || Table::by_name(table).into_iter().chain(Table::smaller(table));
    let table = || sizes().find(|table| table.height == clip.size.1).ok_or("no such table of this size");
    let config = CodecConfig {
        width: clip.size.0,
        height: clip.size.1,
        interval: clip.interval,
        initial: Rate::from_mbps(2),
        max: Rate::from_mbps(100),
        slices: None,
        latency: Some(Span::ZERO),
    };
    Ok(match name {
        "recorded" => Box::new(EncoderModel::new(ModelConfig::recorded(table()?, 1))?),
        "forgetful" => {
            let config = ModelConfig { memory: Memory::NONE, ..ModelConfig::recorded(table()?, 1) };
            Box::new(EncoderModel::new(config)?)
        }
        "perfect" => Box::new(EncoderModel::new(ModelConfig::perfect(table()?))?),
        other => {
            let codec = Codec::by_name(other).ok_or_else(|| format!("no codec is called `{other}`"))?;
            Box::new(codec.encoder(config)?)
        }
    })
}

/// Plays a trajectory at `base` bit/s.
fn play(codec: &str, clip: &Clip, trajectory: &Trajectory, base: f64) -> Result<Coding> {
    let mut encoder = encoder(codec, clip)?;
    let mut coding = Coding::new(clip.interval);
    for (frame, wish) in trajectory.wishes(clip.interval).enumerate() {
        let picture = &clip.pictures[frame % clip.pictures.len()];
        let bitrate = Rate::from_f64(base * wish.share);
        let ask = Ask {
            frame: frame as u32,
            bitrate,
            interval: clip.interval,
            key: wish.key,
            largest: None,
            height: None,
            peer: None,
        };
        encoder.submit(Time::ZERO, Some(picture), &ask)?;
        let coded = encoder.poll(Time::MAX).ok_or("no frame came out")?;
        coding.push(bitrate, &coded);
    }
    Ok(coding)
}

/// Targets in kbit/s that are tried for the least that a codec holds.
const LEAST: [u64; 9] = [30, 45, 60, 90, 120, 180, 250, 350, 500];

/// At constant targets: what is coded over what is asked for after the first five seconds.
fn least(codec: &str, clip: &Clip) -> Result<()> {
    let steady =
        Trajectory { name: "steady", seconds: 15.0, shape: |_| trajectory::Wish { share: 1.0, key: false } };
    for kbps in LEAST {
        let coding = play(codec, clip, &steady, kbps as f64 * 1e3)?;
        let late = coding.after(5.0);
        println!(
            "{codec:>6} {:>4} rows {:>4.1} frames/s {kbps:>4} kbit/s: {:.2} of it, first frame {:.2} s, {} of {} left out",
            clip.size.1,
            1.0 / clip.interval.as_secs_f64(),
            late.share(),
            coding.coded[0] / (kbps as f64 * 1e3),
            late.left_out(),
            late.coded.len()
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [codec, name, rest @ ..] = arguments.as_slice() else {
        return Err("a codec and a clip are needed".into());
    };
    let rows = rest.first().map(|rows| rows.parse()).transpose()?;
    let fps = rest.get(1).map(|fps| fps.parse()).transpose()?;
    let clip = clip(name, rows, fps)?;
    if rest.get(2).is_some_and(|what| what == "least") {
        return least(codec, &clip);
    }
    // 2 Mbit/s at 720 rows.
    let base = 2e6 * (clip.size.0 * clip.size.1) as f64 / (1280.0 * 720.0);
    println!("{codec}, {name}, {}x{}, {:.2} Mbit/s", clip.size.0, clip.size.1, base / 1e6);
    for trajectory in trajectory::ALL {
        let coding = play(codec, &clip, trajectory, base)?;
        let (queue, windows) = (coding.queue(), coding.windows(0.5));
        let at = |sorted: &[f64], p: f64| sorted[((sorted.len() - 1) as f64 * p).round() as usize];
        println!(
            "{:>10}: asked {:.2} Mbit/s, share {:.3}, queue p99 {:.0} ms, max {:.0} ms, windows {:.2} {:.2} {:.2}, {} keys, {} left out",
            trajectory.name,
            coding.asked_rate() / 1e6,
            coding.share(),
            at(&queue, 0.99) * 1e3,
            at(&queue, 1.0) * 1e3,
            at(&windows, 0.05),
            at(&windows, 0.5),
            at(&windows, 0.95),
            coding.keys,
            coding.left_out()
        );
    }
    Ok(())
}
