//! The shadow test: one scenario in both worlds, in virtual time and on loopback through the relay, over UDP
//! and over QUIC, compared.
//!
//! The link, sender and receiver are the same code; what differs is who drives them. So what differs in the
//! results is the machine: its timers, its scheduler, its sockets. Over QUIC two more things do: each packet
//! is 30 bytes longer, which the simulator's is not, and the link's clock starts with the handshake, a few
//! round trips before the media.

use std::sync::{Arc, Mutex};

use cc::{Options, Setup};
use media::{EncoderModel, ModelConfig, Table};
use netsim::{HostConfig, Link, LinkConfig, QueueSpec, RateProcess, World};
use record::{Memory, Tap};
use serde_json::{Value, json};
use session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video};
use units::{HostClock, Rate, Rng, Span, Time};

use crate::benchmark::extend;
use crate::loopback::{Loopback, Over, RECEIVER, Recording, SENDER, Watch};
use crate::measure::quantile;
use crate::{Bar, Benchmark, Failure, Progress};

const LENGTH: Span = Span::from_secs(10);
const INTERVAL: Span = Span::from_nanos(16_666_667);
/// How often the real half is run.
const RUNS: usize = 3;
/// What the two worlds may differ by: mean bitrate, as a share, and the 90th percentile of frame delay.
const BITRATE_TOLERANCE: f64 = 0.05;
const DELAY_TOLERANCE_MS: f64 = 5.0;

/// What is compared.
#[derive(Clone, Copy, Debug)]
struct Seen {
    bitrate_bps: f64,
    delay_p90_ms: f64,
    shown: usize,
    frames: usize,
}

fn seen(recording: &Recording, watch: &Watch) -> Seen {
    let frames = recording.frames(watch);
    let shown = frames.iter().filter_map(|trace| Some((trace, trace.shown?)));
    let bytes: u64 = shown.clone().map(|(trace, _)| u64::from(trace.size)).sum();
    let delays: Vec<f64> = shown.clone().map(|(trace, at)| (at - trace.captured).as_millis_f64()).collect();
    Seen {
        bitrate_bps: bytes as f64 * 8.0 / LENGTH.as_secs_f64(),
        delay_p90_ms: quantile(&delays, 0.9),
        shown: delays.len(),
        frames: frames.len(),
    }
}

/// The link: it halves after four seconds and recovers after seven.
fn link() -> LinkConfig {
    let steps = [(0, 12), (4, 6), (7, 12)].map(|(s, mbps)| (Time::from_secs(s), Rate::from_mbps(mbps)));
    let rate = RateProcess::steps(steps.to_vec()).expect("the steps are in order");
    let queue: QueueSpec = "droptail:120ms".parse().expect("the queue registry knows droptail");
    LinkConfig::bottleneck(rate, queue, Span::from_millis(20))
}

fn back() -> LinkConfig {
    LinkConfig::delay(Span::from_millis(20))
}

fn sender(tap: Tap, mtu: usize) -> Sender {
    let setup = Setup { mtu: mtu as u32, frame_interval: INTERVAL, ..Setup::default() };
    let controller = cc::build(&Options::of("sqp"), &setup).expect("the registry knows sqp");
    let model = ModelConfig::recorded(Table::big_buck_bunny(), 1);
    let encoder = Box::new(EncoderModel::new(model).expect("the recorded model is sound"));
    let video = Video { encoder, source: None, interval: INTERVAL };
    let rng = Rng::stream(1, "sender");
    let supplies = vec![Supply::Video(video)];
    let config = SenderConfig { mtu, ..SenderConfig::default() };
    Sender::new(config, &setup, controller, Policies::default(), supplies, rng, tap)
}

fn receiver(tap: Tap, watch: &Watch) -> Receiver {
    Receiver::new(ReceiverConfig::default(), None, Some(Box::new(watch.clone())), tap)
}

fn in_virtual_time(mtu: usize) -> Seen {
    let watch = Watch::default();
    let memory = Arc::new(Mutex::new(Memory::default()));
    let mut world = World::new(1, Some(memory.clone()));
    let tap = world.next_host_tap(HostClock::default());
    let near = world.add_host(HostConfig::new("sender"), sender(tap, mtu));
    let tap = world.next_host_tap(HostClock::default());
    let far = world.add_host(HostConfig::new("receiver"), receiver(tap, &watch));
    let (there, back) = (world.add_link("there", link()), world.add_link("back", back()));
    world.connect(near, 0, &[there], far);
    world.connect(far, 0, &[back], near);
    world.run_until(Time::ZERO + LENGTH);
    let events = std::mem::take(&mut memory.lock().expect("no recorder panics").events);
    seen(&Recording(events), &watch)
}

fn in_real_time(over: Over) -> Result<Seen, Failure> {
    let links = (Link::new(link(), 1, "there", Tap::default()), Link::new(back(), 1, "back", Tap::default()));
    let mut loopback = Loopback::over(over, Some(links))?;
    let watch = Watch::on(loopback.near().clock());
    let near = sender(loopback.tap(SENDER), over.mtu());
    let far = receiver(loopback.tap(RECEIVER), &watch);
    Ok(seen(&loopback.run(near, far, LENGTH)?, &watch))
}

/// One way of travelling, in both worlds.
struct Shadow {
    ideal: Seen,
    runs: Vec<Seen>,
}

impl Shadow {
    fn cast(over: Over, bar: &dyn Bar) -> Result<Shadow, Failure> {
        let ideal = in_virtual_time(over.mtu());
        let runs = (0..RUNS).map(|_| {
            let run = in_real_time(over);
            bar.advance();
            run
        });
        Ok(Shadow { ideal, runs: runs.collect::<Result<_, _>>()? })
    }

    fn bitrate_off(&self, run: &Seen) -> f64 {
        run.bitrate_bps / self.ideal.bitrate_bps - 1.0
    }

    fn delay_off(&self, run: &Seen) -> f64 {
        run.delay_p90_ms - self.ideal.delay_p90_ms
    }

    fn is_within(&self, run: &Seen) -> bool {
        self.bitrate_off(run).abs() <= BITRATE_TOLERANCE && self.delay_off(run).abs() <= DELAY_TOLERANCE_MS
    }

    fn worst(&self, off: impl Fn(&Seen) -> f64) -> f64 {
        self.runs.iter().map(|run| off(run).abs()).fold(0.0, f64::max)
    }

    fn row(&self, run: &Seen) -> Value {
        json!({ "bitrate_bps": run.bitrate_bps, "delay_p90_ms": run.delay_p90_ms, "shown": run.shown,
                "frames": run.frames, "bitrate_difference": self.bitrate_off(run),
                "delay_p90_difference_ms": self.delay_off(run) })
    }

    fn json(&self) -> Value {
        json!({
            "bitrate_difference": self.worst(|run| self.bitrate_off(run)),
            "delay_p90_difference_ms": self.worst(|run| self.delay_off(run)),
            "within": self.runs.iter().filter(|run| self.is_within(run)).count(),
            "of": RUNS,
            "virtual": self.row(&self.ideal),
            "real": self.runs.iter().map(|run| self.row(run)).collect::<Vec<_>>(),
        })
    }
}

/// Runs the scenario once in virtual and three times in real time, over UDP and over QUIC. The figure to
/// compare is UDP's.
pub fn run(progress: &dyn Progress) -> Result<Benchmark, Failure> {
    let bar = progress.begin(2 * RUNS as u64, "shadow, in real time");
    let udp = Shadow::cast(Over::Udp, &*bar)?;
    let quic = Shadow::cast(Over::Quic, &*bar)?;
    drop(bar);
    let value = udp.worst(|run| udp.delay_off(run));
    let mut details = udp.json();
    extend(&mut details, json!({ "quic": quic.json() }));
    Ok(Benchmark::new("shadow", "ms of P90 frame delay apart", value, details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_virtual_half_fills_the_link_and_shows_its_frames() {
        let ideal = in_virtual_time(Over::Udp.mtu());
        assert!(ideal.frames >= 590 && ideal.shown >= ideal.frames * 95 / 100, "{ideal:?}");
        // 12, 6 and 12 Mbit/s on average 10.2.
        assert!((5e6..10.2e6).contains(&ideal.bitrate_bps), "{ideal:?}");
        assert!((24.0..150.0).contains(&ideal.delay_p90_ms), "{ideal:?}");
    }
}
