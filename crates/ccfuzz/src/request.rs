//! What a person asks of a search, made a [`Target`]: of a scenario or preset, with some of it changed.

use lab::run::LabError;
use lab::scenario::Scenario;
use lab::scenario::patch::set;
use toml::Table;
use units::Span;

use crate::genome::Mode;
use crate::preset::Preset;
use crate::score::{Aim, Weights};
use crate::target::{Target, TargetError};

/// What differs from the scenario's or preset's own; nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Congestion controller of the first flow.
    pub cc: Option<String>,
    /// What is varied.
    pub mode: Option<Mode>,
    /// What is sought.
    pub aim: Option<Aim>,
    /// What is sought, as an expression.
    pub expression: Option<String>,
    /// Controllers that a network must be bearable for.
    pub reference: Option<Vec<String>>,
    /// Length of each run in virtual time.
    pub duration: Option<Span>,
    /// Count no cost of cross packets.
    pub free: bool,
}

impl Request {
    /// The target: `scenario` is that of `preset`, if one is asked for.
    ///
    /// # Errors
    /// [`TargetError`] if the scenario does not take what is asked, or can't be searched.
    pub fn target(&self, scenario: Scenario, preset: Option<&Preset>) -> Result<Target, TargetError> {
        let scenario = match &self.cc {
            Some(cc) => named(&scenario.with_cc(cc).map_err(LabError::from)?),
            None => scenario,
        };
        let scenario = match self.duration {
            Some(duration) => changed(&scenario, "duration", format!("{}ns", duration.as_nanos()))?,
            None => scenario,
        };
        let scenario = self.scored(scenario)?;
        let usual = || preset.map_or("traffic", |preset| preset.mode).parse().expect("a mode's own name");
        let own = || match &scenario.score.expression {
            Some(_) => Aim::Expression,
            None => preset.map_or(Aim::LowThroughput, |preset| preset.aim),
        };
        let (mode, aim) = (self.mode.unwrap_or_else(usual), self.aim.unwrap_or_else(own));
        let trace = if self.free { 0.0 } else { Weights::default().trace };
        Target::new(scenario, mode, aim, Weights { trace, ..Weights::default() })
    }

    /// The scenario with what was asked for in its `[score]`, so that checkpoints and findings keep it.
    fn scored(&self, scenario: Scenario) -> Result<Scenario, TargetError> {
        let scenario = match &self.expression {
            Some(text) => changed(&scenario, "score.expression", text.as_str())?,
            None => scenario,
        };
        match &self.reference {
            Some(list) => changed(&scenario, "score.reference", list.clone()),
            None => Ok(scenario),
        }
    }
}

/// The scenario under the name of its controller: a preset's says something else.
fn named(scenario: &Scenario) -> Scenario {
    let name = scenario.flows[0].cc.replace([':', ',', '='], "-");
    changed(scenario, "name", name).expect("a name is a text")
}

fn changed(scenario: &Scenario, field: &str, value: impl Into<toml::Value>) -> Result<Scenario, TargetError> {
    let mut table: Table = scenario.text.parse().expect("a scenario that was read is a table");
    set(&mut table, field, value.into()).map_err(TargetError::Unsuitable)?;
    let text = toml::to_string(&table).expect("a table can be written");
    Ok(Scenario::parse(&text, &scenario.file).map_err(LabError::from)?)
}
