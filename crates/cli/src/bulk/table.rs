//! `framewire bulk table`: the QUIC-DC paper's single-flow table, printed, simulated and for real.
//!
//! ```text
//!  paper       tables 1 to 4 of seed 001
//!  lab         our own protocol, always with something to send, in virtual time (the experiments quic-dc-*-bdp)
//!  simulated   quinn's state machine in virtual time
//!  real        quinn over sockets, through the same link on the real clock (real::Relay)
//! ```

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::thread;

use indicatif::ProgressBar;
use lab::run::{Outcome, RunOptions, run};
use lab::scenario::Scenario;
use netsim::{Link, LinkConfig, QueueSpec, RateProcess};
use quic::Congestion;
use real::quic::{Identity, Token, Trust};
use real::transfer::{FileReceiver, Store, Upload, Uploaded};
use real::{Limits, Relay, RelaySettings};
use record::Tap;
use serde_json::{Value, json};
use units::{Rate, Span};

use super::args::{self, PATIENCE};
use super::failed;
use super::paper::{self, Printed};
use super::send::zeros;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// The paper's link.
const RATE: Rate = Rate::from_mbps(10);
/// Half of its round trip.
const DELAY: Span = Span::from_millis(25);
/// Bytes of one bandwidth-delay product.
const BDP: f64 = 62_500.0;
/// Datagrams of every world but `lab` (which has 1472): what quinn's discovery finds on a path of 1500 bytes.
const MTU: u16 = 1452;

/// What one transfer gave.
#[derive(Clone, Copy, Debug)]
struct Figures {
    goodput_mbps: f64,
    rtt_ms: f64,
    std_ms: f64,
    loss_percent: f64,
}

impl From<Printed> for Figures {
    fn from(p: Printed) -> Figures {
        Figures { goodput_mbps: p.goodput, rtt_ms: p.rtt, std_ms: p.std, loss_percent: p.loss }
    }
}

impl From<&Uploaded> for Figures {
    fn from(sent: &Uploaded) -> Figures {
        let totals = sent.totals;
        Figures {
            goodput_mbps: sent.goodput_bps() / 1e6,
            rtt_ms: totals.rtt_mean_ms,
            std_ms: totals.rtt_std_ms,
            loss_percent: 100.0 * totals.lost as f64 / totals.sent.max(1) as f64,
        }
    }
}

/// A line of the table: a buffer, a controller and what each world gave.
struct Line {
    buffer: f64,
    controller: String,
    worlds: Vec<(&'static str, Figures)>,
}

/// Runs the table.
pub fn table(args: &args::Table) -> Result<(), Failure> {
    let own: Vec<String> = args.cc.iter().flat_map(|list| list.0.clone()).collect();
    let names = if own.is_empty() { paper::CONTROLLERS.map(str::to_owned).to_vec() } else { own };
    let cases: Vec<(f64, String)> =
        args.buffers.iter().flat_map(|&b| names.iter().map(move |name| (b, name.clone()))).collect();
    for (buffer, name) in &cases {
        Congestion::new(&controller(name, *buffer)?).map_err(Failure::input)?;
    }
    let bar = output::progress(cases.len() as u64, "transfers");
    let lines =
        cases.iter().map(|(buffer, name)| line(args, *buffer, name, &bar)).collect::<Result<Vec<_>, _>>();
    bar.finish_and_clear();
    report(args, &lines?);
    Ok(())
}

/// The controller that `name` stands for with this buffer: `quic-dc 50%` is a threshold of half of its drain
/// time.
fn controller(name: &str, buffer: f64) -> Result<String, Failure> {
    if !(0.1..=100.0).contains(&buffer) {
        return Err(Failure::Input(format!("--buffers: {buffer} is not between 0.1 and 100 BDP")));
    }
    let Some(percent) = name.strip_prefix("quic-dc ").and_then(|text| text.strip_suffix('%')) else {
        return Ok(name.to_owned());
    };
    Ok(format!("quic-dc:threshold={percent}%,buffer={}us", drain(buffer).as_micros()))
}

/// How long a full buffer takes to drain.
fn drain(buffer: f64) -> Span {
    RATE.time_to_send(units::Bytes::new((BDP * buffer) as u64))
}

fn line(args: &args::Table, buffer: f64, name: &str, bar: &ProgressBar) -> Result<Line, Failure> {
    let cc = controller(name, buffer)?;
    bar.set_message(format!("{buffer} BDP, {name}"));
    let mut worlds: Vec<(&'static str, Figures)> = Vec::new();
    worlds.extend(paper::printed(name, buffer).map(|printed| ("paper", printed.into())));
    let size = args.size.get();
    worlds.push(("lab", in_virtual_time(&cc, buffer, size, "backlog")?));
    worlds.push(("simulated", in_virtual_time(&cc, buffer, size, "quic")?));
    if !args.simulate {
        worlds.push(("real", Figures::from(&in_real_time(&cc, buffer, size)?)));
    }
    bar.inc(1);
    Ok(Line { buffer, controller: name.to_owned(), worlds })
}

/// The transfer in virtual time: of `size` bytes by QUIC, or for as long as that takes at the link's rate by
/// our own protocol.
fn in_virtual_time(cc: &str, buffer: f64, size: u64, source: &str) -> Result<Figures, Failure> {
    let ideal = size as f64 * 8.0 / RATE.as_f64();
    // Five times the ideal is more than a third of the rate, the worst that the paper prints, would take.
    let (duration, more) = match source {
        "quic" => (5.0 * ideal + 5.0, format!("mtu = \"{MTU}B\"\nworkload = \"transfer:{size}B\"")),
        _ => (1.1 * ideal, "mtu = \"1472B\"".to_owned()),
    };
    let text = format!(
        "duration = \"{duration}s\"\n[link]\nrate = \"{}bit\"\ndelay = \"{}us\"\nqueue = \"droptail:{}B\"\n\
         [[flow]]\ncc = \"{cc}\"\nsource = \"{source}\"\n{more}\n",
        RATE.as_bps(),
        DELAY.as_micros(),
        BDP * buffer,
    );
    let scenario = Scenario::parse(&text, Path::new("table.toml")).map_err(Failure::input)?;
    let outcome = run(&scenario, &RunOptions::default()).map_err(Failure::work)?;
    figures(&outcome, size, duration, source)
}

fn figures(outcome: &Outcome, size: u64, duration: f64, source: &str) -> Result<Figures, Failure> {
    let flow = &outcome.record.flows[0];
    let took = flow.observed.get("transfer_s").and_then(|rows| rows.first()).map(|(_, seconds)| *seconds);
    let goodput_bps = match (source, took) {
        ("quic", Some(seconds)) => size as f64 * 8.0 / seconds,
        ("quic", None) => return Err(Failure::Work("the simulated transfer did not end".to_owned())),
        _ => flow.totals.received_bytes as f64 * 8.0 / duration,
    };
    let samples = flow.rtt.iter().map(|sample| sample.latest.as_millis_f64());
    let n = flow.rtt.len().max(1) as f64;
    let mean = samples.clone().sum::<f64>() / n;
    let variance = samples.map(|ms| (ms - mean).powi(2)).sum::<f64>() / n;
    Ok(Figures {
        goodput_mbps: goodput_bps / 1e6,
        rtt_ms: mean,
        std_ms: variance.sqrt(),
        loss_percent: 100.0 * flow.totals.given_up as f64 / flow.totals.sent.max(1) as f64,
    })
}

/// The transfer over sockets of this machine, through the paper's link.
fn in_real_time(cc: &str, buffer: f64, size: u64) -> Result<Uploaded, Failure> {
    let anywhere: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let identity = Identity::self_signed(&["localhost".to_owned()]).map_err(Failure::work)?;
    let token = Token::generate();
    let mut receiver =
        FileReceiver::open(anywhere, &identity, token.clone(), FileReceiver::limits()).map_err(failed)?;
    let mut relay = link(anywhere, receiver.local().map_err(Failure::work)?, buffer)?;
    let (near, stop) = (relay.local(), relay.stop());
    let upload = Upload {
        peer: near,
        host: "localhost",
        trust: Trust::Pin(identity.fingerprint()),
        token: &token,
        name: "zeros",
        congestion: Congestion::new(cc).map_err(Failure::input)?,
        mtu: Some(MTU),
        patience: PATIENCE,
    };
    let go_on = || ControlFlow::Continue(());
    let sent = thread::scope(|scope| {
        scope.spawn(|| relay.run(&Limits::default(), &mut |_| go_on()));
        let over = stop.clone();
        scope.spawn(move || {
            receiver.run(size, &Store::nowhere(), &mut |_| {
                if over.is_asked() { ControlFlow::Break(()) } else { go_on() }
            });
        });
        let sent = upload.run(&mut zeros(size), &mut |_| go_on());
        stop.stop();
        sent
    });
    sent.map_err(failed)
}

fn link(near: SocketAddr, far: SocketAddr, buffer: f64) -> Result<Relay, Failure> {
    let queue: QueueSpec = format!("droptail:{}B", BDP * buffer).parse().map_err(Failure::input)?;
    let ahead = LinkConfig::bottleneck(RateProcess::Constant(RATE), queue, DELAY);
    let back = LinkConfig::delay(DELAY);
    let settings = RelaySettings { open_to_all: true, ..RelaySettings::new(near, far) };
    let links = (Link::new(ahead, 1, "link", Tap::default()), Link::new(back, 1, "feedback", Tap::default()));
    Relay::open(&settings, links.0, links.1).map_err(Failure::work)
}

/// How QUIC-DC at half of a buffer of 2 BDP compares with NewReno, in each world that has both.
struct Goal {
    world: &'static str,
    /// Of NewReno's goodput; at least 0.97 is wanted.
    goodput: f64,
    /// Of NewReno's mean round trip; at most 0.8 is wanted.
    rtt: f64,
    /// Less NewReno's, in percent of packets; at most 0 is wanted.
    loss: f64,
}

impl Goal {
    fn is_met(&self) -> bool {
        self.goodput >= 0.97 && self.rtt <= 0.8 && self.loss <= 0.0
    }
}

fn goals(lines: &[Line]) -> Vec<Goal> {
    let find = |name: &str| lines.iter().find(|line| line.buffer == 2.0 && line.controller == name);
    let (Some(dc), Some(reno)) = (find("quic-dc 50%"), find("newreno")) else { return Vec::new() };
    let pairs = dc.worlds.iter().zip(&reno.worlds);
    pairs
        .map(|((world, dc), (_, reno))| Goal {
            world,
            goodput: dc.goodput_mbps / reno.goodput_mbps,
            rtt: dc.rtt_ms / reno.rtt_ms,
            loss: dc.loss_percent - reno.loss_percent,
        })
        .collect()
}

fn report(args: &args::Table, lines: &[Line]) {
    let goals = goals(lines);
    if args.format.json {
        return output::json(&as_json(args, lines, &goals));
    }
    let mut table =
        Table::new(["buffer", "controller", "world", "Mbit/s", "rtt mean ms", "rtt std ms", "loss %"]);
    for line in lines {
        for (world, figures) in &line.worlds {
            table.row([
                format!("{} BDP", line.buffer),
                line.controller.clone(),
                (*world).to_owned(),
                format!("{:.2}", figures.goodput_mbps),
                format!("{:.2}", figures.rtt_ms),
                format!("{:.2}", figures.std_ms),
                format!("{:.3}", figures.loss_percent),
            ]);
        }
    }
    print!("{table}");
    for goal in goals {
        println!(
            "{}: QUIC-DC at 50 % of 2 BDP has {:.3} of NewReno's goodput (at least 0.97), {:.3} of its mean RTT (at most 0.8), \
             {:+.3} % loss (at most 0): {}",
            goal.world,
            goal.goodput,
            goal.rtt,
            goal.loss,
            if goal.is_met() { "holds" } else { "does not hold" }
        );
    }
}

fn as_json(args: &args::Table, lines: &[Line], goals: &[Goal]) -> Value {
    let figures = |f: &Figures| {
        json!({ "goodput_mbps": f.goodput_mbps, "rtt_mean_ms": f.rtt_ms, "rtt_std_ms": f.std_ms,
                "loss_percent": f.loss_percent })
    };
    let line = |line: &Line| {
        let mut value = json!({ "buffer_bdp": line.buffer, "controller": line.controller });
        let worlds = line.worlds.iter().map(|(world, f)| ((*world).to_owned(), figures(f)));
        value.as_object_mut().into_iter().for_each(|object| object.extend(worlds.clone()));
        value
    };
    let goal = |g: &Goal| {
        json!({ "world": g.world, "goodput_ratio": g.goodput, "rtt_ratio": g.rtt, "loss_difference_percent": g.loss,
                "met": g.is_met() })
    };
    json!({
        "size_bytes": args.size.get(), "rate_bps": RATE.as_bps(), "one_way_delay_ms": DELAY.as_millis_f64(),
        "bdp_bytes": BDP, "lines": lines.iter().map(line).collect::<Vec<_>>(),
        "goals": goals.iter().map(goal).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_one_of_the_buffers_drain_time() {
        assert_eq!(controller("quic-dc 50%", 2.0).unwrap(), "quic-dc:threshold=50%,buffer=100000us");
        assert_eq!(controller("newreno", 2.0).unwrap(), "newreno");
        assert!(controller("newreno", 0.0).is_err());
    }

    #[test]
    fn in_virtual_time_quic_dc_keeps_newrenos_goodput_with_less_delay() {
        let lines: Vec<Line> = ["quic-dc 50%", "newreno"]
            .iter()
            .map(|name| {
                let cc = controller(name, 2.0).unwrap();
                let simulated = in_virtual_time(&cc, 2.0, 20_000_000, "quic").unwrap();
                Line { buffer: 2.0, controller: (*name).to_owned(), worlds: vec![("simulated", simulated)] }
            })
            .collect();
        let goal = &goals(&lines)[0];
        assert!(goal.goodput > 0.95 && goal.rtt < 0.85, "{} {} {}", goal.goodput, goal.rtt, goal.loss);
    }
}
