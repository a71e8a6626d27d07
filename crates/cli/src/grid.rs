//! `framewire lab grid`: every controller and rate policy over many networks, held against invariants.

use std::collections::BTreeMap;
use std::path::PathBuf;

use experiments::grid::{Cell, Drive, Finding, Invariant, Memory, Outcome, Scheme, Verdict, drive, render};
use serde_json::{Value, json};

use crate::args::Format;
use crate::experiments::program;
use crate::failure::Failure;
use crate::output;
use crate::shipped;
use crate::table::Table;
use crate::values::{CcList, RatePolicy};

/// `framewire lab grid`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire lab grid                                            every controller and rate policy: minutes
  framewire lab grid --cc sqp,copa --rate live --failed         the cells that fail, with their settings
  framewire lab grid --cc sqp --rate live --invariant queue --cell 'fps=120*'
  framewire lab grid --cc sqp --rate live --write 'rate=300kbit' cell.toml && framewire run cell.toml
  framewire lab grid --cc default --seed 2                      other losses, other jitter
  framewire lab grid --list                                     the cells

With --json: {\"invariants\": [...], \"cells\": [{\"name\", \"group\", \"levels\"}], \"schemes\": [{\"cc\", \"rate\", \"cells\", \"held\", \"failed\",
\"excluded\", \"outcomes\": [{\"cell\", \"verdict\", \"findings\": [{\"invariant\", \"value\", \"limit\", \"badness\"}], \"spared\"}]}], and totals.
docs/grid.md says what the cells and invariants are, and what is asked where. A cell that fails is a result; the exit code stays 0.")]
pub struct Grid {
    /// Congestion controllers; all if left out
    #[arg(long, value_name = "LIST")]
    cc: Option<CcList>,
    /// Rate policies, separated by commas; all if left out
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    rate: Vec<RatePolicy>,
    /// Cells whose name matches, with `*` for anything; several may be given
    #[arg(long, value_name = "PATTERN")]
    cell: Vec<String>,
    /// Invariants, separated by commas: picture, use, whole, queue, honest, recovery; all if left out
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = invariant)]
    invariant: Vec<Invariant>,
    /// Print the cells that fail, with what was measured
    #[arg(long)]
    failed: bool,
    /// Print the cells, and run nothing
    #[arg(long, conflicts_with_all = ["failed", "write"])]
    list: bool,
    /// Write one cell as a scenario file for `framewire run`, under the first controller and rate policy, and
    /// run nothing
    #[arg(long, num_args = 2, value_names = ["CELL", "FILE.toml"])]
    write: Vec<String>,
    /// Seed of every cell's run; the cells' own (1) if left out
    #[arg(long, value_name = "SEED", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Run every cell again
    #[arg(long)]
    fresh: bool,
    /// Folder for the picture, grid.html, and for finished cells, which are not run again
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    out: PathBuf,
    /// Folder of the scenario files that are cells
    #[arg(long, value_name = "DIR", default_value = "scenarios/beside")]
    scenarios: PathBuf,
    /// Runs at the same time; as many as there are processors if left out. Results do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    #[command(flatten)]
    format: Format,
}

fn invariant(text: &str) -> Result<Invariant, String> {
    let names = || Invariant::ALL.map(Invariant::name).join(", ");
    let found = Invariant::ALL.into_iter().find(|invariant| invariant.name() == text);
    found.ok_or_else(|| format!("`{text}` is no invariant; there are {}", names()))
}

/// Whether `name` matches a pattern in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|tail| {
            (0..=tail.len()).any(|at| tail.is_char_boundary(at) && matches(rest, &tail[at..]))
        }),
    }
}

/// Drives the schemes asked for over the cells asked for, prints the table and writes the page
/// (`framewire lab grid`).
pub fn grid(args: &Grid) -> Result<(), Failure> {
    let named = shipped::or_shipped(&args.scenarios)?;
    if !named.is_dir() {
        return Err(Failure::Input(format!(
            "{}: no such folder; --scenarios names one with scenario files",
            named.display()
        )));
    }
    let mut cells = Cell::all(&named).map_err(Failure::input)?;
    cells.iter_mut().for_each(|cell| cell.seed = args.seed);
    let schemes = schemes(args);
    if let [cell, file] = args.write.as_slice() {
        let scheme = schemes.iter().find(|scheme| args.cc.is_some() || scheme.cc == "sqp");
        let scheme = scheme.unwrap_or(&schemes[0]);
        return write(&cells, cell, file, scheme);
    }
    if !args.cell.is_empty() {
        cells.retain(|cell| args.cell.iter().any(|pattern| matches(pattern, &cell.name)));
    }
    if cells.is_empty() {
        return Err(Failure::Input(
            "no cell has such a name; `framewire lab grid --list` shows them".to_owned(),
        ));
    }
    if args.list {
        list(&cells, args.format);
        return Ok(());
    }
    let asked = if args.invariant.is_empty() { Invariant::ALL.to_vec() } else { args.invariant.clone() };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let bar = output::progress((schemes.len() * cells.len()) as u64, "grid");
    let how = Drive {
        threads: args.threads.map_or(threads, usize::from),
        progress: &|done| bar.set_position(done as u64),
        memory: (!args.fresh).then(|| Memory::new(&args.out.join("grid"), &program())),
    };
    let outcomes = drive(&schemes, &cells, &how);
    bar.finish_and_clear();
    let outcomes = outcomes.map_err(Failure::input)?.into_iter().map(|outcome| outcome.only(&asked));
    let outcomes: Vec<Outcome> = outcomes.collect();
    let page = args.out.join("grid.html");
    let picture = render(&schemes, &cells, &asked, &outcomes, env!("FRAMEWIRE_COMMIT"));
    lab::files::write_text(&page, &picture).map_err(Failure::work)?;
    if args.format.json {
        output::json(&as_json(&schemes, &cells, &asked, &outcomes));
        return Ok(());
    }
    if args.failed {
        print!("{}", failures(&schemes, &cells, &outcomes));
    } else {
        print!("{}", summary(&schemes, &cells, &asked, &outcomes));
    }
    println!("{}", closing(&outcomes));
    println!("{}", page.display());
    Ok(())
}

fn schemes(args: &Grid) -> Vec<Scheme> {
    let all = Scheme::all();
    let of_rates = |rate: &Option<String>| {
        args.rate.is_empty() || args.rate.iter().any(|wanted| rate.as_ref() == Some(&wanted.0))
    };
    let Some(ccs) = &args.cc else {
        return all.into_iter().filter(|scheme| of_rates(&scheme.rate)).collect();
    };
    let policies: Vec<String> = match args.rate.as_slice() {
        [] => session::rate::REGISTRY.iter().map(|entry| entry.name.to_owned()).collect(),
        some => some.iter().map(|rate| rate.0.clone()).collect(),
    };
    let of = |cc: &String| -> Vec<Scheme> {
        // A preset brings its rate policy along unless one is asked for.
        let preset =
            args.rate.is_empty() && all.iter().any(|scheme| scheme.cc == *cc && scheme.rate.is_none());
        if preset {
            return vec![Scheme { cc: cc.clone(), rate: None }];
        }
        policies.iter().map(|rate| Scheme { cc: cc.clone(), rate: Some(rate.clone()) }).collect()
    };
    ccs.0.iter().flat_map(of).collect()
}

fn list(cells: &[Cell], format: Format) {
    if format.json {
        output::json(&json!({ "cells": cells.iter().map(cell_json).collect::<Vec<_>>() }));
        return;
    }
    let mut table = Table::new(["group", "cell"]);
    for cell in cells {
        table.row([format!("{:?}", cell.group).to_lowercase(), cell.name.clone()]);
    }
    print!("{table}");
    println!("{} cells", cells.len());
}

fn write(cells: &[Cell], name: &str, file: &str, scheme: &Scheme) -> Result<(), Failure> {
    let unknown = || format!("no cell is called `{name}`; `framewire lab grid --list` shows them");
    let cell = cells.iter().find(|cell| cell.name == name).ok_or_else(unknown).map_err(Failure::Input)?;
    let scenario = cell.scenario(scheme).map_err(Failure::input)?;
    lab::files::write_text(file.as_ref(), &scenario.text).map_err(Failure::work)?;
    println!("{file}");
    Ok(())
}

/// Cells, and of each invariant how many of the cells it is asked of hold.
fn summary(schemes: &[Scheme], cells: &[Cell], asked: &[Invariant], outcomes: &[Outcome]) -> Table {
    let heads = ["controller", "rate policy", "cells", "held", "failed", "excluded"];
    let names = asked.iter().map(|invariant| invariant.name());
    let mut table = Table::new(heads.into_iter().chain(names));
    for (scheme, outcomes) in schemes.iter().zip(outcomes.chunks(cells.len())) {
        let tally = |verdict| outcomes.iter().filter(|outcome| outcome.verdict() == verdict).count();
        let mut row = vec![scheme.cc.clone(), scheme.rate.clone().unwrap_or_else(|| "its own".to_owned())];
        row.push(outcomes.len().to_string());
        row.extend(
            [Verdict::Held, Verdict::Failed, Verdict::Excluded].map(|verdict| tally(verdict).to_string()),
        );
        for &invariant in asked {
            let found: Vec<&Finding> = outcomes.iter().filter_map(|outcome| outcome.of(invariant)).collect();
            let holds = found.iter().filter(|finding| finding.holds()).count();
            row.push(format!("{holds}/{}", found.len()));
        }
        table.row(row);
    }
    table
}

/// The cells that fail, the worst first, scheme by scheme.
fn failures(schemes: &[Scheme], cells: &[Cell], outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(["controller", "rate policy", "invariant", "measured", "allowed", "", "cell"]);
    for (scheme, outcomes) in schemes.iter().zip(outcomes.chunks(cells.len())) {
        let mut broken: Vec<(&Finding, usize)> = outcomes
            .iter()
            .flat_map(|outcome| outcome.broken().map(|finding| (finding, outcome.cell)))
            .collect();
        broken.sort_by(|a, b| a.0.invariant.cmp(&b.0.invariant).then(b.0.badness.total_cmp(&a.0.badness)));
        for (finding, cell) in broken {
            let invariant = finding.invariant;
            table.row([
                scheme.cc.clone(),
                scheme.rate.clone().unwrap_or_default(),
                invariant.name().to_owned(),
                number(finding.value),
                number(finding.limit),
                invariant.unit().to_owned(),
                cells[cell].name.clone(),
            ]);
        }
    }
    table
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") }
}

fn closing(outcomes: &[Outcome]) -> String {
    let tally = |verdict| outcomes.iter().filter(|outcome| outcome.verdict() == verdict).count();
    let (held, failed) = (tally(Verdict::Held), tally(Verdict::Failed));
    let (asked, excluded) = (held + failed, tally(Verdict::Excluded));
    format!("{held} of {asked} cells held, {failed} failed; {excluded} out of reach (docs/grid.md)")
}

fn cell_json(cell: &Cell) -> Value {
    let levels = cell.levels.as_ref().map(|levels| -> BTreeMap<&str, &str> {
        experiments::grid::AXES.iter().zip(levels).map(|(axis, level)| (axis.name, *level)).collect()
    });
    json!({ "name": cell.name, "group": cell.group, "levels": levels })
}

fn as_json(schemes: &[Scheme], cells: &[Cell], asked: &[Invariant], outcomes: &[Outcome]) -> Value {
    let of = |(scheme, outcomes): (&Scheme, &[Outcome])| {
        let tally = |verdict| outcomes.iter().filter(|outcome| outcome.verdict() == verdict).count();
        let outcomes_json: Vec<Value> = outcomes
            .iter()
            .map(|outcome| {
                let spared: BTreeMap<&str, &str> =
                    outcome.spared.iter().map(|(invariant, why)| (invariant.name(), *why)).collect();
                json!({ "cell": cells[outcome.cell].name, "verdict": outcome.verdict(), "findings": outcome.findings,
                        "spared": spared })
            })
            .collect();
        json!({ "cc": scheme.cc, "rate": scheme.rate, "cells": outcomes.len(), "held": tally(Verdict::Held),
                "failed": tally(Verdict::Failed), "excluded": tally(Verdict::Excluded), "outcomes": outcomes_json })
    };
    let tally = |verdict| outcomes.iter().filter(|outcome| outcome.verdict() == verdict).count();
    json!({
        "invariants": asked,
        "cells": cells.iter().map(cell_json).collect::<Vec<_>>(),
        "schemes": schemes.iter().zip(outcomes.chunks(cells.len())).map(of).collect::<Vec<_>>(),
        "held": tally(Verdict::Held), "failed": tally(Verdict::Failed), "excluded": tally(Verdict::Excluded),
    })
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_have_stars() {
        assert!(matches("fps=120*", "fps=120 queue=5p") && matches("*queue=5p", "fps=120 queue=5p"));
        assert!(matches("*=1s*", "rtt=1s") && !matches("rtt", "rtt=1s") && matches("*", ""));
    }
}
