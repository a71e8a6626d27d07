//! Mahimahi traces: when a link may send, one opportunity a line.
//!
//! ```text
//! 3      one opportunity of 1504 bytes, 3 ms after the start
//! 3      another at the same moment
//! 7      ... and after the last line it all repeats, 7 ms later
//! ```
//!
//! Source: ravinet/mahimahi ae477d43, `link_queue.cc` (the file format and what it accepts).

use std::io::Read;
use std::path::{Path, PathBuf};

use units::{Bytes, Rate, Span, Time};

/// Bytes that one opportunity carries: a 1500-byte IP packet and the 4 bytes of framing a TUN device adds.
pub const OPPORTUNITY: u32 = 1504;

/// Most lines a trace may have: 50 million are 14 hours at 1000 a second, and 200 MB of memory.
pub const MAX_LINES: usize = 50_000_000;

/// Bits a millisecond's rates must add up to before Mahimahi's `mm-rate-to-events` writes a line: a 1500-byte
/// IP packet.
const LINE_BITS: u64 = 12_000;

/// Most bytes a trace file may unpack to: [`MAX_LINES`] of eleven characters (ten digits and the end of
/// line).
pub(crate) const MAX_BYTES: u64 = MAX_LINES as u64 * 11;

/// When a link may send. Never empty; milliseconds that never decrease and end above zero.
#[derive(Debug, PartialEq, Eq)]
pub struct MahimahiTrace {
    millis: Vec<u32>,
}

/// A trace that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be opened, read or unpacked.
    #[error("trace {path}: {source}")]
    Unreadable {
        /// The trace's file.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A line is not what a trace may hold.
    #[error("trace {path}, line {line}: `{found}` is not {accepted}")]
    Line {
        /// The trace's file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What it holds (shortened).
        found: String,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// The file as a whole is not a trace.
    #[error("trace {path} {problem}")]
    File {
        /// The trace's file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl MahimahiTrace {
    /// Reads a trace file, plain or gzipped (told apart by gzip's first two bytes, RFC 1952).
    ///
    /// # Errors
    /// [`TraceError`] naming the file, and the line and value where one is to blame.
    pub fn open(path: &Path) -> Result<MahimahiTrace, TraceError> {
        MahimahiTrace::from_bytes(&MahimahiTrace::read(path)?, path)
    }

    /// The bytes of a trace's file, as [`from_bytes`](MahimahiTrace::from_bytes) takes them.
    ///
    /// # Errors
    /// [`TraceError`] if the file can't be read. Of one that is too long only as much is read as shows it.
    pub fn read(path: &Path) -> Result<Vec<u8>, TraceError> {
        let unreadable = |source| TraceError::Unreadable { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        Ok(bytes)
    }

    /// Reads a trace from the bytes of a file, plain or gzipped. `path` is only for the errors.
    ///
    /// # Errors
    /// As [`MahimahiTrace::open`].
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<MahimahiTrace, TraceError> {
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return parse(bytes, path);
        }
        let unreadable = |source| TraceError::Unreadable { path: path.to_owned(), source };
        let mut plain = Vec::new();
        let mut unpacked = flate2::read::MultiGzDecoder::new(bytes).take(MAX_BYTES + 1);
        unpacked.read_to_end(&mut plain).map_err(unreadable)?;
        parse(&plain, path)
    }

    /// A trace of opportunities at `millis`, or `None` if it is empty, decreases or ends at zero.
    pub fn from_millis(millis: Vec<u32>) -> Option<MahimahiTrace> {
        let usable = millis.last().is_some_and(|&last| last > 0) && millis.is_sorted();
        usable.then_some(MahimahiTrace { millis })
    }

    /// The trace Mahimahi's tools make of rates that hold from given times on: each millisecond adds its
    /// bits, and every 12 000 of them are one opportunity (so that the rate is that of 1500-byte IP packets).
    /// It goes to the millisecond that holds `end`; `None` if it would have no line, or more than
    /// [`MAX_LINES`].
    pub fn of_rates(rates: &[(Time, Rate)], end: Time) -> Option<MahimahiTrace> {
        let end = u32::try_from(end.as_nanos().div_ceil(1_000_000)).ok()?;
        // Nanobits: a rate of whole bits a second times nanoseconds.
        let line = u128::from(LINE_BITS) * 1_000_000_000;
        let (mut millis, mut owed, mut index) = (Vec::new(), 0u128, 0);
        for at in 1..=end {
            while rates.get(index + 1).is_some_and(|next| next.0 < Time::from_millis(u64::from(at))) {
                index += 1;
            }
            owed += u128::from(rates.get(index)?.1.as_bps()) * 1_000_000;
            if owed / line > (MAX_LINES - millis.len()) as u128 {
                return None;
            }
            while owed >= line {
                owed -= line;
                millis.push(at);
            }
        }
        MahimahiTrace::from_millis(millis)
    }

    /// When the opportunities are, in milliseconds since the start.
    pub fn millis(&self) -> &[u32] {
        &self.millis
    }

    /// The trace as a file holds it.
    pub fn to_text(&self) -> String {
        self.millis.iter().map(|at| format!("{at}\n")).collect()
    }

    /// After how long the trace repeats: its last line.
    pub fn duration(&self) -> Span {
        Span::from_millis(i64::from(self.period()))
    }

    /// The longest time without an opportunity, the gap across the repetition included.
    pub fn longest_gap(&self) -> Span {
        let inner = self.millis.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        Span::from_millis(i64::from(inner.max(self.millis[0])))
    }

    /// The mean rate, counting [`OPPORTUNITY`] bytes an opportunity.
    pub fn mean_rate(&self) -> Rate {
        Rate::average(Bytes::new(self.millis.len() as u64 * u64::from(OPPORTUNITY)), self.duration())
    }

    fn period(&self) -> u32 {
        *self.millis.last().expect("a trace is never empty")
    }

    /// How many opportunities lie at or before `time`, over `passes` of the trace at most.
    pub(crate) fn count_until(&self, time: Time, passes: u64) -> u64 {
        let ms = time.as_nanos() / 1_000_000;
        let period = u64::from(self.period());
        let (pass, within) = (ms / period, ms % period);
        if pass >= passes {
            return passes * self.millis.len() as u64;
        }
        let inside = self.millis.partition_point(|&at| u64::from(at) <= within) as u64;
        pass * self.millis.len() as u64 + inside
    }

    /// When opportunity `index` (counted from 0 over all passes) is.
    pub(crate) fn at(&self, index: u64) -> Time {
        let length = self.millis.len() as u64;
        let within = u64::from(self.millis[(index % length) as usize]);
        Time::from_millis((index / length) * u64::from(self.period()) + within)
    }

    /// Opportunities in one pass.
    pub(crate) fn len(&self) -> u64 {
        self.millis.len() as u64
    }
}

fn parse(text: &[u8], path: &Path) -> Result<MahimahiTrace, TraceError> {
    let file = |problem| TraceError::File { path: path.to_owned(), problem };
    if text.len() as u64 > MAX_BYTES {
        return Err(file("is longer than 50 million lines"));
    }
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    if body.is_empty() {
        return Err(file("is empty; it must hold at least one line"));
    }
    let millis = rising(body, path, "a whole number of milliseconds from 0 to 4294967295")?;
    MahimahiTrace::from_millis(millis).ok_or_else(|| file("ends at 0 ms; its last line must be above zero"))
}

/// The numbers of a text, one a line, none below the one before; `accepted` says what a number counts.
pub(crate) fn rising(body: &[u8], path: &Path, accepted: &'static str) -> Result<Vec<u32>, TraceError> {
    let mut numbers: Vec<u32> = Vec::new();
    let mut rest = body;
    loop {
        let refuse = |accepted| {
            let line = rest.split(|&byte| byte == b'\n').next().unwrap_or(rest);
            line_error(path, numbers.len() + 1, line, accepted)
        };
        let (value, end) = number(rest).ok_or_else(|| refuse(accepted))?;
        if numbers.last().is_some_and(|&previous| value < previous) {
            return Err(refuse("at or after the line before it; times must never decrease"));
        }
        if numbers.len() == MAX_LINES {
            return Err(TraceError::File {
                path: path.to_owned(),
                problem: "is longer than 50 million lines",
            });
        }
        numbers.push(value);
        if end == rest.len() {
            return Ok(numbers);
        }
        rest = &rest[end + 1..];
    }
}

fn line_error(path: &Path, line: usize, found: &[u8], accepted: &'static str) -> TraceError {
    let found = String::from_utf8_lossy(&found[..found.len().min(40)]).escape_debug().to_string();
    TraceError::Line { path: path.to_owned(), line, found, accepted }
}

/// The number on the first line of `text`, and where that line ends. Digits only, as Mahimahi asks for; a
/// carriage return before the end of line is let through.
fn number(text: &[u8]) -> Option<(u32, usize)> {
    let (mut value, mut digits) = (0u64, 0);
    while let Some(digit) = text.get(digits).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
        value = value.wrapping_mul(10) + u64::from(digit);
        digits += 1;
    }
    let end = digits + usize::from(text.get(digits) == Some(&b'\r'));
    let is_whole = text.get(end).is_none_or(|&byte| byte == b'\n');
    // What has more digits than a `u32` may have wrapped.
    (is_whole && (1..=10).contains(&digits)).then_some(())?;
    Some((u32::try_from(value).ok()?, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn read(text: &[u8]) -> Result<MahimahiTrace, String> {
        MahimahiTrace::from_bytes(text, Path::new("x.trace")).map_err(|error| error.to_string())
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text).unwrap();
        gz.finish().unwrap()
    }

    #[test]
    fn plain_and_gzipped_files_read_the_same() {
        let text = b"1\n1\n5\n";
        assert_eq!(read(text).unwrap().millis(), [1, 1, 5]);
        assert_eq!(read(&gzip(text)).unwrap(), read(text).unwrap());
        assert_eq!(read(b"1\r\n2").unwrap().millis(), [1, 2]);
    }

    #[test]
    fn errors_name_file_line_value_and_what_is_accepted() {
        let number = "is not a whole number of milliseconds from 0 to 4294967295";
        assert_eq!(read(b"1\n\n2\n").unwrap_err(), format!("trace x.trace, line 2: `` {number}"));
        assert_eq!(read(b"1\n-2\n").unwrap_err(), format!("trace x.trace, line 2: `-2` {number}"));
        assert_eq!(
            read(b"1\n4294967296\n").unwrap_err(),
            format!("trace x.trace, line 2: `4294967296` {number}")
        );
        assert_eq!(
            read(b"5\n3\n").unwrap_err(),
            "trace x.trace, line 2: `3` is not at or after the line before it; times must never decrease"
        );
        assert_eq!(read(b"").unwrap_err(), "trace x.trace is empty; it must hold at least one line");
        assert_eq!(
            read(b"0\n0\n").unwrap_err(),
            "trace x.trace ends at 0 ms; its last line must be above zero"
        );
        assert!(read(&gzip(b"1\n2\n")[..12]).unwrap_err().starts_with("trace x.trace: "));
        let missing = MahimahiTrace::open(Path::new("no/such.trace")).unwrap_err().to_string();
        assert!(missing.starts_with("trace no/such.trace: "), "{missing}");
    }

    #[test]
    fn rates_become_opportunities_as_mahimahis_tools_make_them() {
        let mbps = |list: &[(u64, u64)]| -> Vec<(Time, Rate)> {
            list.iter().map(|&(ms, mbps)| (Time::from_millis(ms), Rate::from_mbps(mbps))).collect()
        };
        let lines =
            |rates, ms| MahimahiTrace::of_rates(&mbps(rates), Time::from_millis(ms)).map(|t| t.millis);
        assert_eq!(lines(&[(0, 12)], 3), Some(vec![1, 2, 3]));
        // 20 000 bits a millisecond: one line and 8000 over, two and 4000 over, two and nothing.
        assert_eq!(lines(&[(0, 20)], 4), Some(vec![1, 2, 2, 3, 3, 4]));
        assert_eq!(lines(&[(0, 12), (2, 24), (4, 0)], 6), Some(vec![1, 2, 3, 3, 4, 4]));
        assert_eq!(lines(&[(0, 1)], 11), None);
        assert_eq!(lines(&[(0, 1_000_000_000)], 1_000), None);
    }

    #[test]
    fn figures_of_a_trace() {
        let trace = MahimahiTrace::from_millis((1..=10).collect()).unwrap();
        assert_eq!(trace.duration(), Span::from_millis(10));
        assert_eq!(trace.mean_rate(), Rate::from_bps(12_032_000));
        assert_eq!(trace.longest_gap(), Span::from_millis(1));
        assert_eq!(trace.count_until(Time::from_millis(25), u64::MAX), 25);
        assert_eq!(trace.count_until(Time::from_millis(25), 1), 10);
        assert_eq!(trace.at(10), Time::from_millis(11));
    }

    proptest! {
        #[test]
        fn a_file_is_read_as_its_lines_say(text in "([0-9]{1,11}\r?\n|[0-9\r\n-]{0,4}){0,4}") {
            let lines: Vec<&str> = text.strip_suffix('\n').unwrap_or(&text).split('\n').collect();
            let plain = |line: &&str| {
                let digits = line.strip_suffix('\r').unwrap_or(line);
                digits.parse::<u32>().ok().filter(|_| digits.len() <= 10)
            };
            let numbers: Option<Vec<u32>> = lines.iter().map(plain).collect();
            let usable = numbers.and_then(MahimahiTrace::from_millis);
            prop_assert_eq!(read(text.as_bytes()).ok(), usable);
        }

        #[test]
        fn what_is_written_is_read(mut millis in prop::collection::vec(0u32..100_000, 1..500)) {
            millis.sort_unstable();
            let text: String = millis.iter().map(|ms| format!("{ms}\n")).collect();
            match read(text.as_bytes()) {
                Ok(trace) => {
                    prop_assert_eq!(trace.to_text(), text);
                    prop_assert_eq!(trace.millis(), millis);
                }
                Err(_) => prop_assert_eq!(millis.last(), Some(&0)),
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
            let _ = read(&[&[0x1f, 0x8b][..], &bytes].concat());
        }

        #[test]
        fn digits_and_newlines_give_a_trace_or_an_error(text in "[0-9\n]{0,200}") {
            if let Ok(trace) = read(text.as_bytes()) {
                prop_assert!(trace.millis().is_sorted() && trace.duration().is_positive());
            }
        }

        #[test]
        fn counting_and_indexing_agree(mut millis in prop::collection::vec(0u32..50, 1..40), index in 0u64..500) {
            millis.sort_unstable();
            if let Some(trace) = MahimahiTrace::from_millis(millis) {
                let at = trace.at(index);
                prop_assert!(trace.count_until(at, u64::MAX) > index);
                if let Some(before) = at.as_nanos().checked_sub(1) {
                    prop_assert!(trace.count_until(Time::from_nanos(before), u64::MAX) <= index);
                }
            }
        }
    }
}
