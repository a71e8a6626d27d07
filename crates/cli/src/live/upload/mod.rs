//! `framewire upload`: a clip or a camera to an endpoint, for viewers at every delay.

mod carry;
mod film;
mod keep;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use media::Codec;
use real::Clock;
use serde_json::json;
use units::{Bytes, Span, Time};
use upload::{LONGEST, Status, Upload};
use vantage::Delays;
use wire::Watchers;

use super::clip::{Clip, Look, open};
use super::{catch_interrupts, refuse_over_udp};
use crate::args::{Contact, Format, Rates};
use crate::failure::Failure;
use crate::operations::{Operations, Verbosity};
use crate::output;
use crate::table::Table;
use crate::values::{CcList, Feed, Input, Scheme, Target};

use carry::Carried;
use film::Film;

/// `framewire upload`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire upload quic://endpoint.example:4433?pin=SHA256 --token TOKEN --name stage --input camera
  framewire upload udp://127.0.0.1:4433 --input clip.mp4 --duration 10min
  framewire upload quic://endpoint.example:4433 --token TOKEN --input clip.mp4 --delays 0s:10,30s:200

Start `framewire ingest` at the other end first; it prints the pin and the token. Frames of now go out as the network
allows; what it carries more is spent on better versions of frames of before, for those who watch later.")]
pub struct Args {
    /// The endpoint: quic://HOST:PORT, or udp://HOST:PORT for networks of your own
    #[arg(value_name = "quic://HOST:PORT")]
    pub target: Target,
    /// The clip: Y4M, anything ffmpeg reads, `-` for Y4M on standard input, `camera` (or /dev/videoN), or
    /// `synthetic`
    #[arg(long, value_name = "CLIP")]
    pub input: Feed,
    /// How the stream is called at the endpoint: letters, digits and dashes
    #[arg(long, default_value = "upload")]
    pub name: String,
    /// Congestion controller, NAME or NAME:OPTION=VALUE,OPTION=VALUE
    #[arg(long, value_name = "CC", default_value = session::preset::DEFAULT.name)]
    pub cc: CcList,
    /// Who watches how late, DELAY:VIEWERS,...: what is sent again, and how much of the network it gets,
    /// follows from it. If left out, those that the endpoint says watch (over quic://); without any, as many
    /// at each second from 0 to 30
    #[arg(long, value_name = "DELAY:VIEWERS,...", value_parser = delays)]
    pub delays: Option<Delays>,
    /// Send nothing again: the same upload without what this command is for, to compare with
    #[arg(long)]
    pub live_only: bool,
    /// Memory for the pictures of the last seconds, packed without loss: 30 s of 1280x720 at 30 Hz take 0.5
    /// to 1 GB. Without room the oldest make way
    #[arg(long, value_name = "SIZE", default_value = "1000MB")]
    pub archive: Bytes,
    /// Keep them in this file instead, and beside it, in FILE.journal, what has become of them: an upload
    /// that is killed, or gives up, and is started again with the same file and name sends again what the
    /// endpoint lacks. Both are removed when all is sent
    #[arg(long, value_name = "FILE")]
    pub archive_file: Option<PathBuf>,
    #[command(flatten)]
    pub look: Look,
    #[command(flatten)]
    pub rates: Rates,
    /// How long to film, repeating the clip; until the clip ends once if left out
    #[arg(long)]
    pub duration: Option<Span>,
    /// Give up when the endpoint has been away for this long
    #[arg(long, default_value = "1min")]
    pub timeout: Span,
    #[command(flatten)]
    pub contact: Contact,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub operations: Operations,
}

/// `0s:10,30s:200`: delays, each with how many watch at it.
fn delays(text: &str) -> Result<Delays, String> {
    let wrong = || format!("`{text}`: delays with how many watch at each, such as 0s:10,5s:3,30s:200");
    let pair = |pair: &str| {
        let (delay, viewers) = pair.split_once(':')?;
        let delay: Span = delay.parse().ok()?;
        Some((delay.as_secs_f64(), viewers.parse::<f64>().ok()?))
    };
    let pairs: Option<Vec<(f64, f64)>> = text.split(',').map(pair).collect();
    let delays = Delays::new(pairs.ok_or_else(wrong)?).map_err(|_| wrong())?;
    if delays.longest() > LONGEST.as_secs_f64() {
        return Err(format!(
            "`{text}`: the longest delay is {LONGEST} at most; the archive would not hold more"
        ));
    }
    Ok(delays)
}

/// Uploads until the clip ends and all is repaired, or the endpoint stays away.
pub fn upload(args: &Args) -> Result<(), Failure> {
    check(args)?;
    let codec = Codec::default();
    codec.check().map_err(Failure::input)?;
    let clip = Clip { input: &args.input, look: args.look, length: args.duration };
    let (source, trouble) = open(&clip)?;
    if let Feed::Clip(Input::File(path)) = &args.input {
        output::mention_sound(path);
    }
    let running = args.operations.start(Verbosity::warnings())?;
    let film = Film::new(source);
    let upload = keep::upload(args, settings(args, film.interval()), &film)?;
    let helper = Helper::start(upload.clone());
    catch_interrupts();
    let begun = Clock::shared().now();
    let carried = carry::carry(args, &upload, &film, &running);
    drop(helper);
    // What could not be sent is kept for another attempt.
    let carried = carried?;
    args.archive_file.as_deref().into_iter().for_each(keep::remove);
    trouble.check()?;
    report(args, &upload, &carried, Clock::shared().now() - begun);
    Ok(())
}

fn check(args: &Args) -> Result<(), Failure> {
    if args.target.scheme == Scheme::Udp {
        refuse_over_udp(&args.target.to_string(), &args.contact.given(&args.target))?;
    }
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if args.name.is_empty() || args.name.len() > 64 || !args.name.bytes().all(fine) {
        return Err(Failure::Input(format!(
            "--name {:?}: up to 64 letters, digits and dashes, for it becomes a folder and an address",
            args.name
        )));
    }
    Ok(())
}

fn settings(args: &Args, interval: Span) -> vantage::Settings {
    let usual = vantage::Settings::default();
    let delays = args.delays.clone().unwrap_or_else(|| usual.delays.clone());
    // Without candidates nothing is planned, and frames of now get all.
    let candidates = if args.live_only { 0 } else { usual.candidates };
    vantage::Settings { interval: interval.as_secs_f64(), delays, candidates, ..usual }
}

/// A thread that packs and unpacks pictures, until it is dropped.
struct Helper {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// How often the thread looks for work: a twelfth of a frame's time at 30 Hz.
const LOOK_EVERY: Duration = Duration::from_millis(3);

impl Helper {
    fn start(upload: Upload) -> Helper {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = over.clone();
        let thread = std::thread::spawn(move || {
            while !theirs.load(Ordering::Relaxed) {
                if !upload.work() {
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        });
        Helper { over, thread: Some(thread) }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // If it panicked, it has said so itself.
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// What the status line says: live rate, share of what is sent again, what is missing, what was repaired, who
/// watches.
fn progress(upload: &Upload, interval: Span, elapsed: Span, live: units::Rate) -> String {
    let Status { live_bytes, again_bytes, repaired, improved, missing, never_sent, .. } = upload.status();
    let share = 100.0 * again_bytes as f64 / (live_bytes + again_bytes).max(1) as f64;
    let seconds = |frames: u64| frames as f64 * interval.as_secs_f64();
    let mut line = format!(
        "{:.1} s  live {live}  again {share:.0} %  missing {:.1} s  repaired {:.1} s  improved {:.1} s",
        elapsed.as_secs_f64(),
        seconds(missing),
        seconds(repaired),
        seconds(improved)
    );
    if never_sent > 0 {
        line += &format!("  lost for good {:.1} s", seconds(never_sent));
    }
    if let Some(watchers) = upload.watchers() {
        line += &format!("  viewers {}", viewers(&watchers));
    }
    line
}

/// Who watches, as `--delays` would have it: `0.5s:3,30s:1`.
fn viewers(watchers: &[Watchers]) -> String {
    let watched = watchers.iter().filter(|watchers| watchers.viewers > 0);
    let each =
        watched.map(|watchers| format!("{}s:{}", f64::from(watchers.delay_ms) / 1e3, watchers.viewers));
    let each: Vec<String> = each.collect();
    if each.is_empty() { "none".to_owned() } else { each.join(",") }
}

/// The same for programs; null where the endpoint never said.
fn viewers_json(watchers: Option<Vec<Watchers>>) -> serde_json::Value {
    let of = |watchers: &Watchers| json!({ "delay_s": f64::from(watchers.delay_ms) / 1e3, "viewers": watchers.viewers });
    watchers.map_or(serde_json::Value::Null, |watchers| watchers.iter().map(of).collect())
}

fn report(args: &Args, upload: &Upload, carried: &Carried, elapsed: Span) {
    let status = upload.status();
    let Status { captured, live_bytes, again_bytes, repaired, improved, missing, never_sent, .. } = status;
    let seconds = elapsed.as_secs_f64();
    let sent = (live_bytes + again_bytes) as f64;
    if args.format.json {
        // Over UDP there is nothing to tell the endpoint by.
        let told = args.target.scheme == Scheme::Quic;
        let ratings = told.then(|| json!({ "told": status.rated, "dropped": status.unrated }));
        output::json(&json!({
            "target": args.target.to_string(), "name": args.name, "duration_s": seconds,
            "frames": {
                "captured": captured, "left_out": carried.left_out, "shed": carried.shed, "repaired": repaired,
                "improved": improved, "missing": missing, "never_sent": never_sent,
            },
            "bytes": { "live": live_bytes, "again": again_bytes, "archive": status.archive },
            "again_share": again_bytes as f64 / sent.max(1.0),
            "packets": { "sent": carried.packets, "lost": carried.lost },
            "connections": carried.connections, "viewers": viewers_json(upload.watchers()),
            "ratings": ratings,
        }));
        return;
    }
    let mut table =
        Table::new(["uploaded to", "s", "frames", "repaired", "improved", "never sent", "Mbit/s", "again %"]);
    table.row([
        args.target.to_string(),
        format!("{seconds:.1}"),
        captured.to_string(),
        repaired.to_string(),
        improved.to_string(),
        (missing + never_sent).to_string(),
        format!("{:.2}", sent * 8.0 / seconds / 1e6),
        format!("{:.0}", 100.0 * again_bytes as f64 / sent.max(1.0)),
    ]);
    print!("{table}");
}

/// Since `begun`, by the machine's clock.
fn since(begun: Time) -> Span {
    Clock::shared().now() - begun
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_are_shown_as_delays_are_given() {
        let watchers = [(500, 3), (5_000, 0), (30_000, 1)];
        let watchers = watchers.map(|(delay_ms, viewers)| Watchers { delay_ms, viewers });
        assert_eq!(viewers(&watchers), "0.5s:3,30s:1");
        assert!(delays(&viewers(&watchers)).is_ok());
        assert_eq!(viewers(&watchers[1..2]), "none");
        assert_eq!(viewers_json(Some(watchers[1..2].to_vec())), json!([{ "delay_s": 5.0, "viewers": 0 }]));
        assert_eq!(viewers_json(None), serde_json::Value::Null);
    }

    #[test]
    fn delays_are_read_or_explained() {
        let read = delays("0s:10,5s:3,30s:200").unwrap();
        assert_eq!((read.of_now(), read.beyond(4.0), read.longest()), (213.0, 203.0, 30.0));
        for wrong in ["", "5s", "5s:", "5s:-1", "x:1", "5s:0"] {
            assert!(delays(wrong).unwrap_err().contains("such as 0s:10"), "{wrong}");
        }
        assert!(delays("1h:1").unwrap_err().contains("at most; the archive"));
    }
}
