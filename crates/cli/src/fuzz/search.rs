//! `framewire fuzz run`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ccfuzz::finding::{self, Finding};
use ccfuzz::{Individual, Plan, Preset, Report, Request, Search, Strategy, Target, checkpoint, faults};
use lab::files::{WriteError, write_folder};
use lab::scenario::Scenario;
use serde_json::{Value, json};

use super::args::Run;
use super::{corpus, threads};
use crate::failure::Failure;
use crate::output;
use crate::shipped;
use crate::simulate::{can_make_folder, make_folder};
use crate::table::Table;

const CHECKPOINT: &str = "checkpoint";

/// Runs `framewire fuzz run`: searches, prints progress, and keeps what was found.
pub fn run(args: &Run) -> Result<(), Failure> {
    let (mut search, target, out) = begin(args)?;
    let visitors = match &args.corpus {
        Some(folder) => corpus::visitors(folder, &target)?,
        None => Vec::new(),
    };
    let begun = Instant::now();
    let mut history = Vec::new();
    let mut best = search.best().map(|best| best.score.total);
    let population = search.plan.population() as u64;
    let bar = output::long_progress(u64::from(args.generations) * population);
    let before = u64::from(search.generations) * population;
    bar.set_position(before);
    // What an earlier invocation did took no time of this one.
    bar.reset_eta();
    while search.generations < args.generations && !is_enough(args, &search, &target) {
        let generation = search.generations;
        let best_yet = best.map_or_else(|| "-".to_owned(), |best: f64| format!("{best:.3}"));
        let progress = |count: usize| {
            let done = u64::from(generation) * population + count as u64;
            let speed = (done - before) as f64 / begun.elapsed().as_secs_f64();
            bar.set_position(done);
            bar.set_message(format!(
                "generation {} of {}  {speed:.0} networks/s  best {best_yet}",
                generation + 1,
                args.generations
            ));
        };
        let report = search.step(&target, &visitors, threads(args.threads), &progress);
        if best.is_none_or(|best| report.best.total > best) {
            best_finding(&search, &target, &report).write(&out).map_err(Failure::work)?;
            best = Some(report.best.total);
        }
        checkpoint::write(&out.join(CHECKPOINT), &search, &target).map_err(Failure::work)?;
        history.push(report);
    }
    bar.finish_and_clear();
    let found = Finding::read(&out).map_err(Failure::work)?;
    let several = several(&search, &target, &out)?;
    if let Some(folder) = &args.corpus {
        corpus::add(folder, &found)?;
    }
    let took = begun.elapsed().as_secs_f64();
    if args.format.json {
        let several: Vec<Value> = several.iter().map(Kept::json).collect();
        let mut summary = summary(&search, &found, &history, &out, took);
        summary["findings"] = several.into();
        output::json(&summary);
    } else {
        print(&search, &found, &history, &out, took);
        print_several(&several);
    }
    Ok(())
}

/// A new search in a folder without one, or the one that stands there.
fn begin(args: &Run) -> Result<(Search, Target, PathBuf), Failure> {
    if let Some(folder) = &args.resume {
        let (search, target) = checkpoint::read(&folder.join(CHECKPOINT)).map_err(Failure::input)?;
        return Ok((search, target, folder.clone()));
    }
    let target = target(args)?;
    let plan = Plan::of_size(args.population, args.islands).map_err(Failure::input)?;
    let strategy = if args.random { Strategy::Random } else { Strategy::Genetic };
    let usual = || {
        let name = lab::output::folder_name(&target.scenario.name);
        Path::new("out/fuzz").join(format!("{name}-{}", args.seed))
    };
    let out = args.out.clone().unwrap_or_else(usual);
    can_make_folder(&out)?;
    if out.join(CHECKPOINT).exists() {
        let what = format!(
            "{0} holds a search; --resume {0} goes on with it, --out begins elsewhere",
            out.display()
        );
        return Err(Failure::Input(what));
    }
    make_folder(&out)?;
    Ok((Search::new(Plan { seed: args.seed, strategy, diverse: args.diverse, ..plan }), target, out))
}

fn target(args: &Run) -> Result<Target, Failure> {
    let name = args.target.as_deref().unwrap_or_default();
    let preset = Preset::find(name);
    let scenario = match preset {
        Some(preset) => preset.scenario(),
        None if Path::new(name).extension().is_some() => {
            Scenario::load(&shipped::or_shipped(Path::new(name))?).map_err(Failure::input)?
        }
        None => {
            let names: Vec<_> = ccfuzz::PRESETS.iter().map(|preset| preset.name).collect();
            let what = format!(
                "no target is called `{name}`; {} (`framewire fuzz targets` lists them; a scenario file ends in .toml)",
                units::instead(name, &names)
            );
            return Err(Failure::Input(what));
        }
    };
    let cc = args.cc.as_ref().map(|cc| cc.only().map(str::to_owned)).transpose().map_err(Failure::Input)?;
    let request = Request {
        cc,
        mode: args.mode,
        aim: args.score,
        expression: args.expression.clone(),
        reference: args.reference.as_ref().map(|list| list.0.clone()),
        duration: args.duration,
        free: args.free,
    };
    request.target(scenario, preset).map_err(Failure::input)
}

fn is_enough(args: &Run, search: &Search, target: &Target) -> bool {
    let reached = |least: f64| search.best().is_some_and(|best| best.score.goal(&target.weights) >= least);
    args.until.is_some_and(reached) || args.patience.is_some_and(|patience| search.stale >= patience)
}

fn best_finding(search: &Search, target: &Target, report: &Report) -> Finding {
    let genome = search.best().expect("a generation has a best").genome.clone();
    Finding::new(target.clone(), genome, search.plan.seed, report.generation, search.evaluations)
}

/// One of the findings of a diverse search.
struct Kept {
    folder: PathBuf,
    finding: Finding,
    /// The target's known faults that it shows.
    faults: Vec<&'static str>,
}

impl Kept {
    fn json(&self) -> Value {
        json!({ "folder": self.folder, "score": self.finding.record.score, "goal": self.finding.goal(),
                "faults": self.faults })
    }
}

/// Writes the findings of a diverse search, each as a folder of its own, in the place of those of earlier
/// generations.
fn several(search: &Search, target: &Target, out: &Path) -> Result<Vec<Kept>, Failure> {
    if !search.plan.diverse {
        return Ok(Vec::new());
    }
    let folder = out.join("findings");
    let fixed = faults::of(target).map_err(Failure::work)?;
    let keep = |(place, found): (usize, &Individual)| {
        let genome = found.genome.clone();
        let faults = faults::shown(target, &fixed, &genome);
        let generation = search.generations.saturating_sub(1);
        let finding = Finding::new(target.clone(), genome, search.plan.seed, generation, search.evaluations);
        Kept { folder: folder.join(format!("{:02}", place + 1)), finding, faults }
    };
    let all: Vec<Kept> = search.findings(target).into_iter().enumerate().map(keep).collect();
    write_folder(&folder, &written_before(&folder), |partial| {
        let name = |kept: &Kept| kept.folder.file_name().map(|name| partial.join(name));
        let write = |kept: &Kept| kept.finding.write(&name(kept).unwrap_or_default());
        all.iter()
            .try_for_each(write)
            .map_err(|error| WriteError { path: error.path, source: std::io::Error::other(error.what) })
    })
    .map_err(Failure::work)?;
    Ok(all)
}

/// The files of the findings in `folder`, relative to it.
fn written_before(folder: &Path) -> Vec<PathBuf> {
    let findings = finding::all(folder).unwrap_or_default();
    let files =
        findings.iter().flat_map(|finding| std::fs::read_dir(finding).into_iter().flatten().flatten());
    files.filter_map(|file| Some(file.path().strip_prefix(folder).ok()?.to_owned())).collect()
}

fn print_several(several: &[Kept]) {
    if several.is_empty() {
        return;
    }
    let mut table =
        Table::new(["finding", "score", "used", "stall", "loss", "delay", "timeouts", "cross", "faults"]);
    for kept in several {
        let score = &kept.finding.record.score;
        let name = kept.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let figures =
            [score.total, score.used, score.stall, score.loss, score.delay].map(|x| format!("{x:.3}"));
        let rest = [score.timeouts.to_string(), score.cross.to_string(), kept.faults.join(", ")];
        table.row([name].into_iter().chain(figures).chain(rest));
    }
    print!("{table}");
}

fn summary(search: &Search, found: &Finding, history: &[Report], out: &Path, took: f64) -> Value {
    let of = |report: &Report| {
        json!({ "generation": report.generation, "evaluations": report.evaluations, "best": report.best,
                "worst_20": report.worst_20, "worst_20_used": report.worst_20_used })
    };
    let record = &found.record;
    json!({
        "target": found.target.scenario.name, "mode": record.mode, "score": record.aim, "plan": search.plan,
        "generations": search.generations, "evaluations": search.evaluations, "seconds": took,
        "best": { "score": record.score, "goal": found.goal(), "generation": record.generation,
                  "evaluations": record.evaluations },
        "history": history.iter().map(of).collect::<Vec<_>>(), "folder": out,
    })
}

fn print(search: &Search, found: &Finding, history: &[Report], out: &Path, took: f64) {
    let mut table =
        Table::new(["generation", "best", "performance", "stall", "hardship", "used", "cross", "worst 20"]);
    let last = history.len().saturating_sub(1);
    for (_, report) in history.iter().enumerate().filter(|(n, _)| n.is_multiple_of(5) || *n == last) {
        let best = &report.best;
        let figures = [best.total, best.performance, best.stall, best.hardship, best.used];
        let rest = [best.cross.to_string(), format!("{:.3}", report.worst_20)];
        let figures = figures.map(|x| format!("{x:.3}"));
        table.row([report.generation.to_string()].into_iter().chain(figures).chain(rest));
    }
    print!("{table}");
    let record = &found.record;
    println!(
        "best in generation {} after {} runs; {} runs in all, {took:.1} s, seed {}",
        record.generation, record.evaluations, search.evaluations, search.plan.seed
    );
    println!("replay: framewire run {}", out.join("scenario.toml").display());
    println!("shrink: framewire fuzz shrink {}", out.display());
}
