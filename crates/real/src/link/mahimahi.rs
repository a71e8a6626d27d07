//! Mahimahi's log of a link, which its plotting scripts and Pantheon read.
//!
//! ```text
//! # base timestamp: 0
//! 12 + 1504          a packet arrives (ms, bytes)
//! 13 # 1504          an opportunity, used or not
//! 13 - 1504 1        a packet leaves, 1 ms after it came
//! 14 d 1 1504        packets are dropped (number, bytes)
//! ```
//!
//! Source: Mahimahi, `link_queue.cc` (ravinet/mahimahi ae477d43). Bytes count 4 more than the IP packet has,
//! as Mahimahi's do.
//!
//! Deviations: a link with a constant rate has opportunities where a trace of that rate would (one per 1500
//! IP bytes it can send, in whole milliseconds); one without a limit has none. Every dropped packet has a
//! line of its own.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use netsim::{OPPORTUNITY, RateProcess, TUN_FRAMING};
use record::{Event, NodeId, Recorder, Tap};
use units::{HostClock, Span, Time};

use super::log::{Log, Spool};

/// Bytes of text handed over at once.
const CHUNK: usize = 64 << 10;

/// What the log's first lines say.
#[derive(Clone, Debug)]
pub struct Heading {
    /// `uplink` or `downlink`.
    pub link: &'static str,
    /// The trace's file, or the rate.
    pub capacity: String,
    /// How the command was called.
    pub command_line: String,
    /// The queue discipline, in words.
    pub queue: String,
    /// The date, in ms since 1970.
    pub date_ms: u64,
}

/// One direction's log. The link's departures come through its [`tap`](MahimahiLog::tap), the rest through
/// [`Log`].
#[derive(Clone)]
pub struct MahimahiLog(Arc<Mutex<Lines>>);

struct Lines {
    out: Spool<u8>,
    line: Vec<u8>,
    process: RateProcess,
    /// Opportunities written so far, and the millisecond until which they are.
    opportunities: u64,
    until_ms: u64,
}

impl MahimahiLog {
    /// A log of a link that sends as `process` says; its text goes to `out`.
    pub fn new(process: RateProcess, heading: &Heading, mut out: Spool<u8>) -> MahimahiLog {
        let Heading { link, capacity, command_line, queue, date_ms } = heading;
        let text = format!(
            "# mahimahi mm-link ({link}) [{capacity}]\n# command line: {command_line}\n# queue: {queue}\n\
             # init timestamp: {date_ms}\n# base timestamp: 0\n"
        );
        out.take(text.into_bytes());
        let lines = Lines { out, line: Vec::with_capacity(64), process, opportunities: 0, until_ms: 0 };
        MahimahiLog(Arc::new(Mutex::new(lines)))
    }

    /// Text for this many bytes is handed over at once.
    pub const CHUNK: usize = CHUNK;

    /// What the link is to be built with.
    pub fn tap(&self) -> Tap {
        Tap::new(self.0.clone(), NodeId(0), HostClock::default())
    }

    /// Waits until everything is written; how many bytes were lost because the disk did not keep up.
    ///
    /// # Errors
    /// What could not be written.
    pub fn finish(&self) -> Result<u64, String> {
        self.lines().out.finish()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().expect("logging does not panic")
    }
}

impl Lines {
    fn write(&mut self, line: std::fmt::Arguments<'_>) {
        self.line.clear();
        writeln!(self.line, "{line}").expect("writing to memory does not fail");
        self.out.take(self.line.iter().copied());
    }

    /// Writes the opportunities up to and at `at`.
    fn offer_until(&mut self, at: Time) {
        while self.until_ms < ms(at) {
            self.until_ms += 1;
            let until = Time::from_millis(self.until_ms);
            let Some(capacity) = self.process.capacity(Time::ZERO, until) else {
                self.until_ms = ms(at);
                return;
            };
            let whole = capacity.get() / u64::from(OPPORTUNITY - TUN_FRAMING);
            while self.opportunities < whole {
                self.opportunities += 1;
                let at = self.until_ms;
                self.write(format_args!("{at} # {OPPORTUNITY}"));
            }
        }
    }
}

fn ms(at: Time) -> u64 {
    at.as_nanos() / 1_000_000
}

impl Recorder for Lines {
    fn record(&mut self, at: Time, _: NodeId, event: &Event) {
        match *event {
            Event::LinkDeparted { size, sojourn, .. } => {
                self.offer_until(at);
                let delay = ms(at) - ms(at - sojourn.min(at - Time::ZERO));
                self.write(format_args!("{} - {} {delay}", ms(at), size + TUN_FRAMING));
            }
            Event::LinkDropped { size, .. } => {
                self.offer_until(at);
                self.write(format_args!("{} d 1 {}", ms(at), size + TUN_FRAMING));
            }
            _ => {}
        }
    }
}

impl Log for MahimahiLog {
    fn arrives(&mut self, at: Time, size: u32) {
        let mut lines = self.lines();
        lines.offer_until(at);
        lines.write(format_args!("{} + {}", ms(at), size + TUN_FRAMING));
    }

    fn idles(&mut self, now: Time) {
        // What may still be told of this millisecond comes first.
        self.lines().offer_until(now - Span::from_millis(1).min(now - Time::ZERO));
    }

    fn closes(&mut self, now: Time) {
        self.lines().offer_until(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netsim::{Link, LinkConfig, MahimahiTrace, Packet};
    use std::sync::mpsc;
    use units::Rate;

    fn logged(process: RateProcess, arrivals: &[(u64, u32)], until: u64) -> Vec<String> {
        let (written, result) = mpsc::channel();
        let spool = Spool::start(10, move |batches| {
            written
                .send(batches.into_iter().flatten().collect::<Vec<u8>>())
                .map_err(|error| error.to_string())
        });
        let heading = Heading {
            link: "uplink",
            capacity: "x.trace".into(),
            command_line: "framewire link".into(),
            queue: "droptail:1p".into(),
            date_ms: 5,
        };
        let mut log = MahimahiLog::new(process.clone(), &heading, spool);
        let config = LinkConfig::bottleneck(process, "droptail:1p".parse().unwrap(), Span::from_millis(50));
        let mut link = Link::new(config, 1, "link", log.tap());
        for &(at, size) in arrivals {
            let now = Time::from_millis(at);
            link.settle(now);
            log.arrives(now, size);
            link.offer(now, Packet::bare(0, size, now));
        }
        link.settle(Time::from_millis(until));
        log.closes(Time::from_millis(until));
        assert_eq!(log.finish(), Ok(0));
        let text = String::from_utf8(result.recv().unwrap()).unwrap();
        let (heading, lines) = text.split_once("# base timestamp: 0\n").unwrap();
        assert!(
            heading.starts_with("# mahimahi mm-link (uplink) [x.trace]\n")
                && heading.contains("# init timestamp: 5")
        );
        lines.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_trace_is_logged_as_mahimahi_does() {
        let trace = MahimahiTrace::from_millis(vec![2, 4, 4, 6]).unwrap();
        let process = RateProcess::trace(Arc::new(trace));
        // The first waits alone, the second is too many; then one straddles two opportunities that come at
        // once.
        let lines = logged(process, &[(0, 1500), (1, 1500), (3, 100)], 6);
        let expected = [
            "0 + 1504",
            "1 + 1504",
            "1 d 1 1504",
            "2 # 1504",
            "2 - 1504 2",
            "3 + 104",
            "4 # 1504",
            "4 # 1504",
        ];
        assert_eq!(lines[..8], expected);
        assert_eq!(lines[8..], ["4 - 104 1", "6 # 1504"]);
    }

    #[test]
    fn a_constant_rate_has_the_opportunities_of_its_trace() {
        // 6 Mbit/s are 1500 bytes every 2 ms.
        let lines = logged(RateProcess::Constant(Rate::from_mbps(6)), &[(1, 1500)], 6);
        assert_eq!(lines, ["1 + 1504", "2 # 1504", "3 - 1504 2", "4 # 1504", "6 # 1504"]);
        assert_eq!(logged(RateProcess::Infinite, &[(1, 96)], 6), ["1 + 100", "1 - 100 0"]);
    }
}
