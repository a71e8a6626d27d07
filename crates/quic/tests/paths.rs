//! Every controller that runs inside quinn, on paths short and long, held against the same controller under
//! our own transport.

use std::sync::{Arc, Mutex};

use bulk::{ReceiverConfig, SenderConfig, Workload};
use cc::{Options, Setup};
use framewire_quic::Congestion;
use framewire_quic::simulated::{SimulatedConfig, pair};
use netsim::{FIRST_LINK_NODE, HostConfig, LinkConfig, RateProcess, World};
use record::{Event, NodeId, Recorder};
use units::{HostClock, Rate, Rng, Span, Time};

/// A bottleneck and the way back.
#[derive(Clone, Copy)]
struct Path {
    name: &'static str,
    rate: Rate,
    /// Of the way there and back, without the queue.
    round_trip: Span,
    /// Standard deviation of what hosts' schedulers add to it.
    jitter: Span,
    queue: &'static str,
    until: Span,
}

const PATHS: [Path; 4] = [
    Path {
        name: "one host",
        rate: Rate::from_mbps(400),
        round_trip: Span::from_micros(60),
        jitter: Span::from_micros(150),
        queue: "droptail:1000p",
        until: Span::from_secs(1),
    },
    Path {
        name: "one building",
        rate: Rate::from_mbps(100),
        round_trip: Span::from_millis(1),
        jitter: Span::ZERO,
        queue: "droptail:200p",
        until: Span::from_secs(2),
    },
    Path {
        name: "one country",
        rate: Rate::from_mbps(20),
        round_trip: Span::from_millis(20),
        jitter: Span::ZERO,
        queue: "droptail:100ms",
        until: Span::from_secs(10),
    },
    Path {
        name: "two continents",
        rate: Rate::from_mbps(10),
        round_trip: Span::from_millis(100),
        jitter: Span::ZERO,
        queue: "droptail:1s",
        until: Span::from_secs(30),
    },
];

/// What the bottleneck saw.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    bytes: u64,
    packets: u64,
    sojourn_ms: f64,
}

impl Recorder for Seen {
    fn record(&mut self, _: Time, node: NodeId, event: &Event) {
        if let Event::LinkDeparted { size, sojourn, .. } = *event
            && node.0 == FIRST_LINK_NODE
        {
            self.bytes += u64::from(size);
            self.packets += 1;
            self.sojourn_ms += sojourn.as_millis_f64();
        }
    }
}

/// Share of the bottleneck used, and the mean round trip in ms.
#[derive(Clone, Copy, Debug)]
struct Figures {
    used: f64,
    round_trip_ms: f64,
}

#[derive(Clone, Copy)]
enum Transport {
    Quinn,
    Ours,
}

fn run(cc: &str, path: &Path, transport: Transport) -> Figures {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut world = World::new(1, Some(seen.clone()));
    let way = path.round_trip / 2;
    let ahead = LinkConfig::bottleneck(RateProcess::Constant(path.rate), path.queue.parse().unwrap(), way);
    let ahead = world.add_link("bottleneck", LinkConfig { jitter: path.jitter, ..ahead });
    let back = world.add_link("back", LinkConfig::delay(way));
    let setup = Setup { max: Rate::from_mbps(100_000), ..Setup::default() };
    let (from, to) = match transport {
        Transport::Quinn => {
            let congestion = Congestion::with(cc, setup).unwrap();
            let tap = world.next_host_tap(HostClock::default());
            let (sender, receiver) = pair(&SimulatedConfig::default(), congestion, tap);
            (
                world.add_host(HostConfig::new("sender"), sender),
                world.add_host(HostConfig::new("receiver"), receiver),
            )
        }
        Transport::Ours => {
            let config = SenderConfig::default();
            let options: Options = cc.parse().unwrap();
            let controller = cc::build(&options, &Setup { mtu: config.datagram(), ..setup }).unwrap();
            let tap = world.next_host_tap(HostClock::default());
            let rng = Rng::stream(1, "flow");
            let sender = bulk::Sender::new(config, controller, Workload::Endless, rng, tap);
            let from = world.add_host(HostConfig::new("sender"), sender);
            let tap = world.next_host_tap(HostClock::default());
            let receiver = bulk::Receiver::new(ReceiverConfig::default(), tap);
            (from, world.add_host(HostConfig::new("receiver"), receiver))
        }
    };
    world.connect(from, 0, &[ahead], to);
    world.connect(to, 0, &[back], from);
    world.run_until(Time::ZERO + path.until);
    let seen = *seen.lock().unwrap();
    Figures {
        used: seen.bytes as f64 * 8.0 / path.until.as_secs_f64() / path.rate.as_bps() as f64,
        round_trip_ms: path.round_trip.as_millis_f64() + seen.sojourn_ms / seen.packets.max(1) as f64,
    }
}

/// Of the rate, whatever our own transport gets.
const LEAST_USED: f64 = 0.7;
/// Of what our own transport uses.
const SHARE: f64 = 0.9;
/// Times our own transport's round trip, since a pace is kept over a round trip and not from packet to packet
/// ...
const STRETCH: f64 = 1.25;
/// ... and quinn's bursts of ten datagrams.
const SLACK_MS: f64 = 5.0;

/// Runs `controllers` on `paths`; returns a line for each that does not do what it does under our own
/// transport.
fn misfits(paths: &[Path], controllers: &[&'static str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in paths {
        for &cc in controllers {
            let (quinn, ours) = (run(cc, path, Transport::Quinn), run(cc, path, Transport::Ours));
            let line = format!(
                "{}, {cc}: {:.2} of the rate, {:.2} ms; ours {:.2}, {:.2} ms",
                path.name, quinn.used, quinn.round_trip_ms, ours.used, ours.round_trip_ms
            );
            println!("{line}");
            let least = f64::max(LEAST_USED, SHARE * ours.used);
            if quinn.used < least || quinn.round_trip_ms > STRETCH * ours.round_trip_ms + SLACK_MS {
                wrong.push(line);
            }
        }
    }
    wrong
}

/// A lone datagram in flight waits 25 ms for its acknowledgement, and threads' turns are no queue.
#[test]
fn no_controller_starves_on_a_short_path() {
    let path = Path { until: Span::from_millis(150), ..PATHS[0] };
    for cc in Congestion::names() {
        let figures = run(cc, &path, Transport::Quinn);
        assert!(figures.used > LEAST_USED, "{cc}: {figures:?}");
    }
}

/// quinn takes no pace from a controller; those whose pace is below a window a round trip keep it all the
/// same.
#[test]
fn a_pace_is_kept() {
    let long = Path { until: Span::from_secs(12), ..PATHS[3] };
    let wrong = misfits(&[long], &["bbr", "bbr3", "copa-pantheon"]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
