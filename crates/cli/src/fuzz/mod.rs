//! `framewire fuzz`: CC-Fuzz from the command line. `docs/fuzzing.md` is the manual.

pub mod args;
mod corpus;
mod found;
mod search;

use ccfuzz::{PRESETS, Preset};
use serde_json::json;

use crate::args::Format;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;
use args::Fuzz;

/// Does what was asked for.
pub fn fuzz(args: &Fuzz) -> Result<(), Failure> {
    match args {
        Fuzz::Targets(format) => {
            targets(*format);
            Ok(())
        }
        Fuzz::Run(args) => search::run(args),
        Fuzz::Shrink(args) => found::shrink(args),
        Fuzz::Keep(args) => found::keep(args),
        Fuzz::Replay(args) => found::replay(args),
    }
}

fn targets(format: Format) {
    if format.json {
        return output::json(&json!({ "targets": PRESETS.iter().map(Preset::json).collect::<Vec<_>>() }));
    }
    let mut table = Table::new(["target", "controller", "mode", "score", "what it is"]);
    for preset in PRESETS {
        table.row([preset.name, preset.cc, preset.mode, &preset.aim.to_string(), preset.summary]);
    }
    print!("{table}");
}

/// How many threads to use, where none is asked for.
fn threads(asked: Option<u16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, |threads| threads.get());
    asked.map_or_else(all, usize::from)
}
