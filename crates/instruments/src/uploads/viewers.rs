//! Viewers that fetch what a player would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ingest::playlist::check;

/// How often a viewer looks at its playlist: four times a segment of 2 s, as often again as players must
/// (RFC 8216 section 6.3.4).
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is read, in bytes.
const LONGEST: usize = 64 << 20;
/// A viewer's thread does little.
const STACK: usize = 256 << 10;

/// What a viewer has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub requests: u64,
    pub segments: u64,
    pub bytes: u64,
    /// Answers that were errors, or did not come.
    pub failures: u64,
    /// Playlists that went back on what was listed.
    pub broken: u64,
    /// How long answers took, in ms.
    pub answers: Vec<f64>,
    /// How long after a segment was due it was first seen, in s; up to half a second of it is the viewer's.
    pub late: Vec<f64>,
    /// What went wrong first.
    pub trouble: Option<String>,
}

/// A viewer on a thread of its own.
pub struct Viewer {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

impl Viewer {
    /// Watches the playlist at `path` of `site`, whose class has this delay in s.
    pub fn begin(site: SocketAddr, path: String, delay: f64) -> Viewer {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = over.clone();
        let watching =
            Watching { site, path, delay, connection: None, before: String::new(), seen: Seen::default() };
        let begun = std::thread::Builder::new().stack_size(STACK);
        let thread = begun.spawn(move || watching.run(&theirs)).ok();
        Viewer { over, thread }
    }

    /// Stops watching.
    pub fn end(self) -> Seen {
        self.over.store(true, Ordering::Relaxed);
        let failed =
            || Seen { failures: 1, trouble: Some("no thread for a viewer".to_owned()), ..Seen::default() };
        self.thread.and_then(|thread| thread.join().ok()).unwrap_or_else(failed)
    }
}

struct Watching {
    site: SocketAddr,
    path: String,
    delay: f64,
    connection: Option<BufReader<TcpStream>>,
    /// The playlist as it was last.
    before: String,
    seen: Seen,
}

impl Watching {
    fn run(mut self, over: &AtomicBool) -> Seen {
        while !over.load(Ordering::Relaxed) {
            let next = Instant::now() + LOOK_EVERY;
            if let Err(error) = self.look() {
                self.seen.failures += 1;
                self.connection = None;
                self.seen.trouble.get_or_insert(format!("{}: {error}", self.path));
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        self.seen
    }

    /// Fetches the playlist, and what is new in it.
    fn look(&mut self) -> std::io::Result<()> {
        let text = String::from_utf8_lossy(&self.get(&self.path.clone())?).into_owned();
        if let Err(broken) = check(&self.before, &text).or_else(|broken| match self.before.is_empty() {
            true => Ok(()),
            false => Err(broken),
        }) {
            self.seen.broken += 1;
            self.seen.trouble.get_or_insert(format!("{}: {broken:?}", self.path));
        }
        let first = self.before.is_empty();
        let fresh: Vec<Listed> = listed(&text).filter(|one| !self.before.contains(&one.path)).collect();
        self.before = text;
        // A player begins near the end.
        let from = if first { fresh.len().saturating_sub(1) } else { 0 };
        for segment in &fresh[from..] {
            if !first {
                self.seen.late.push(now() - segment.ends - self.delay);
            }
            let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            self.get(&format!("{folder}/{}", segment.path))?;
            self.seen.segments += 1;
        }
        Ok(())
    }

    fn get(&mut self, path: &str) -> std::io::Result<Vec<u8>> {
        let begun = Instant::now();
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect_timeout(&self.site, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        let (body, stays) = fetch(connection, path)?;
        self.connection = stays;
        self.seen.requests += 1;
        self.seen.bytes += body.len() as u64;
        self.seen.answers.push(begun.elapsed().as_secs_f64() * 1e3);
        Ok(body)
    }
}

/// A `GET` on a connection, which is given back if it stays.
fn fetch(
    mut connection: BufReader<TcpStream>,
    path: &str,
) -> std::io::Result<(Vec<u8>, Option<BufReader<TcpStream>>)> {
    let wrong = |what: &str| std::io::Error::other(format!("{path}: {what}"));
    write!(connection.get_mut(), "GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n")?;
    let (mut length, mut closes, mut status) = (None, false, String::new());
    connection.read_line(&mut status)?;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 {
            return Err(wrong("the answer broke off"));
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse::<usize>().ok().filter(|&length| length <= LONGEST);
        }
        closes |= line == "connection: close";
    }
    let mut body = vec![0; length.ok_or_else(|| wrong("no length that makes sense"))?];
    connection.read_exact(&mut body)?;
    if !status.starts_with("HTTP/1.1 200") {
        return Err(wrong(status.trim_end()));
    }
    Ok((body, (!closes).then_some(connection)))
}

/// A segment as a playlist lists it.
struct Listed {
    path: String,
    /// Unix time of its end in s.
    ends: f64,
}

/// The segments of a playlist, with dates.
fn listed(text: &str) -> impl Iterator<Item = Listed> {
    let (mut begins, mut length) = (f64::NAN, f64::NAN);
    text.lines().filter_map(move |line| {
        if let Some(date) = line.strip_prefix("#EXT-X-PROGRAM-DATE-TIME:") {
            begins = unix(date).unwrap_or(f64::NAN);
        } else if let Some(duration) = line.strip_prefix("#EXTINF:") {
            length = duration.trim_end_matches(',').parse().unwrap_or(f64::NAN);
        } else if !line.starts_with('#') && !line.is_empty() {
            return Some(Listed { path: line.to_owned(), ends: begins + length });
        }
        None
    })
}

/// Unix time of a date such as `2026-01-31T12:00:00.250Z` (RFC 3339).
fn unix(date: &str) -> Option<f64> {
    let (day, time) = date.strip_suffix('Z')?.split_once('T')?;
    let mut day = day.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (day.next()??, day.next()??, day.next()??);
    let mut time = time.split(':').map(|part| part.parse::<f64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    // Days from civil: years begin in March, so that leap days come last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468;
    Some(days as f64 * 86_400.0 + hour * 3_600.0 + minute * 60.0 + second)
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_read_with_their_dates() {
        let text = "#EXTM3U\n#EXT-X-PROGRAM-DATE-TIME:2024-02-29T00:00:01.500Z\n#EXTINF:2.000000,\ns/0-1.m4s\n\
                    #EXT-X-PROGRAM-DATE-TIME:2024-03-01T00:00:00.000Z\n#EXTINF:1.000000,\ns/1-1.m4s\n";
        let found: Vec<(String, f64)> = listed(text).map(|one| (one.path, one.ends)).collect();
        let wanted = [("s/0-1.m4s", 1_709_164_803.5), ("s/1-1.m4s", 1_709_251_201.0)];
        assert_eq!(found, wanted.map(|(path, ends)| (path.to_owned(), ends)));
        assert_eq!((unix("1970-01-01T00:00:00Z"), unix("yesterday")), (Some(0.0), None));
    }
}
