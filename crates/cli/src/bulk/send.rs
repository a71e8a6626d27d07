//! `framewire bulk send`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quic::{Congestion, Epoch};
use real::Clock;
use real::quic::Trust;
use real::transfer::{Source, Underway, Upload, Uploaded};
use record::{Traffic, Vantage};
use serde_json::{Value, json};

use super::args::{self, Content, PATIENCE};
use super::failed;
use crate::failure::Failure;
use crate::live::{Log, catch_interrupts, go_on, ticker};
use crate::output;
use crate::table::Table;

/// Sends a file and says how it went.
pub fn send(args: &args::Send) -> Result<(), Failure> {
    let cc = args.cc.only().map_err(Failure::Input)?;
    let (mut content, name) = open(&args.file)?;
    let congestion = Congestion::new(cc).map_err(Failure::input)?;
    let log =
        Log::open(args.qlog.as_ref(), Vantage::Sender, Traffic::Quic, &format!("{} by {cc}", args.target))?;
    let upload = Upload {
        peer: args.target.resolve().map_err(Failure::Input)?,
        host: &args.target.name,
        trust: args.pin.map_or(Trust::System, Trust::Pin),
        token: &args.token.0,
        name: &name,
        congestion: Arc::new(Congestion::clone(&congestion).recorded(epoch(), log.tap())),
        mtu: args.mtu,
        patience: PATIENCE,
    };
    catch_interrupts();
    let bar = ticker();
    let sent = upload.run(&mut *content, &mut |underway| {
        bar.set_message(progress(underway));
        go_on()
    });
    bar.finish_and_clear();
    log.finish()?;
    report(args, cc, &sent.map_err(failed)?);
    Ok(())
}

/// The origin of the clock that this machine's processes share, so that the logs of both ends lie on one time
/// axis.
fn epoch() -> Epoch {
    let (now, since) = (Instant::now(), Duration::from_nanos(Clock::shared().now().as_nanos()));
    Epoch::at(now.checked_sub(since).unwrap_or(now))
}

/// `length` zero bytes.
pub fn zeros(length: u64) -> impl Source {
    Zeros { length, at: 0 }
}

struct Zeros {
    length: u64,
    at: u64,
}

impl Read for Zeros {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = (out.len() as u64).min(self.length.saturating_sub(self.at)) as usize;
        out[..count].fill(0);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Zeros {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// What is to be sent, and what to call it.
fn open(content: &Content) -> Result<(Box<dyn Source>, String), Failure> {
    match content {
        Content::Zeros(length) => Ok((Box::new(zeros(*length)), "zeros".to_owned())),
        Content::File(path) => {
            let wrong = |error| Failure::Input(format!("{}: {error}", path.display()));
            let file = File::open(path).map_err(wrong)?;
            if file.metadata().map_err(wrong)?.is_dir() {
                return Err(Failure::Input(format!("{} is a folder; give a file", path.display())));
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok((Box::new(file), name))
        }
    }
}

fn progress(underway: &Underway) -> String {
    let seconds = underway.elapsed.as_secs_f64();
    let totals = underway.totals;
    format!(
        "{seconds:.1} s  {:.1} MB  {:.2} Mbit/s  window {:.0} kB  rtt {:.1} ms  {} lost",
        underway.written as f64 / 1e6,
        totals.delivered_bytes as f64 * 8e-6 / seconds.max(1e-3),
        totals.window as f64 / 1e3,
        totals.rtt_mean_ms,
        totals.lost
    )
}

/// The figures of one upload, for programs.
pub fn figures(sent: &Uploaded) -> Value {
    let totals = sent.totals;
    json!({
        "bytes": sent.bytes, "resumed_bytes": sent.resumed, "duration_s": sent.elapsed.as_secs_f64(), "goodput_bps": sent.goodput_bps(),
        "rtt_ms": { "mean": totals.rtt_mean_ms, "std": totals.rtt_std_ms, "min": totals.rtt_min_ms },
        "packets": { "sent": totals.sent, "lost": totals.lost, "timed": totals.timed },
        "loss": totals.lost as f64 / totals.sent.max(1) as f64,
    })
}

fn report(args: &args::Send, cc: &str, sent: &Uploaded) {
    if args.format.json {
        let mut value = json!({ "target": args.target.to_string(), "cc": cc });
        let Value::Object(more) = figures(sent) else { return };
        value.as_object_mut().into_iter().for_each(|object| object.extend(more.clone()));
        return output::json(&value);
    }
    let totals = sent.totals;
    let mut table =
        Table::new(["sent to", "MB", "s", "Mbit/s", "rtt ms", "std", "packets", "lost", "delays measured"]);
    table.row([
        args.target.to_string(),
        format!("{:.1}", sent.bytes as f64 / 1e6),
        format!("{:.1}", sent.elapsed.as_secs_f64()),
        format!("{:.2}", sent.goodput_bps() / 1e6),
        format!("{:.1}", totals.rtt_mean_ms),
        format!("{:.1}", totals.rtt_std_ms),
        totals.sent.to_string(),
        totals.lost.to_string(),
        totals.timed.to_string(),
    ]);
    print!("{table}");
}
