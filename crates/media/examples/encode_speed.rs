//! How fast this machine encodes, decodes and measures a clip: pictures a second of each step, one thread.
//!
//! `cargo run --release -p framewire-media --example encode_speed -- [CLIP [MBIT_PER_S]]` (the synthetic clip without one)

// A benchmark needs the clock that the library may not have.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use framewire_media::{
    Ask, ClipOptions, Decoder, Encoder, EncoderModel, H264Config, H264Decoder, H264Encoder, ModelConfig,
    Source, SyntheticConfig, SyntheticGame, Table, open_clip, quality,
};
use units::{Rate, Span, Time};

/// Runs one step and adds its time to `total`.
fn timed<T>(total: &mut Duration, step: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = step();
    *total += start.elapsed();
    result
}

/// Nanoseconds a frame of the encoder model takes.
fn model_speed() -> Result<f64, Box<dyn Error>> {
    let mut model = EncoderModel::new(ModelConfig::openh264(Table::synthetic_game(), 1))?;
    let (frames, mut bytes, mut took) = (2_000_000u32, 0, Duration::ZERO);
    timed(&mut took, || {
        for frame in 0..frames {
            let bitrate = Rate::from_bps(2_000_000 + u64::from(frame % 1_000) * 10_000);
            let ask = Ask { frame, bitrate, interval: Span::from_nanos(16_666_667), key: false };
            model.submit(Time::ZERO, None, &ask)?;
            bytes += model.poll(Time::MAX).map_or(0, |coded| u64::from(coded.size));
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    assert!(bytes > 0);
    Ok(took.as_secs_f64() * 1e9 / f64::from(frames))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut source: Box<dyn Source> = match arguments.next() {
        Some(file) => open_clip(Path::new(&file), ClipOptions::default())?,
        None => Box::new(SyntheticGame::new(SyntheticConfig {
            frames: Some(300),
            ..SyntheticConfig::new(1280, 720)
        })),
    };
    let mbps: f64 = arguments.next().map_or(Ok(5.0), |text| text.parse())?;
    let (bitrate, interval, (width, height)) = (Rate::from_f64(mbps * 1e6), source.interval(), source.size());
    let mut encoder = H264Encoder::new(H264Config::new(width, height, interval))?;
    let mut decoder = H264Decoder::new()?;
    let [mut reading, mut encoding, mut decoding, mut measuring] = [Duration::ZERO; 4];
    let (mut frames, mut bytes, mut psnr, mut ssim) = (0u32, 0u64, 0.0, 0.0);
    while let Some(picture) = timed(&mut reading, || source.next_picture()) {
        let ask = Ask { frame: frames, bitrate, interval, key: frames == 0 };
        timed(&mut encoding, || encoder.submit(Time::ZERO, Some(&picture), &ask))?;
        let coded = encoder.poll(Time::MAX).and_then(|coded| coded.payload).ok_or("no frame came out")?;
        let seen = timed(&mut decoding, || decoder.decode(&coded))?.ok_or("no picture came out")?;
        let q = timed(&mut measuring, || quality(&picture, &seen))?;
        (frames, bytes, psnr, ssim) =
            (frames + 1, bytes + coded.len() as u64, psnr + q.psnr_y, ssim + q.ssim);
    }
    let n = f64::from(frames);
    let rate = bytes as f64 * 8.0 / n / interval.as_secs_f64() / 1e6;
    println!("{frames} pictures of {width}x{height}, asked for {mbps} Mbit/s, got {rate:.2}");
    println!("mean PSNR-Y {:.2} dB, mean SSIM {:.4}", psnr / n, ssim / n);
    for (name, took) in
        [("read", reading), ("encode", encoding), ("decode", decoding), ("measure", measuring)]
    {
        let each = took.as_secs_f64() / n;
        println!("{name:>8}: {:7.2} ms a picture, {:6.0} a second", each * 1e3, 1.0 / each);
    }
    println!("   model: {:7.0} ns a frame", model_speed()?);
    Ok(())
}
