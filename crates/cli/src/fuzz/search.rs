//! `framewire fuzz run`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ccfuzz::finding::Finding;
use ccfuzz::{Folder, Kept, Plan, Preset, Report, Request, Search, Strategy, Target, Until, checkpoint};
use experiments::Crew;
use lab::scenario::Scenario;

use super::args::Run;
use super::{corpus, threads};
use crate::failure::Failure;
use crate::output;
use crate::shipped;
use crate::simulate::{can_make_folder, make_folder};
use crate::table::Table;

/// Runs `framewire fuzz run`: searches, prints progress, and keeps what was found.
pub fn run(args: &Run) -> Result<(), Failure> {
    let (mut search, target, out) = begin(args)?;
    let mut folder = Folder::of(out.clone(), &search);
    let until = Until { generations: args.generations, goal: args.until, patience: args.patience };
    let visitors = match &args.corpus {
        Some(folder) => corpus::visitors(folder, &target)?,
        None => Vec::new(),
    };
    let begun = Instant::now();
    let mut history = Vec::new();
    let population = search.plan.population() as u64;
    let bar = output::long_progress(u64::from(args.generations) * population);
    let before = u64::from(search.generations) * population;
    bar.set_position(before);
    // What an earlier invocation did took no time of this one.
    bar.reset_eta();
    let crew = Crew::of(threads(args.threads));
    while !until.is_reached(&search, &target) {
        let generation = search.generations;
        let best_yet =
            search.best().map_or_else(|| "-".to_owned(), |best| format!("{:.3}", best.score.total));
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
        let report = search.step(&target, &visitors, &crew, &progress);
        folder.keep(&search, &target, std::slice::from_ref(&report)).map_err(Failure::work)?;
        history.push(report);
    }
    bar.finish_and_clear();
    let found = folder.best().map_err(Failure::work)?;
    let several = folder.keep_findings(&search, &target).map_err(Failure::work)?;
    if let Some(folder) = &args.corpus {
        corpus::add(folder, &found)?;
    }
    let took = begun.elapsed().as_secs_f64();
    if args.format.json {
        let mut summary = folder.summary(&search, &found, &history, &several);
        summary["seconds"] = took.into();
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
        let (search, target) = checkpoint::read(&Folder::checkpoint(folder)).map_err(Failure::input)?;
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
    if Folder::checkpoint(&out).exists() {
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
    let preset = Preset::named(name);
    let scenario = match &preset {
        Ok(preset) => preset.scenario(),
        Err(_) if Path::new(name).extension().is_some() => {
            Scenario::load(&shipped::or_shipped(Path::new(name))?).map_err(Failure::input)?
        }
        Err(what) => {
            let help = "(`framewire fuzz targets` lists them; a scenario file ends in .toml)";
            return Err(Failure::Input(format!("{what} {help}")));
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
    request.target(scenario, preset.ok()).map_err(Failure::input)
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
