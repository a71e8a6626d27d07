//! Records a table for the encoder model from a clip.
//!
//! `cargo run --release -p framewire-media --example record_table -- OUT.json [CLIP NAME CREDIT]` (the synthetic game
//! without a clip)

use std::error::Error;
use std::path::Path;

use framewire_media::{ClipOptions, Source, SyntheticConfig, SyntheticGame, open_clip, record_table};
use units::Rate;

/// Bitrates recorded, in kbit/s.
const RATES: [u64; 8] = [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (out, mut source, clip, credit): (_, Box<dyn Source>, _, _) = match arguments.as_slice() {
        [out] => {
            let config = SyntheticConfig { frames: Some(600), ..SyntheticConfig::new(1280, 720) };
            (out, Box::new(SyntheticGame::new(config)), "synthetic_game", "Framewire's own, seed 1")
        }
        [out, file, name, credit] => {
            (out, open_clip(Path::new(file), ClipOptions::default())?, name.as_str(), credit.as_str())
        }
        _ => return Err("usage: record_table OUT.json [CLIP NAME CREDIT]".into()),
    };
    let table = record_table(source.as_mut(), &RATES.map(Rate::from_kbps), clip, credit)?;
    std::fs::write(out, table.to_json())?;
    println!("{out}: {} frames, cuts at {:?}, {:?}", table.frames(), table.cuts, table.fit);
    for curve in &table.curves {
        let n = table.frames() as f64;
        let rate =
            curve.bytes.iter().map(|&b| f64::from(b)).sum::<f64>() * 8.0 / n / table.interval().as_secs_f64();
        let psnr = curve.psnr_y.iter().map(|&p| f64::from(p) / 100.0).sum::<f64>() / n;
        let ssim = curve.ssim.iter().map(|&s| f64::from(s) / 1e4).sum::<f64>() / n;
        println!("{:>9} bit/s asked, {rate:>9.0} got, PSNR-Y {psnr:.2} dB, SSIM {ssim:.4}", curve.bps);
    }
    Ok(())
}
