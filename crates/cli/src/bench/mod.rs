//! `framewire bench`: how fast this build is on this machine. What is measured lives in `instruments`, but
//! for `browser`, which is about `framewire serve`. `docs/performance.md` says what each figure means.

pub mod args;
mod browser;
mod recovery;

use std::path::PathBuf;

use instruments::{
    Benchmark, controllers, fuzz, live, load, measure, predictor, real, scale, schedule, shadow, sim, vixnn,
};
#[cfg(target_os = "linux")]
use instruments::{link, uploads};
use media::Source;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::live::{Clip, Look, open};
use crate::output::{self, Terminal};
use crate::table::Table;
use crate::values::{Feed, Input, PictureSize};
use args::{Bench, Codec, Crowd, Measured};

type Run = fn(&Bench) -> Result<Benchmark, Failure>;

/// All benchmarks, in the order they run.
const EACH: &[(Measured, Run)] = &[
    (Measured::Sim, |_| Ok(sim::run())),
    (Measured::Load, one_load),
    (Measured::Controllers, |_| Ok(controllers::run(&Terminal))),
    (Measured::Scale, |_| Ok(scale::run(&Terminal))),
    (Measured::Fuzz, |_| Ok(fuzz::run(&Terminal))),
    (Measured::Predictor, |_| Ok(predictor::run(&Terminal))),
    (Measured::Schedule, |_| Ok(schedule::run(&Terminal))),
    (Measured::Vixnn, |args| codec(&args.codec, args.size)),
    (Measured::Live, |args| whole_chain(&input(args))),
    (Measured::Real, |_| Ok(real::run(&Terminal)?)),
    (Measured::Shadow, |_| Ok(shadow::run(&Terminal)?)),
    #[cfg(target_os = "linux")]
    (Measured::Link, |_| Ok(link::run_all(&Terminal)?)),
    #[cfg(target_os = "linux")]
    (Measured::Ingest, |args| endpoint(&args.ingest, args.size, &input(args))),
    (Measured::Browser, |args| browser::run(&input(args))),
    #[cfg(target_os = "linux")]
    (Measured::Recovery, |args| recovery::run(&args.recovery, &input(args))),
];

/// Runs what was asked for and prints it.
pub fn bench(args: &Bench) -> Result<(), Failure> {
    args.recovery.check(args.what)?;
    args.ingest.check(args.what)?;
    args.codec.check(args.what)?;
    args.load.check(args.what)?;
    args.check()?;
    if cfg!(debug_assertions) {
        eprintln!("note: this is a debug build; its figures say nothing about a release build");
    }
    let mut results = Vec::new();
    for (what, run) in EACH {
        // The load of `sim` again, unless somebody describes another.
        let asked = args.what == Measured::All && *what != Measured::Load;
        if args.what == *what || asked {
            measure::reset_peak_memory();
            match run(args) {
                // Whoever asks for everything may lack the right to one of it.
                Err(Failure::Input(text)) if args.what == Measured::All => {
                    eprintln!("note: left out: {text}")
                }
                outcome => results.push(outcome?.json()),
            }
        }
    }
    if args.format.json {
        output::json(&json!({ "benchmarks": results }));
    } else {
        results.iter().for_each(print);
    }
    Ok(())
}

/// The clip for `live`: the one asked for, else the one `make demo` fetched, else the synthetic game.
fn input(args: &Bench) -> Input {
    let fetched = || Some(PathBuf::from(crate::demo::CLIP)).filter(|path| path.exists()).map(Input::File);
    args.input.clone().or_else(fetched).unwrap_or(Input::Synthetic)
}

/// `live` over a clip.
fn whole_chain(input: &Input) -> Result<Benchmark, Failure> {
    Ok(live::run(held(input)?.as_mut(), &input.to_string(), &Terminal)?)
}

/// The load that the flags describe.
fn one_load(args: &Bench) -> Result<Benchmark, Failure> {
    let usual = load::Settings::default();
    let settings = load::Settings {
        controller: args.load.controller.clone().unwrap_or(usual.controller),
        flows: args.load.flows.map_or(usual.flows, usize::from),
        video: args.load.video,
        hosts: args.load.hosts.unwrap_or(usual.hosts),
        report_every: args.load.report_every.unwrap_or(usual.report_every),
        rate: args.recovery.rate.unwrap_or(usual.rate),
        queue: args.load.queue.clone().unwrap_or(usual.queue),
        duration: args.recovery.duration.unwrap_or(usual.duration),
    };
    Ok(load::run(&settings)?)
}

/// Many uploads of a clip to one endpoint.
#[cfg(target_os = "linux")]
fn endpoint(crowd: &Crowd, size: Option<PictureSize>, input: &Input) -> Result<Benchmark, Failure> {
    let mut settings = uploads::Settings::new(std::env::current_exe().map_err(Failure::work)?);
    settings.uploads = crowd.uploads.map_or(settings.uploads, usize::from);
    settings.viewers = crowd.viewers.map_or(settings.viewers, usize::from);
    settings.size = size.map_or(settings.size, |size| (size.width, size.height));
    let mut clip = shown(input, settings.size)?;
    Ok(uploads::run(&settings, clip.as_mut(), &input.to_string(), &Terminal)?)
}

/// A network's encoder and decoder.
fn codec(codec: &Codec, size: Option<PictureSize>) -> Result<Benchmark, Failure> {
    let mut settings = vixnn::Settings::default();
    settings.size = size.map_or(settings.size, |size| (size.width, size.height));
    settings.model = codec.model.clone().unwrap_or(settings.model);
    if !codec.threads.is_empty() {
        settings.threads = codec.threads.iter().map(|&threads| usize::from(threads)).collect();
    }
    Ok(vixnn::run(&settings, &Terminal)?)
}

/// The part of a clip that is played again and again, 720p30.
fn held(input: &Input) -> Result<Box<dyn Source>, Failure> {
    shown(input, live::SIZE)
}

/// The same at another size.
fn shown(input: &Input, (width, height): (usize, usize)) -> Result<Box<dyn Source>, Failure> {
    let feed = Feed::Clip(input.clone());
    let look = Look { size: Some(PictureSize { width, height }), fps: Some(live::FPS), barcode: false };
    Ok(open(&Clip { input: &feed, look, length: Some(live::HELD) })?.0)
}

/// Prints the figures, and below them each list of objects as a table of its own.
fn print(result: &Value) {
    let mut table = Table::new([result["name"].as_str().unwrap_or_default(), ""]);
    let mut lists = Vec::new();
    for (key, value) in result.as_object().into_iter().flatten().filter(|(key, _)| key.as_str() != "name") {
        let of_strategies = (key == "strategies").then(|| value.as_array()).flatten();
        match of_strategies.map(|rows| recovery::table(rows)).or_else(|| listed(value)) {
            Some(list) => lists.push(list),
            None => table.row([key.clone(), written(value)]),
        }
    }
    println!("{table}");
    lists.iter().for_each(|list| println!("{list}"));
}

/// A list of objects as a table, if `value` is one; its heads are the first object's keys.
fn listed(value: &Value) -> Option<Table> {
    let rows: Vec<_> = value.as_array()?.iter().map(Value::as_object).collect::<Option<_>>()?;
    let mut table = Table::new(rows.first()?.keys().cloned());
    rows.iter().for_each(|row| table.row(row.values().map(written)));
    Some(table)
}

/// A value for people: whole numbers without a fraction, others with three digits.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64().unwrap_or(f64::NAN) {
            whole if whole.fract() == 0.0 => format!("{whole:.0}"),
            other => format!("{other:.3}"),
        },
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| format!("{key} {}", written(value)))
            .collect::<Vec<_>>()
            .join(", "),
        Value::Array(rows) => {
            rows.iter().map(|row| format!("[{}]", written(row))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_for_people() {
        let value = json!({ "a": 2.0, "b": [0.12345, "x"], "c": null });
        assert_eq!(written(&value), "a 2, b [0.123] [x], c null");
    }

    #[test]
    fn lists_of_objects_become_tables() {
        let value = json!([{ "name": "a", "n": 1 }, { "name": "b", "n": 20 }]);
        let table = listed(&value).unwrap().to_string();
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(listed(&json!([1, 2])).is_none() && listed(&json!("text")).is_none());
    }
}
