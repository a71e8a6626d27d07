//! Records a table for the model of ViXNN from a clip.
//!
//! `cargo run --release -p framewire-media --example record_vixnn -- OUT.json [CLIP NAME CREDIT [WxH
//! [MODEL]]]` (the synthetic game at 352x288 without a clip). A clip is scaled to WxH by ffmpeg. MODEL is a
//! network that is built in, or a file of weights; `fast-mdc-0.3` by default.

use std::error::Error;
use std::path::Path;

use framewire_media::{
    ClipOptions, RecordedVixnn, Source, SyntheticConfig, SyntheticGame, open_clip, open_model,
    record_vixnn_table,
};
use units::Span;

const USAGE: &str = "usage: record_vixnn OUT.json [CLIP NAME CREDIT [WxH [MODEL]]]";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (out, clip, credit, mut source) = match arguments[..] {
        [out] => (out, "synthetic_game", "Framewire's own, seed 1", game()),
        [out, file, name, credit, ref more @ ..] => (out, name, credit, footage(file, more.first())?),
        _ => return Err(USAGE.into()),
    };
    let model = open_model(arguments.get(5).unwrap_or(&"fast-mdc-0.3"))?;
    let table = record_vixnn_table(&RecordedVixnn { clip, credit, model, threads: 2 }, source.as_mut())?;
    std::fs::write(out, table.to_json())?;
    println!("{out}: {} frames of {}x{}, {}", table.frames(), table.width, table.height, table.model);
    for (count, column) in (1..).zip(&table.by_count) {
        let mean = |of: &[i16]| of.iter().map(|&v| f64::from(v)).sum::<f64>() / of.len() as f64;
        let (psnr, ssim) = (mean(&column.psnr_y) / 100.0, mean(&column.ssim) / 1e4);
        println!("{count} descriptors: PSNR-Y {psnr:.2} dB, SSIM {ssim:.4}");
    }
    Ok(())
}

fn game() -> Box<dyn Source> {
    let interval = Span::from_secs_f64(1.0 / 30.0);
    let config = SyntheticConfig { interval, frames: Some(300), ..SyntheticConfig::new(352, 288) };
    Box::new(SyntheticGame::new(config))
}

fn footage(file: &str, size: Option<&&str>) -> Result<Box<dyn Source>, Box<dyn Error>> {
    let parse = |size: &str| {
        let (width, height) = size.split_once('x')?;
        Some((width.parse().ok()?, height.parse().ok()?))
    };
    let size = size.map(|&size| parse(size).ok_or(USAGE)).transpose()?;
    Ok(open_clip(Path::new(file), ClipOptions { size, ..ClipOptions::default() })?)
}
