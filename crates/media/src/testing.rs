//! What this crate's tests share: pictures, a scratch folder, the data folder and whether ffmpeg is there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use units::{Rate, Rng, Span, Time};

use crate::{Ask, Coded, Encoder, RawFrame, SyntheticConfig, SyntheticGame, Y4mWriter};

/// Between the pictures of [`game`]: 30 a second.
pub const INTERVAL: Span = Span::from_nanos(33_333_333);

pub fn game(width: usize, height: usize, seed: u64) -> SyntheticGame {
    SyntheticGame::new(SyntheticConfig { interval: INTERVAL, seed, ..SyntheticConfig::new(width, height) })
}

/// Asks for a frame at `mbps`; the first one is a key frame.
pub fn ask(frame: u32, mbps: f64) -> Ask {
    Ask {
        frame,
        bitrate: Rate::from_f64(mbps * 1e6),
        interval: INTERVAL,
        key: frame == 0,
        largest: None,
        height: None,
        peer: None,
    }
}

pub fn encode(encoder: &mut impl Encoder, picture: &Arc<RawFrame>, ask: &Ask) -> Coded {
    encoder.submit(Time::ZERO, Some(picture), ask).unwrap();
    encoder.poll(Time::MAX).unwrap()
}

pub fn payload(coded: &Coded) -> Bytes {
    coded.payload.clone().unwrap()
}

/// A picture with gradients, edges and grain.
pub fn textured(width: usize, height: usize, seed: u64) -> RawFrame {
    let mut rng = Rng::stream(seed, "textured");
    let mut frame = RawFrame::filled(width, height, 0, 0, 0);
    let tilt = rng.below(5) as usize + 1;
    for (i, p) in frame.y.iter_mut().enumerate() {
        let (x, y) = (i % width, i / width);
        let stripes = if (x / 12 + y / 9).is_multiple_of(2) { 40 } else { 0 };
        *p = (50 + (x * tilt + y * 2) % 120 + stripes + rng.below(12) as usize) as u8;
    }
    for plane in [&mut frame.u, &mut frame.v] {
        let base = 100 + rng.below(40) as usize;
        plane.iter_mut().enumerate().for_each(|(i, p)| *p = (base + (i % (width / 2)) / 8) as u8);
    }
    frame
}

/// A folder that goes away with its owner.
pub struct TempFolder(PathBuf);

impl TempFolder {
    pub fn new(name: &str) -> TempFolder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique =
            format!("framewire-{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        TempFolder(path)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn write_y4m(path: &Path, frames: &[RawFrame]) {
    let file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut writer = Y4mWriter::new(file, frames[0].width, frames[0].height, Span::from_millis(40)).unwrap();
    frames.iter().for_each(|frame| writer.write(frame).unwrap());
    writer.finish().unwrap();
}

pub fn have_ffmpeg() -> bool {
    std::process::Command::new("ffmpeg").arg("-version").output().is_ok_and(|run| run.status.success())
}

/// The folder with shared clips, if this machine has one.
pub fn data_folder() -> Option<PathBuf> {
    let sibling = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("FRAMEWIRE_DATA").map_or_else(sibling, PathBuf::from);
    folder.is_dir().then_some(folder)
}
