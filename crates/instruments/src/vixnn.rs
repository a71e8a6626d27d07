//! How many pictures a second ViXNN codes and shows on this machine's processors.

use std::hint::black_box;
use std::time::Instant;

use serde_json::{Value, json};
use vixnn::{Decoder, Encoder, Model, Picture, Received};

use crate::measure::quantile;
use crate::{Bar, Benchmark, Failure, Progress};

/// Pictures measured, each for itself, and those before, which find memory and warm caches.
const PICTURES: usize = 60;
const WARM_UP: usize = 3;

/// What is measured.
pub struct Settings {
    /// Columns and rows of the pictures, in pixels.
    pub size: (usize, usize),
    /// Name of a model that is built in.
    pub model: String,
    /// Numbers of threads, one after the other; the last gives the figure to compare.
    pub threads: Vec<usize>,
}

impl Default for Settings {
    /// 1280x720 with the default model, on one thread and on two.
    fn default() -> Settings {
        Settings { size: (1_280, 720), model: Model::DEFAULT.into(), threads: vec![1, 2] }
    }
}

/// Measures encoder and decoder, each by itself. The figure to compare is the slower one's pictures a second,
/// from the median time of one.
///
/// # Errors
/// [`Failure::Input`] where there is no such model, or no thread is to be used.
pub fn run(settings: &Settings, progress: &dyn Progress) -> Result<Benchmark, Failure> {
    let model = Model::shipped(&settings.model).map_err(Failure::input)?;
    let Some(most) = settings.threads.last() else {
        return Err(Failure::Input("no number of threads is given; name one such as 2".into()));
    };
    let (width, height) = settings.size;
    let picture = picture(width, height);
    if !picture.is_whole() {
        return Err(Failure::Input(format!("{width}x{height} is no size from 16x16 to 8192x8192")));
    }
    let bar = progress.begin((settings.threads.len() * 2 * PICTURES) as u64, "vixnn");
    let mut slowest = f64::NAN;
    let mut rows = Vec::new();
    for &threads in &settings.threads {
        let mut encoder = Encoder::new(model.clone(), threads);
        let encode = times(bar.as_ref(), || _ = black_box(encoder.encode(black_box(&picture))));
        let received = Received::all(&encoder.encode(&picture));
        let mut decoder = Decoder::new(model.clone(), threads);
        let decode = times(bar.as_ref(), || _ = black_box(decoder.decode(black_box(&received))));
        slowest = 1e3 / quantile(&encode, 0.5).max(quantile(&decode, 0.5));
        let (encoder_macs, decoder_macs) = model.macs(width, height);
        rows.push(row("encoder", threads, encoder_macs, &encode));
        rows.push(row("decoder", threads, decoder_macs, &decode));
    }
    drop(bar);
    let details = json!({
        "model": model.name(),
        "size": format!("{width}x{height}"),
        "threads": most,
        "runs": rows,
    });
    Ok(Benchmark::new("vixnn", "frames/s of the slower of encoder and decoder", slowest, details))
}

fn row(network: &str, threads: usize, macs: u64, times: &[f64]) -> Value {
    let round = |value: f64| (value * 100.0).round() / 100.0;
    let (median, p95) = (quantile(times, 0.5), quantile(times, 0.95));
    let gmac = macs as f64 / 1e9;
    json!({
        "network": network, "threads": threads, "gmac": round(gmac), "p50_ms": round(median), "p95_ms": round(p95),
        "frames_per_s": round(1e3 / median), "gmac_per_s": round(gmac * 1e3 / median),
    })
}

/// Milliseconds of each time.
fn times(bar: &dyn Bar, mut work: impl FnMut()) -> Vec<f64> {
    (0..WARM_UP).for_each(|_| work());
    let mut times = Vec::with_capacity(PICTURES);
    for _ in 0..PICTURES {
        let began = Instant::now();
        work();
        times.push(began.elapsed().as_secs_f64() * 1e3);
        bar.advance();
    }
    times
}

/// Slopes and edges; what is computed does not depend on what is shown.
fn picture(width: usize, height: usize) -> Picture {
    let places = (0..width * height).map(|at| (at % width, at / width));
    let level = |(x, y): (usize, usize), channel: usize| (x * (channel + 1) / 3 + y / 2 + x / 64 * 50) as u8;
    Picture {
        width,
        height,
        rgb: places.flat_map(|at| [0, 1, 2].map(|channel| level(at, channel))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_threads_has_an_encoder_and_a_decoder() {
        let settings = Settings { size: (64, 48), threads: vec![1, 2], ..Settings::default() };
        let result = run(&settings, &()).unwrap().json();
        let runs: Vec<_> = result["runs"].as_array().unwrap().iter().collect();
        let said: Vec<_> =
            runs.iter().map(|run| (run["network"].as_str(), run["threads"].as_u64())).collect();
        let wanted = [("encoder", 1), ("decoder", 1), ("encoder", 2), ("decoder", 2)];
        assert_eq!(said, wanted.map(|(network, threads)| (Some(network), Some(threads))));
        assert!(result["value"].as_f64().unwrap() > 0.0);
        assert!(runs.iter().all(|run| run["p50_ms"].as_f64() <= run["p95_ms"].as_f64()));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let refused = |settings: &Settings| run(settings, &()).err().unwrap().to_string();
        let usual = Settings::default;
        assert!(refused(&Settings { model: "slow".into(), ..usual() }).contains(Model::DEFAULT));
        assert!(refused(&Settings { size: (8, 64), ..usual() }).contains("8x64"));
        assert!(refused(&Settings { threads: vec![], ..usual() }).contains("such as 2"));
    }
}
