//! What an endpoint of uploads takes: many uploads at a time over QUIC, and many viewers of their playlists,
//! all on loopback.
//!
//! ```text
//!   replayed clip --Sender--(QUIC)--> framewire ingest --(HTTP)--> viewers: playlist, what is new in it, check
//!      20 times                       the process that is measured       200 times
//! ```
//!
//! Uploaders and viewers live in this process and cost little: a clip is coded once and then sent again and
//! again, and viewers decode nothing. What the endpoint's process used, by the system's count, is in the
//! result, and what this one used beside it.
//!
//! Nothing is sent again, so segments of the second class are the first one's files; an upload whose frames
//! were repaired costs another coding of those segments.

mod endpoint;
mod replay;
mod viewers;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use media::Source;
use real::quic::{Call, Fingerprint, Limits as ConnectionLimits, Runtime, Token, Trust};
use real::{Channel, Clock, Driver, Limits, RealError};
use serde_json::{Value, json};
use session::preset::Choice;
use session::{Sender, SenderBuilder, Supply, Tracks};
use units::{Rate, Span};
use wire::{Offer, Role};

use crate::measure::{cpu_time, quantile};
use crate::{Benchmark, Failure, Progress};
use endpoint::Endpoint;
use replay::{Recorded, Still};
use viewers::{Seen, Viewer};

/// What is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `framewire` command, for the endpoint.
    pub program: PathBuf,
    /// Uploads at a time.
    pub uploads: usize,
    /// Viewers at a time, spread over uploads and classes.
    pub viewers: usize,
    /// How long is uploaded.
    pub duration: Span,
    /// What each upload sends.
    pub rate: Rate,
    /// Width and height of its pictures.
    pub size: (usize, usize),
}

impl Settings {
    /// 20 uploads of 480x270 at 2 Mbit/s and 200 viewers, for 40 s.
    pub fn new(program: PathBuf) -> Settings {
        let (rate, duration) = (Rate::from_mbps(2), Span::from_secs(40));
        Settings { program, uploads: 20, viewers: 200, duration, rate, size: (480, 270) }
    }
}

/// From one upload's begin to the next one's: an endpoint takes five handshakes a second of an address.
const APART: Duration = Duration::from_millis(250);
/// Viewers come when the first segments of the slower class are there.
const VIEWERS_AFTER: Duration = Duration::from_secs(14);
/// Delays of the two classes, and how long a segment is, in s.
const DELAYS: [f64; 2] = [0.5, 10.0];
const SEGMENT: f64 = 2.0;
/// The longest datagram a session sends: an IPv4 packet of 1500.
const LONGEST_DATAGRAM: usize = 1472;

/// Uploads `clip` as often as `settings` say; the clip is called `input`.
///
/// # Errors
/// [`Failure::Input`] where the endpoint can't be started, [`Failure::Work`] where it or an upload failed.
pub fn run(
    settings: &Settings,
    clip: &mut dyn Source,
    input: &str,
    progress: &dyn Progress,
) -> Result<Benchmark, Failure> {
    let recorded = Recorded::of(clip, settings.rate)?;
    let mut endpoint = Endpoint::start(&settings.program, settings.uploads, DELAYS, SEGMENT)?;
    let bar = progress.begin(settings.duration.as_nanos().unsigned_abs() / 1_000_000_000, "uploads");
    let before = cpu_time();
    let uploads = uploads(settings, &recorded, &endpoint)?;
    thread::sleep(VIEWERS_AFTER);
    let viewers = viewers(settings, &endpoint);
    while !uploads.iter().all(JoinHandle::is_finished) {
        bar.reach(endpoint.age().as_secs());
        thread::sleep(Duration::from_millis(200));
    }
    let used = endpoint.used();
    let load = (cpu_time() - before).as_secs_f64() / used.seconds;
    drop(bar);
    let sent = uploads.into_iter().map(|upload| joined(upload)?).collect::<Result<Vec<u64>, Failure>>()?;
    let seen: Vec<Seen> = viewers.into_iter().map(Viewer::end).collect();
    let streams = endpoint.end()?;
    let details = json!({
        "uploads": settings.uploads,
        "input": input,
        "picture": format!("{}x{}", recorded.size.0, recorded.size.1),
        "fps": 1.0 / recorded.interval.as_secs_f64(),
        "upload_mbit": sent.iter().sum::<u64>() as f64 * 8.0 / 1e6
            / sent.len().max(1) as f64 / settings.duration.as_secs_f64(),
        "cores": used.cpu / used.seconds,
        "cores_of_the_load": load,
        "peak_memory_bytes": used.peak,
        "classes": classes(&streams),
        "viewers": of_viewers(&seen),
    });
    Ok(Benchmark::new("ingest", "cores that the endpoint uses", used.cpu / used.seconds, details))
}

fn joined<T>(thread: JoinHandle<T>) -> Result<T, Failure> {
    thread.join().map_err(|_| Failure::work("a thread of the load panicked"))
}

/// Begins all uploads, each on a thread that returns the bytes it has sent.
fn uploads(
    settings: &Settings,
    recorded: &Recorded,
    endpoint: &Endpoint,
) -> Result<Vec<JoinHandle<Result<u64, Failure>>>, Failure> {
    let each = |nth: usize| {
        let (recorded, settings) = (recorded.clone(), settings.clone());
        let (at, pin) = (endpoint.at, endpoint.pin);
        thread::sleep(APART);
        let name = format!("upload-{nth:02}");
        let begun = thread::Builder::new().name(name.clone());
        begun.spawn(move || upload(&settings, &recorded, &name, (at, pin))).map_err(Failure::work)
    };
    (0..settings.uploads).map(each).collect()
}

/// One upload, to its end.
fn upload(
    settings: &Settings,
    recorded: &Recorded,
    name: &str,
    (peer, pin): (SocketAddr, Fingerprint),
) -> Result<u64, Failure> {
    let token: Token = endpoint::TOKEN.parse().map_err(Failure::work)?;
    let call = Call {
        peer,
        host: "localhost",
        trust: Trust::Pin(pin),
        role: Role::Publish,
        token: &token,
        name,
        offer: Offer { codec: media::Codec::H264.web_name(), controller: "fixed" },
        patience: Span::from_secs(10),
        clock: Clock::shared(),
        limits: ConnectionLimits::default(),
    };
    let runtime = Runtime::new(1).map_err(Failure::work)?;
    let channel = call.connect(&runtime).map_err(Failure::work)?.channel;
    let mut driver = Driver::over(channel.clone());
    let frames = settings.duration.as_nanos() / recorded.interval.as_nanos();
    let still = Still::new(recorded, u64::try_from(frames).unwrap_or(0));
    // A little more than the clip has, so that a frame above the mean waits for nobody.
    let rate = Rate::from_bps(settings.rate.as_bps() * 3 / 2);
    let tracks = Tracks {
        encoders: vec![Box::new(recorded.encoder())],
        source: Some(Box::new(still)),
        interval: recorded.interval,
    };
    let sender = SenderBuilder::default()
        .choice(&Choice::of(Some("fixed"), None, None))
        .starting_at(rate, rate)
        .mtu(LONGEST_DATAGRAM)
        .path_mtu(channel.max_datagram())
        .supply(Supply::Tracks(tracks));
    let mut sender = sender.build().map_err(Failure::work)?;
    let run = driver.run(&mut sender, &Limits::default(), &mut |_, sender: &mut Sender, _| {
        if sender.is_finished() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    channel.finish("the upload is done");
    match run {
        // An endpoint that has all may say so before we do.
        Ok(()) | Err(RealError::Ended { .. }) if sender.is_finished() => Ok(sender.counters().bytes),
        Ok(()) => Err(Failure::Work(format!("{name} was not finished"))),
        Err(error) => Err(Failure::Work(format!("{name}: {error}"))),
    }
}

/// Viewers in turn of each upload and class.
fn viewers(settings: &Settings, endpoint: &Endpoint) -> Vec<Viewer> {
    let of = |nth: usize| {
        let (upload, class) = (nth % settings.uploads, (nth / settings.uploads) % DELAYS.len());
        let names = ["live", "10s"];
        let path = format!("/upload-{upload:02}/{}.m3u8", names[class]);
        Viewer::begin(endpoint.site, path, DELAYS[class])
    };
    (0..settings.viewers).map(of).collect()
}

/// Of each class what became of the frames of all uploads.
fn classes(streams: &Value) -> Value {
    let of = |class: usize, delay: f64| {
        let sum = |key: &str| -> u64 {
            let each = streams["streams"].as_array().into_iter().flatten();
            each.filter_map(|stream| stream["classes"][class][key].as_u64()).sum()
        };
        json!({
            "delay_s": delay, "segments": sum("segments"), "frames": sum("frames"), "missing": sum("missing"),
        })
    };
    DELAYS.iter().enumerate().map(|(class, &delay)| of(class, delay)).collect()
}

fn of_viewers(seen: &[Seen]) -> Value {
    let all = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    let spread = |of: fn(&Seen) -> &[f64]| {
        let values: Vec<f64> = seen.iter().flat_map(|seen| of(seen).iter().copied()).collect();
        json!({ "p50": quantile(&values, 0.5), "p99": quantile(&values, 0.99), "max": quantile(&values, 1.0) })
    };
    json!({
        "number": seen.len(),
        "requests": all(|seen| seen.requests),
        "segments": all(|seen| seen.segments),
        "bytes": all(|seen| seen.bytes),
        "failures": all(|seen| seen.failures),
        "broken_playlists": all(|seen| seen.broken),
        "answer_ms": spread(|seen| &seen.answers),
        "seen_after_due_s": spread(|seen| &seen.late),
        "first_trouble": seen.iter().find_map(|seen| seen.trouble.clone()),
    })
}
