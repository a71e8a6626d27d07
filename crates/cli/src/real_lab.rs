//! `framewire lab real`: an experiment's competition with the kernel's TCP instead of ours, over the emulated link in real time.
//!
//! ```text
//! inside:  our sender ----\                          /--> our receiver      outside
//!          kernel TCP -----+--[up: the scenario's]--+---> kernel TCP
//! ```
//!
//! The scenario's first flow is ours and runs as it is; its second, a backlog under CUBIC or BBR, becomes a connection of the kernel's.
//! Both are measured with the functions that measure the simulator's run of the same scenario and seed.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use lab::collect::{Collector, Keep, Layout};
use lab::experiment::{Experiment, Point, RealMeasures, RealResults, RealRun, within};
use lab::run::{Endpoints, RunOptions, bottleneck, endpoints};
use lab::scenario::Scenario;
use netsim::{Link, LinkConfig};
use real::link::{Emulator, Plan};
use real::{Clock, Driver, Limits, Peer, Settings};
use record::{NodeId, Shared, Tap};
use serde_json::json;
use units::{HostClock, Rate, Span, Time};

use crate::args::Format;
use crate::bench::link::{choose, fill, load_average};
use crate::failure::Failure;
use crate::output;
use crate::shipped;
use crate::table::Table;

/// `framewire lab real`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire lab real                      SQP against the kernel's CUBIC and BBR: four minutes
  framewire lab real --cc sqp,pcc,gcc,sprout,vivace,copa-auto --runs 3 --json
  framewire lab real --cc sprout --runs 3     adds Sprout to what OUT holds

Needs root, as `framewire link` does, and a kernel with `bbr` (modprobe tcp_bbr). Every run takes 60 s, in real time, four of them a
controller, and is run in the simulator too, with the same seed. OUT/real.json keeps the results of all invocations, and `framewire lab
report` shows them beside the claims.")]
pub struct Real {
    /// Controllers of experiments/competition.toml, separated by commas
    #[arg(long, value_name = "CC,CC,...", value_delimiter = ',', default_value = "sqp")]
    pub cc: Vec<String>,
    /// Runs of each point, with seeds from 1 on
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub runs: u64,
    /// Forget what earlier invocations left in OUT
    #[arg(long)]
    pub fresh: bool,
    /// Folder of the experiments' files
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub experiments: PathBuf,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
    #[command(flatten)]
    pub format: Format,
}

/// The experiment, whose labels are controller, competitor and who is first.
const EXPERIMENT: &str = "competition";
/// Shares count once both flows have had 10 s, as in the experiment's formulas.
const FROM: Time = Time::from_secs(20);
/// The largest IP packet.
const MTU: u32 = 1500;

/// Runs the points asked for, in both worlds, and adds them to what was run before.
pub fn real(args: &Real) -> Result<(), Failure> {
    let file = shipped::or_shipped(&args.experiments.join(format!("{EXPERIMENT}.toml")))?;
    let experiment = Experiment::load(&file).map_err(Failure::input)?;
    let points = selected(&experiment, args)?;
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Failure::Input(format!("{}: {error}", args.out.display())))?;
    let mut results = before(args)?;
    let bar = output::progress(points.len() as u64 * args.runs, "lab, for real");
    for (point, seed) in points.iter().flat_map(|point| (1..=args.runs).map(move |seed| (point, seed))) {
        bar.set_message(format!("{}, run {seed}", point.labels.join(", ")));
        let scenario = experiment.scenario(point, seed).map_err(Failure::input)?;
        results.add(&point.labels, run(&scenario, seed)?);
        // An hour of runs should outlive an interrupt.
        results.save(&args.out).map_err(Failure::work)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(&results, args.format.json);
    Ok(())
}

/// What earlier invocations left.
fn before(args: &Real) -> Result<RealResults, Failure> {
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

fn run(scenario: &Scenario, seed: u64) -> Result<RealRun, Failure> {
    let load = || load_average().unwrap_or(f64::NAN);
    let before = load();
    let real = for_real(scenario)?;
    let load_average = (before, load());
    Ok(RealRun { seed, load_average, real, simulated: simulated(scenario)? })
}

fn selected(experiment: &Experiment, args: &Real) -> Result<Vec<Point>, Failure> {
    let mut points = experiment.points().map_err(Failure::input)?;
    let known = |cc: &str| points.iter().any(|point| point.labels[0] == cc);
    if let Some(unknown) = args.cc.iter().find(|cc| !known(cc)) {
        return Err(Failure::Input(format!(
            "--cc {unknown}: no such point in experiments/{EXPERIMENT}.toml"
        )));
    }
    points.retain(|point| args.cc.contains(&point.labels[0]));
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
    let up = bottleneck(scenario).map_err(Failure::input)?;
    let delay = scenario.link.delay.unwrap_or_default();
    let plan = |config, name| Plan::from(Link::new(config, scenario.seed, name, Tap::default()));
    emulator.start(plan(up, "up"), plan(LinkConfig::delay(delay), "down")).map_err(Failure::work)?;
    let layout = Layout { flows: vec![(NodeId(0), NodeId(1))], bottleneck: None };
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

fn print(results: &RealResults, json: bool) {
    if json {
        output::json(&json!({ "results": results, "rows": results.rows() }));
        return;
    }
    let heads = [
        "point",
        "runs",
        "share",
        "simulated",
        "P10 Mbit/s",
        "simulated",
        "P90",
        "simulated",
        "TCP's share",
        "simulated",
    ];
    let mut table = Table::new(heads);
    for point in &results.points {
        let mut row = vec![point.labels.join(", "), point.runs.len().to_string()];
        let measures: [fn(&RealMeasures) -> f64; 4] = [|m| m.share, |m| m.p10, |m| m.p90, |m| m.other_share];
        for of in measures {
            let means = [point.mean(|run| of(&run.real)), point.mean(|run| of(&run.simulated))];
            row.extend(means.map(|mean| format!("{mean:.2}")));
        }
        table.row(row);
    }
    print!("{table}");
    let mut table = Table::new(["claim", "measured", "for real", "simulated"]);
    for row in results.rows() {
        table.row([row.id.to_owned(), row.what, format!("{:.2}", row.real), format!("{:.2}", row.simulated)]);
    }
    print!("\n{table}");
}
