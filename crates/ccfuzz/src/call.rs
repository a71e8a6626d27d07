//! The settings of a call as genes: what a search of our own session varies besides the network's timing.
//!
//! Levels are those of the grid's axes ([`experiments::grid::AXES`]), and the rate policies. A gene that is
//! not set leaves the target as it is.

use std::collections::BTreeMap;

use experiments::grid::{AXES, policies};
use lab::scenario::patch::set;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use units::{Rng, Span};

/// The genes, by the names of axes; `policy` is the rate policy.
const GENES: [&str; 6] = ["deadline", "fps", "policy", "loss", "rtt", "queue"];
/// Of the first generation, how many calls in a hundred set a gene: most networks differ in a few.
const SET: f64 = 0.3;

/// Settings of the flow under test and of its link. Zero is the target's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Call {
    levels: [u8; GENES.len()],
}

/// What a gene may be.
fn levels(gene: usize) -> Vec<&'static str> {
    match GENES[gene] {
        "policy" => policies().collect(),
        name => AXES.iter().find(|axis| axis.name == name).expect("a gene is an axis").levels.to_vec(),
    }
}

impl Call {
    /// One of the first generation.
    pub fn fresh(rng: &mut Rng) -> Call {
        let mut call = Call::default();
        for gene in 0..GENES.len() {
            if rng.chance(SET) {
                call.draw(gene, rng);
            }
        }
        call
    }

    fn draw(&mut self, gene: usize, rng: &mut Rng) {
        self.levels[gene] = 1 + rng.below(levels(gene).len() as u64) as u8;
    }

    /// A child of one parent: one gene drawn anew, or left to the target.
    pub fn mutated(mut self, rng: &mut Rng) -> Call {
        let gene = rng.below(GENES.len() as u64) as usize;
        if self.levels[gene] > 0 && rng.chance(SET) {
            self.levels[gene] = 0;
        } else {
            self.draw(gene, rng);
        }
        self
    }

    /// A child of two: each gene of one of them.
    pub fn crossed(mut self, other: Call, rng: &mut Rng) -> Call {
        for (own, others) in self.levels.iter_mut().zip(other.levels) {
            if rng.chance(0.5) {
                *own = others;
            }
        }
        self
    }

    /// Whether every setting is the target's own.
    pub fn is_plain(&self) -> bool {
        *self == Call::default()
    }

    /// How many genes are set.
    pub fn count(&self) -> usize {
        self.levels.iter().filter(|level| **level > 0).count()
    }

    /// The calls with one gene fewer.
    pub fn plainer(self) -> Vec<Call> {
        let without = |gene: usize| {
            let mut call = self;
            call.levels[gene] = 0;
            call
        };
        (0..GENES.len()).filter(|&gene| self.levels[gene] > 0).map(without).collect()
    }

    /// The genes as bytes, for checkpoints and fingerprints.
    pub fn bytes(&self) -> &[u8] {
        &self.levels
    }

    /// The call of these bytes, if it is one.
    pub fn from_bytes(bytes: [u8; GENES.len()]) -> Option<Call> {
        let known = bytes.iter().enumerate().all(|(gene, &level)| usize::from(level) <= levels(gene).len());
        known.then_some(Call { levels: bytes })
    }

    /// The genes that are set, with their values.
    fn set(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let value = |(gene, &level): (usize, &u8)| {
            Some((GENES[gene], levels(gene)[usize::from(level.checked_sub(1)?)]))
        };
        self.levels.iter().enumerate().filter_map(value)
    }

    /// Writes what is set into a scenario's table.
    ///
    /// # Errors
    /// Why the table does not take it.
    pub fn write(&self, table: &mut Table) -> Result<(), String> {
        for (gene, value) in self.set() {
            let text = || Value::String(value.to_owned());
            match gene {
                "deadline" => set(table, "flow[1].deadline", text())?,
                "fps" => set(table, "flow[1].encoder.fps", Value::Float(value.parse().unwrap_or(60.0)))?,
                "policy" => set(table, "flow[1].rate", text())?,
                "loss" => set(table, "link.loss", text())?,
                "rtt" => {
                    let rtt: Span = value.parse().unwrap_or_default();
                    set(table, "link.delay", Value::String(format!("{}us", rtt.as_micros() / 2)))?;
                }
                _ => set(table, "link.queue", Value::String(format!("droptail:{value}")))?,
            }
        }
        Ok(())
    }
}

impl From<Call> for BTreeMap<String, String> {
    fn from(call: Call) -> BTreeMap<String, String> {
        call.set().map(|(gene, value)| (gene.to_owned(), value.to_owned())).collect()
    }
}

impl TryFrom<BTreeMap<String, String>> for Call {
    type Error = String;

    fn try_from(set: BTreeMap<String, String>) -> Result<Call, String> {
        let mut call = Call::default();
        for (name, value) in &set {
            let gene = GENES.iter().position(|gene| gene == name);
            let gene = gene
                .ok_or_else(|| format!("`{name}` is no setting of a call; there are {}", GENES.join(", ")))?;
            let level = levels(gene).iter().position(|level| level == value);
            let level = level
                .ok_or_else(|| format!("`{value}` is no {name}; there are {}", levels(gene).join(", ")))?;
            call.levels[gene] = level as u8 + 1;
        }
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;
    use lab::scenario::Scenario;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn every_call_is_a_scenario_and_comes_back(seed: u64) {
            let mut rng = Rng::stream(seed, "x");
            let other = Call::fresh(&mut rng);
            let call = Call::fresh(&mut rng).mutated(&mut rng).crossed(other, &mut rng);
            let text = serde_json::to_string(&call).unwrap();
            prop_assert_eq!(serde_json::from_str::<Call>(&text).unwrap(), call);
            prop_assert_eq!(Call::from_bytes(call.bytes().try_into().unwrap()), Some(call));
            let mut table: Table = Preset::find("call").unwrap().scenario().text.parse().unwrap();
            call.write(&mut table).unwrap();
            let text = toml::to_string(&table).unwrap();
            prop_assert!(Scenario::parse(&text, "x.toml".as_ref()).is_ok(), "{}", text);
            prop_assert!(call.plainer().iter().all(|plainer| plainer.count() + 1 == call.count()));
        }
    }

    #[test]
    fn what_is_set_is_readable_and_what_is_not_known_is_refused() {
        let call: Call = serde_json::from_str(r#"{"deadline": "5s", "policy": "direct"}"#).unwrap();
        let mut table: Table = "[link]\n[[flow]]\ncc = \"sqp\"\n".parse().unwrap();
        call.write(&mut table).unwrap();
        let text = table.to_string();
        assert!(text.contains("deadline = \"5s\"") && text.contains("rate = \"direct\""), "{text}");
        let refused = |text: &str| serde_json::from_str::<Call>(text).unwrap_err().to_string();
        assert!(
            refused(r#"{"depth": "5s"}"#)
                .contains("`depth` is no setting of a call; there are deadline, fps")
        );
        assert!(refused(r#"{"fps": "61"}"#).contains("`61` is no fps; there are 5, 30, 60, 120"));
        assert_eq!(Call::from_bytes([9, 0, 0, 0, 0, 0]), None);
    }
}
