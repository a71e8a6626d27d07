//! `framewire fuzz shrink`, `keep` and `replay`: what becomes of a finding.

use std::path::{Path, PathBuf};

use ccfuzz::Target;
use ccfuzz::finding::{self, Expectation, Finding, Replayed};
use ccfuzz::shrink::{Shrinking, bursts};
use experiments::Crew;
use serde_json::{Value, json};

use super::args::{Keep, Replay, Shrink};
use super::threads;
use crate::failure::Failure;
use crate::output;
use crate::shipped;
use crate::simulate::can_make_folder;
use crate::table::Table;
use crate::values::CcList;

/// Bursts that a reader can take in.
const MOST_SHOWN: usize = 50;
/// Where kept findings are.
const KEPT: &str = "findings";

/// Shrinks a finding.
pub fn shrink(args: &Shrink) -> Result<(), Failure> {
    let found = Finding::read(&shipped::or_shipped(&args.folder)?).map_err(Failure::input)?;
    let out = args.out.clone().unwrap_or_else(|| args.folder.join("shrunk"));
    can_make_folder(&out)?;
    let bar = output::progress(args.budget as u64, "shrinking");
    let other = |cc: &CcList| {
        let cc = cc.only().map_err(Failure::Input)?;
        found.target.with_cc(cc).map_err(Failure::input)
    };
    let gone = args.gone.iter().map(other).collect::<Result<Vec<Target>, Failure>>()?;
    let crew = Crew::of(threads(args.threads));
    let how = Shrinking { least: args.least, gone: &gone, budget: args.budget, ..Shrinking::by(&crew) };
    let progress = |done: usize| {
        bar.set_position(done as u64);
        true
    };
    let shrunk = ccfuzz::shrink::shrink(&found.target, &found.genome, how, &progress);
    bar.finish_and_clear();
    let smaller = found.with_genome(shrunk.genome);
    smaller.write(&out).map_err(Failure::work)?;
    if args.format.json {
        let of = |found: &Finding| {
            json!({ "cross": found.genome.cross.len(), "outages": found.genome.outages.len(),
                    "score": found.record.score, "goal": found.goal() })
        };
        output::json(&json!({ "before": of(&found), "after": of(&smaller), "least": shrunk.least,
                              "evaluations": shrunk.evaluations, "folder": out }));
        return Ok(());
    }
    let mut table = Table::new(["", "cross packets", "outages", "score without cost"]);
    for (name, found) in [("before", &found), ("after", &smaller)] {
        let (cross, outages) = (found.genome.cross.len(), found.genome.outages.len());
        table.row([name.to_owned(), cross.to_string(), outages.to_string(), format!("{:.3}", found.goal())]);
    }
    print!("{table}");
    let left = bursts(&smaller.genome);
    if left.len() <= MOST_SHOWN {
        let mut table = Table::new(["at", "cross packets"]);
        for (at, packets) in left {
            table.row([format!("{:.3} s", f64::from(at) / 1e6), packets.to_string()]);
        }
        print!("{table}");
    }
    let alike = if args.least.is_none() { ", and a flow that behaves alike" } else { "" };
    println!("the same: a score without cost of {:.3} or more{alike}", shrunk.least);
    println!(
        "at most {} runs; replay: framewire run {}",
        shrunk.evaluations,
        out.join("scenario.toml").display()
    );
    Ok(())
}

/// Keeps a finding.
pub fn keep(args: &Keep) -> Result<(), Failure> {
    let plain = lab::output::folder_name(&args.name);
    if plain != args.name {
        let what = format!(
            "--name `{}`: the name of one folder below {}, of letters, digits and -_.=, such as `{plain}`",
            args.name,
            args.to.display()
        );
        return Err(Failure::Input(what));
    }
    let folder = args.to.join(&args.name);
    if folder.exists() {
        return Err(Failure::Input(format!("{} exists; choose another --name", folder.display())));
    }
    let mut found = Finding::read(&args.folder).map_err(Failure::input)?;
    let own = found.target.scenario.flows[0].cc.clone();
    let goal = found.goal();
    let mut expect = vec![Expectation { cc: own, least: Some(goal - args.margin), most: None }];
    for cc in &args.gone {
        let cc = cc.only().map_err(Failure::Input)?.to_owned();
        expect.push(Expectation { cc, least: None, most: Some(goal - args.margin) });
    }
    found.record.expect = expect;
    let verdicts = found.replay().map_err(Failure::input)?;
    if let Some(broken) = verdicts.iter().find(|verdict| !verdict.holds()) {
        let what = format!("under {} it scores {:.3}, against {goal:.3}", broken.expected.cc, broken.goal);
        return Err(Failure::Input(format!("not kept: {what}; a larger --margin asks for less")));
    }
    found.write(&folder).map_err(Failure::work)?;
    println!("kept: {}", folder.display());
    Ok(())
}

/// Replays findings.
pub fn replay(args: &Replay) -> Result<(), Failure> {
    let folders = match args.folders.as_slice() {
        [] => finding::all(&shipped::or_shipped(Path::new(KEPT))?).map_err(Failure::input)?,
        some => some.iter().map(|folder| shipped::or_shipped(folder)).collect::<Result<_, _>>()?,
    };
    let mut rows: Vec<(PathBuf, Replayed)> = Vec::new();
    for folder in folders {
        let found = Finding::read(&folder).map_err(Failure::input)?;
        let verdicts = found.replay().map_err(Failure::input)?;
        rows.extend(verdicts.into_iter().map(|verdict| (folder.clone(), verdict)));
    }
    if args.format.json {
        output::json(&json!({ "findings": rows.iter().map(|row| of(&row.0, &row.1)).collect::<Vec<_>>() }));
    } else {
        let mut table = Table::new(["finding", "controller", "score", "expected", "verdict"]);
        for (folder, replayed) in &rows {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let verdict = if replayed.holds() { "as expected" } else { "NOT AS EXPECTED" };
            let cells =
                [name, replayed.expected.cc.clone(), format!("{:.3}", replayed.goal), bound(replayed)];
            table.row(cells.into_iter().chain([verdict.to_owned()]));
        }
        print!("{table}");
    }
    match rows.iter().filter(|row| !row.1.holds()).count() {
        0 => Ok(()),
        count => Err(Failure::Work(format!("{count} not as expected"))),
    }
}

fn of(folder: &Path, replayed: &Replayed) -> Value {
    json!({ "folder": folder, "cc": replayed.expected.cc, "score": replayed.score, "goal": replayed.goal,
            "least": replayed.expected.least, "most": replayed.expected.most, "holds": replayed.holds() })
}

fn bound(replayed: &Replayed) -> String {
    let Expectation { least, most, .. } = &replayed.expected;
    let least = least.map(|least| format!(">= {least:.3}"));
    let most = most.map(|most| format!("<= {most:.3}"));
    least.into_iter().chain(most).collect::<Vec<_>>().join(", ")
}
