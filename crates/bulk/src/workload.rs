//! What there is to send, and when.

use std::fmt;
use std::str::FromStr;

use units::{Bytes, Rng, Span, Time, likely};

/// What a sender's application does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Workload {
    /// There is always more.
    #[default]
    Endless,
    /// So many bytes at once, then the end of the stream.
    Transfer(u64),
    /// Transfers with pauses between.
    Pages(Pages),
}

/// Web-like traffic: a transfer, a pause, another transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    /// Least bytes of a transfer.
    pub smallest: u64,
    /// Most bytes of a transfer; sizes between are equally likely.
    pub largest: u64,
    /// Mean of the pause from one transfer's completion to the next one's start, exponentially distributed.
    pub idle: Span,
    /// Begins with a pause instead of a transfer.
    pub idle_first: bool,
    /// The stream ends after so many transfers; `None`: never.
    pub count: Option<u64>,
}

impl Default for Pages {
    /// One of RFC 8868's short TCP flows: 30 to 50 kB, pauses of 10 s on average (it has 30 of them start
    /// together; in RFC 8867's test with short TCP flows two of ten begin with a transfer, the others with a
    /// pause).
    fn default() -> Pages {
        Pages { smallest: 30_000, largest: 50_000, idle: Span::from_secs(10), idle_first: false, count: None }
    }
}

/// A workload whose text could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseWorkloadError {
    /// What was written.
    pub found: String,
}

impl fmt::Display for ParseWorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = "endless, transfer:1MB, pages, pages:size=30kB-50kB,idle=10s,count=20,start=idle";
        write!(
            f,
            "`{}` is not a workload; accepted: {forms} (pages' parts in any order, each optional)",
            self.found
        )
    }
}
impl std::error::Error for ParseWorkloadError {}

impl FromStr for Workload {
    type Err = ParseWorkloadError;

    /// Reads `endless`, `transfer:1MB`, `pages` and `pages:size=30kB-50kB,idle=10s,count=20,start=idle`.
    fn from_str(text: &str) -> Result<Workload, ParseWorkloadError> {
        let refuse = || ParseWorkloadError { found: text.to_owned() };
        match text.split_once(':').unwrap_or((text, "")) {
            ("endless", "") => Ok(Workload::Endless),
            ("transfer", size) => {
                size.parse().map(|bytes: Bytes| Workload::Transfer(bytes.get())).map_err(|_| refuse())
            }
            ("pages", parts) => read_pages(parts).map(Workload::Pages).ok_or_else(refuse),
            _ => Err(refuse()),
        }
    }
}

fn read_pages(parts: &str) -> Option<Pages> {
    let mut pages = Pages::default();
    for part in parts.split(',').filter(|part| !part.is_empty()) {
        match part.split_once('=')? {
            ("size", sizes) => {
                let (smallest, largest) = sizes.split_once('-').unwrap_or((sizes, sizes));
                let bytes = |text: &str| text.parse().map(Bytes::get).ok();
                (pages.smallest, pages.largest) = (bytes(smallest)?, bytes(largest)?);
            }
            ("idle", idle) => pages.idle = idle.parse().ok()?,
            ("count", count) => pages.count = Some(count.parse().ok()?),
            ("start", "idle") => pages.idle_first = true,
            ("start", "busy") => pages.idle_first = false,
            _ => return None,
        }
    }
    (pages.smallest <= pages.largest).then_some(pages)
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Endless => f.write_str("endless"),
            Workload::Transfer(bytes) => write!(f, "transfer:{bytes}B"),
            Workload::Pages(Pages { smallest, largest, idle, idle_first, count }) => {
                write!(f, "pages:size={smallest}B-{largest}B,idle={idle}")?;
                count.map_or(Ok(()), |count| write!(f, ",count={count}"))?;
                if *idle_first { f.write_str(",start=idle") } else { Ok(()) }
            }
        }
    }
}

/// One transfer of a workload that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its size in stream bytes.
    pub bytes: u64,
    /// When the application handed it over.
    pub started: Time,
    /// When the last byte's acknowledgement arrived.
    pub finished: Time,
}

/// Completions kept at most; with more, the oldest are kept and the rest only counted.
const COMPLETIONS: usize = 1 << 16;

/// The application on top of a sender.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    workload: Workload,
    rng: Rng,
    /// Stream bytes handed over so far.
    written: u64,
    /// Transfers begun.
    begun: u64,
    /// When the current transfer began and its size; none during a pause.
    current: Option<(Time, u64)>,
    /// When the next transfer begins; [`Time::MAX`] while that is not known.
    next: Time,
    completions: Vec<Completion>,
}

impl Application {
    pub fn new(workload: Workload, rng: Rng) -> Application {
        let (next, completions) = (Time::ZERO, Vec::new());
        Application { workload, rng, written: 0, begun: 0, current: None, next, completions }
    }

    /// Where what the application has handed over ends.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The stream ends where `written` does.
    #[inline]
    pub fn is_closed(&self) -> bool {
        match self.workload {
            Workload::Endless => false,
            Workload::Transfer(_) => self.begun == 1,
            Workload::Pages(pages) => pages.count.is_some_and(|count| self.begun >= count),
        }
    }

    /// Everything was handed over and is known to have arrived.
    pub fn is_finished(&self) -> bool {
        self.is_closed() && self.current.is_none()
    }

    pub fn completions(&self) -> &[Completion] {
        &self.completions
    }

    /// When [`start`](Application::start) wants to be called; [`Time::MAX`] for never.
    #[inline]
    pub fn next_start(&self) -> Time {
        self.next
    }

    /// Time has come to `now`: begins the next transfer if it is due, and says so.
    pub fn start(&mut self, now: Time) -> bool {
        if self.next > now {
            return false;
        }
        if let Workload::Pages(pages) = &mut self.workload
            && std::mem::take(&mut pages.idle_first)
        {
            self.pause(now);
            return false;
        }
        self.next = Time::MAX;
        let bytes = match self.workload {
            Workload::Endless => u64::MAX,
            Workload::Transfer(bytes) => bytes,
            Workload::Pages(pages) => {
                let spread = pages.largest.saturating_sub(pages.smallest);
                pages.smallest + self.rng.below(spread.saturating_add(1))
            }
        };
        self.written = self.written.saturating_add(bytes);
        self.begun += 1;
        self.current = Some((now, bytes));
        true
    }

    /// Draws the pause before the next transfer.
    fn pause(&mut self, now: Time) {
        if let Workload::Pages(pages) = self.workload {
            self.next = now + Span::from_secs_f64(self.rng.exponential(pages.idle.as_secs_f64()));
        }
    }

    /// Everything below `acked` has arrived; returns the transfer that ended with it.
    #[inline]
    pub fn acknowledged(&mut self, now: Time, acked: u64) -> Option<Completion> {
        if likely(acked < self.written) {
            return None;
        }
        let (started, bytes) = self.current.take()?;
        let completion = Completion { bytes, started, finished: now };
        if self.completions.len() < COMPLETIONS {
            self.completions.push(completion);
        }
        if !self.is_closed() {
            self.pause(now);
        }
        Some(completion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_and_go() {
        let pages = Pages { count: Some(200), idle_first: true, ..Pages::default() };
        let mut application = Application::new(Workload::Pages(pages), Rng::stream(1, "pages"));
        let mut idle = Span::ZERO;
        let mut now = Time::ZERO;
        while !application.is_finished() {
            let at = application.next_start();
            idle += at - now;
            now = at;
            if application.start(now) {
                assert!(application.acknowledged(now, application.written() - 1).is_none());
                now += Span::from_secs(1);
                let done = application.acknowledged(now, application.written()).unwrap();
                assert!(
                    (30_000..=50_000).contains(&done.bytes)
                        && done.finished - done.started == Span::from_secs(1)
                );
            }
        }
        assert_eq!(application.completions().len(), 200);
        let mean = idle.as_secs_f64() / 200.0;
        assert!((8.0..12.0).contains(&mean), "{mean}");
        assert_eq!(application.next_start(), Time::MAX);
    }

    #[test]
    fn a_transfer_ends_and_a_backlog_does_not() {
        let mut transfer = Application::new(Workload::Transfer(5_000), Rng::stream(1, "a"));
        assert!(transfer.start(Time::from_secs(1)) && !transfer.start(Time::from_secs(2)));
        assert!(transfer.is_closed() && !transfer.is_finished());
        assert!(transfer.acknowledged(Time::from_secs(3), 5_000).is_some() && transfer.is_finished());
        let mut endless = Application::new(Workload::Endless, Rng::stream(1, "a"));
        assert!(endless.start(Time::ZERO) && !endless.is_closed());
        assert!(endless.acknowledged(Time::from_secs(3), 1 << 40).is_none());
    }

    #[test]
    fn texts_round_trip_and_errors_list_the_forms() {
        let texts = [
            "endless",
            "transfer:500000B",
            "pages:size=30000B-50000B,idle=10s",
            "pages:size=1000B-1000B,idle=500ms,count=20,start=idle",
        ];
        for text in texts {
            assert_eq!(text.parse::<Workload>().unwrap().to_string(), text);
        }
        assert_eq!("pages".parse(), Ok(Workload::Pages(Pages::default())));
        let pages = Pages { smallest: 2_000, largest: 2_000, ..Pages::default() };
        assert_eq!("pages:size=2kb,start=busy".parse(), Ok(Workload::Pages(pages)));
        for bad in
            ["", "endless:1", "transfer", "transfer:1", "pages:size=3kb-2kb", "pages:idle", "pages:start=x"]
        {
            let error = bad.parse::<Workload>().unwrap_err();
            assert!(error.to_string().contains("accepted: endless, transfer:1MB"), "{error}");
        }
    }
}
