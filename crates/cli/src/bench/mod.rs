//! `framewire bench`: how fast this build is on this machine. `docs/performance.md` says what each figure means.

mod live;
mod measure;
mod sim;

use serde_json::{Map, Value, json};

use crate::args::{Bench, Measured};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

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
        results.push(live::run(args)?.json());
    }
    if args.format.json {
        output::json(&json!({ "benchmarks": results }));
    } else {
        results.iter().for_each(print);
    }
    Ok(())
}

fn print(result: &Value) {
    let mut table = Table::new([result["name"].as_str().unwrap_or_default(), ""]);
    for (key, value) in result.as_object().into_iter().flatten().filter(|(key, _)| key.as_str() != "name") {
        table.row([key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)]);
    }
    println!("{table}");
}
