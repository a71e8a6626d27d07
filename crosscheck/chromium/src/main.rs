//! What Chromium's WebRTC receiver shows of the video of `docs/playout.md`, and when, over the same links in
//! real time.
//!
//! ```text
//! cargo run --release --manifest-path crosscheck/chromium/Cargo.toml -- --json chromium.json
//! ```
//!
//! It starts a headless Chromium, serves it a page, and is the sender that the page receives from.

#![allow(clippy::disallowed_methods, reason = "it measures on the real clock")]

mod clip;
mod figures;
mod http;
mod path;
mod report;
mod sender;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use figures::Heard;
use http::Request;
use path::Cell;
use report::{Measured, Received};
use sender::{Running, Sent};

type Error = Box<dyn std::error::Error + Send + Sync>;

const PAGE: &str = include_str!("page.html");
/// What is not measured at a cell's beginning; `experiments/playout.toml` leaves out as much.
const WARMUP: Duration = Duration::from_secs(5);
/// How long the page listens on, so that the last measured frames are shown.
const REST: Duration = Duration::from_millis(1_500);
/// A cell is measured again if one packet in a hundred left later than this, or one of the page's timers was
/// later than four times this: a tenth of a frame's interval.
const DISTURBED_MS: f64 = 3.3;
/// How often at most.
const TRIES: u32 = 2;

/// A way of receiving.
struct Way {
    name: &'static str,
    /// Whether the page sends pictures, too, so that it learns the round trip.
    call: bool,
    /// `RTCRtpReceiver.jitterBufferTarget` in ms; none is the browser's own.
    target: Option<u32>,
    /// Whether the sender says that frames may be shown at once.
    immediate: bool,
}

/// Those of one run are measured at the same time, each over links of its own.
const WAYS: [Way; 4] = [
    Way { name: "call", call: true, target: None, immediate: false },
    Way { name: "receive-only", call: false, target: None, immediate: false },
    Way { name: "immediate", call: true, target: None, immediate: true },
    Way { name: "target-0", call: true, target: Some(0), immediate: false },
];

struct Options {
    browser: String,
    measured: Duration,
    seeds: u64,
    cells: Vec<Cell>,
    ways: Vec<&'static Way>,
    json: Option<PathBuf>,
}

const USAGE: &str = "\
Options:
  --cells RTT,LOSS,JITTER ...  cells in ms, %, ms, such as 50,2,0; by default all of docs/playout.md that it compares
  --ways NAME,...              of receiving: call, receive-only, immediate, target-0 (all but the last)
  --seconds N                  how long each is measured, after 5 s (25)
  --seeds N                    how often, with how many seeds (1)
  --browser PATH               (chromium)
  --json FILE                  every figure as JSON";

fn main() -> Result<(), Error> {
    let options = options().map_err(|error| format!("{error}\n{USAGE}"))?;
    let clip = Arc::new(clip::record()?);
    let version = Command::new(&options.browser).arg("--version").stderr(Stdio::null()).output()?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let page = format!("http://{}/", listener.local_addr()?);
    let mut bench = Bench { requests: http::serve(listener), clip, origin: Instant::now(), options };
    let _browser = Browser::start(&bench.options.browser, &page)?;
    let mut all = Vec::new();
    for cell in bench.options.cells.clone() {
        for seed in 1..=bench.options.seeds {
            all.push(bench.undisturbed(cell, seed)?);
        }
    }
    if let Some(file) = &bench.options.json {
        let whole = json!({ "browser": version, "cells": all });
        std::fs::write(file, serde_json::to_string_pretty(&whole)?)?;
    }
    println!("{version}\n\n{}", report::markdown(&all));
    Ok(())
}

fn options() -> Result<Options, Error> {
    let mut options = Options {
        browser: "chromium".into(),
        measured: Duration::from_secs(25),
        seeds: 1,
        cells: Vec::new(),
        ways: WAYS[..3].iter().collect(),
        json: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--browser" => options.browser = value()?,
            "--seconds" => options.measured = Duration::from_secs(value()?.parse()?),
            "--seeds" => options.seeds = value()?.parse()?,
            "--json" => options.json = Some(value()?.into()),
            "--ways" => {
                let named = |name| WAYS.iter().find(|way| way.name == name).ok_or(format!("no way `{name}`"));
                options.ways = value()?.split(',').map(named).collect::<Result<_, _>>()?;
            }
            "--cells" => options.cells.push(cell(&value()?)?),
            other => return Err(format!("there is no `{other}`").into()),
        }
    }
    if options.cells.is_empty() {
        let without_jitter = [20, 50, 100].into_iter().map(|round_trip_ms| (round_trip_ms, 0));
        for (round_trip_ms, jitter_ms) in without_jitter.chain([(50, 5), (50, 20)]) {
            let losses = [0.0, 0.01, 0.02, 0.05];
            options.cells.extend(losses.map(|loss| Cell { round_trip_ms, loss, jitter_ms }));
        }
    }
    Ok(options)
}

fn cell(text: &str) -> Result<Cell, Error> {
    let [round_trip, loss, jitter] = text.split(',').collect::<Vec<_>>()[..] else {
        return Err(format!("`{text}` is not RTT,LOSS,JITTER").into());
    };
    let loss = loss.parse::<f64>()? / 100.0;
    Ok(Cell { round_trip_ms: round_trip.parse()?, loss, jitter_ms: jitter.parse()? })
}

/// A headless browser with a profile of its own; it ends with this.
struct Browser {
    child: Child,
    profile: PathBuf,
}

impl Browser {
    fn start(program: &str, page: &str) -> Result<Browser, Error> {
        let profile = std::env::temp_dir().join(format!("framewire-chromium-{}", std::process::id()));
        let mut command = Command::new(program);
        command.args(["--headless=new", "--no-sandbox", "--no-first-run", "--mute-audio", "--disable-gpu"]);
        command.args(["--autoplay-policy=no-user-gesture-required", "--disable-renderer-backgrounding"]);
        command.args(["--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows"]);
        // Both ends are on this machine, and say so to each other.
        command
            .args(["--allow-loopback-in-peer-connection", "--disable-features=WebRtcHideLocalIpsWithMdns"]);
        command.arg(format!("--user-data-dir={}", profile.display())).arg(page);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Browser { child, profile })
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It is gone already, or its files are still being written: nothing depends on either.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// The page's clock beside the sender's.
#[derive(Debug, Deserialize)]
struct Clock {
    /// The exchange it was read with, in ms: the error is at most half of it.
    wait: f64,
    /// The sender's clock minus the page's, in ms.
    offset: f64,
}

#[derive(Debug, Deserialize)]
struct Account {
    clocks: [Clock; 2],
    heard: Vec<Heard>,
    /// How late timers of the page were, in ms.
    late: Vec<f64>,
}

struct Bench {
    requests: Receiver<Request>,
    clip: Arc<Vec<clip::Payloads>>,
    origin: Instant,
    options: Options,
}

impl Bench {
    /// The least disturbed of some tries at a cell.
    fn undisturbed(&mut self, cell: Cell, seed: u64) -> Result<Measured, Error> {
        let mut best: Option<Measured> = None;
        for _ in 0..TRIES {
            let measured = self.measure(cell, seed)?;
            eprintln!("{}", report::line(&measured));
            if best.as_ref().is_none_or(|best| measured.disturbance_ms() < best.disturbance_ms()) {
                best = Some(measured);
            }
            if best.as_ref().is_some_and(|best| best.disturbance_ms() < DISTURBED_MS) {
                break;
            }
        }
        Ok(best.expect("there was a try"))
    }

    /// Serves the page until it has measured a cell.
    fn measure(&mut self, cell: Cell, seed: u64) -> Result<Measured, Error> {
        let millis = |span: Duration| span.as_millis() as u64;
        let limit = WARMUP + self.options.measured + REST + Duration::from_secs(30);
        let mut senders: Vec<(usize, Running)> = Vec::new();
        loop {
            let request = self.requests.recv_timeout(limit).map_err(|_| "the browser is silent")?;
            match request.path.as_str() {
                "/" => request.answer("text/html", PAGE.as_bytes())?,
                "/clock" => {
                    let ms = self.origin.elapsed().as_secs_f64() * 1e3;
                    request.json(&json!({ "ms": ms }))?;
                }
                "/next" => {
                    let way =
                        |way: &&Way| json!({ "name": way.name, "call": way.call, "target": way.target });
                    let ways: Vec<_> = self.options.ways.iter().map(way).collect();
                    request.json(&json!({
                        "ways": ways, "warmup_ms": millis(WARMUP),
                        "measured_ms": millis(self.options.measured), "rest_ms": millis(REST),
                    }))?;
                }
                "/result" => {
                    let account: Account = serde_json::from_slice(&request.body)?;
                    request.json(&json!({}))?;
                    let finished = senders.into_iter().map(|(way, running)| Ok((way, running.finish()?)));
                    return self.judge(cell, seed, account, finished.collect::<Result<_, Error>>()?);
                }
                "/trouble" => return Err(String::from_utf8_lossy(&request.body).into_owned().into()),
                path => {
                    let name = path.strip_prefix("/offer/");
                    let Some(index) = WAYS.iter().position(|way| Some(way.name) == name) else {
                        request.answer("text/plain", b"")?;
                        continue;
                    };
                    let offer = serde_json::from_slice(&request.body)?;
                    let immediate = WAYS[index].immediate;
                    let (answer, running) = sender::start(offer, self.clip.clone(), cell, seed, immediate)?;
                    request.json(&serde_json::to_value(answer)?)?;
                    senders.push((index, running));
                }
            }
        }
    }

    fn judge(
        &self,
        cell: Cell,
        seed: u64,
        mut account: Account,
        sent: Vec<(usize, Sent)>,
    ) -> Result<Measured, Error> {
        let offset = (account.clocks[0].offset + account.clocks[1].offset) / 2.0;
        let frames = |span: Duration| (span.as_secs_f64() * 30.0) as u32;
        let (from, to) = (frames(WARMUP), frames(WARMUP + self.options.measured));
        let mut received = Vec::new();
        let mut lateness = Vec::new();
        for (index, mut sent) in sent {
            let name = WAYS[index].name;
            let start = sent.started.ok_or("a connection did not come about")?;
            let start = (start - self.origin).as_secs_f64() * 1e3 - offset;
            let heard =
                account.heard.iter().find(|heard| heard.name == name).ok_or("a receiver is missing")?;
            lateness.append(&mut sent.lateness_ms);
            received.push(Received::new(heard, &sent, start, from..to));
        }
        received.sort_by_key(|received| WAYS.iter().position(|way| way.name == received.way));
        Ok(Measured {
            round_trip_ms: cell.round_trip_ms,
            loss_percent: cell.loss * 100.0,
            jitter_ms: cell.jitter_ms,
            seed,
            received,
            sender_late_p99_ms: figures::percentile(&mut lateness, 99.0),
            page_late_p99_ms: figures::percentile(&mut account.late, 99.0),
            clock_error_ms: account.clocks.iter().map(|clock| clock.wait / 2.0).fold(0.0, f64::max),
            clock_drift_ms: account.clocks[1].offset - account.clocks[0].offset,
        })
    }
}
