//! What is to be run: every combination of the axes' values, each with every seed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use lab::Fingerprint;
use lab::scenario::Scenario;
use lab::scenario::patch::{Refusal, changed, literal};
use lab::summary::warnings;
use toml::Value;

use crate::axis::{Axis, Cell};
use crate::error::SweepError;
use crate::figures::COLUMNS_OF_RUN;

/// Most runs of a plan: the rows of all of them are in memory while tables are written, 5 kB a flow.
pub const MOST_RUNS: usize = 200_000;

/// The runs of a sweep, in a fixed order: the first axis varies slowest, the seed fastest.
#[derive(Clone, Debug)]
pub struct Plan {
    base: Scenario,
    axes: Vec<Axis>,
    seeds: Vec<u64>,
    /// Of all settings' texts and of the files that they name.
    prints: [String; 2],
    warnings: Vec<String>,
}

impl Plan {
    /// A plan of `base` under every combination of the values of `axes`, in their order, each with every seed
    /// of `seeds`. Every scenario of it is read and checked, and every file that one names is read.
    ///
    /// # Errors
    /// [`SweepError::Plan`] if an axis has no values, or one twice, or there are too many runs;
    /// [`SweepError::Setting`] naming axis and value where what comes of it is no scenario;
    /// [`SweepError::File`] where a file that a scenario names can't be read.
    pub fn new(base: &Scenario, axes: Vec<Axis>, seeds: Vec<u64>) -> Result<Plan, SweepError> {
        axes.iter().enumerate().try_for_each(|(index, axis)| check(axis, &axes[..index]))?;
        check_seeds(&seeds)?;
        let settings = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.values.len()));
        let runs = settings.and_then(|settings| settings.checked_mul(seeds.len()));
        if runs.is_none_or(|runs| runs > MOST_RUNS) {
            let runs = runs.map_or("more runs than can be counted".to_owned(), |runs| format!("{runs} runs"));
            return Err(SweepError::Plan(format!(
                "{runs}; a sweep has at most {MOST_RUNS}: take fewer values or seeds"
            )));
        }
        let mut plan = Plan { base: base.clone(), axes, seeds, prints: Default::default(), warnings: vec![] };
        plan.look_ahead()?;
        Ok(plan)
    }

    /// Reads the scenario of each setting, and the files they name.
    fn look_ahead(&mut self) -> Result<(), SweepError> {
        let (mut texts, mut files) = (Fingerprint::default(), BTreeSet::<PathBuf>::new());
        for setting in 0..self.settings_count() {
            let scenario = self.scenario_of(setting, self.seeds[0])?;
            texts.add(&scenario.text);
            files.extend(scenario.files());
            files.extend(models(&scenario));
            for warning in warnings(&scenario) {
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
            }
        }
        let mut contents = Fingerprint::default();
        for path in files {
            let bytes =
                std::fs::read(&path).map_err(|source| SweepError::File { path: path.clone(), source })?;
            contents.add(&path.to_string_lossy());
            contents.add_bytes(&bytes);
        }
        self.prints = [texts, contents].map(|print| print.to_string());
        Ok(())
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.settings_count() * self.seeds.len()
    }

    /// Whether there is nothing to run; no plan is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The scenario that is varied.
    pub fn base(&self) -> &Scenario {
        &self.base
    }

    /// What is varied.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The seeds of each setting.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// How many settings there are: combinations of values.
    pub fn settings_count(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// Of all settings' scenarios, and of the contents of the files that they name, as 32 hexadecimal digits
    /// each: what is in them decides what the runs are.
    pub fn prints(&self) -> &[String; 2] {
        &self.prints
    }

    /// What to know before the figures are believed, each sentence once
    /// ([`warnings`](lab::summary::warnings)).
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Run `index`'s setting, from 0, and its seed.
    ///
    /// # Panics
    /// If there is no such run.
    pub fn run(&self, index: usize) -> (usize, u64) {
        assert!(index < self.len(), "run {index} of {}", self.len());
        (index / self.seeds.len(), self.seeds[index % self.seeds.len()])
    }

    /// For each axis, which of its values a setting has.
    pub fn places(&self, setting: usize) -> Vec<usize> {
        let mut rest = setting;
        let mut places: Vec<usize> = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let place = rest % axis.values.len();
                rest /= axis.values.len();
                place
            })
            .collect();
        places.reverse();
        places
    }

    /// The values of run `index`, one for each axis, as columns have them.
    pub fn settings(&self, index: usize) -> Vec<Cell> {
        self.cells(self.run(index).0)
    }

    /// The values of a setting, one for each axis, as columns have them.
    pub fn cells(&self, setting: usize) -> Vec<Cell> {
        self.axes.iter().zip(self.places(setting)).map(|(axis, place)| axis.cell(place)).collect()
    }

    /// A setting for people: `link.rate=1mbit flow[1].cc=sqp`.
    pub fn name(&self, setting: usize) -> String {
        let pairs = self.axes.iter().zip(self.places(setting));
        let pairs = pairs.map(|(axis, place)| format!("{}={}", axis.field, axis.values[place]));
        pairs.collect::<Vec<_>>().join(" ")
    }

    /// The scenario of run `index`.
    ///
    /// # Errors
    /// [`SweepError::Setting`]; none of a plan that [`Plan::new`] made, unless a seed makes the difference.
    pub fn scenario(&self, index: usize) -> Result<Scenario, SweepError> {
        let (setting, seed) = self.run(index);
        self.scenario_of(setting, seed)
    }

    fn scenario_of(&self, setting: usize, seed: u64) -> Result<Scenario, SweepError> {
        let values = self.axes.iter().zip(self.places(setting));
        let mut changes: Vec<(String, Value)> =
            values.map(|(axis, place)| (axis.field.clone(), literal(&axis.values[place]))).collect();
        changes.push(("seed".to_owned(), Value::Integer(seed as i64)));
        changed(&self.base, &changes).map_err(|refusal| self.refused(setting, &refusal))
    }

    /// Names the axis that a refusal is about, or the whole setting where it is about another field.
    fn refused(&self, setting: usize, refusal: &Refusal) -> SweepError {
        let (field, what) = match refusal {
            Refusal::NoPlace { field, what } => (field, what),
            Refusal::NoScenario(error) => (&error.field, &error.what),
        };
        let about = |axis: &Axis| *field == axis.field || field.starts_with(&format!("{}.", axis.field));
        let at = self.axes.iter().zip(self.places(setting)).find(|(axis, _)| about(axis));
        match at {
            Some((axis, place)) => {
                let setting = format!("{}={}", axis.field, axis.values[place]);
                let what = if *field == axis.field { what.clone() } else { refusal.to_string() };
                SweepError::Setting { setting, what }
            }
            None => SweepError::Setting { setting: self.name(setting), what: refusal.to_string() },
        }
    }
}

fn check(axis: &Axis, before: &[Axis]) -> Result<(), SweepError> {
    let refuse = |what: String| Err(SweepError::Plan(format!("{}: {what}", axis.field)));
    if axis.values.is_empty() {
        return refuse("an axis has at least one value".to_owned());
    }
    if axis.field == "seed" {
        return refuse("seeds are no axis: say how many, or which, as seeds".to_owned());
    }
    if COLUMNS_OF_RUN.contains(&axis.field.as_str()) {
        return refuse("a column of the table has this name; name a field of it".to_owned());
    }
    if before.iter().any(|other| other.field == axis.field) {
        return refuse("is varied twice; give one axis all values".to_owned());
    }
    match axis.values.iter().enumerate().find(|(at, value)| axis.values[..*at].contains(value)) {
        Some((_, twice)) => refuse(format!("has the value `{twice}` twice")),
        None => Ok(()),
    }
}

fn check_seeds(seeds: &[u64]) -> Result<(), SweepError> {
    if seeds.is_empty() {
        return Err(SweepError::Plan("a sweep has at least one seed".to_owned()));
    }
    if let Some(seed) = seeds.iter().find(|&&seed| i64::try_from(seed).is_err()) {
        return Err(SweepError::Plan(format!("seed {seed}: the largest is {}", i64::MAX)));
    }
    let mut seen = BTreeSet::new();
    let twice = seeds.iter().find(|seed| !seen.insert(**seed));
    twice.map_or(Ok(()), |seed| Err(SweepError::Plan(format!("seed {seed} is there twice"))))
}

/// The files of weights that its encoders read.
fn models(scenario: &Scenario) -> Vec<PathBuf> {
    let videos = scenario.flows.iter().filter_map(|flow| flow.video());
    let models = videos.filter_map(|video| video.encoder.model.as_deref());
    let files = models.filter(|name| name.ends_with(".safetensors"));
    files.map(|name| scenario.beside(name.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    pub(crate) fn base() -> Scenario {
        let text = "duration = \"1s\"\n[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n";
        Scenario::parse(text, Path::new("base.toml")).unwrap()
    }

    fn refused(axes: Vec<Axis>, seeds: Vec<u64>) -> String {
        Plan::new(&base(), axes, seeds).unwrap_err().to_string()
    }

    #[test]
    fn the_first_axis_varies_slowest_and_the_seed_fastest() {
        let axes = vec![Axis::new("link.rate", ["1mbit", "2mbit"]), Axis::new("flow[1].cc", ["sqp", "gcc"])];
        let plan = Plan::new(&base(), axes, vec![7, 9]).unwrap();
        assert_eq!((plan.len(), plan.settings_count()), (8, 4));
        assert_eq!(plan.run(5), (2, 9));
        assert_eq!(plan.name(2), "link.rate=2mbit flow[1].cc=sqp");
        let scenario = plan.scenario(5).unwrap();
        assert_eq!((scenario.seed, scenario.flows[0].cc.as_str()), (9, "sqp"));
        let settings = serde_json::to_string(&scenario.settings).unwrap();
        assert_eq!(settings, r#"{"link.rate":"2mbit","flow[1].cc":"sqp","seed":9}"#);
    }

    #[test]
    fn what_is_wrong_is_named_before_anything_runs() {
        let axis = |field: &str, values: &[&str]| Axis::new(field, values.iter().copied());
        let message = refused(vec![axis("link.rate", &["1mbit", "3mbot"])], vec![1]);
        assert!(message.starts_with("link.rate=3mbot: "), "{message}");
        let message = refused(vec![axis("flow[1].cc", &["sqp", "spq"])], vec![1]);
        assert!(message.starts_with("flow[1].cc=spq: ") && message.contains("`sqp`"), "{message}");
        let message = refused(vec![axis("flow[2].cc", &["sqp"])], vec![1]);
        assert_eq!(message, "flow[2].cc=sqp: `flow` has 1 elements, counted from 1");
        let message = refused(vec![axis("link.trace", &["none.trace"]), axis("link.rate", &[""])], vec![1]);
        assert!(message.starts_with("none.trace: "), "{message}");
        for (axes, seeds, what) in [
            (vec![axis("link.rate", &[])], vec![1], "link.rate: an axis has at least one value"),
            (vec![axis("seed", &["1"])], vec![1], "seed: seeds are no axis"),
            (vec![axis("flow", &["1"])], vec![1], "flow: a column"),
            (vec![axis("link.rate", &["1mbit", "1mbit"])], vec![1], "link.rate: has the value `1mbit` twice"),
            (vec![axis("link.rate", &["1mbit"]); 2], vec![1], "link.rate: is varied twice"),
            (vec![], vec![], "a sweep has at least one seed"),
            (vec![], vec![3, 3], "seed 3 is there twice"),
            (vec![], vec![u64::MAX], "seed 18446744073709551615: the largest is 9223372036854775807"),
            (vec![], (0..200_001).collect(), "200001 runs; a sweep has at most 200000"),
        ] {
            let message = refused(axes, seeds);
            assert!(message.starts_with(what), "{message}");
        }
    }

    #[test]
    fn a_value_that_is_wrong_only_beside_another_names_both() {
        let axes = vec![Axis::new("warmup", ["0s", "2s"]), Axis::new("duration", ["3s", "1s"])];
        let message = refused(axes, vec![1]);
        assert!(message.contains("warmup=2s"), "{message}");
    }
}
