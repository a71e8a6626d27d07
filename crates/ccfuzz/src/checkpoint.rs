//! A search on disk, complete: what it was asked, and where it stands.
//!
//! ```text
//! framewire-ccfuzz 2 \n  head (JSON, one line) \n  networks  fingerprint (16 bytes, FNV-1a over all before)
//! network:  score  service  cross  outages  [call]   lists as their length and the differences, seven bits a byte; the call where it is varied
//! ```
//!
//! Every random draw is named after its generation, so this is all a search needs to go on as if nothing had
//! happened.

use std::io::Write;
use std::path::{Path, PathBuf};

use experiments::Fingerprint;
use lab::files::{WriteError, write_whole};
use lab::scenario::Scenario;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::genome::{Genome, Mode, Outage};
use crate::plan::Plan;
use crate::score::{Aim, Score, Weights};
use crate::search::{Individual, Search};
use crate::target::Target;

const MAGIC: &[u8] = b"framewire-ccfuzz 2\n";
/// Larger than any search this can make: 20000 networks of 240 kB.
const LARGEST: u64 = 8 << 30;

/// A checkpoint that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct CheckpointError {
    /// The checkpoint's file.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub what: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    scenario: String,
    file: PathBuf,
    mode: Mode,
    aim: Aim,
    weights: Weights,
    plan: Plan,
    generations: u32,
    evaluations: u64,
    mark: Option<f64>,
    stale: u32,
    networks: usize,
}

/// Writes a search to `path`, whole or not at all.
///
/// # Errors
/// [`WriteError`] naming the file.
pub fn write(path: &Path, search: &Search, target: &Target) -> Result<(), WriteError> {
    let bytes = encode(search, target);
    write_whole(path, |file| file.write_all(&bytes))
}

/// Reads a search and its target.
///
/// # Errors
/// [`CheckpointError`] naming the file and what is wrong with it.
pub fn read(path: &Path) -> Result<(Search, Target), CheckpointError> {
    let refuse = |what: String| CheckpointError { path: path.to_owned(), what };
    let size = std::fs::metadata(path).map_err(|error| refuse(error.to_string()))?.len();
    if size > LARGEST {
        return Err(refuse(format!("{size} bytes are more than a checkpoint has")));
    }
    let bytes = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
    decode(&bytes).map_err(refuse)
}

/// A search as the bytes of its checkpoint.
pub fn encode(search: &Search, target: &Target) -> Vec<u8> {
    let head = Head {
        scenario: target.scenario.text.clone(),
        file: target.scenario.file.clone(),
        mode: target.mode,
        aim: target.aim,
        weights: target.weights,
        plan: search.plan,
        generations: search.generations,
        evaluations: search.evaluations,
        mark: search.mark,
        stale: search.stale,
        networks: search.islands.iter().map(Vec::len).sum(),
    };
    let mut out = MAGIC.to_vec();
    out.extend(serde_json::to_vec(&head).expect("numbers and text"));
    out.push(b'\n');
    search.islands.iter().flatten().for_each(|one| put_network(&mut out, one, target.mode.call));
    let mut print = Fingerprint::default();
    print.add_bytes(&out);
    out.extend(print.0.to_le_bytes());
    out
}

pub(crate) fn put_network(out: &mut Vec<u8>, one: &Individual, has_call: bool) {
    put_score(out, &one.score);
    put_genome(out, &one.genome);
    if has_call {
        out.extend(one.genome.call.bytes());
    }
}

pub(crate) fn put_score(out: &mut Vec<u8>, score: &Score) {
    let Score { total, performance, stall, used, cross, cross_dropped, timeouts, hardship, loss, delay } =
        *score;
    let parts = [total, performance, stall, used, hardship, loss, delay];
    parts.iter().for_each(|value| out.extend(value.to_le_bytes()));
    [cross, cross_dropped, timeouts].iter().for_each(|value| out.extend(value.to_le_bytes()));
}

fn put_genome(out: &mut Vec<u8>, genome: &Genome) {
    put_rising(out, genome.service.iter().copied());
    put_rising(out, genome.cross.iter().copied());
    put_rising(out, genome.outages.iter().map(|outage| outage.at));
    genome.outages.iter().for_each(|outage| put_number(out, outage.lasts));
}

fn put_rising(out: &mut Vec<u8>, list: impl ExactSizeIterator<Item = u32>) {
    put_number(out, list.len() as u32);
    let mut last = 0;
    for number in list {
        put_number(out, number - last);
        last = number;
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A search and its target from the bytes of a checkpoint.
///
/// # Errors
/// What is wrong with them.
pub fn decode(bytes: &[u8]) -> Result<(Search, Target), String> {
    let broken = || "it is no checkpoint of this version, or damaged; begin again without it".to_owned();
    let (body, print) = bytes.split_last_chunk::<16>().ok_or_else(broken)?;
    let mut found = Fingerprint::default();
    found.add_bytes(body);
    if found.0.to_le_bytes() != *print {
        return Err(broken());
    }
    let rest = body.strip_prefix(MAGIC).ok_or_else(broken)?;
    let end = rest.iter().position(|&byte| byte == b'\n').ok_or_else(broken)?;
    let head: Head = serde_json::from_slice(&rest[..end]).map_err(|error| error.to_string())?;
    let mut networks = Vec::new();
    let mut body = Body(&rest[end + 1..]);
    for _ in 0..head.networks {
        networks.push(body.network(head.mode.call).ok_or_else(broken)?);
    }
    let plan = head.plan;
    let fits = networks.is_empty() || networks.len() == plan.population();
    if !fits || !body.0.is_empty() || plan.per_island == 0 {
        return Err(broken());
    }
    let scenario = Scenario::parse(&head.scenario, &head.file).map_err(|error| error.to_string())?;
    let target =
        Target::new(scenario, head.mode, head.aim, head.weights).map_err(|error| error.to_string())?;
    let islands = networks.chunks(plan.per_island).map(<[Individual]>::to_vec).collect();
    let Head { generations, evaluations, mark, stale, .. } = head;
    Ok((Search { islands, generations, evaluations, mark, stale, ..Search::new(plan) }, target))
}

/// What is left to read.
pub(crate) struct Body<'a>(pub(crate) &'a [u8]);

impl Body<'_> {
    pub(crate) fn score(&mut self) -> Option<Score> {
        let mut float = || self.take().map(f64::from_le_bytes).filter(|value| value.is_finite());
        let [total, performance, stall, used] = [float()?, float()?, float()?, float()?];
        let [hardship, loss, delay] = [float()?, float()?, float()?];
        let mut count = || self.take().map(u32::from_le_bytes);
        let [cross, cross_dropped, timeouts] = [count()?, count()?, count()?];
        Some(Score { total, performance, stall, used, cross, cross_dropped, timeouts, hardship, loss, delay })
    }

    pub(crate) fn network(&mut self, has_call: bool) -> Option<Individual> {
        let score = self.score()?;
        let (service, cross) = (self.rising()?, self.rising()?);
        let starts = self.rising()?;
        let outage = |at: &u32| Some(Outage { at: *at, lasts: self.number()? });
        let outages = starts.iter().map(outage).collect::<Option<_>>()?;
        let call = if has_call { Call::from_bytes(self.take()?)? } else { Call::default() };
        Some(Individual { genome: Genome { service, cross, outages, call }, score })
    }

    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.take()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).ok();
            }
        }
        None
    }

    fn rising(&mut self) -> Option<Vec<u32>> {
        // Every entry takes a byte at least, so that what is claimed can't outgrow what is there.
        let length = self.number().filter(|&length| length as usize <= self.0.len())?;
        let mut last = 0u32;
        let mut next = || {
            last = last.checked_add(self.number()?)?;
            Some(last)
        };
        (0..length).map(|_| next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::Preset;
    use proptest::prelude::*;
    use units::Rng;

    fn target() -> Target {
        let text = Preset::find("cubic-burst").unwrap().scenario().text.replace("\"10s\"", "\"3s\"");
        let scenario = Scenario::parse(&text, Path::new("t.toml")).unwrap();
        Target::new(scenario, "traffic+loss".parse().unwrap(), Aim::Loss, Weights::default()).unwrap()
    }

    #[test]
    fn a_search_goes_on_as_if_nothing_had_happened() {
        let target = target();
        let plan = Plan { seed: 3, migrate_every: 2, ..Plan::of_size(8, 2).unwrap() };
        let (mut whole, mut first) = (Search::new(plan), Search::new(plan));
        let step =
            |search: &mut Search, target: &Target| _ = search.step(target, &[], &crate::Crew::of(2), &|_| {});
        (0..6).for_each(|_| step(&mut whole, &target));
        (0..3).for_each(|_| step(&mut first, &target));
        let (mut second, again) = decode(&encode(&first, &target)).unwrap();
        assert_eq!((second.islands.clone(), second.generations), (first.islands, 3));
        (0..3).for_each(|_| step(&mut second, &again));
        assert_eq!((second.islands, second.evaluations), (whole.islands, whole.evaluations));
    }

    #[test]
    fn damage_is_noticed() {
        let target = target();
        let mut search = Search::new(Plan::of_size(2, 1).unwrap());
        assert!(decode(&encode(&search, &target)).is_ok(), "one that has not begun");
        search.step(&target, &[], &crate::Crew::of(1), &|_| {});
        let bytes = encode(&search, &target);
        for at in [0, 30, bytes.len() / 2, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).unwrap_err().contains("damaged"));
        }
        assert!(decode(&bytes[..bytes.len() - 20]).is_err() && decode(b"").is_err());
        let missing = read(Path::new("/no/such")).unwrap_err().to_string();
        assert!(missing.starts_with("/no/such: "), "{missing}");
    }

    proptest! {
        #[test]
        fn networks_survive(seed: u64) {
            let space = target_space();
            let mode = Mode { link: true, traffic: true, loss: true, call: true };
            let genome = Genome::fresh(mode, &space, &mut Rng::stream(seed, "x"));
            let mut out = Vec::new();
            put_genome(&mut out, &genome);
            let (cross, cross_dropped, timeouts) = (7, 3, 2);
            let (stall, used, hardship, loss, delay) = (0.25, 0.5, 0.125, 0.375, 0.75);
            let (total, performance) = (1.5, 1.0);
            let score =
                Score { total, performance, stall, used, cross, cross_dropped, timeouts, hardship, loss, delay };
            let mut all = Vec::new();
            put_score(&mut all, &score);
            all.extend(out);
            all.extend(genome.call.bytes());
            prop_assert_eq!(Body(&all).network(true), Some(Individual { genome, score }));
        }

        #[test]
        fn no_bytes_make_it_panic_or_grow(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut body = Body(&bytes);
            while let Some(network) = body.network(false) {
                prop_assert!(network.genome.cross.len() <= bytes.len());
            }
            let _ = decode(&bytes);
        }
    }

    fn target_space() -> crate::Space {
        crate::Space { end: 2_000_000, slots: 500, most_cross: 500, most_outages: 20, k_agg: 50_000 }
    }
}
