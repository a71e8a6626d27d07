//! How well the encoder hits random targets: size over target of every frame, with a new target drawn
//! uniformly from 2 to 20 Mbit/s for each (the statistic of SQP's appendix A, figure 19).
//!
//! `cargo run --release -p framewire-media --example size_ratio -- [CLIP]` (the synthetic clip without one)

use std::error::Error;
use std::path::Path;

use framewire_media::{
    Ask, ClipOptions, Encoder, H264Config, H264Encoder, Source, SyntheticConfig, SyntheticGame, open_clip,
};
use units::{Rate, Rng, Time};

fn source() -> Result<Box<dyn Source>, Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(file) => Ok(open_clip(Path::new(&file), ClipOptions::default())?),
        None => Ok(Box::new(SyntheticGame::new(SyntheticConfig {
            frames: Some(600),
            ..SyntheticConfig::new(1280, 720)
        }))),
    }
}

fn percentile(sorted: &[f64], p: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * p).round() as usize]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut source = source()?;
    let (width, height) = source.size();
    let interval = source.interval();
    let mut encoder = H264Encoder::new(H264Config::new(width, height, interval))?;
    let mut rng = Rng::stream(1, "targets");
    let (mut ratios, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(picture) = source.next_picture() {
        let bitrate = Rate::from_f64(rng.uniform_in(2e6, 20e6));
        let ask = Ask {
            frame: ratios.len() as u32,
            bitrate,
            interval,
            key: false,
            largest: None,
            height: None,
            peer: None,
        };
        encoder.submit(Time::ZERO, Some(&picture), &ask)?;
        let coded = encoder.poll(Time::MAX).ok_or("no frame came out")?;
        let ratio = f64::from(coded.size) * 8.0 / (bitrate.as_f64() * interval.as_secs_f64());
        ratios.push(ratio);
        if bitrate < Rate::from_mbps(5) { low.push(ratio) } else { high.push(ratio) }
    }
    println!(
        "{} frames of {width}x{height}, targets uniform in 2 to 20 Mbit/s, size over target:",
        ratios.len()
    );
    for (name, mut ratios) in [("all", ratios), ("below 5 Mbit/s", low), ("5 Mbit/s and more", high)] {
        ratios.sort_by(f64::total_cmp);
        let over = ratios.iter().filter(|&&r| r > 1.0).count() as f64 / ratios.len() as f64;
        let at = |p| percentile(&ratios, p);
        print!("{name:>18}: p1 {:.2}  p5 {:.2}  p10 {:.2}  p50 {:.2}", at(0.01), at(0.05), at(0.1), at(0.5));
        println!(
            "  p90 {:.2}  p95 {:.2}  p99 {:.2}  over {:.1} %",
            at(0.9),
            at(0.95),
            at(0.99),
            over * 100.0
        );
    }
    Ok(())
}
