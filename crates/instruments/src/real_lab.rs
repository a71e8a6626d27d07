//! An experiment's competition with the kernel's TCP instead of ours, over the emulated link in real time.
//!
//! ```text
//! inside:  our sender ----\                          /--> our receiver      outside
//!          kernel TCP -----+--[up: the scenario's]--+---> kernel TCP
//! ```
//!
//! The scenario's first flow is ours and runs as it is; its second, a backlog under CUBIC or BBR, becomes a
//! connection of the kernel's. Both are measured with the functions that measure the simulator's run of the
//! same scenario and seed.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use experiments::{Experiment, Point, RealMeasures, RealResults, RealRun, within};
use lab::collect::{Collector, Keep, Layout};
use lab::run::{Endpoints, RunOptions, bottleneck, endpoints};
use lab::scenario::Scenario;
use netsim::{Link, LinkConfig};
use real::link::{Emulator, Plan};
use real::{Clock, Driver, Limits, Peer, Settings};
use record::{NodeId, Shared, Tap};
use units::{HostClock, Rate, Span, Time};

use crate::link::{choose, fill, load_average};
use crate::{Failure, Progress};

/// What is run.
#[derive(Clone, Debug)]
pub struct Competition {
    /// Controllers of the experiment [`EXPERIMENT`].
    pub controllers: Vec<String>,
    /// Runs of each point, with seeds from 1 on.
    pub runs: u64,
    /// Forget what earlier runs left in `out`.
    pub fresh: bool,
    /// Folder for the results.
    pub out: PathBuf,
}

/// The experiment, whose labels are controller, competitor and who is first.
pub const EXPERIMENT: &str = "competition";
/// Shares count once both flows have had 10 s, as in the experiment's formulas.
const FROM: Time = Time::from_secs(20);
/// The largest IP packet.
const MTU: u32 = 1500;

/// Runs the points asked for, in both worlds, and adds them to what was run before.
///
/// # Errors
/// [`Failure::Input`] where a controller is not of the experiment, the folder won't do or the link can't be
/// had; [`Failure::Work`] where a run fails.
pub fn run(
    experiment: &Experiment,
    settings: &Competition,
    progress: &dyn Progress,
) -> Result<RealResults, Failure> {
    let points = selected(experiment, settings)?;
    std::fs::create_dir_all(&settings.out)
        .map_err(|error| Failure::Input(format!("{}: {error}", settings.out.display())))?;
    let mut results = before(settings)?;
    let bar = progress.begin(points.len() as u64 * settings.runs, "lab, for real");
    for (point, seed) in points.iter().flat_map(|point| (1..=settings.runs).map(move |seed| (point, seed))) {
        bar.say(format!("{}, run {seed}", point.labels.join(", ")));
        let scenario = experiment.scenario(point, seed).map_err(Failure::input)?;
        results.add(&point.labels, both(&scenario, seed)?);
        // An hour of runs should outlive an interrupt.
        results.save(&settings.out).map_err(Failure::work)?;
        bar.advance();
    }
    Ok(results)
}

/// What earlier invocations left.
fn before(args: &Competition) -> Result<RealResults, Failure> {
    let kernel = kernel();
    let found = RealResults::open(&args.out).map_err(Failure::Input)?;
    match found.filter(|_| !args.fresh) {
        Some(other) if other.kernel != kernel => Err(Failure::Input(format!(
            "{} holds runs beside the TCP of Linux {}, and this is {kernel}: another --out keeps both, --fresh forgets them",
            args.out.display(),
            other.kernel
        ))),
        found => Ok(found.unwrap_or_else(|| RealResults::none(EXPERIMENT, &kernel))),
    }
}

fn both(scenario: &Scenario, seed: u64) -> Result<RealRun, Failure> {
    let load = || load_average().unwrap_or(f64::NAN);
    let before = load();
    let real = for_real(scenario)?;
    let load_average = (before, load());
    Ok(RealRun { seed, load_average, real, simulated: simulated(scenario)? })
}

fn selected(experiment: &Experiment, args: &Competition) -> Result<Vec<Point>, Failure> {
    let mut points = experiment.points().map_err(Failure::input)?;
    let known = |cc: &str| points.iter().any(|point| point.labels[0] == cc);
    if let Some(unknown) = args.controllers.iter().find(|cc| !known(cc)) {
        return Err(Failure::Input(format!(
            "--cc {unknown}: no such point in experiments/{EXPERIMENT}.toml"
        )));
    }
    points.retain(|point| args.controllers.contains(&point.labels[0]));
    Ok(points)
}

fn kernel() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    read.trim().to_owned()
}

fn simulated(scenario: &Scenario) -> Result<RealMeasures, Failure> {
    let outcome = lab::run::run(scenario, &RunOptions::default()).map_err(Failure::work)?;
    let (rate, to) = (rate(scenario)?, Time::ZERO + scenario.duration);
    // On the wire; the kernel's is payload, 1448 of 1500 bytes with its usual options.
    let other = within(&outcome.record.flows[1], FROM, to);
    Ok(RealMeasures::of(&outcome.record, other, rate, FROM, to))
}

fn rate(scenario: &Scenario) -> Result<Rate, Failure> {
    scenario.link.rate.ok_or_else(|| Failure::input("link.rate: a constant rate is needed here"))
}

fn for_real(scenario: &Scenario) -> Result<RealMeasures, Failure> {
    let (rate, to) = (rate(scenario)?, Time::ZERO + scenario.duration);
    let mut emulator = Emulator::open(MTU).map_err(Failure::input)?;
    let up = bottleneck(scenario, "an emulated network").map_err(Failure::input)?;
    let delay = scenario.link.delay.unwrap_or_default();
    let plan = |config, name| Plan::from(Link::new(config, scenario.seed, name, Tap::default()));
    emulator.start(plan(up, "up"), plan(LinkConfig::delay(delay), "down")).map_err(Failure::work)?;
    let layout = Layout { flows: vec![(NodeId(0), NodeId(1))], links: Vec::new() };
    let recorder = Arc::new(Mutex::new(Collector::new(&layout, Keep::Rows)));
    let shared: Shared = recorder.clone();
    let other = thread::scope(|scope| {
        let tcp = scope.spawn(|| kernel_tcp(&emulator, &scenario.flows[1], to));
        let ours = session(&emulator, scenario, &shared, to);
        let other = tcp.join().expect("counting does not panic");
        ours.and(other)
    })?;
    emulator.finish();
    let record = std::mem::take(&mut *recorder.lock().expect("no recorder panics"));
    Ok(RealMeasures::of(&record, other, rate, FROM, to))
}

/// Our flow, from its start to the end.
fn session(emulator: &Emulator, scenario: &Scenario, recorder: &Shared, to: Time) -> Result<(), Failure> {
    let clock = emulator.clock();
    let settings = Settings { clock, ..Settings::default() };
    let tap = |node| Tap::new(recorder.clone(), NodeId(node), HostClock::default());
    let Endpoints { mut sender, mut receiver, .. } =
        endpoints(scenario, 0, tap(0), tap(1)).map_err(Failure::work)?;
    let place = SocketAddr::from((emulator.outside(), 0));
    let mut far = Driver::open(place, Peer::First, &settings).map_err(Failure::work)?;
    let target = far.local();
    let near = emulator.within(move || Driver::connect(target, &settings));
    let mut near = near.map_err(Failure::work)?;
    clock.sleep_until(Time::ZERO + scenario.flows[0].start);
    let limits = Limits { until: Some(to), ..Limits::default() };
    thread::scope(|scope| {
        let far = scope.spawn(|| far.run(&mut receiver, &limits, &mut |_, _, _| ControlFlow::Continue(())));
        let sent = near.run(&mut sender, &limits, &mut |_, _, _| ControlFlow::Continue(()));
        let received = far.join().expect("the receiver does not panic");
        sent.and(received).map_err(Failure::work)
    })
}

/// The kernel's flow, from its start to the end: payload bytes that arrived from [`FROM`] on.
fn kernel_tcp(emulator: &Emulator, flow: &lab::scenario::Flow, to: Time) -> Result<u64, Failure> {
    let clock = emulator.clock();
    let listener = TcpListener::bind((emulator.outside(), 0)).map_err(Failure::work)?;
    let target = listener.local_addr().map_err(Failure::work)?;
    clock.sleep_until(Time::ZERO + flow.start);
    let sender = emulator.within(move || TcpStream::connect(target)).map_err(Failure::work)?;
    choose(&sender, &flow.cc)?;
    let (receiver, _) = listener.accept().map_err(Failure::work)?;
    let left: Span = to - clock.now();
    thread::scope(|scope| {
        scope.spawn(move || fill(sender, left));
        Ok(count(receiver, clock, to))
    })
}

fn count(mut stream: TcpStream, clock: Clock, to: Time) -> u64 {
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        if (FROM..to).contains(&clock.now()) {
            bytes += read as u64;
        }
    }
    bytes
}
