//! How soon an encoder follows its target: a clip at 30 frames/s with targets of 0.5 and 2 Mbit/s in turn,
//! ten seconds each, and for each step the time until the mean over a third of a second is within 10 % of the
//! new target (figure 2 of arXiv 2309.16869 draws such steps; the lab's `encoder_settles` asks the model the
//! same).
//!
//! `cargo run --release -p framewire-media --features vpx --example settling -- CLIP`

use std::error::Error;
use std::path::Path;

use framewire_media::{Ask, ClipOptions, Codec, CodecConfig, Encoder, open_clip};
use units::{Rate, Span, Time};

/// Targets in bit/s, in turn.
const TARGETS: [u64; 2] = [500_000, 2_000_000];
/// Frames at each.
const HOLD: usize = 300;
/// How often the target changes.
const STEPS: usize = 10;
/// Frames of the moving mean.
const WINDOW: usize = 10;

/// Bits a second of each frame.
fn rates(codec: Codec, clip: &Path) -> Result<Vec<f64>, Box<dyn Error>> {
    let options = ClipOptions { fps: Some(30.0), loop_clip: true, ..ClipOptions::default() };
    let mut source = open_clip(clip, options)?;
    let ((width, height), interval) = (source.size(), source.interval());
    let config = CodecConfig {
        width,
        height,
        interval,
        initial: Rate::from_bps(TARGETS[0]),
        max: Rate::from_mbps(100),
        slices: None,
        latency: Some(Span::ZERO),
    };
    let mut encoder = codec.encoder(config)?;
    let mut rates = Vec::new();
    for frame in 0..HOLD * (STEPS + 1) {
        let bitrate = Rate::from_bps(TARGETS[frame / HOLD % 2]);
        let ask = Ask {
            frame: frame as u32,
            bitrate,
            interval,
            key: frame == 0,
            largest: None,
            height: None,
            peer: None,
        };
        encoder.submit(Time::ZERO, source.next_picture().as_ref(), &ask)?;
        let coded = encoder.poll(Time::ZERO).ok_or("no frame came out")?;
        rates.push(f64::from(coded.size) * 8.0 / interval.as_secs_f64());
    }
    Ok(rates)
}

/// Seconds until the moving mean, over frames after the step alone, is within 10 % of the target; infinite if
/// never.
fn settling(after: &[f64], target: f64) -> f64 {
    let near = |window: &[f64]| (window.iter().sum::<f64>() / WINDOW as f64 / target - 1.0).abs() <= 0.1;
    let settled = after.windows(WINDOW).position(near);
    settled.map_or(f64::INFINITY, |first| (first + WINDOW) as f64 / 30.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let clip = std::env::args().nth(1).ok_or("a clip is needed")?;
    for &codec in Codec::ALL {
        let rates = rates(codec, Path::new(&clip))?;
        let steps = |target: usize| {
            let of_it = (1..=STEPS).filter(move |step| step % 2 == target);
            let time = |step: usize| settling(&rates[step * HOLD..][..HOLD], TARGETS[target] as f64);
            of_it.map(time).collect::<Vec<_>>()
        };
        let (up, down) = (steps(1), steps(0));
        println!(
            "{codec:?}: up {up:.2?} (median {:.2} s), down {down:.2?} (median {:.2} s)",
            median(up.clone()),
            median(down.clone())
        );
    }
    Ok(())
}
