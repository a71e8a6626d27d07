//! What each step of an upload costs with the pictures of a clip, and what an archive's pictures take: `cargo
//! run --release -p framewire-media --example costs CLIP`.

use std::process::ExitCode;
use std::sync::Arc;

use framewire_media as media;
use media::{Ask, Clip, ClipOptions, Codec, CodecConfig, Encoder, Packed, RawFrame, Source, quality};
use units::{Rate, Span, Time};

/// Pictures that are measured: ten seconds of 30 Hz.
const PICTURES: usize = 300;
/// What a live upload of 1280x720 has over LTE, and what segments of it are coded at.
const RATES: [Rate; 2] = [Rate::from_kbps(2_000), Rate::from_kbps(4_000)];

/// CPU time of this process, in ms.
#[cfg(target_os = "linux")]
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e6
}

#[cfg(not(target_os = "linux"))]
fn cpu_ms() -> f64 {
    f64::NAN
}

/// Does `step` with each of `all`, and says what one costs.
fn cost<T, U>(name: &str, all: &[T], step: impl FnMut(&T) -> U) -> Vec<U> {
    let begun = cpu_ms();
    let made: Vec<U> = all.iter().map(step).collect();
    println!("{name:24} {:6.2} ms", (cpu_ms() - begun) / all.len() as f64);
    made
}

fn encoder(size: (usize, usize), interval: Span, rate: Rate) -> impl Encoder {
    let (width, height) = size;
    let latency = Some(Span::ZERO);
    let config = CodecConfig { width, height, interval, initial: rate, max: rate, slices: None, latency };
    Codec::H264.encoder(config).expect("OpenH264 takes the size of a clip")
}

fn code(pictures: &[Arc<RawFrame>], interval: Span, rate: Rate) -> Vec<bytes::Bytes> {
    let mut encoder = encoder((pictures[0].width, pictures[0].height), interval, rate);
    let mut frame = 0;
    let coded = cost(&format!("encode, {rate}"), pictures, |picture| {
        let key = frame == 0;
        let ask = Ask { frame, bitrate: rate, interval, key, largest: None, height: None, peer: None };
        frame += 1;
        encoder.submit(Time::ZERO, Some(picture), &ask).expect("it codes");
        encoder.poll(Time::MAX).and_then(|coded| coded.payload).expect("it leaves nothing out")
    });
    let bytes: usize = coded.iter().map(bytes::Bytes::len).sum();
    println!("{:24} {:7.3} kB", "a frame", bytes as f64 / 1e3 / coded.len() as f64);
    coded
}

fn decode(coded: &[bytes::Bytes]) -> Vec<RawFrame> {
    let mut decoder = Codec::H264.decoder().expect("there is one");
    let mut frame = 0;
    cost("decode", coded, |payload| {
        decoder.submit(Time::ZERO, frame, payload.clone());
        frame += 1;
        decoder.poll(Time::MAX).and_then(|decoded| decoded.picture.ok()).expect("what was just coded")
    })
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: costs CLIP");
        return ExitCode::from(2);
    };
    let mut clip = match Clip::open(path.as_ref(), ClipOptions::default()) {
        Ok(clip) => clip,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let interval = clip.interval();
    let pictures: Vec<_> = std::iter::from_fn(|| clip.next_picture()).take(PICTURES).collect();
    println!("{} pictures of {}x{}, CPU time each", pictures.len(), clip.size().0, clip.size().1);
    for rate in RATES {
        let coded = code(&pictures, interval, rate);
        let decoded = decode(&coded);
        let pairs: Vec<_> = pictures.iter().zip(&decoded).collect();
        let ssim = cost("PSNR and SSIM", &pairs, |(a, b)| quality(a, b).expect("of a size").ssim);
        println!("{:24} {:7.3}", "mean SSIM", ssim.iter().sum::<f64>() / ssim.len() as f64);
    }
    let packed = cost("pack", &pictures, |picture| Packed::of(picture));
    let back = cost("unpack", &packed, |packed| packed.unpack().expect("what was just packed"));
    assert!(back.iter().zip(&pictures).all(|(back, picture)| *back == **picture), "without loss");
    let samples = pictures[0].y.len() as f64 * 1.5;
    let each = packed.iter().map(Packed::len).sum::<usize>() as f64 / packed.len() as f64;
    println!("{:24} {:5.0} kB, {:.2} bits a sample", "packed", each / 1e3, each * 8.0 / samples);
    ExitCode::SUCCESS
}
