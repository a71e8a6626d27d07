//! What formulas ask of the loss predictors (Devdeep Ray's thesis, section 4.5.4).
//!
//! | function | gives |
//! |---|---|
//! | `predictor(name, set)` | what a predictor of `framewire predict list` is worth on a set of runs, by name: see [`Worth`] |
//! | `loss_shares(set)`, `loss_shares(set, family)` | of each 80 ms in which a packet was lost: the share of its packets lost, in percent |
//!
//! Sets are `scenarios` (scenarios that neither trained the network nor chose its threshold) and `recorded`
//! (recorded traces, which nothing was fitted to). A set is run once in a process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lab::run::{Windows, windows};
use lab::scenario::Scenario;
use rhai::{Array, Dynamic, Engine, Map};

use crate::judge::{Answered, Point, auc, judge, loss_shares, trade_off};
use crate::measure::{Answer, curve, floats, refuse};
use crate::scenes::{Scene, is_tested, random, recorded};

/// The dataset that the shipped network comes from: runs of each family, seconds of virtual time, seed
/// (docs/loss-predictor.md). Every fifth run tests.
const DATASET: (u32, u32, u64) = (100, 60, 1);
/// Seconds of virtual time over each recorded trace, and the seed.
const RECORDED: (u32, u64) = (120, 1);
/// Where traces of models are kept.
const TRACES: &str = "out/lab/traces/predictor";

pub(crate) fn register(engine: &mut Engine) {
    engine.register_fn("predictor", |name: &str, set: &str| -> Answer<Map> {
        Ok(worth(name, Set::of(set)?).or_else(refuse)?.map())
    });
    let shares = |set: &str, of: &dyn Fn(&str) -> bool| {
        let runs = Set::of(set)?.runs().or_else(refuse)?;
        let wanted = runs.iter().filter(|run| of(run.family));
        Answer::Ok(floats(wanted.flat_map(|run| loss_shares(&run.seen.fates))))
    };
    engine.register_fn("loss_shares", move |set: &str| -> Answer<Array> { shares(set, &|_| true) });
    engine.register_fn("loss_shares", move |set: &str, family: &str| -> Answer<Array> {
        shares(set, &|of| of == family)
    });
}

/// Runs that predictors are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Set {
    Scenarios,
    Recorded,
}

/// A run of a set, and the family of scenarios or traces that it belongs to.
struct Run {
    family: &'static str,
    seen: Windows,
}

type Runs = Result<Vec<Run>, String>;

impl Set {
    fn of(name: &str) -> Answer<Set> {
        match name {
            "scenarios" => Ok(Set::Scenarios),
            "recorded" => Ok(Set::Recorded),
            _ => {
                let instead = units::instead(name, &["scenarios", "recorded"]);
                refuse(format!("no runs are called `{name}`; {instead}"))
            }
        }
    }

    /// The set's runs; whoever comes second waits.
    fn runs(self) -> Result<&'static [Run], String> {
        static SCENARIOS: OnceLock<Runs> = OnceLock::new();
        static RECORDED: OnceLock<Runs> = OnceLock::new();
        let known = match self {
            Set::Scenarios => &SCENARIOS,
            Set::Recorded => &RECORDED,
        };
        known.get_or_init(|| self.run()).as_deref().map_err(Clone::clone)
    }

    fn run(self) -> Runs {
        let folder = Path::new(TRACES);
        let run = |scene: &Scene| {
            let file = folder.join(format!("{}.toml", scene.name));
            let scenario = Scenario::parse(&scene.text, &file).map_err(|error| error.to_string())?;
            let seen = windows(&scenario).map_err(|error| error.to_string())?;
            Ok(Run { family: scene.family, seen })
        };
        self.scenes(folder)?.iter().map(run).collect()
    }

    fn scenes(self, folder: &Path) -> Result<Vec<Scene>, String> {
        let (runs, seconds, seed) = DATASET;
        let trouble = |error: std::io::Error| format!("{}: {error}", folder.display());
        match self {
            Set::Scenarios => {
                std::fs::create_dir_all(folder).map_err(trouble)?;
                random((0..runs).filter(|&number| is_tested(number)), seconds, seed, folder).map_err(trouble)
            }
            Set::Recorded => recorded(RECORDED.0, RECORDED.1),
        }
    }
}

/// What a predictor is worth on a set of runs.
#[derive(Clone, Debug, PartialEq)]
struct Worth {
    /// `auc`: area under the ROC curve.
    auc: f64,
    /// At the predictor's own threshold: `recall`, `precision`, `covered`, `foretold` (shares), and
    /// `false_triggers` (a second).
    at_threshold: Point,
    /// `windows` judged, ...
    windows: usize,
    /// ... and, as `lossy`, those of them before a loss.
    lossy: usize,
    /// `trade_off`: recall over false triggers a second, from high thresholds to low ones.
    trade_off: Vec<(f64, f64)>,
}

impl Worth {
    fn of(name: &str, runs: &[Run]) -> Result<Worth, String> {
        let mut predictor = predict::build(name).map_err(|error| error.to_string())?;
        let said: Vec<Answered<'_>> =
            runs.iter().map(|run| Answered::by(predictor.as_mut(), &run.seen)).collect();
        let (windows, lossy) = crate::judge::windows(&said);
        Ok(Worth {
            auc: auc(&said),
            at_threshold: judge(&said, predictor.threshold()),
            windows,
            lossy,
            trade_off: trade_off(&said),
        })
    }

    fn map(&self) -> Map {
        let point = &self.at_threshold;
        let numbers = [
            ("auc", self.auc),
            ("recall", point.recall),
            ("precision", point.precision),
            ("false_triggers", point.false_triggers),
            ("covered", point.covered),
            ("foretold", point.foretold),
            ("windows", self.windows as f64),
            ("lossy", self.lossy as f64),
        ];
        let numbers = numbers.into_iter().map(|(name, n)| (name.into(), Dynamic::from_float(n)));
        let trade_off = curve(self.trade_off.iter().copied());
        numbers.chain([("trade_off".into(), trade_off.into())]).collect()
    }
}

/// What the predictor `name` is worth on `set`, found once: an experiment asks for one number a formula.
fn worth(name: &str, set: Set) -> Result<Arc<Worth>, String> {
    static KNOWN: Mutex<BTreeMap<(String, Set), Arc<Worth>>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (name.to_owned(), set);
    if let Some(worth) = known().get(&key) {
        return Ok(worth.clone());
    }
    // The lock is not held meanwhile: another experiment asks of the other set.
    let found = Arc::new(Worth::of(name, set.runs()?)?);
    known().insert(key, found.clone());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_that_test_are_those_that_python_leaves_for_it() {
        let folder = std::env::temp_dir().join(format!("framewire-predictor-{}", std::process::id()));
        let scenes = Set::Scenarios.scenes(&folder).unwrap();
        let names: Vec<&str> = scenes.iter().map(|scene| scene.name.as_str()).collect();
        assert_eq!(
            (names.len(), names[0], names[1], names[119]),
            (120, "cubic-004", "cubic-009", "home-099")
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_wrong_name_is_told_what_there_is() {
        let error = Set::of("record").unwrap_err().to_string();
        assert!(error.contains("no runs are called `record`; did you mean `recorded`?"), "{error}");
        assert!(Worth::of("rnn", &[]).unwrap_err().contains("no loss predictor is called `rnn`"));
    }

    #[test]
    fn without_runs_nothing_is_known() {
        let worth = Worth::of("rtt", &[]).unwrap();
        assert!(worth.auc.is_nan() && worth.at_threshold.recall.is_nan() && worth.trade_off.is_empty());
        assert_eq!((worth.windows, worth.lossy), (0, 0));
    }
}
