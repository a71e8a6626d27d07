//! Every queue discipline by name. Scenario files, the command line and the documentation grow from this
//! table.

use std::fmt;
use std::str::FromStr;

use units::{Rate, Rng};

use super::options::Options;
use super::{Queue, codel, drophead, droptail, dualpi2, fq_codel, pie, red, sfq};
use crate::rate::RateProcess;
use crate::text::{self, TextError};

/// What a discipline may know about the link it serves.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The rate that limits given as a time refer to.
    pub reference: Rate,
    /// How fast the link is at any time, for limits that follow it.
    pub process: RateProcess,
    /// Seed of the run.
    pub seed: u64,
    /// The link's name; random streams of a discipline are called `<link>/queue`.
    pub link: String,
}

impl Setup {
    /// A link of this rate for tests.
    #[cfg(test)]
    pub(super) fn steady(rate: Rate) -> Setup {
        Setup { reference: rate, process: RateProcess::Constant(rate), seed: 1, link: "link".into() }
    }

    /// The discipline's random stream.
    pub fn rng(&self) -> Rng {
        Rng::stream(self.seed, &format!("{}/queue", self.link))
    }
}

/// A queue, or why its text could not be read.
pub type Built = Result<Box<dyn Queue>, TextError>;

/// One row: a queue discipline, or a preset of one.
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// How it is written: examples, separated by a comma and a blank.
    pub syntax: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The options it takes after its name, each with a line about it.
    pub options: &'static [(&'static str, &'static str)],
    /// Builds one.
    pub build: for<'a> fn(&Options<'a>, &Setup) -> Built,
}

impl Entry {
    /// The examples of [`syntax`](Entry::syntax), one by one.
    pub fn examples(&self) -> impl Iterator<Item = &'static str> {
        self.syntax.split(", ")
    }
}

/// All of them, in the order they are listed to people.
pub const REGISTRY: &[Entry] = &[
    droptail::ENTRY,
    drophead::ENTRY,
    droptail::INFINITE,
    codel::ENTRY,
    pie::RFC8033,
    pie::LINUX,
    pie::LINUX_OLD,
    sfq::ENTRY,
    fq_codel::ENTRY,
    dualpi2::RFC9332,
    dualpi2::LINUX,
    red::ENTRY,
];

/// A queue discipline and its arguments as text, known to be buildable.
#[derive(Clone, PartialEq, Eq)]
pub struct QueueSpec(String);

impl QueueSpec {
    /// First in, first out without a limit.
    pub fn infinite() -> QueueSpec {
        QueueSpec("infinite".to_owned())
    }

    /// The queue of a link described by `setup`.
    pub fn build(&self, setup: &Setup) -> Box<dyn Queue> {
        build(&self.0, setup).expect("built once already, when it was parsed")
    }
}

fn build(text: &str, setup: &Setup) -> Built {
    let (name, arguments) = text::split_name(text);
    let entry = REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<_> = REGISTRY.iter().map(|entry| entry.name).collect();
        let near = units::near_names(name, &names);
        let meant = REGISTRY.iter().filter(|entry| near.is_empty() || near.contains(&entry.name));
        let accepted: Vec<_> = meant.filter_map(|entry| entry.examples().next()).collect();
        TextError::new(text, "a queue", accepted.join(", "))
    })?;
    (entry.build)(&Options::read(entry, arguments)?, setup)
}

impl FromStr for QueueSpec {
    type Err = TextError;

    /// Reads what [`REGISTRY`] lists: `droptail:100p`, `infinite`, `codel:target=13ms,ecn`.
    fn from_str(text: &str) -> Result<QueueSpec, TextError> {
        // Whether the text holds does not depend on the link it is for.
        let setup =
            Setup { reference: Rate::ZERO, process: RateProcess::Infinite, seed: 0, link: String::new() };
        build(text.trim(), &setup).map(|_| QueueSpec(text.trim().to_owned()))
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;
    use units::Time;

    fn holds(text: &str) -> u32 {
        let setup = Setup::steady(Rate::from_mbps(20));
        let mut queue = text.parse::<QueueSpec>().unwrap().build(&setup);
        let mut drops = Vec::new();
        while queue.backlog().packets < 100_000
            && queue.enqueue(Time::ZERO, Packet::bare(0, 1500, Time::ZERO), &mut drops).is_ok()
        {}
        queue.backlog().packets
    }

    #[test]
    fn every_form_builds() {
        assert_eq!(holds("droptail:100p"), 100);
        assert_eq!(holds("droptail:300kB"), 200);
        assert_eq!(holds("droptail:120ms"), 200);
        assert_eq!(holds("droptail:100p,120ms"), 100);
        assert_eq!(holds("infinite"), 100_000);
    }

    /// Every discipline, in every form it is listed with, keeps track of each packet it was given.
    #[test]
    fn every_discipline_conserves_packets() {
        let setup = Setup::steady(Rate::from_mbps(20));
        for text in REGISTRY.iter().flat_map(Entry::examples) {
            let mut queue = text.parse::<QueueSpec>().unwrap().build(&setup);
            let mut rng = units::Rng::stream(1, text);
            let mut drops = Vec::new();
            let (mut offered, mut out) = (Vec::new(), Vec::new());
            for id in 0..20_000u32 {
                let now = Time::from_micros(u64::from(id) * 100);
                // Four arrivals to three departures: finite queues fill.
                if rng.chance(4.0 / 7.0) {
                    let size = 100 + rng.below(1400) as u32;
                    let packet = Packet { id, entered: now, ..Packet::bare(id as u16 % 5, size, now) };
                    offered.push(id);
                    if let Err(cause) = queue.enqueue(now, packet, &mut drops) {
                        drops.push((packet, cause));
                    }
                } else {
                    out.extend(queue.dequeue(now, &mut drops));
                }
                let waiting = queue.backlog().packets as usize;
                assert_eq!(offered.len(), out.len() + drops.len() + waiting, "{text}");
            }
            let end = Time::from_secs(3);
            out.extend(std::iter::from_fn(|| queue.dequeue(end, &mut drops)));
            assert_eq!(queue.backlog(), crate::queue::Backlog::default(), "{text}");
            let mut seen: Vec<_> = out.iter().chain(drops.iter().map(|drop| &drop.0)).map(|p| p.id).collect();
            seen.sort_unstable();
            assert_eq!(seen, offered, "{text}");
            assert!(text == "infinite" || !drops.is_empty(), "{text} never filled");
        }
    }

    #[test]
    fn errors_list_what_is_accepted() {
        let error = "blue:5".parse::<QueueSpec>().unwrap_err().to_string();
        let names = "`blue:5` is not a queue; accepted: droptail:100p, drophead:100p, infinite, codel";
        assert!(error.starts_with(names), "{error}");
        for bad in [
            "",
            "droptail",
            "droptail:",
            "droptail:0p",
            "droptail:-1p",
            "droptail:100",
            "infinite:3",
            "droptail:0ms",
        ] {
            assert!(bad.parse::<QueueSpec>().is_err(), "{bad}");
        }
    }
}
