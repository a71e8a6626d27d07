//! A real browser behind a relay: the page of `framewire serve` in headless Chromium, 720p30 for 25 s, over a
//! link that drops from 8 to 2 Mbit/s.
//!
//! ```text
//!   serve --QUIC--> relay: 8 Mbit/s, after 12 s 2 Mbit/s --QUIC--> page --Seen--> serve
//!      |  captured: picture, date                                   | shown: picture as drawn, date, delay as shown
//!      '--------------------------- compared ----------------------'
//! ```
//!
//! Both dates are this machine's calendar, so their difference is a frame's true delay; what the page shows
//! it knows from the clocks' estimate alone. A picture is the same at both ends if the number burned into it
//! is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use instruments::Benchmark;
use instruments::measure::{median, quantile};
use netsim::{Link, LinkConfig, QueueSpec, RateProcess};
use real::quic::{Identity, Limits as ConnectionLimits, Token};
use real::{Limits, RealError, Relay, RelaySettings};
use record::Tap;
use serde_json::json;
use units::{Rate, Span, Time};

use crate::args::Rates;
use crate::failure::Failure;
use crate::live::serve::{Note, Service, Show};
use crate::live::{Look, Losses};
use crate::values::{Feed, Input, PictureSize};

const LENGTH: Span = Span::from_secs(25);
/// Rates from the relay's first packet on, and until when the first holds.
const BEFORE: Rate = Rate::from_mbps(8);
const AFTER: Rate = Rate::from_mbps(2);
const DROP: Span = Span::from_secs(12);
/// Each way.
const DELAY: Span = Span::from_millis(20);
const QUEUE: &str = "droptail:120ms";
const SIZE: PictureSize = PictureSize { width: 1280, height: 720 };
const FPS: f64 = 30.0;
/// The rate must have come down to the new one by then: a second or two of its estimators and as much again.
const SETTLED: Span = Span::from_secs(4);
/// How long a browser may take to start.
const START: Span = Span::from_secs(20);
/// Where browsers are, beside the one that FRAMEWIRE_BROWSER names.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// What the server noted, by pictures' numbers; dates in microseconds.
#[derive(Default)]
struct Log {
    captured: BTreeMap<u32, u64>,
    /// Picture, when it was shown, the delay as shown in ms.
    seen: Vec<(u32, u64, f64)>,
    /// When, and bytes sent until then.
    sent: Vec<(u64, u64)>,
}

impl Log {
    fn note(&mut self, note: &Note<'_>) {
        match *note {
            Note::Captured { picture, at, .. } => {
                self.captured.insert(picture, at);
            }
            Note::Seen { frame, .. } => {
                self.seen.push((frame.picture, frame.shown, f64::from(frame.delay_us) / 1e3));
            }
            Note::Sent { at, bytes, .. } => self.sent.push((at, bytes)),
        }
    }

    /// True delay and delay as shown of each frame, in ms.
    fn delays(&self) -> Vec<(f64, f64)> {
        let pair = |&(picture, shown, delay): &(u32, u64, f64)| {
            let captured = self.captured.get(&picture)?;
            Some(((shown as f64 - *captured as f64) / 1e3, delay))
        };
        self.seen.iter().filter_map(pair).collect()
    }

    /// Mean rate sent between two dates, in Mbit/s.
    fn rate(&self, from: u64, to: u64) -> f64 {
        let within: Vec<_> = self.sent.iter().filter(|(at, _)| (from..=to).contains(at)).collect();
        match within.as_slice() {
            [(start, first), .., (end, last)] => (last - first) as f64 * 8.0 / (end - start) as f64,
            _ => f64::NAN,
        }
    }

    /// The longest time without a new picture between two dates, in ms.
    fn stall(&self, from: u64, to: u64) -> f64 {
        let mut times = vec![from];
        times.extend(self.seen.iter().map(|(_, at, _)| *at).filter(|at| (from..to).contains(at)));
        times.push(to);
        times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e3).fold(0.0, f64::max)
    }
}

/// Plays to a browser once.
pub fn run(input: &Input) -> Result<Benchmark, Failure> {
    let log = Arc::new(Mutex::new(Log::default()));
    let notes = log.clone();
    let show = Show {
        codec: media::CodecChoice::default(),
        input: Feed::Clip(input.clone()),
        look: Look { size: Some(SIZE), fps: Some(FPS), barcode: true },
        controller: "sqp".to_owned(),
        rate: None,
        losses: Losses::usual(),
        playout: session::playout::REGISTRY[0].name.to_owned(),
        rates: Rates { initial: Rate::from_mbps(2), max: Rate::from_mbps(100) },
        notes: Arc::new(move |_, note| notes.lock().expect("no note panics").note(note)),
    };
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let token = Token::generate();
    let identity =
        Identity::self_signed(&["localhost".to_owned(), any.ip().to_string()]).map_err(Failure::work)?;
    let mut service = Service::open(any, &identity, token.clone(), ConnectionLimits::default(), None, show)?;
    let mut relay = relay(service.transport).map_err(Failure::work)?;
    let address = format!("http://{}/#token={}&at={}&barcode", service.page, token.secret(), relay.local());
    let stop = relay.stop();
    let bar = crate::output::progress(0, "a browser, for 25 s");
    let mut browser = Browser::open(&address)?;
    let played: Result<(), Failure> = thread::scope(|scope| {
        let relayed =
            scope.spawn(move || relay.run(&Limits::default(), &mut |_| std::ops::ControlFlow::Continue(())));
        let played = attend(&mut service, &mut browser, &log);
        stop.stop();
        relayed.join().expect("the relay does not panic").map_err(Failure::work)?;
        played
    });
    bar.finish_and_clear();
    drop(browser);
    service.close();
    played?;
    let log = log.lock().expect("no note panics");
    summarise(&log, input)
}

/// Plays for [`LENGTH`] from the first picture on.
fn attend(service: &mut Service, browser: &mut Browser, log: &Mutex<Log>) -> Result<(), Failure> {
    let opened = Instant::now();
    let mut playing: Option<Instant> = None;
    let seconds = |span: Span| span.as_secs_f64();
    while playing.is_none_or(|since| since.elapsed().as_secs_f64() < seconds(LENGTH)) {
        service.attend();
        browser.check()?;
        if playing.is_none() && !log.lock().expect("no note panics").seen.is_empty() {
            playing = Some(Instant::now());
        }
        if playing.is_none() && opened.elapsed().as_secs_f64() > seconds(START) {
            return Err(Failure::Work(format!("the browser showed nothing within {START}")));
        }
    }
    Ok(())
}

fn relay(target: SocketAddr) -> Result<Relay, RealError> {
    let queue: QueueSpec = QUEUE.parse().expect("a queue");
    let steps = vec![(Time::ZERO, BEFORE), (Time::ZERO + DROP, AFTER)];
    let rate = RateProcess::steps(steps).expect("the steps are in order");
    // A browser begins: what comes from it is the relay's way there, and the media its way back.
    let there = Link::new(LinkConfig::delay(DELAY), 1, "there", Tap::default());
    let back = Link::new(LinkConfig::bottleneck(rate, queue, DELAY), 1, "back", Tap::default());
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    Relay::open(&RelaySettings::new(any, target), there, back)
}

/// A headless browser, and the folder of its profile; both go when this does.
struct Browser {
    process: Child,
    profile: PathBuf,
}

impl Browser {
    fn open(address: &str) -> Result<Browser, Failure> {
        let profile = std::env::temp_dir().join(format!("framewire-browser-{}", std::process::id()));
        let named = std::env::var("FRAMEWIRE_BROWSER").ok();
        for name in named.iter().map(String::as_str).chain(BROWSERS) {
            let started = Command::new(name)
                .args(["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
                // A browser started by root has no sandbox; ours shows one page, and that is our own.
                .args(["--no-sandbox", "--window-size=1280,760"])
                .arg(format!("--user-data-dir={}", profile.display()))
                .arg(address)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            match started {
                Ok(process) => return Ok(Browser { process, profile }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Failure::Work(format!("{name}: {error}"))),
            }
        }
        Err(Failure::Input("no Chromium found: install it, or name one in FRAMEWIRE_BROWSER".to_owned()))
    }

    fn check(&mut self) -> Result<(), Failure> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Failure::Work(format!("the browser ended: {status}"))),
            Err(error) => Err(Failure::work(error)),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // One that has ended by itself can't be ended; a profile left over is a temporary file.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

fn summarise(log: &Log, input: &Input) -> Result<Benchmark, Failure> {
    let (Some(start), Some(end)) = (log.sent.first(), log.seen.last()) else {
        return Err(Failure::Work("the browser showed nothing".to_owned()));
    };
    let delays = log.delays();
    let apart: Vec<f64> = delays.iter().map(|(truth, shown)| (truth - shown).abs()).collect();
    let truth: Vec<f64> = delays.iter().map(|(truth, _)| *truth).collect();
    // The relay's clock began with the handshake, some round trips before the first byte of media.
    let us = |span: Span| span.as_micros() as u64;
    let drop = start.0 + us(DROP);
    let settled = drop + us(SETTLED);
    let details = json!({
        "input": input.to_string(), "frames": log.seen.len(), "matched": delays.len(),
        "delay_ms": { "p50": median(truth.clone()), "p95": quantile(&truth, 0.95), "p99": quantile(&truth, 0.99) },
        "apart_ms": { "p50": median(apart.clone()), "p99": quantile(&apart, 0.99), "max": quantile(&apart, 1.0) },
        "rate_mbps": { "before": log.rate(drop - us(SETTLED), drop), "after": log.rate(settled, end.1) },
        "longest_stall_ms": { "before": log.stall(log.seen[0].1, drop), "after": log.stall(drop, end.1) },
    });
    Ok(Benchmark::new("browser", "ms between delay shown and true, P99", quantile(&apart, 0.99), details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_rates_and_stalls_come_from_the_log() {
        let mut log = Log::default();
        log.captured.extend([(7, 1_000_000), (8, 1_033_000)]);
        log.seen.extend([(7, 1_050_000, 52.0), (8, 1_083_000, 49.0), (9, 1_400_000, 1.0)]);
        log.sent.extend([(1_000_000, 0), (1_100_000, 100_000), (1_200_000, 200_000)]);
        assert_eq!(log.delays(), [(50.0, 52.0), (50.0, 49.0)]);
        assert_eq!(log.rate(1_000_000, 1_200_000), 8.0);
        assert!(log.rate(0, 1).is_nan());
        assert_eq!(log.stall(1_040_000, 1_500_000), 317.0);
        assert_eq!(log.stall(1_040_000, 2_500_000), 1_100.0);
    }
}
