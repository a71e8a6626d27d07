//! The formulas of an experiment's metrics, over one run, and the language that they share with those of rows
//! ([`crate::answers`]).
//!
//! Formulas are [Rhai](https://rhai.rs) expressions. They see what is registered here and nothing else: no
//! clock, no files, no randomness, and only so many steps.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use rhai::packages::{Package, StandardPackage};
use rhai::{Array, Dynamic, Engine, EvalAltResult, FLOAT, INT, Map, Module, Shared};

use crate::crew::Crew;
use crate::probe::Probe;
use crate::value::{Value, number};

/// Steps a formula may take: far more than any sensible one, far fewer than an endless one.
const STEPS: u64 = 10_000_000;

pub(crate) type Answer<T> = Result<T, Box<EvalAltResult>>;

/// A formula's complaint.
pub(crate) fn refuse<T>(what: impl Into<String>) -> Answer<T> {
    Err(what.into().into())
}

thread_local! {
    /// The language's own functions, which each engine would register again: each run has two.
    static STANDARD: Shared<Module> = StandardPackage::new().as_shared_module();
}

pub(crate) fn engine() -> Engine {
    let mut engine = Engine::new_raw();
    engine.register_global_module(STANDARD.with(Shared::clone));
    engine.set_max_operations(STEPS);
    engine.set_max_expr_depths(128, 64);
    engine
        .register_fn("mean", |list: Array| numbers(&list).map(|of| of.iter().sum::<f64>() / of.len() as f64));
    engine.register_fn("least", |list: Array| {
        numbers(&list).map(|of| of.into_iter().fold(f64::INFINITY, f64::min))
    });
    engine.register_fn("most", |list: Array| {
        numbers(&list).map(|of| of.into_iter().fold(f64::NEG_INFINITY, f64::max))
    });
    engine.register_fn("percentile", |list: Array, p: Dynamic| {
        Answer::Ok(Probe::percentile_of(numbers(&list)?, as_number(&p)?))
    });
    engine.register_fn("correlation", |a: Array, b: Array, lag: Dynamic| {
        Answer::Ok(correlation(&pairs(&a)?, &pairs(&b)?, as_number(&lag)?))
    });
    engine.register_fn("ratios", |a: Array, b: Array| paired(&a, &b, |a, b| a / b));
    engine.register_fn("differences", |a: Array, b: Array| paired(&a, &b, |a, b| a - b));
    engine.register_fn("rising", |list: Array| numbers(&list).map(|of| of.is_sorted()));
    engine.register_fn("falling", |list: Array| numbers(&list).map(|of| of.is_sorted_by(|a, b| a >= b)));
    engine.register_fn("period", |points: Array| pairs(&points).map(|points| period(&points)));
    engine.register_fn("swing", |points: Array| pairs(&points).map(|points| swing(&points)));
    engine.register_fn("within", |a: Dynamic, least: Dynamic, most: Dynamic| {
        let (least, most) = (as_number(&least)?, as_number(&most)?);
        Answer::Ok((least..=most).contains(&as_number(&a)?))
    });
    super::theory::register(&mut engine);
    super::prism::register(&mut engine);
    super::predictor::register(&mut engine);
    super::upload::register(&mut engine);
    super::vixnn::register(&mut engine);
    engine.register_fn("close", |a: Dynamic, b: Dynamic, share: FLOAT| {
        let (a, b) = (as_number(&a)?, as_number(&b)?);
        Answer::Ok((a - b).abs() <= share * b.abs())
    });
    engine
}

pub(crate) fn as_number(value: &Dynamic) -> Answer<f64> {
    number(value).map_or_else(|| refuse(format!("a number is wanted here, not {}", value.type_name())), Ok)
}

pub(crate) fn numbers(list: &Array) -> Answer<Vec<f64>> {
    list.iter().map(as_number).collect()
}

/// Two lists, number by number.
fn paired(a: &Array, b: &Array, of: fn(f64, f64) -> f64) -> Answer<Array> {
    let (a, b) = (numbers(a)?, numbers(b)?);
    match a.len() == b.len() {
        true => Ok(floats(a.into_iter().zip(b).map(|(a, b)| of(a, b)))),
        false => refuse(format!("lists of {} and {} numbers", a.len(), b.len())),
    }
}

fn pairs(list: &Array) -> Answer<Vec<(f64, f64)>> {
    let pair = |item: &Dynamic| match item.read_lock::<Array>().map(|pair| numbers(&pair)) {
        Some(Ok(pair)) if pair.len() == 2 => Ok((pair[0], pair[1])),
        _ => refuse("a curve of points [x, y] is wanted here"),
    };
    list.iter().map(pair).collect()
}

/// Mean time between upward crossings of the middle: the period of something that swings.
fn period(points: &[(f64, f64)]) -> f64 {
    let middle = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
    let crossings: Vec<f64> = points
        .windows(2)
        .filter(|pair| pair[0].1 < middle && pair[1].1 >= middle)
        .map(|pair| pair[1].0)
        .collect();
    match crossings.as_slice() {
        [first, .., last] => (last - first) / (crossings.len() - 1) as f64,
        _ => f64::INFINITY,
    }
}

/// Pearson's correlation of a curve's points with another curve's latest value `lag` later; points before its
/// first are left out.
fn correlation(a: &[(f64, f64)], b: &[(f64, f64)], lag: f64) -> f64 {
    let later = |x: f64| b[..b.partition_point(|point| point.0 <= x + lag)].last().map(|point| point.1);
    let both: Vec<(f64, f64)> = a.iter().filter_map(|&(x, y)| Some((y, later(x)?))).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| both.iter().map(of).sum::<f64>() / both.len() as f64;
    let middle = (mean(|p| p.0), mean(|p| p.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| both.iter().map(|p| of(p.0 - middle.0, p.1 - middle.1)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

/// From the lowest to the highest value, but for a hundredth at either end.
fn swing(points: &[(f64, f64)]) -> f64 {
    let values = || points.iter().map(|p| p.1).collect();
    Probe::percentile_of(values(), 99.0) - Probe::percentile_of(values(), 1.0)
}

pub(crate) fn floats(values: impl IntoIterator<Item = f64>) -> Array {
    values.into_iter().map(Dynamic::from_float).collect()
}

pub(crate) fn curve(points: impl IntoIterator<Item = (f64, f64)>) -> Array {
    points.into_iter().map(|(x, y)| Dynamic::from(floats([x, y]))).collect()
}

/// One number for many.
type Fold = fn(Vec<f64>) -> f64;
/// A curve of a flow, in bins of a width.
type OfBins = fn(&Probe, usize, f64) -> Vec<(f64, f64)>;
/// What distribution a function summarises, as `NAME(flow, from, to)`.
type OfFlow = fn(&Probe, usize, f64, f64) -> Vec<f64>;

const OF_FLOWS: [(&str, OfFlow); 7] = [
    ("owd", Probe::delays),
    ("rtt", Probe::rtts),
    ("media", Probe::media),
    ("frame_delay", Probe::frame_delays),
    ("spacing", Probe::spacings),
    ("psnr", Probe::psnrs),
    ("ssim", Probe::ssims),
];

/// Numbers by name; or what is wrong with the text that asks for them.
pub type Reading = Result<BTreeMap<String, f64>, String>;

/// What another room measures, for formulas to ask: a function of a text that gives numbers by name.
#[derive(Clone, Copy, Debug)]
pub struct Instrument {
    /// The function's name.
    pub name: &'static str,
    /// What it gives for a text. What takes long is shared with the crew.
    pub measure: fn(&str, &Crew) -> Reading,
}

impl Instrument {
    fn register(self, engine: &mut Engine, crew: Arc<Crew>) {
        engine.register_fn(self.name, move |what: &str| -> Answer<Map> {
            let measured = (self.measure)(what, &crew).or_else(refuse)?;
            Ok(measured
                .into_iter()
                .map(|(name, number)| (name.into(), Dynamic::from_float(number)))
                .collect())
        });
    }
}

struct Asker {
    engine: Engine,
    probe: Rc<Probe>,
}

impl Asker {
    /// Registers `name(a, b, ...)` that asks about a flow.
    fn flow_fn3(&mut self, name: &str, ask: impl Fn(&Probe, usize, f64, f64) -> f64 + 'static) {
        let probe = self.probe.clone();
        self.engine.register_fn(name, move |flow: INT, from: Dynamic, to: Dynamic| {
            Answer::Ok(ask(&probe, known(&probe, flow)?, as_number(&from)?, as_number(&to)?))
        });
    }

    fn link_fn2(&mut self, name: &str, ask: impl Fn(&Probe, f64, f64) -> f64 + 'static) {
        let probe = self.probe.clone();
        self.engine.register_fn(name, move |from: Dynamic, to: Dynamic| {
            Answer::Ok(ask(&probe, as_number(&from)?, as_number(&to)?))
        });
    }

    fn flow_fn5(&mut self, name: &str, ask: impl Fn(&Probe, usize, [f64; 4]) -> f64 + 'static) {
        let probe = self.probe.clone();
        self.engine.register_fn(name, move |flow: INT, a: Dynamic, b: Dynamic, c: Dynamic, d: Dynamic| {
            let rest = [as_number(&a)?, as_number(&b)?, as_number(&c)?, as_number(&d)?];
            Answer::Ok(ask(&probe, known(&probe, flow)?, rest))
        });
    }

    fn distributions(&mut self) {
        for (which, (name, values)) in OF_FLOWS.into_iter().enumerate() {
            let values = move |p: &Probe, flow: usize, from: f64, to: f64| {
                p.list((which, flow, from.to_bits(), to.to_bits()), || values(p, flow, from, to))
            };
            self.flow_fn3(&format!("{name}_mean"), move |p, f, a, b| Probe::mean_of(values(p, f, a, b)));
            self.flow_fn3(&format!("{name}_std"), move |p, f, a, b| Probe::deviation_of(values(p, f, a, b)));
            self.flow_fn3(&format!("{name}_min"), move |p, f, a, b| Probe::least_of(values(p, f, a, b)));
            self.flow_fn3(&format!("{name}_max"), move |p, f, a, b| Probe::most_of(values(p, f, a, b)));
            let probe = self.probe.clone();
            self.engine.register_fn(name, move |flow: INT, p: Dynamic, from: Dynamic, to: Dynamic| {
                let of = values(&probe, known(&probe, flow)?, as_number(&from)?, as_number(&to)?);
                Answer::Ok(Probe::percentile_of(of, as_number(&p)?))
            });
            let probe = self.probe.clone();
            self.engine.register_fn(format!("{name}_list"), move |flow: INT, from: Dynamic, to: Dynamic| {
                let of = values(&probe, known(&probe, flow)?, as_number(&from)?, as_number(&to)?);
                Answer::Ok(floats(of))
            });
            let probe = self.probe.clone();
            self.engine.register_fn(format!("{name}_cdf"), move |flow: INT, from: Dynamic, to: Dynamic| {
                let of = values(&probe, known(&probe, flow)?, as_number(&from)?, as_number(&to)?);
                Answer::Ok(curve(Probe::distribution(of)))
            });
        }
        self.link_fn2("queue_mean", |p, a, b| Probe::mean_of(p.queue(a, b)));
        self.link_fn2("backlog_max", |p, a, b| Probe::most_of(p.backlog(a, b)));
        self.flow_fn3("frame_cv", Probe::frame_variation);
        self.flow_fn3("lost_place_min", |p, f, a, b| Probe::least_of(p.lost_places(f, a, b)));
        self.link_fn2("queue_max", |p, a, b| Probe::most_of(p.queue(a, b)));
        let probe = self.probe.clone();
        self.link_fn2("waiting_mean", |p, a, b| Probe::mean_of(p.waiting(a, b)));
        let waited = probe.clone();
        self.engine.register_fn("waiting", move |p: Dynamic, from: Dynamic, to: Dynamic| {
            let waits = waited.waiting(as_number(&from)?, as_number(&to)?);
            Answer::Ok(Probe::percentile_of(waits, as_number(&p)?))
        });
        self.engine.register_fn("queue", move |p: Dynamic, from: Dynamic, to: Dynamic| {
            Answer::Ok(Probe::percentile_of(probe.queue(as_number(&from)?, as_number(&to)?), as_number(&p)?))
        });
    }

    fn rates(&mut self) {
        self.flow_fn3("rate", Probe::rate);
        self.flow_fn3("video", Probe::video);
        self.flow_fn3("frame_rate", Probe::frame_rate);
        self.flow_fn3("shown", Probe::shown);
        self.flow_fn3("sent", Probe::sent);
        self.flow_fn3("loss", Probe::loss);
        self.link_fn2("utilization", Probe::utilization);
        self.link_fn2("jain", Probe::jain);
        self.link_fn2("jain_mean", |p, a, b| Probe::mean_of(p.jain_windows(a, b)));
        self.link_fn2("jain_min", |p, a, b| Probe::least_of(p.jain_windows(a, b)));
        self.link_fn2("jain_p10", |p, a, b| Probe::percentile_of(p.jain_windows(a, b), 10.0));
        self.flow_fn5("rise", |p, f, [from, to, least, window]| p.rise(f, from, to, least, window));
        self.flow_fn5("video_rise", |p, f, [from, to, least, window]| {
            p.video_rise(f, from, to, least, window)
        });
        self.flow_fn3("spike", |p, f, change, until| p.spike(f, change, until - 5.0, until));
        let probe = self.probe.clone();
        self.engine.register_fn("rates", move |from: Dynamic, to: Dynamic| {
            Answer::Ok(floats(probe.rates(as_number(&from)?, as_number(&to)?)))
        });
        let probe = self.probe.clone();
        self.engine.register_fn("heights", move |flow: INT, from: Dynamic, to: Dynamic, step: Dynamic| {
            let (from, to, step) = (as_number(&from)?, as_number(&to)?, as_number(&step)?.max(1e-3));
            Answer::Ok(floats(probe.heights(known(&probe, flow)?, from, to, step)))
        });
        let probe = self.probe.clone();
        self.engine.register_fn("send_cv", move |flow: INT, width: Dynamic, from: Dynamic, to: Dynamic| {
            let (from, to) = (as_number(&from)?, as_number(&to)?);
            Answer::Ok(probe.send_variation(known(&probe, flow)?, as_number(&width)?, from, to))
        });
        let probe = self.probe.clone();
        self.engine.register_fn("narrow", move |flow: INT, from: Dynamic, to: Dynamic, bytes: Dynamic| {
            let (from, to, bytes) = (as_number(&from)?, as_number(&to)?, as_number(&bytes)?);
            Answer::Ok(curve(probe.narrow(known(&probe, flow)?, from, to, bytes)))
        });
    }

    /// Equation 10's frames, smoothed over `n`: `sim_rate(flow, n, p, from, to)` and the like.
    fn simulated(&mut self) {
        self.flow_fn5("sim_rate", |p, f, [n, share, a, b]| {
            Probe::percentile_of(p.simulated_rates(f, n as usize, a, b), share)
        });
        self.flow_fn5("sim_delay", |p, f, [n, share, a, b]| {
            Probe::percentile_of(p.simulated_delays(f, n as usize, a, b), share)
        });
        self.flow_fn3("sim_rate_mean", |p, f, a, b| Probe::mean_of(p.simulated_rates(f, 4, a, b)));
        self.flow_fn3("sim_delay_mean", |p, f, a, b| Probe::mean_of(p.simulated_delays(f, 4, a, b)));
    }

    fn inner(&mut self) {
        let of: [(&str, Fold); 3] =
            [("mean", Probe::mean_of), ("min", Probe::least_of), ("max", Probe::most_of)];
        for (suffix, fold) in of {
            let probe = self.probe.clone();
            let name = format!("observed_{suffix}");
            self.engine.register_fn(name, move |flow: INT, what: &str, from: Dynamic, to: Dynamic| {
                let (from, to) = (as_number(&from)?, as_number(&to)?);
                Answer::Ok(fold(probe.observed(known(&probe, flow)?, what, from, to)))
            });
        }
        let probe = self.probe.clone();
        self.engine.register_fn("observed", move |flow: INT, what: &str, from: Dynamic, to: Dynamic| {
            let (from, to) = (as_number(&from)?, as_number(&to)?);
            Answer::Ok(floats(probe.observed(known(&probe, flow)?, what, from, to)))
        });
    }

    fn curves(&mut self) {
        let probe = self.probe.clone();
        self.engine.register_fn("observed_curve", move |flow: INT, what: &str| {
            Answer::Ok(curve(probe.observed_curve(known(&probe, flow)?, what)))
        });
        let probe = self.probe.clone();
        self.engine.register_fn("frame_curve", move |flow: INT, from: Dynamic, to: Dynamic| {
            let (from, to) = (as_number(&from)?, as_number(&to)?);
            Answer::Ok(curve(probe.frame_curve(known(&probe, flow)?, from, to)))
        });
        let of: [(&str, OfBins); 3] = [
            ("rate_curve", Probe::rate_curve),
            ("video_curve", Probe::video_curve),
            ("owd_curve", Probe::delay_curve),
        ];
        for (name, points) in of {
            let probe = self.probe.clone();
            self.engine.register_fn(name, move |flow: INT, width: Dynamic| {
                let width = as_number(&width)?.max(1e-3);
                Answer::Ok(curve(points(&probe, known(&probe, flow)?, width)))
            });
        }
    }
}

impl Asker {
    /// What was seen, by whatever is known of quality, and by Prism's black-box model of a style's clip.
    fn pictures(&mut self) {
        self.flow_fn3("sqi", |p, f, a, b| p.pictures(f, a, b).sqi());
        self.flow_fn3("recovery_bytes", Probe::recovery_bytes);
        self.flow_fn3("high", |p, f, a, b| p.pictures(f, a, b).high(0.0));
        self.flow_fn3("late_by", |p, f, a, b| p.pictures(f, a, b).backlog().0);
        self.flow_fn3("catch_up", |p, f, a, b| p.pictures(f, a, b).backlog().1);
        let probe = self.probe.clone();
        self.engine.register_fn("prism_view", move |flow: INT, style: &str, from: Dynamic, to: Dynamic| {
            let (flow, from, to) = (known(&probe, flow)?, as_number(&from)?, as_number(&to)?);
            let known = crate::prism::surveyed(style)?;
            let shown = probe.modelled(flow, &known.0, from, to);
            let (events, ssims) = (shown.events(), shown.ssims());
            let all = [
                ("ssim", Probe::mean_of(ssims)),
                ("sqi", shown.sqi()),
                ("event_ssim", events.ssim),
                ("event_sqi", events.sqi),
                ("event_delay", events.delay),
                ("event_p95", events.p95),
                ("event_share", events.share),
            ];
            Answer::Ok(
                all.map(|(name, n)| (name.into(), Dynamic::from_float(n))).into_iter().collect::<Map>(),
            )
        });
    }
}

fn known(probe: &Probe, flow: INT) -> Answer<usize> {
    let known = usize::try_from(flow).ok().filter(|flow| (1..=probe.flows()).contains(flow));
    known.map_or_else(
        || refuse(format!("there is no flow {flow}; this run has flows 1 to {}", probe.flows())),
        Ok,
    )
}

/// Evaluates an experiment's metrics over one run, a point with these labels, by their axes' names.
pub(crate) fn measure(
    probe: &Rc<Probe>,
    labels: &BTreeMap<String, String>,
    metrics: &BTreeMap<String, String>,
    instruments: &[Instrument],
    crew: &Arc<Crew>,
) -> Result<BTreeMap<String, Value>, String> {
    let mut asker = Asker { engine: engine(), probe: probe.clone() };
    asker.distributions();
    asker.rates();
    asker.simulated();
    asker.inner();
    asker.curves();
    asker.pictures();
    instruments.iter().for_each(|instrument| instrument.register(&mut asker.engine, crew.clone()));
    let labels = labels.clone();
    asker.engine.register_fn("label", move |axis: &str| match labels.get(axis) {
        Some(label) => Answer::Ok(label.clone()),
        None => refuse(format!("there is no axis `{axis}`")),
    });
    let mut found = BTreeMap::new();
    for (name, formula) in metrics {
        let result =
            asker.engine.eval::<Dynamic>(formula).map_err(|error| format!("metric `{name}`: {error}"))?;
        let value = Value::of(&result).ok_or_else(|| {
            format!("metric `{name}` gives {}, not a number, list or curve", result.type_name())
        })?;
        found.insert(name.clone(), value);
    }
    Ok(found)
}
