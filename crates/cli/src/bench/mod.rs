//! `framewire bench`: how fast this build is on this machine. `docs/performance.md` says what each figure means.

mod live;
mod loopback;
pub mod measure;
mod shadow;
mod sim;

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::args::{Bench, Measured};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;
use crate::values::Input;

/// One benchmark's result.
pub struct Benchmark {
    /// Its name.
    pub name: &'static str,
    /// Unit of `value`.
    pub unit: &'static str,
    /// The figure to compare.
    pub value: f64,
    /// Everything else it found.
    pub details: Map<String, Value>,
}

impl Benchmark {
    fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".into(), json!(self.name));
        object.insert("unit".into(), json!(self.unit));
        object.insert("value".into(), json!(self.value));
        object.insert("peak_rss_bytes".into(), json!(measure::peak_memory()));
        object.extend(self.details.clone());
        Value::Object(object)
    }
}

/// Runs what was asked for and prints it.
pub fn bench(args: &Bench) -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        eprintln!("note: this is a debug build; its figures say nothing about a release build");
    }
    let wanted = |what| args.what == what || args.what == Measured::All;
    let mut results = Vec::new();
    if wanted(Measured::Sim) {
        results.push(sim::run()?.json());
    }
    if wanted(Measured::Live) {
        results.push(live::run(&input(args))?.json());
    }
    if wanted(Measured::Shadow) {
        results.push(shadow::run()?.json());
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

fn print(result: &Value) {
    let mut table = Table::new([result["name"].as_str().unwrap_or_default(), ""]);
    for (key, value) in result.as_object().into_iter().flatten().filter(|(key, _)| key.as_str() != "name") {
        table.row([key.clone(), written(value)]);
    }
    println!("{table}");
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
}
