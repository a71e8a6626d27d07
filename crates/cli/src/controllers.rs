//! Congestion controllers: the list, one's page, and the pages of the manual.

use std::path::Path;

use experiments::conformance::{self, Verdict};
use lab::run::{LabError, RunOptions};
use report::manual::{self, Family};
use serde_json::{Value, json};

use crate::args;
use crate::failure::Failure;
use crate::listing::options;
use crate::output;
use crate::simulate::{STEPS, can_make_folder};
use crate::table::Table;

/// `framewire controllers`.
pub fn controllers(args: &args::Controllers) -> Result<(), Failure> {
    match (&args.write, &args.name) {
        (Some(folder), _) => write(folder),
        (None, Some(name)) if args.check => check(name, args.format.json),
        (None, Some(name)) => page(name, args.format.json),
        (None, None) => {
            list(args.format.json);
            Ok(())
        }
    }
}

/// Every row of the registry; presets stand below the row they are made from.
fn list(as_json: bool) {
    let families = manual::families();
    if as_json {
        let rows: Vec<Value> =
            families.iter().flat_map(|family| family.rows.iter().map(|entry| row(family, entry))).collect();
        output::json(&json!({ "controllers": rows }));
        return;
    }
    let mut table = Table::new(["controller", "what it does"]);
    for family in &families {
        for (index, entry) in family.rows.iter().enumerate() {
            let indent = if index == 0 { "" } else { "  " };
            table.row([format!("{indent}{}", entry.name), entry.summary.to_owned()]);
        }
    }
    print!("{table}");
    println!("\nWrite NAME or NAME:OPTION=VALUE,OPTION=VALUE wherever a command takes --cc.");
    println!("`framewire controllers NAME` shows its idea, source and options.");
}

/// The page of the family that `name` belongs to.
fn page(name: &str, as_json: bool) -> Result<(), Failure> {
    let Some(family) = manual::family(name) else {
        // The registry's own words, which list what there is.
        let refused = cc::build(&cc::Options::of(name), &cc::Setup::default()).err();
        return Err(Failure::Input(refused.map_or_else(String::new, |error| error.to_string())));
    };
    if as_json {
        let asked = family.rows.iter().find(|entry| entry.name == name).expect("its family has it");
        let mut value = row(&family, asked);
        value["family"] = family.rows.iter().map(|entry| entry.name).collect();
        output::json(&value);
        return Ok(());
    }
    println!("{}\n", family.text().trim_end());
    let mut names = Table::new(["name", "what it is"]);
    for entry in &family.rows {
        names.row([entry.name, entry.summary]);
    }
    print!("{names}");
    print!("{}", option_table(&family));
    Ok(())
}

/// The options of all rows of a family, each once; empty if there are none.
fn option_table(family: &Family) -> String {
    let options = family.options();
    if options.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["option", "what it sets"]);
    for (key, help, rows) in options {
        let only =
            if rows.len() == family.rows.len() { String::new() } else { format!(" ({})", rows.join(", ")) };
        table.row([format!("{key}="), format!("{help}{only}")]);
    }
    format!("\n{table}")
}

fn row(family: &Family, entry: &cc::Entry) -> Value {
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "title": family.title(),
        "needs_frames": entry.needs_frames,
        "options": options(entry.options),
        "page": entry.page,
    })
}

/// How a controller stands the faults of the conformance suite.
fn check(cc: &str, as_json: bool) -> Result<(), Failure> {
    let bar = output::progress(STEPS as u64, "simulating");
    let progress = |share: f64| bar.set_position((share * STEPS) as u64);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let verdicts =
        conformance::check(cc, &RunOptions { progress: &progress, threads, ..RunOptions::default() });
    bar.finish_and_clear();
    let verdicts = verdicts.map_err(Failure::input)?;
    if as_json {
        output::json(&json!({ "cc": cc, "verdicts": verdicts }));
    } else {
        print!("{}", verdict_table(&verdicts));
    }
    match verdicts.iter().filter(|verdict| verdict.broken.is_some()).count() {
        0 => Ok(()),
        count => Err(Failure::Work(format!("{cc} does not stand {count} of {} faults", verdicts.len()))),
    }
}

fn verdict_table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(["fault", "what it is", "Mbit/s before", "after", "frames shown", "verdict"]);
    for Verdict { fault, summary, before_bps, after_bps, shown, broken } in verdicts {
        let [before, after] = [before_bps, after_bps].map(|rate| format!("{:.2}", rate / 1e6));
        let shown = shown.map_or_else(|| "-".to_owned(), |shown| shown.to_string());
        let verdict = broken.as_deref().unwrap_or("stands it");
        table.row([fault, summary, before.as_str(), &after, &shown, verdict]);
    }
    table
}

/// Writes the manual's pages.
fn write(folder: &Path) -> Result<(), Failure> {
    can_make_folder(folder)?;
    let bar = output::progress(STEPS as u64, "simulating");
    let progress = |share: f64| bar.set_position((share * STEPS) as u64);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let options = RunOptions { progress: &progress, threads, ..RunOptions::default() };
    let done = manual::write(folder, &options);
    bar.finish_and_clear();
    done.map_err(|error| match error {
        LabError::Write(error) => Failure::work(error),
        refused => Failure::input(refused),
    })?;
    println!("{} pages: {}", manual::families().len(), folder.join("README.md").display());
    Ok(())
}
