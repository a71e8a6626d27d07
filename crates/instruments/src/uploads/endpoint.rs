//! The endpoint's process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use real::quic::Fingerprint;
use serde_json::Value;

use crate::Failure;

/// The token of uploads.
pub const TOKEN: &str = "bench";
/// Memory for an upload's pictures: those of the slower class as they are, or half of them packed.
const MEMORY: &str = "150MB";
/// How long an endpoint may take to end, with all that is to be coded until then.
const PATIENCE: Duration = Duration::from_secs(60);

/// `framewire ingest` in a process and a folder of its own.
pub struct Endpoint {
    pub site: SocketAddr,
    pub at: SocketAddr,
    pub pin: Fingerprint,
    child: Child,
    folder: PathBuf,
    begun: Instant,
}

/// What the process has used.
pub struct Used {
    /// CPU time in s, and how long it has run.
    pub cpu: f64,
    pub seconds: f64,
    /// Most memory it had at a time, in bytes.
    pub peak: u64,
}

impl Endpoint {
    pub fn start(
        program: &Path,
        uploads: usize,
        delays: [f64; 2],
        segment: f64,
    ) -> Result<Endpoint, Failure> {
        let folder = std::env::temp_dir().join(format!("framewire-bench-ingest-{}", std::process::id()));
        let mut command = Command::new(program);
        command.args(["ingest", "--listen", "quic://127.0.0.1:0", "--http", "127.0.0.1:0", "--json"]);
        command.args(["--token", TOKEN, "--memory", MEMORY, "--uploads", &uploads.to_string()]);
        command.args(["--delays", &delays.map(|delay| format!("{delay}s")).join(",")]);
        command.args(["--segment", &format!("{segment}s"), "--out"]).arg(&folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Failure::input)?;
        let mut said = BufReader::new(child.stderr.take().expect("it was asked for")).lines();
        let mut after = |word: &str| {
            let line = said.by_ref().map_while(Result::ok).find_map(|line| {
                let rest = line.strip_prefix(word)?;
                Some(rest.trim_end_matches('/').rsplit('/').next().unwrap_or(rest).to_owned())
            });
            line.ok_or_else(|| Failure::Work(format!("the endpoint has ended without `{word}`")))
        };
        let (site, at, pin) = (after("watch at ")?, after("listening on ")?, after("pin ")?);
        // What it says later is of interest where a figure is not.
        thread::spawn(move || said.map_while(Result::ok).for_each(|line| eprintln!("endpoint: {line}")));
        let address = |text: String| text.parse::<SocketAddr>().map_err(Failure::work);
        let (site, at) = (address(site)?, address(at)?);
        let pin = pin.parse().map_err(Failure::work)?;
        Ok(Endpoint { site, at, pin, child, folder, begun: Instant::now() })
    }

    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What it has used so far, by proc(5).
    pub fn used(&self) -> Used {
        let of = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id()));
        let stat = of("stat").unwrap_or_default();
        // Behind the name in parentheses: utime and stime are fields 14 and 15, in ticks.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok());
        let cpu =
            ticks(11).zip(ticks(12)).map_or(f64::NAN, |(user, system)| (user + system) / ticks_a_second());
        let status = of("status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.trim().split(' ').next()?.parse::<u64>().ok());
        Used { cpu, seconds: self.age().as_secs_f64(), peak: peak.unwrap_or(0) * 1024 }
    }

    /// Ends it in good order, and gives what it reports.
    pub fn end(&mut self) -> Result<Value, Failure> {
        // SAFETY: a signal to a process that is ours, and not waited for yet.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let mut out = self.child.stdout.take().expect("it was asked for");
        let told = thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).map(|_| text)
        });
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().map_err(Failure::work)?.is_none() {
            if Instant::now() > until {
                return Err(Failure::Work(format!("the endpoint has not ended in {PATIENCE:?}")));
            }
            thread::sleep(Duration::from_millis(50));
        }
        let text = told.join().map_err(|_| Failure::work("reading panicked"))?.map_err(Failure::work)?;
        serde_json::from_str(&text).map_err(Failure::work)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // It has ended in good order, or is of no use any more; its files were for this run.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn ticks_a_second() -> f64 {
    // SAFETY: only reads a constant of the system.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}
