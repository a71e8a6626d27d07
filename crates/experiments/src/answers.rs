//! What the runs of an experiment gave, for rows' formulas to ask; and which points they ask for.
//!
//! ```text
//! at("label", ...)          a map of a point's metrics, averaged over seeds
//! seeds("label", ...)       the list of such maps, one a seed
//! each("metric", "label")   a metric of all points with that label on the last axis, in their order
//! over("metric", "label")   its median, and pool("metric", "label") its lists, one behind the other
//! ```
//!
//! Where there is only one point, its metrics are plain names too.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rhai::{Array, Dynamic, Engine, FLOAT, Map, Scope};

use crate::measure::{Answer, engine, floats, numbers, refuse};
use crate::probe::Probe;
use crate::value::{Value, number};

/// A point's labels and its metrics, one map a seed.
pub(crate) type Measured = (Vec<String>, Vec<BTreeMap<String, Value>>);

/// A point's metrics as formulas see them.
#[derive(Clone, Default)]
struct Given {
    mean: Map,
    seeds: Array,
}

impl Given {
    fn of(seeds: &[BTreeMap<String, Value>]) -> Given {
        Given { mean: averaged(seeds), seeds: seeds.iter().map(plain).collect() }
    }
}

/// The points of an experiment.
struct Points {
    /// In their order, and what those gave that were run.
    all: Vec<(Vec<String>, Option<Given>)>,
    number: BTreeMap<Vec<String>, usize>,
    /// What is answered for a point that was not run: what another one gave, which has as many numbers in its
    /// lists, or nothing. So formulas go on, and ask for more.
    stand_in: Given,
    /// Those that were asked for and not run.
    wanted: RefCell<BTreeSet<usize>>,
}

impl Points {
    fn new(all: Vec<Vec<String>>, measured: &[Measured]) -> Points {
        let mut given: BTreeMap<&[String], Given> =
            measured.iter().map(|(labels, seeds)| (labels.as_slice(), Given::of(seeds))).collect();
        let stand_in = given.values().next().cloned().unwrap_or_default();
        let number = all.iter().cloned().zip(0..).collect();
        let with = |labels: Vec<String>| {
            let given = given.remove(labels.as_slice());
            (labels, given)
        };
        Points { all: all.into_iter().map(with).collect(), number, stand_in, wanted: RefCell::default() }
    }

    fn get(&self, number: usize) -> &Given {
        self.all[number].1.as_ref().unwrap_or_else(|| {
            self.wanted.borrow_mut().insert(number);
            &self.stand_in
        })
    }

    fn called(&self, labels: &[&Dynamic]) -> Answer<&Given> {
        let labels: Vec<String> = labels.iter().map(|label| label.to_string()).collect();
        match self.number.get(&labels) {
            Some(&number) => Ok(self.get(number)),
            None => refuse(format!("no point is called ({})", labels.join(", "))),
        }
    }

    /// A metric of all points with a label on the last axis, in the order of their other labels' text.
    fn each(&self, metric: &str, label: &str) -> Answer<Array> {
        let of = self.number.iter().filter(|(labels, _)| labels.last().is_some_and(|last| last == label));
        let values: Array =
            of.filter_map(|(_, &number)| self.get(number).mean.get(metric).cloned()).collect();
        match values.is_empty() {
            true => refuse(format!("no point of `{label}` has a metric `{metric}`")),
            false => Ok(values),
        }
    }
}

fn averaged(seeds: &[BTreeMap<String, Value>]) -> Map {
    let names = seeds.first().into_iter().flat_map(BTreeMap::keys);
    names
        .filter_map(|name| {
            let values: Vec<Value> = seeds.iter().filter_map(|seed| seed.get(name).cloned()).collect();
            Some((name.as_str().into(), Value::mean(&values)?.to_dynamic()))
        })
        .collect()
}

fn plain(seed: &BTreeMap<String, Value>) -> Dynamic {
    seed.iter().map(|(name, value)| (name.as_str().into(), value.to_dynamic())).collect::<Map>().into()
}

/// Evaluates rows' formulas.
pub(crate) struct Judge {
    engine: Engine,
    points: Rc<Points>,
}

impl Judge {
    /// Of an experiment with the points `all`, some of which were run.
    pub fn new(all: Vec<Vec<String>>, measured: &[Measured]) -> Judge {
        let axes = all.first().map_or(0, Vec::len);
        let mut judge = Judge { engine: engine(), points: Rc::new(Points::new(all, measured)) };
        // Where nothing is known, what a formula does with a metric that it asks for would be a guess.
        judge.engine.set_fail_on_invalid_map_property(measured.is_empty());
        judge.across();
        judge.look_up("at", axes, |given| given.mean.clone().into());
        judge.look_up("seeds", axes, |given| given.seeds.clone().into());
        judge
    }

    /// What a formula gives; a truth is 1 or 0.
    pub fn evaluate(&self, formula: &str) -> Result<f64, String> {
        let mut scope = Scope::new();
        if self.points.all.len() == 1 {
            for (name, value) in &self.points.get(0).mean {
                scope.push_dynamic(name.to_string(), value.clone());
            }
        }
        let result =
            self.engine.eval_with_scope::<Dynamic>(&mut scope, formula).map_err(|error| error.to_string())?;
        number(&result).ok_or_else(|| format!("it gives {}, not a number", result.type_name()))
    }

    /// Numbers of the points that formulas have asked for and that were not run. If there are any, what the
    /// formulas gave means nothing.
    pub fn wanted(&self) -> BTreeSet<usize> {
        self.points.wanted.take()
    }

    /// Registers what looks at a metric of all points with one label on the last axis.
    fn across(&mut self) {
        let points = self.points.clone();
        self.engine.register_fn("over", move |metric: &str, label: &str| {
            Answer::Ok(Probe::percentile_of(numbers(&points.each(metric, label)?)?, 50.0))
        });
        let points = self.points.clone();
        self.engine.register_fn("pool", move |metric: &str, label: &str| {
            let lists = points.each(metric, label)?.into_iter().map(|list| list.into_typed_array::<FLOAT>());
            let lists: Result<Vec<Vec<FLOAT>>, _> = lists.collect();
            lists.map_or_else(
                |kind| refuse(format!("`{metric}` is no list but {kind}")),
                |of| Ok(floats(of.concat())),
            )
        });
        let points = self.points.clone();
        self.engine.register_fn("each", move |metric: &str, label: &str| points.each(metric, label));
    }

    /// Registers a look-up by as many labels as there are axes.
    fn look_up(&mut self, name: &str, axes: usize, of: fn(&Given) -> Dynamic) {
        let points = self.points.clone();
        let find = move |labels: &[&Dynamic]| points.called(labels).map(of);
        let engine = &mut self.engine;
        match axes {
            0 => engine.register_fn(name, move || find(&[])),
            1 => engine.register_fn(name, move |a: Dynamic| find(&[&a])),
            2 => engine.register_fn(name, move |a: Dynamic, b: Dynamic| find(&[&a, &b])),
            3 => engine.register_fn(name, move |a: Dynamic, b: Dynamic, c: Dynamic| find(&[&a, &b, &c])),
            _ => engine.register_fn(name, move |a: Dynamic, b: Dynamic, c: Dynamic, d: Dynamic| {
                find(&[&a, &b, &c, &d])
            }),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(labels: &[&str]) -> Vec<Vec<String>> {
        labels.iter().map(|label| vec![(*label).to_owned()]).collect()
    }

    fn measured(label: &str, x: f64) -> Measured {
        let list = Value::List(vec![x, x + 1.0]);
        let seed = BTreeMap::from([("x".into(), Value::Number(x)), ("list".into(), list)]);
        (vec![label.to_owned()], vec![seed])
    }

    /// Numbers of the points that `formula` wants if those in `run` were run, and what it gives.
    fn asked(formula: &str, run: &[&str]) -> (Vec<usize>, Result<f64, String>) {
        let run: Vec<Measured> = run.iter().map(|label| measured(label, 2.0)).collect();
        let judge = Judge::new(points(&["a", "b", "c"]), &run);
        let given = judge.evaluate(formula);
        (judge.wanted().into_iter().collect(), given)
    }

    #[test]
    fn what_a_formula_asks_for_is_known_before_it_is_run() {
        for (formula, run, wanted) in [
            (r#"at("b").x / at("c").x"#, &["a"][..], &[1, 2][..]),
            (r#"at("b").x / at("c").x"#, &["b"], &[2]),
            (r#"at("b").x / at("c").x"#, &[], &[1]),
            (r#"at("b").list[1] / at("c").list[0]"#, &["a"], &[1, 2]),
            (r#"["a", "c"].map(|of| at(of).x)[0]"#, &["a"], &[2]),
            (r#"mean(each("x", "b")) + percentile(pool("list", "c"), 50)"#, &["a"], &[1, 2]),
            (r#"seeds("a")[0].x"#, &["a"], &[]),
        ] {
            assert_eq!(asked(formula, run).0, wanted, "{formula} {run:?}");
        }
        assert_eq!(asked(r#"at("a").x + at("b").x"#, &["a", "b"]), (vec![], Ok(4.0)));
        assert!(asked(r#"at("d").x"#, &["a"]).1.unwrap_err().contains("no point is called (d)"));
    }

    #[test]
    fn the_metrics_of_the_only_point_are_plain_names() {
        let judge = Judge::new(vec![vec![]], &[]);
        assert!(judge.evaluate("x").is_err());
        assert_eq!(judge.wanted(), BTreeSet::from([0]));
        let (_, seeds) = measured("", 2.0);
        let judge = Judge::new(vec![vec![]], &[(vec![], seeds)]);
        assert_eq!((judge.evaluate("x + list[1]"), judge.wanted().len()), (Ok(5.0), 0));
    }
}
