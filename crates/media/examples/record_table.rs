//! Records a table for the encoder model from a clip.
//!
//! `cargo run --release -p framewire-media --example record_table -- OUT.json [CLIP NAME CREDIT [ROWS]]` (the
//! synthetic game without a clip). With fewer rows than the clip's the bitrates are lower in proportion to
//! the picture elements.

use std::error::Error;
use std::path::Path;

use framewire_media::{
    ClipOptions, CodecError, Recorded, Source, SyntheticConfig, SyntheticGame, open_clip, record_table,
};
use units::Rate;

/// Bitrates recorded, in kbit/s.
const RATES: [u64; 8] = [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000];

/// Rows of the clips that these bitrates are for.
const ROWS: u64 = 720;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (out, file, clip, credit, rows) = match arguments.as_slice() {
        [out] => (out, None, "synthetic_game", "Framewire's own, seed 1", None),
        [out, file, name, credit] => (out, Some(file), name.as_str(), credit.as_str(), None),
        [out, file, name, credit, rows] => {
            (out, Some(file), name.as_str(), credit.as_str(), Some(rows.parse::<u16>()?))
        }
        _ => return Err("usage: record_table OUT.json [CLIP NAME CREDIT [ROWS]]".into()),
    };
    let elements = rows.map_or(ROWS, u64::from).pow(2);
    let rates = RATES.map(|kbps| Rate::from_bps(kbps * 1_000 * elements / ROWS.pow(2)));
    let mut open = || -> Result<Box<dyn Source>, CodecError> {
        match file {
            Some(file) => open_clip(Path::new(file), ClipOptions::default())
                .map_err(|error| CodecError::Codec { codec: "clip", what: error.to_string() }),
            None => {
                let config = SyntheticConfig { frames: Some(600), ..SyntheticConfig::new(1280, 720) };
                Ok(Box::new(SyntheticGame::new(config)))
            }
        }
    };
    let table = record_table(&Recorded { clip, credit, rates: &rates, rows }, &mut open)?;
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
