//! How exact `framewire link` is: packets of known times through the emulator, and the very same link in
//! virtual time beside it.
//!
//! ```text
//! inside: sender, one UDP packet of 1500 bytes every so often --> [up: Link] --> outside: receiver
//! added = when a packet left the emulator - when the simulator lets it out that is offered the packets as they were sent
//! ```
//!
//! So `added` holds everything the machine does between the sender's call and the receiver's socket: both
//! devices, two wake-ups, three system calls. What the link itself does (serialisation, waiting for a trace's
//! next millisecond) is not in it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use netsim::{Link, LinkConfig, MahimahiTrace, Packet, RateProcess};
use real::link::{Emulator, End, Log, Passage, Plan};
use real::{Clock, Prompt};
use record::Tap;
use serde_json::{Map, Value, json};
use units::{Bytes, Rate, Span, Time};

use crate::benchmark::extend;
use crate::measure::{cpu_time, quantile};
use crate::{Benchmark, Failure, Progress};

/// What is sent in one IP packet, and its UDP payload.
const SIZE: u32 = 1500;
const PAYLOAD: usize = SIZE as usize - netsim::IP_UDP_OVERHEAD as usize;
/// How long each load lasts.
const LENGTH: Span = Span::from_secs(5);
/// What is still under way may arrive for this long.
const TAIL: Duration = Duration::from_millis(200);
/// Shares of the rate: below it, and above.
const BELOW: f64 = 0.9;
const ABOVE: f64 = 1.1;
/// How much of a run passes before its rate is measured: the queue must be full.
const WARM_UP: Span = Span::from_millis(500);
/// A pause shorter than this is not worth sleeping for; the packets due meanwhile go out together after it.
const SHORTEST_SLEEP: Span = Span::from_micros(50);
/// Bytes of packets, as the kernel counts them, that may wait for the receiver, which is an ordinary thread.
const ROOM: libc::c_int = 256 << 20;
/// Kernel CUBIC's run.
const TCP_LENGTH: Span = Span::from_secs(30);

/// One link to measure.
struct Load {
    name: &'static str,
    mbps: u64,
    trace: bool,
}

const LOADS: [Load; 9] = [
    Load { name: "12 Mbit/s", mbps: 12, trace: false },
    Load { name: "50 Mbit/s", mbps: 50, trace: false },
    Load { name: "100 Mbit/s", mbps: 100, trace: false },
    Load { name: "500 Mbit/s", mbps: 500, trace: false },
    Load { name: "1 Gbit/s", mbps: 1000, trace: false },
    Load { name: "trace of 12 Mbit/s", mbps: 12, trace: true },
    Load { name: "trace of 50 Mbit/s", mbps: 50, trace: true },
    Load { name: "trace of 100 Mbit/s", mbps: 100, trace: true },
    Load { name: "trace of 500 Mbit/s", mbps: 500, trace: true },
];

impl Load {
    fn rate(&self) -> Rate {
        Rate::from_mbps(self.mbps)
    }

    /// The link: 10 ms of queue, 50 packets at least.
    fn config(&self) -> LinkConfig {
        let process = if self.trace {
            RateProcess::trace(Arc::new(constant_trace(self.mbps)))
        } else {
            RateProcess::Constant(self.rate())
        };
        let packets = (self.mbps * 1000 * 10 / 8 / u64::from(SIZE)).max(50);
        let queue = format!("droptail:{packets}p").parse().expect("the queue registry knows droptail");
        LinkConfig { recorded: false, ..LinkConfig::bottleneck(process, queue, Span::ZERO) }
    }
}

/// A Mahimahi trace of a constant rate: an opportunity whenever another 1500 bytes could have been sent.
fn constant_trace(mbps: u64) -> MahimahiTrace {
    // `mbps` opportunities come in 12 ms, whose k-th is in millisecond ceil(12 k / mbps).
    let millis = (1..=mbps).map(|k| (12 * k).div_ceil(mbps) as u32).collect();
    MahimahiTrace::from_millis(millis).expect("the times rise and end at 12")
}

/// When packets left the emulator, by number; of packets of [`SIZE`] only, for the kernel may send others.
#[derive(Clone, Default)]
struct Departures(Arc<Mutex<Vec<Option<Time>>>>);

impl Log for Departures {
    fn ends(&mut self, passage: &Passage) {
        if passage.size != SIZE {
            return;
        }
        let left = match passage.end {
            End::Passed { left, .. } => Some((passage.number, left)),
            End::Dropped { .. } => None,
        };
        let mut departures = self.0.lock().expect("nothing panics while it measures");
        if let Some((number, left)) = left {
            let at = number as usize;
            if departures.len() <= at {
                departures.resize(at + 1, None);
            }
            departures[at] = Some(left);
        }
    }
}

/// What one run gave.
struct Run {
    /// When each packet was sent and when it left the emulator. Without the latter where the kernel dropped
    /// packets before the device: nobody knows then which is which.
    ways: Vec<(Time, Option<Time>)>,
    /// When packets left the emulator.
    left: Vec<Time>,
    overruns: u64,
    received: u64,
    late: Option<Span>,
    cores: f64,
}

fn open() -> Result<Emulator, Failure> {
    Emulator::open(SIZE).map_err(Failure::input)
}

/// Sends at `rate` through a link of `config` for a while.
fn run(config: &LinkConfig, rate: Rate) -> Result<Run, Failure> {
    let mut emulator = open()?;
    let receiver = UdpSocket::bind((emulator.outside(), 0)).map_err(Failure::work)?;
    set(&receiver, libc::SO_RCVBUFFORCE, ROOM);
    let target = receiver.local_addr().map_err(Failure::work)?;
    let sender =
        emulator.within(move || UdpSocket::bind("0.0.0.0:0").and_then(|s| s.connect(target).map(|()| s)));
    let sender = sender.map_err(Failure::work)?;
    let departures = Departures::default();
    departures.0.lock().expect("nobody else has it yet").reserve(1 << 20);
    let up = Plan {
        link: Link::new(config.clone(), 1, "up", Tap::default()),
        logs: vec![Box::new(departures.clone())],
    };
    emulator
        .start(up, Link::new(LinkConfig::default(), 1, "down", Tap::default()).into())
        .map_err(Failure::work)?;
    let (clock, before) = (emulator.clock(), cpu_time());
    let done = AtomicBool::new(false);
    let (sent, received) = thread::scope(|scope| {
        let received = scope.spawn(|| count(&receiver, &done));
        let sent = send(&sender, clock, rate);
        thread::sleep(TAIL);
        done.store(true, Ordering::SeqCst);
        (sent, received.join().expect("counting does not panic"))
    });
    let cores = (cpu_time() - before).as_secs_f64() / LENGTH.as_secs_f64();
    let outcome = emulator.finish().expect("it was started");
    let left = std::mem::take(&mut *departures.0.lock().expect("nothing panicked"));
    let way = outcome.up.1;
    // The kernel may have sent some of its own before.
    let first = (way.received as usize).checked_sub(sent.len());
    let left_at = |n: usize| first.and_then(|first| left.get(first + n).copied().flatten());
    let ways = sent.into_iter().enumerate().map(|(n, at)| (at, left_at(n))).collect();
    let left = left.iter().copied().flatten().collect();
    Ok(Run { ways, left, overruns: way.overruns, received, late: way.late.quantile(0.5), cores })
}

/// Sends packets evenly at `rate`; when each was sent.
fn send(socket: &UdpSocket, clock: Clock, rate: Rate) -> Vec<Time> {
    // A sender that has to wait for its turn sends what is due all at once, which is another load.
    let _prompt = Prompt::ask();
    let gap = rate.time_to_send(Bytes::new(u64::from(SIZE)));
    let start = clock.now();
    let count = LENGTH.as_nanos() / gap.as_nanos();
    let payload = [0; PAYLOAD];
    let mut sent = Vec::with_capacity(count as usize);
    for number in 0..count {
        let due = start + gap * number;
        if due - clock.now() > SHORTEST_SLEEP {
            clock.sleep_until(due);
        }
        sent.push(clock.now());
        // A packet that the system will not take is one that does not arrive.
        let _ = socket.send(&payload);
    }
    sent
}

/// Counts packets until no more come after `done`.
fn count(socket: &UdpSocket, done: &AtomicBool) -> u64 {
    let _ = socket.set_read_timeout(Some(Duration::from_millis(50)));
    let mut buffer = [0; PAYLOAD];
    let mut received = 0;
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => received += 1,
            Err(_) if done.load(Ordering::SeqCst) => return received,
            Err(_) => {}
        }
    }
}

/// When the simulator's link lets each packet out that is offered at these times; `None` if it drops it.
fn ideal(config: &LinkConfig, sent: impl Iterator<Item = Time>) -> Vec<Option<Time>> {
    let mut link = Link::new(config.clone(), 1, "up", Tap::default());
    let mut out = Vec::new();
    let drain = |link: &mut Link, until: Time, out: &mut Vec<Option<Time>>| {
        while let Some((due, packet)) = link.deliver_dated(until) {
            out[packet.id as usize] = Some(due);
        }
        link.notices().for_each(drop);
    };
    let mut last = Time::ZERO;
    for (id, at) in (0u32..).zip(sent) {
        drain(&mut link, at, &mut out);
        out.push(None);
        link.offer(at, Packet { id, ..Packet::bare(0, SIZE, at) });
        last = at;
    }
    drain(&mut link, last + Span::from_secs(10), &mut out);
    out
}

/// Bit/s of what left between the end of the warm-up and the last packet sent.
fn throughput(ways: &[(Time, Option<Time>)], left: impl Iterator<Item = Time>) -> f64 {
    let (Some(&(begun, _)), Some(&(ended, _))) = (ways.first(), ways.last()) else { return f64::NAN };
    let mut left: Vec<Time> = left.filter(|&at| at >= begun + WARM_UP && at <= ended).collect();
    left.sort_unstable();
    match (left.first(), left.last()) {
        (Some(&first), Some(&end)) if end > first => {
            (left.len() - 1) as f64 * f64::from(SIZE) * 8.0 / (end - first).as_secs_f64()
        }
        _ => f64::NAN,
    }
}

fn measure(load: &Load) -> Result<Value, Failure> {
    let config = load.config();
    let below = run(&config, load.rate().mul_f64(BELOW))?;
    let above = run(&config, load.rate().mul_f64(ABOVE))?;
    let mut row = json!({ "link": load.name });
    extend(&mut row, of_capacity_left(&config, &below));
    extend(&mut row, of_saturation(&config, &above, load.rate()));
    Ok(row)
}

/// What the run below capacity shows: what is lost, and how late the rest is.
fn of_capacity_left(config: &LinkConfig, run: &Run) -> Value {
    let ideal = ideal(config, run.ways.iter().map(|way| way.0));
    let ms = |later: Time, earlier: Time| (later.as_nanos() as f64 - earlier.as_nanos() as f64) / 1e6;
    let both = run.ways.iter().zip(&ideal).filter_map(|(way, ideal)| Some((way.1?, (*ideal)?)));
    let added: Vec<f64> = both.map(|(left, due)| ms(left, due)).collect();
    let whole: Vec<f64> = run.ways.iter().filter_map(|way| Some(ms(way.1?, way.0))).collect();
    let sent = run.ways.len() as f64;
    let span = run.ways[run.ways.len() - 1].0 - run.ways[0].0;
    let offered = (sent - 1.0) * f64::from(SIZE) * 8.0 / span.as_secs_f64();
    json!({
        "offered_bps": offered, "achieved": throughput(&run.ways, run.left.iter().copied()) / offered,
        "loss": 1.0 - run.left.len() as f64 / sent,
        "ideal_loss": ideal.iter().filter(|out| out.is_none()).count() as f64 / sent,
        "overruns": run.overruns, "not_received": 1.0 - run.received as f64 / sent,
        "delay_p50_ms": quantile(&whole, 0.5), "added_p50_ms": quantile(&added, 0.5),
        "added_p90_ms": quantile(&added, 0.9), "added_p99_ms": quantile(&added, 0.99),
        "late_p50_ms": run.late.map(|late| late.as_millis_f64()), "cpu_cores": run.cores,
    })
}

/// What the run above capacity shows: how much gets through, as a share of the rate, and what the simulator's
/// link passes of the same packets.
fn of_saturation(config: &LinkConfig, run: &Run, rate: Rate) -> Value {
    let ideal = ideal(config, run.ways.iter().map(|way| way.0));
    let share = |bps: f64| bps / rate.as_f64();
    json!({
        "saturated": share(throughput(&run.ways, run.left.iter().copied())),
        "ideally": share(throughput(&run.ways, ideal.into_iter().flatten())),
        "overruns_above": run.overruns,
    })
}

/// Kernel TCP under `controller` through 12 Mbit/s, 20 ms each way and 100 packets: bit/s of payload.
fn tcp(controller: &'static str) -> Result<Value, Failure> {
    let mut emulator = open()?;
    let queue = "droptail:100p".parse().expect("the queue registry knows droptail");
    let delay = Span::from_millis(20);
    let up = LinkConfig::bottleneck(RateProcess::Constant(Rate::from_mbps(12)), queue, delay);
    let plan = |config, name| Plan::from(Link::new(config, 1, name, Tap::default()));
    emulator.start(plan(up, "up"), plan(LinkConfig::delay(delay), "down")).map_err(Failure::work)?;
    let listener = TcpListener::bind((emulator.outside(), 0)).map_err(Failure::work)?;
    let target = listener.local_addr().map_err(Failure::work)?;
    let sender = emulator.within(move || TcpStream::connect(target)).map_err(Failure::work)?;
    let (receiver, _) = listener.accept().map_err(Failure::work)?;
    choose(&sender, controller)?;
    let received = thread::scope(|scope| {
        scope.spawn(move || fill(sender, TCP_LENGTH));
        drain(receiver)
    });
    let outcome = emulator.finish().expect("it was started");
    let dropped = outcome.up.0.stats().total().dropped.packets;
    Ok(json!({ "controller": controller, "goodput_bps": received, "dropped": dropped }))
}

/// Has the kernel send under `controller` (tcp(7), `TCP_CONGESTION`).
pub fn choose(stream: &TcpStream, controller: &str) -> Result<(), Failure> {
    // SAFETY: the option's value is text of the length beside it.
    let failed = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            controller.as_ptr().cast(),
            controller.len() as u32,
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Work(format!(
            "the kernel has no `{controller}`: {}",
            std::io::Error::last_os_error()
        ))),
    }
}

/// Sends as much as the connection takes for `length`.
pub fn fill(mut stream: TcpStream, length: Span) {
    let (clock, chunk) = (Clock::starting_now(), [0; 1 << 14]);
    // A write may wait long where little gets through.
    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
    while clock.now() < Time::ZERO + length {
        match stream.write(&chunk) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
    // What is still unsent is not waited for.
    set(&stream, libc::SO_LINGER, libc::linger { l_onoff: 1, l_linger: 0 });
}

/// Sets an option of socket(7); where the system refuses, it stays as it was.
fn set<T>(socket: &impl AsRawFd, option: libc::c_int, value: T) {
    let size = size_of::<T>() as u32;
    // SAFETY: the option's value is of the length beside it.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const value).cast(), size);
    }
}

/// Reads to the end: bit/s from the first to the last byte.
fn drain(mut stream: TcpStream) -> f64 {
    let clock = Clock::starting_now();
    let mut buffer = vec![0; 1 << 16];
    let (mut bytes, mut first, mut last) = (0u64, None, Time::ZERO);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes += count as u64;
        last = clock.now();
        first.get_or_insert(last);
    }
    bytes as f64 * 8.0 / (last - first.unwrap_or(last)).as_secs_f64()
}

/// The load average: what else ran.
pub fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Runs all loads.
pub fn run_all(progress: &dyn Progress) -> Result<Benchmark, Failure> {
    let busy = load_average();
    let bar = progress.begin(LOADS.len() as u64 + 1, "link, in real time");
    let mut rows = Vec::new();
    for load in &LOADS {
        rows.push(measure(load)?);
        bar.advance();
    }
    let cubic = tcp("cubic")?;
    drop(bar);
    let worst = rows.iter().filter_map(|row| row["added_p50_ms"].as_f64()).fold(0.0, f64::max);
    let details: Map<_, _> = [
        ("load_average".to_owned(), json!(busy)),
        ("udp".to_owned(), json!(rows)),
        ("tcp".to_owned(), json!([cubic])),
    ]
    .into_iter()
    .collect();
    Ok(Benchmark { name: "link", unit: "ms added, largest median", value: worst, details })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_trace_has_its_rate() {
        for mbps in [12, 50, 100, 500] {
            let trace = constant_trace(mbps);
            let bits = trace.millis().len() as f64 * f64::from(SIZE) * 8.0;
            assert_eq!(bits / trace.duration().as_secs_f64(), mbps as f64 * 1e6);
        }
        assert_eq!(constant_trace(12).millis(), (1..=12).collect::<Vec<_>>());
    }

    #[test]
    fn the_ideal_link_serialises_waits_and_drops() {
        let config = LOADS[0].config();
        let out = ideal(&config, (0..60).map(|_| Time::from_millis(1)));
        assert_eq!(out[..2], [Some(Time::from_millis(2)), Some(Time::from_millis(3))]);
        // One in transmission and fifty behind it.
        assert_eq!(out.iter().filter(|out| out.is_some()).count(), 51);
    }
}
