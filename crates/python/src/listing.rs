//! What there is to choose from, as JSON: what `framewire controllers --json` and its like print.

use pyo3::prelude::*;
use serde_json::{Value, json};

fn options(options: &[(&str, &str)]) -> Vec<Value> {
    options.iter().map(|(name, help)| json!({ "name": name, "summary": help })).collect()
}

/// Every congestion controller.
#[pyfunction]
pub fn controllers() -> String {
    let row = |entry: &cc::Entry| {
        json!({
            "name": entry.name,
            "summary": entry.summary,
            "needs_frames": entry.needs_frames,
            "options": options(entry.options),
        })
    };
    cc::REGISTRY.iter().map(row).collect::<Value>().to_string()
}

/// Every queue discipline.
#[pyfunction]
pub fn queues() -> String {
    let row = |entry: &netsim::queue::Entry| {
        json!({
            "name": entry.name,
            "summary": entry.summary,
            "syntax": entry.syntax,
            "options": options(entry.options),
        })
    };
    netsim::queue::REGISTRY.iter().map(row).collect::<Value>().to_string()
}

/// Every playout policy.
#[pyfunction]
pub fn playouts() -> String {
    let row = |entry: &session::playout::Entry| json!({ "name": entry.name, "summary": entry.summary, "options": options(entry.options) });
    session::playout::REGISTRY.iter().map(row).collect::<Value>().to_string()
}

/// Every target of `fuzz` that comes along.
#[pyfunction]
pub fn targets() -> String {
    ccfuzz::PRESETS.iter().map(ccfuzz::Preset::json).collect::<Value>().to_string()
}
