//! `framewire send`: a clip through encoder, session and UDP, in real time.

use std::ops::ControlFlow;
use std::sync::Arc;

use cc::Setup;
use media::{ClipOptions, H264Config, H264Encoder, RawFrame, Source, SyntheticConfig, SyntheticGame};
use real::{Driver, Limits, Prefetched, Settings, Threaded};
use record::Tap;
use serde_json::json;
use session::{Policies, Sender, SenderConfig, Supply, Video};
use units::{Rate, Rng, Span};
use wire::Endpoint;

use super::{catch_interrupts, go_on, refused, ticker};
use crate::args;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;
use crate::values::{Input, PictureSize};

/// A receiver that has not answered by then will not.
const PATIENCE: Span = Span::from_secs(10);
/// Pictures read ahead of the encoder: a hiccup of a disk or of ffmpeg costs no frame.
const READ_AHEAD: usize = 8;
/// The synthetic clip, where nothing else is asked for.
const SYNTHETIC: PictureSize = PictureSize { width: 1280, height: 720 };
const SYNTHETIC_FPS: f64 = 30.0;

/// Sends until the clip or the time asked for ends.
pub fn send(args: &args::Send) -> Result<(), Failure> {
    let controller = args.cc.only().map_err(Failure::Input)?;
    let clip = Clip { input: &args.input, size: args.size, fps: args.fps, length: args.duration };
    let source = open(&clip)?;
    let (size, interval) = (source.size(), source.interval());
    let peer = args.target.resolve().map_err(Failure::Input)?;
    let mut driver = Driver::connect(peer, &Settings::default()).map_err(refused)?;
    let setup = Setup { initial: args.initial, max: args.max, frame_interval: interval, ..Setup::default() };
    let mut sender = build(&driver, controller, &setup, source, size)?;
    catch_interrupts();
    let bar = ticker();
    let start = driver.clock().now();
    let limits = Limits { patience: Some(PATIENCE), ..Limits::default() };
    let run = driver.run(&mut sender, &limits, &mut |now, sender, _| {
        bar.set_message(progress(sender, now - start));
        // A sender that waits for nothing any more may not have looked at its clock since; only then is it done.
        sender.wake(now);
        if sender.is_finished() { ControlFlow::Break(()) } else { go_on() }
    });
    bar.finish_and_clear();
    run.map_err(Failure::work)?;
    if driver.counters().received == 0 {
        return Err(Failure::Work(format!(
            "{} has not answered; is `framewire receive` running there?",
            args.target
        )));
    }
    report(args, &sender, driver.clock().now() - start);
    Ok(())
}

/// A clip as it is to be played.
#[derive(Clone, Copy, Debug)]
pub struct Clip<'a> {
    /// Which.
    pub input: &'a Input,
    /// Scaled to this size; its own if `None`.
    pub size: Option<PictureSize>,
    /// Pictures a second; its own if `None`.
    pub fps: Option<f64>,
    /// Repeated for this long; played once if `None`.
    pub length: Option<Span>,
}

/// Opens a clip, which is then read ahead on a thread of its own.
pub fn open(clip: &Clip<'_>) -> Result<Box<dyn Source>, Failure> {
    if clip.fps.is_some_and(|fps| !(1.0..=240.0).contains(&fps)) {
        return Err(Failure::input("--fps: pictures a second are between 1 and 240"));
    }
    let source: Box<dyn Source> = match clip.input {
        Input::Synthetic => {
            let size = clip.size.unwrap_or(SYNTHETIC);
            let interval = Span::from_secs_f64(1.0 / clip.fps.unwrap_or(SYNTHETIC_FPS));
            let config = SyntheticConfig { interval, ..SyntheticConfig::new(size.width, size.height) };
            Box::new(SyntheticGame::new(config))
        }
        Input::File(path) => {
            let size = clip.size.map(|size| (size.width, size.height));
            let options =
                ClipOptions { loop_clip: clip.length.is_some(), fps: clip.fps, size, max_frames: None };
            media::open_clip(path, options).map_err(Failure::input)?
        }
    };
    let pictures =
        clip.length.map(|length| (length.as_secs_f64() / source.interval().as_secs_f64()).ceil() as u64);
    let source = Prefetched::new(source, READ_AHEAD);
    Ok(Box::new(FirstOf { source, left: pictures.unwrap_or(u64::MAX) }))
}

/// The first pictures of a clip.
struct FirstOf {
    source: Prefetched,
    left: u64,
}

impl Source for FirstOf {
    fn size(&self) -> (usize, usize) {
        self.source.size()
    }
    fn interval(&self) -> Span {
        self.source.interval()
    }
    fn next_picture(&mut self) -> Option<Arc<RawFrame>> {
        self.left = self.left.checked_sub(1)?;
        self.source.next_picture()
    }
}

fn build(
    driver: &Driver,
    controller: &str,
    setup: &Setup,
    source: Box<dyn Source>,
    size: (usize, usize),
) -> Result<Sender, Failure> {
    let options = controller.parse().map_err(Failure::input)?;
    let controller = cc::build(&options, setup).map_err(Failure::input)?;
    let interval = setup.frame_interval;
    // Encoding takes its own time here.
    let codec = H264Config {
        latency: Span::ZERO,
        initial: setup.initial,
        max: setup.max,
        ..H264Config::new(size.0, size.1, interval)
    };
    let encoder = H264Encoder::new(codec).map_err(Failure::input)?;
    let encoder = Box::new(Threaded::new(Box::new(encoder), driver.clock(), driver.waker()));
    let video = Video { encoder, source: Some(source), interval };
    let config = SenderConfig {
        session: session_number(driver),
        picture: (size.0 as u16, size.1 as u16),
        ..SenderConfig::default()
    };
    let rng = Rng::stream(u64::from(config.session), "sender");
    let supplies = vec![Supply::Video(video)];
    Ok(Sender::new(config, setup, controller, Policies::default(), supplies, rng, Tap::default()))
}

/// A number that the last session of this machine is unlikely to have had.
fn session_number(driver: &Driver) -> u32 {
    let now = driver.clock().now().as_micros() as u32;
    now.rotate_left(12) ^ std::process::id()
}

fn progress(sender: &Sender, elapsed: Span) -> String {
    let counters = sender.counters();
    let media = sender.decision().media.unwrap_or(Rate::ZERO);
    format!(
        "{:.1} s  {} frames  {media}  srtt {:.1} ms  {} lost",
        elapsed.as_secs_f64(),
        counters.encoded,
        sender.srtt().as_millis_f64(),
        counters.lost
    )
}

fn report(args: &args::Send, sender: &Sender, elapsed: Span) {
    let c = sender.counters();
    let seconds = elapsed.as_secs_f64();
    let mean_bps = c.bytes as f64 * 8.0 / seconds;
    if args.format.json {
        output::json(&json!({
            "target": args.target.to_string(), "cc": args.cc.0[0], "duration_s": seconds,
            "frames": { "captured": c.captured, "encoded": c.encoded, "skipped": c.skipped, "expired": c.expired },
            "packets": { "sent": c.packets, "lost": c.lost, "spurious": c.spurious, "retransmitted": c.retransmissions },
            "throughput_bps": mean_bps, "srtt_ms": sender.srtt().as_millis_f64(),
            "refused": { "malformed": c.malformed, "foreign": c.foreign, "implausible": c.implausible },
        }));
        return;
    }
    let mut table = Table::new(["sent to", "s", "frames", "skipped", "packets", "lost", "Mbit/s", "srtt ms"]);
    table.row([
        args.target.to_string(),
        format!("{seconds:.1}"),
        c.encoded.to_string(),
        c.skipped.to_string(),
        c.packets.to_string(),
        c.lost.to_string(),
        format!("{:.2}", mean_bps / 1e6),
        format!("{:.1}", sender.srtt().as_millis_f64()),
    ]);
    print!("{table}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_ends_after_the_pictures_asked_for() {
        let game = SyntheticGame::new(SyntheticConfig::new(64, 64));
        let mut source = FirstOf { source: Prefetched::new(Box::new(game), 2), left: 3 };
        assert_eq!(std::iter::from_fn(|| source.next_picture()).count(), 3);
        assert!(source.next_picture().is_none());
    }
}
