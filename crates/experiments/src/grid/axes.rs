//! What is varied: nine axes with their levels, and the scenario that a point of them is.

use std::fmt::Write;

use units::{Rate, Span};

use super::covering;
use super::reach;
use super::terms::Terms;
use lab::scenario::Scenario;

/// One axis. Labels are the values as a scenario writes them.
pub struct Axis {
    /// The axis' name in cells' names, such as `rtt`.
    pub name: &'static str,
    /// The values it takes, as scenarios write them.
    pub levels: &'static [&'static str],
    /// The level of the base point: an ordinary video call.
    pub base: usize,
    /// A level that puts little in the way of the other axes' levels: pairs are tried with it first.
    pub easy: usize,
}

/// The nine axes of the grid; a cell has a level of each.
pub const AXES: [Axis; 9] = [
    Axis { name: "rtt", levels: &["5ms", "40ms", "150ms", "300ms", "1s"], base: 1, easy: 1 },
    Axis {
        name: "rate",
        levels: &["64kbit", "300kbit", "1mbit", "5mbit", "20mbit", "2gbit"],
        base: 3,
        easy: 3,
    },
    Axis { name: "loss", levels: &["0%", "1%", "5%", "30%"], base: 0, easy: 0 },
    Axis { name: "deadline", levels: &["100ms", "400ms", "1s", "5s", "60s"], base: 1, easy: 3 },
    Axis { name: "fps", levels: &["5", "30", "60", "120"], base: 2, easy: 1 },
    Axis { name: "queue", levels: &["5p", "50ms", "200ms", "1s", "5s"], base: 2, easy: 3 },
    Axis { name: "beside", levels: &["nothing", "cbr", "poisson", "tcp"], base: 0, easy: 0 },
    Axis { name: "fault", levels: &["none", "drop", "blackout", "burst"], base: 0, easy: 0 },
    Axis { name: "encoder", levels: &["recorded", "perfect"], base: 0, easy: 0 },
];

const RTT: usize = 0;
const RATE: usize = 1;
const LOSS: usize = 2;
const DEADLINE: usize = 3;
const FPS: usize = 4;
const QUEUE: usize = 5;
const BESIDE: usize = 6;
const FAULT: usize = 7;
const ENCODER: usize = 8;

/// A level on every axis.
pub type Point = [usize; AXES.len()];

/// Why a cell is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// The base point.
    Base,
    /// The base point with one axis at another level.
    Alone,
    /// A row of the covering array.
    Pairs,
    /// A scenario file of `scenarios/beside`.
    Named,
}

/// The least rate of every cell's flow: libwebrtc's for video (`kDefaultMinVideoBitrateBps`).
const LEAST: &str = "30kbit";
/// The highest: what a 4K call at 60 frames/s takes. It bounds what the fastest links cost to simulate.
const MOST: &str = "50mbit";
/// Faults last from here ...
const FAULT_FROM: Span = Span::from_secs(10);
/// ... until here: long enough for a queue to fill and a controller to settle.
const DROP_UNTIL: Span = Span::from_secs(16);
const BLACKOUT_UNTIL: Span = Span::from_secs(12);
/// A burst of losses: so much of every [`BURST_PERIOD`] is lost.
const BURST_DARK: Span = Span::from_millis(10);
const BURST_PERIOD: Span = Span::from_millis(30);

fn level(point: &Point, axis: usize) -> &'static str {
    AXES[axis].levels[point[axis]]
}

/// The base point.
pub fn base() -> Point {
    AXES.each_ref().map(|axis| axis.base)
}

/// A point's name: its levels that are not the base's.
pub fn name(point: &Point) -> String {
    let differ = AXES.iter().zip(point).filter(|(axis, level)| axis.base != **level);
    let parts: Vec<String> =
        differ.map(|(axis, &level)| format!("{}={}", axis.name, axis.levels[level])).collect();
    if parts.is_empty() { "base".to_owned() } else { parts.join(" ") }
}

/// The scenario at a point, as text. `cc` and `rate` are the flow's controller and rate policy, the latter
/// left out for a preset that brings its own.
pub fn text(point: &Point, cc: &str, rate: Option<&str>) -> String {
    let rtt: Span = level(point, RTT).parse().expect("levels are quantities");
    let speed: Rate = level(point, RATE).parse().expect("levels are quantities");
    let (fault, beside) = (level(point, FAULT), level(point, BESIDE));
    // Twenty round trips more: what needs time needs it in round trips. A fault needs time after it.
    let more = if fault == "none" { 0 } else { 10 };
    let duration = Span::from_secs(30 + more) + rtt * 20;
    let mut text = format!(
        "name = \"{}\"\ndescription = \"A cell of the grid (docs/grid.md).\"\nduration = \"{duration}\"\n\n[link]\n",
        name(point)
    );
    if fault == "drop" {
        let slow = Rate::from_bps(speed.as_bps() / 4);
        let _ = writeln!(
            text,
            "steps = [[\"0s\", \"{0}bit\"], [\"{1}\", \"{2}bit\"], [\"{3}\", \"{0}bit\"]]",
            speed.as_bps(),
            FAULT_FROM,
            slow.as_bps(),
            DROP_UNTIL
        );
    } else {
        let _ = writeln!(text, "rate = \"{}\"", level(point, RATE));
    }
    let _ = writeln!(text, "delay = \"{}us\"\nqueue = \"{}\"", rtt.as_micros() / 2, queue(point, speed));
    if level(point, LOSS) != "0%" {
        let _ = writeln!(text, "loss = \"{}\"", level(point, LOSS));
    }
    text.push_str(&blackouts(fault));
    let policy = rate.map_or(String::new(), |rate| format!("rate = \"{rate}\"\n"));
    let _ = write!(
        text,
        "\n[[flow]]\ncc = \"{cc}\"\n{policy}min = \"{LEAST}\"\nmax = \"{MOST}\"\ndeadline = \"{}\"\n\n[flow.encoder]\n\
         behaviour = \"{}\"\nfps = {}.0\n",
        level(point, DEADLINE),
        level(point, ENCODER),
        level(point, FPS)
    );
    let cross = |kind: &str, rate: u64| format!("\n[[cross]]\nkind = \"{kind}\"\nrate = \"{rate}bit\"\n");
    text.push_str(&match beside {
        "cbr" => cross("cbr", speed.as_bps() / 2),
        "poisson" => cross("poisson", speed.as_bps() / 4),
        "tcp" => "\n[[flow]]\nname = \"tcp\"\ncc = \"cubic\"\nsource = \"tcp\"\n".to_owned(),
        _ => String::new(),
    });
    text
}

/// A queue in packets, or in time at the link's rate, of five full packets at least: less is the axis's
/// lowest level.
fn queue(point: &Point, rate: Rate) -> String {
    let label = level(point, QUEUE);
    match label.parse::<Span>() {
        Ok(span) => {
            let bytes = rate.bytes_in(span).get().max(5 * 1500);
            format!("droptail:{bytes}B")
        }
        Err(_) => format!("droptail:{label}"),
    }
}

fn blackouts(fault: &str) -> String {
    let spans: Vec<(Span, Span)> = match fault {
        "blackout" => vec![(FAULT_FROM, BLACKOUT_UNTIL)],
        "burst" => {
            let count = (BLACKOUT_UNTIL - FAULT_FROM).as_nanos() / BURST_PERIOD.as_nanos();
            (0..count).map(|n| FAULT_FROM + BURST_PERIOD * n).map(|at| (at, at + BURST_DARK)).collect()
        }
        _ => return String::new(),
    };
    let spans: Vec<String> = spans
        .iter()
        .map(|(from, to)| format!("[\"{}ms\", \"{}ms\"]", from.as_micros() / 1000, to.as_micros() / 1000))
        .collect();
    format!("blackout = [{}]\n", spans.join(", "))
}

/// The terms of a point.
fn terms(point: &Point) -> Terms {
    let text = text(point, "fixed", None);
    let scenario = Scenario::parse(&text, "grid.toml".as_ref()).expect("every point is a scenario");
    Terms::of(&scenario).expect("no point names a file")
}

/// Traffic beside the flow at 2 Gbit/s would take longer to simulate than all other cells together.
fn is_cheap(point: &Point) -> bool {
    level(point, RATE) != "2gbit" || level(point, BESIDE) == "nothing"
}

/// Every point of the grid: the base, each axis alone, and rows in which every pair of levels occurs that
/// some network in reach has.
pub fn points() -> Vec<(Group, Point)> {
    let base = base();
    let mut points = vec![(Group::Base, base)];
    for (axis, Axis { levels, .. }) in AXES.iter().enumerate() {
        for level in (0..levels.len()).filter(|&level| level != base[axis]) {
            let mut point = base;
            point[axis] = level;
            points.push((Group::Alone, point));
        }
    }
    let levels = AXES.each_ref().map(|axis| axis.levels.len());
    let easy = AXES.each_ref().map(|axis| axis.easy);
    let possible = |point: &Point| is_cheap(point) && reach::is_in_reach(&terms(point));
    let known: Vec<Point> = points.iter().map(|(_, point)| *point).filter(|point| possible(point)).collect();
    points
        .extend(covering::pairs(&levels, &easy, &known, possible).into_iter().map(|row| (Group::Pairs, row)));
    points
}
