//! What a viewer sees of H.264 over a lossy path with and without concealment of lost slices: the source of
//! the table and the picture in docs/concealment.md.
//!
//! `cargo run --release -p framewire-media --example conceal -- CLIP WIDTH HEIGHT [CLIP WIDTH HEIGHT]...` (a
//! clip's path, or `synthetic`) prints the table. `... --example conceal -- picture OUT.jpg` draws one lost
//! slice both ways.
//!
//! One sender codes each picture in slices of at most a packet's payload. Each slice is a packet, and is lost
//! or arrives. A frame's fate is known to the sender `LAG` frames later, and it recovers by its strategy. Two
//! viewers get the very same packets: one keeps the last whole picture on its screen until a frame can be
//! decoded again, the other one lets the decoder conceal. With each capture each screen is compared with what
//! was captured.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use framewire_media::{
    Ask, ClipOptions, Coded, Encoder, H264Config, H264Decoder, H264Encoder, Part, Parts, Peer, RawFrame,
    Source, SyntheticConfig, SyntheticGame, jpeg, open_clip, quality,
};
use units::{Rate, Rng, Span, Time};

const INTERVAL: Span = Span::from_nanos(33_333_333);
const RATE: Rate = Rate::from_mbps(2);
/// Payload of a packet of 1,200 bytes.
const SLICE: usize = 1_140;
const FRAMES: u32 = 300;
const SEEDS: u64 = 3;
/// Frames from a capture until the sender has heard what became of it: 60 ms of round trip, and the time its
/// packets take to leave.
const LAG: u32 = 3;

type Failure = Box<dyn Error>;

fn source(clip: &str, (width, height): (usize, usize)) -> Result<Box<dyn Source>, Failure> {
    if clip == "synthetic" {
        let config = SyntheticConfig { interval: INTERVAL, ..SyntheticConfig::new(width, height) };
        return Ok(Box::new(SyntheticGame::new(config)));
    }
    let options = ClipOptions { size: Some((width, height)), loop_clip: true, ..ClipOptions::default() };
    Ok(open_clip(Path::new(clip), options)?)
}

fn pictures(clip: &str, size: (usize, usize), count: u32) -> Result<Vec<Arc<RawFrame>>, Failure> {
    let mut source = source(clip, size)?;
    (0..count).map(|_| source.next_picture().ok_or_else(|| "the clip has ended".into())).collect()
}

fn encoder(picture: &RawFrame, slices: Option<usize>) -> Result<H264Encoder, Failure> {
    let config = H264Config::new(picture.width, picture.height, INTERVAL);
    Ok(H264Encoder::new(H264Config { initial: RATE, slices, ..config })?)
}

fn encode(encoder: &mut H264Encoder, picture: &Arc<RawFrame>, ask: &Ask) -> Result<Coded, Failure> {
    encoder.submit(Time::ZERO, Some(picture), ask)?;
    Ok(encoder.poll(Time::MAX).ok_or("nothing came out")?)
}

fn ask(frame: u32, key: bool, peer: Option<Peer>) -> Ask {
    Ask { frame, bitrate: RATE, interval: INTERVAL, key, largest: None, height: None, peer }
}

/// Packets are lost one by one, or in bursts of four on average.
struct Losses {
    rng: Rng,
    share: f64,
    burst: f64,
    in_burst: bool,
}

impl Losses {
    fn next(&mut self) -> bool {
        // Two states (Gilbert): a burst ends after `burst` packets on average, and begins so that `share` are
        // lost.
        let begin = self.share / (1.0 - self.share) / self.burst;
        let chance = if self.in_burst { 1.0 - 1.0 / self.burst } else { begin };
        self.in_burst = self.rng.chance(chance);
        self.in_burst
    }
}

/// What arrives of a frame.
fn arriving(coded: &Coded, mut lost: impl FnMut(usize) -> bool) -> Parts {
    let Some(bytes) = &coded.payload else { return Parts::default() };
    let starts = [0].into_iter().chain(coded.pieces.iter().copied());
    let spans = starts.zip(coded.pieces.iter().copied()).enumerate();
    let present: Vec<Part> = spans
        .filter(|(number, _)| !lost(*number))
        .map(|(number, (start, end))| Part {
            number: number.min(255) as u8,
            bytes: bytes.slice(start as usize..end as usize),
        })
        .collect();
    Parts { complete: present.len() == coded.pieces.len(), present }
}

/// What a sender does after a loss.
#[derive(Clone, Copy, PartialEq)]
enum Recovery {
    NewestAcked,
    KeyFrames,
}

/// What the sender knows of the frames that it sent.
struct Sender {
    recovery: Recovery,
    /// Frame, whether it is a key frame, the one it refers to, whether all of it arrived.
    sent: Vec<(bool, Option<u32>, bool)>,
    /// Frames that the peer is known to have decoded whole.
    good: BTreeSet<u32>,
    /// Frames before this one were lost or broken; this one was coded after that was known.
    recovered_at: u32,
    recoveries: u32,
}

impl Sender {
    /// What to ask of the encoder for this frame.
    fn ask(&mut self, frame: u32) -> Ask {
        let mut broken_from = None;
        if let Some(old) = frame.checked_sub(LAG) {
            let (key, refers_to, whole) = self.sent[old as usize];
            if whole && (key || refers_to.is_some_and(|to| self.good.contains(&to))) {
                if key {
                    self.good.clear();
                }
                self.good.insert(old);
            } else if old >= self.recovered_at {
                (broken_from, self.recovered_at) = (Some(old), frame);
                self.recoveries += 1;
            }
        }
        match self.recovery {
            Recovery::KeyFrames => ask(frame, frame == 0 || broken_from.is_some(), None),
            Recovery::NewestAcked => {
                let known = self.good.last().copied();
                ask(frame, frame == 0, Some(Peer { known, broken_from }))
            }
        }
    }
}

/// A decoder and its screen.
struct Viewer {
    decoder: H264Decoder,
    conceals: bool,
    /// Frames that can be referred to.
    kept: BTreeSet<u32>,
    screen: Option<RawFrame>,
    /// Frames that were not shown, and those that were shown concealed.
    missed: u32,
    concealed: u32,
    ssim: Vec<f64>,
}

impl Viewer {
    fn new(conceals: bool) -> Result<Viewer, Failure> {
        let (decoder, kept, ssim) = (H264Decoder::new()?, BTreeSet::new(), Vec::new());
        Ok(Viewer { decoder, conceals, kept, screen: None, missed: 0, concealed: 0, ssim })
    }

    fn take(&mut self, coded: &Coded, refers_to: Option<u32>, parts: &Parts) {
        let something = parts.complete || self.conceals && !parts.present.is_empty();
        let decodes = something && (coded.key || refers_to.is_some_and(|to| self.kept.contains(&to)));
        match decodes.then(|| self.decoder.decode_parts(parts)) {
            Some(Ok(picture)) => {
                if coded.key {
                    self.kept.clear();
                }
                self.kept.insert(coded.frame);
                self.screen = Some(picture);
                self.concealed += u32::from(self.decoder.is_concealed());
            }
            Some(Err(_)) => {
                self.kept.clear();
                self.missed += 1;
            }
            None => self.missed += 1,
        }
    }

    fn compare(&mut self, captured: &RawFrame) -> Result<(), Failure> {
        let ssim = self.screen.as_ref().map(|screen| quality(captured, screen)).transpose()?;
        self.ssim.push(ssim.map_or(0.0, |quality| quality.ssim));
        Ok(())
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// At this share from the lowest.
fn percentile(of: &[f64], share: f64) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}

/// One row, over all seeds.
#[derive(Default)]
struct Row {
    frames: u32,
    lost_part: u32,
    lost_whole: u32,
    recoveries: u32,
    missed: [u32; 2],
    concealed: u32,
    ssim: [Vec<f64>; 2],
    /// Of captures at which the screens differed.
    apart: [Vec<f64>; 2],
}

fn run(
    pictures: &[Arc<RawFrame>],
    recovery: Recovery,
    mut losses: Losses,
    row: &mut Row,
) -> Result<(), Failure> {
    let mut encoder = encoder(&pictures[0], Some(SLICE))?;
    let (sent, good) = (Vec::new(), BTreeSet::new());
    let mut sender = Sender { recovery, sent, good, recovered_at: 0, recoveries: 0 };
    let mut viewers = [Viewer::new(false)?, Viewer::new(true)?];
    for (frame, picture) in (0..).zip(pictures) {
        let coded = encode(&mut encoder, picture, &sender.ask(frame))?;
        // What is not said is the frame before.
        let refers_to = coded.refers_to.or(frame.checked_sub(1)).filter(|_| !coded.key);
        // The first frame arrives.
        let parts = arriving(&coded, |_| losses.next() && frame > 0);
        sender.sent.push((coded.key, refers_to, parts.complete));
        row.lost_part += u32::from(!parts.complete && !parts.present.is_empty());
        row.lost_whole += u32::from(parts.present.is_empty());
        for viewer in &mut viewers {
            viewer.take(&coded, refers_to, &parts);
            viewer.compare(picture)?;
        }
    }
    row.frames += pictures.len() as u32;
    row.recoveries += sender.recoveries;
    row.concealed += viewers[1].concealed;
    let apart: Vec<usize> =
        (0..pictures.len()).filter(|&at| viewers[0].ssim[at] != viewers[1].ssim[at]).collect();
    for (which, viewer) in viewers.iter().enumerate() {
        row.missed[which] += viewer.missed;
        row.ssim[which].extend(&viewer.ssim);
        row.apart[which].extend(apart.iter().map(|&at| viewer.ssim[at]));
    }
    Ok(())
}

fn print_row(name: &str, row: &Row) {
    let share = |count: u32| 100.0 * f64::from(count) / f64::from(row.frames);
    let [dropped, concealed] = &row.ssim;
    let [dropped_apart, concealed_apart] = &row.apart;
    println!(
        "| {name} | {:.1}, {:.1} | {} | {:.1} | {:.1} | {:.4} | {:.4} | {:.3} | {:.3} | {:.3} | {:.3} |",
        share(row.lost_part),
        share(row.lost_whole),
        row.recoveries,
        share(row.missed[0]),
        share(row.missed[1]),
        mean(dropped),
        mean(concealed),
        mean(dropped_apart),
        mean(concealed_apart),
        percentile(dropped, 0.05),
        percentile(concealed, 0.05),
    );
}

fn table(clips: &[String]) -> Result<(), Failure> {
    for clip in clips.chunks(3) {
        let [name, width, height] = clip else { return Err("CLIP WIDTH HEIGHT".into()) };
        cost(name, &pictures(name, (width.parse()?, height.parse()?), FRAMES)?)?;
    }
    println!(
        "| clip, recovery, loss | frames that lost slices, all of them, % | recoveries | not shown, dropped, % \
         | concealed, % | SSIM, dropped | concealed | between loss and recovery, dropped | concealed \
         | 5th percentile, dropped | concealed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for clip in clips.chunks(3) {
        let [name, width, height] = clip else { return Err("CLIP WIDTH HEIGHT".into()) };
        let pictures = pictures(name, (width.parse()?, height.parse()?), FRAMES)?;
        for (recovery, strategy) in
            [(Recovery::NewestAcked, "newest-acked"), (Recovery::KeyFrames, "key-frames")]
        {
            for (share, burst) in [(0.005, 1.0), (0.01, 1.0), (0.02, 1.0), (0.05, 1.0), (0.01, 4.0)] {
                let mut row = Row::default();
                for seed in 1..=SEEDS {
                    let rng = Rng::stream(seed, "losses");
                    run(&pictures, recovery, Losses { rng, share, burst, in_burst: false }, &mut row)?;
                }
                let in_bursts = if burst > 1.0 { " in bursts" } else { "" };
                print_row(&format!("{name}, {strategy}, {} %{in_bursts}", share * 100.0), &row);
            }
        }
    }
    Ok(())
}

/// What slices cost where nothing is lost: bytes a frame and mean SSIM, with one slice a frame and with many.
fn cost(name: &str, pictures: &[Arc<RawFrame>]) -> Result<(), Failure> {
    for slices in [None, Some(SLICE)] {
        let (mut encoder, mut viewer) = (encoder(&pictures[0], slices)?, Viewer::new(false)?);
        let (mut bytes, mut count) = (0, 0);
        for (frame, picture) in (0..).zip(pictures) {
            let coded = encode(&mut encoder, picture, &ask(frame, frame == 0, None))?;
            let payload = coded.payload.clone().unwrap_or_default();
            let whole = Parts { present: vec![Part { number: 0, bytes: payload }], complete: true };
            viewer.take(&coded, frame.checked_sub(1), &whole);
            viewer.compare(picture)?;
            (bytes, count) = (bytes + coded.size, count + coded.pieces.len().max(1));
        }
        let frames = pictures.len() as f64;
        println!(
            "{name}: {:.0} bytes and {:.1} slices a frame, SSIM {:.4}, 5th percentile {:.3}",
            f64::from(bytes) / frames,
            count as f64 / frames,
            mean(&viewer.ssim),
            percentile(&viewer.ssim, 0.05)
        );
    }
    Ok(())
}

/// Pictures in rows of three.
fn sheet(of: &[&RawFrame]) -> RawFrame {
    let (width, height) = (of[0].width, of[0].height);
    let mut sheet = RawFrame::filled(width * 3, height * of.len().div_ceil(3), 235, 128, 128);
    for (at, picture) in of.iter().enumerate() {
        let (left, top) = (at % 3 * width, at / 3 * height);
        let put = |to: &mut [u8], from: &[u8], across: usize, left: usize, top: usize| {
            for (row, line) in from.chunks(across).enumerate() {
                let start = (top + row) * across * 3 + left;
                to[start..start + across].copy_from_slice(line);
            }
        };
        put(&mut sheet.y, &picture.y, width, left, top);
        put(&mut sheet.u, &picture.u, width / 2, left / 2, top / 2);
        put(&mut sheet.v, &picture.v, width / 2, left / 2, top / 2);
    }
    sheet
}

/// One slice is lost: what the two viewers see at once, and `LAG` frames later, just before the recovery.
fn picture(out: &str) -> Result<(), Failure> {
    const LOST: u32 = 40;
    let pictures = pictures("synthetic", (320, 192), LOST + LAG)?;
    let mut encoder = encoder(&pictures[0], Some(SLICE))?;
    let mut viewers = [Viewer::new(false)?, Viewer::new(true)?];
    let mut seen = Vec::new();
    for (frame, picture) in (0..).zip(&pictures) {
        let coded = encode(&mut encoder, picture, &ask(frame, frame == 0, None))?;
        let middle = coded.pieces.len() / 2;
        let parts = arriving(&coded, |slice| frame == LOST && slice == middle);
        for viewer in &mut viewers {
            viewer.take(&coded, frame.checked_sub(1), &parts);
            viewer.compare(picture)?;
        }
        if [LOST, LOST + LAG - 1].contains(&frame) {
            let said = viewers.each_ref().map(|viewer| viewer.ssim[frame as usize]);
            println!("frame {frame}, {} slices: SSIM {:.4} and {:.4}", coded.pieces.len(), said[0], said[1]);
            seen.push(Some(RawFrame::clone(picture)));
            seen.extend(viewers.each_ref().map(|viewer| viewer.screen.clone()));
        }
    }
    let seen: Vec<RawFrame> = seen.into_iter().flatten().collect();
    Ok(std::fs::write(out, jpeg(&sheet(&seen.iter().collect::<Vec<_>>()), 80))?)
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [what, out] if what == "picture" => picture(out),
        clips => table(clips),
    }
}
