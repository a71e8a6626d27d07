//! Virtual time: `framewire run` and `framewire compare`.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::collect::Keep;
use lab::run::{LabError, Outcome, RunOptions};
use lab::scenario::Scenario;
use lab::tables::Tables;

use crate::args;
use crate::failure::Failure;
use crate::output;
use crate::results;
use crate::scenario;

/// Steps of a progress bar.
pub const STEPS: f64 = 1000.0;

/// Runs one scenario.
pub fn run(args: &args::Run) -> Result<(), Failure> {
    let scenario = scenario::load(&args.scenario)?;
    let scenario = match &args.cc {
        Some(cc) => scenario.with_cc(cc.only().map_err(Failure::Input)?).map_err(Failure::input)?,
        None => scenario,
    };
    mention_sounds(&scenario);
    let out = folder(&args.scenario, &scenario);
    let begin = Instant::now();
    let outcomes =
        simulate(&[scenario], Results { out: out.as_deref(), own: false, tables: !args.scenario.no_tables })?;
    let outcome = &outcomes[0];
    if let Some(out) = &out {
        report::output::write_run(out, outcome).map_err(Failure::work)?;
    }
    if args.scenario.format.json {
        output::json(&lab::output::json(outcome));
        return Ok(());
    }
    println!("{}", results::of_flows(&outcome.summary));
    close(&outcomes, out.as_deref(), begin.elapsed());
    Ok(())
}

/// Runs one scenario under several controllers.
pub fn compare(args: &args::Compare) -> Result<(), Failure> {
    let scenario = scenario::load(&args.scenario)?;
    mention_sounds(&scenario);
    let title = scenario.name.clone();
    let out = folder(&args.scenario, &scenario);
    let results = Results { out: out.as_deref(), own: true, tables: !args.scenario.no_tables };
    side_by_side(&scenario, &args.cc.0, &title, results, args.scenario.format)
}

/// What a simulation leaves behind.
#[derive(Clone, Copy)]
pub struct Results<'a> {
    /// The folder of all results.
    pub out: Option<&'a Path>,
    /// Whether each run has a folder of its own in it.
    pub own: bool,
    /// Whether tables are wanted.
    pub tables: bool,
}

/// Says once of each clip that its sound is left out.
fn mention_sounds(scenario: &Scenario) {
    let mut clips: Vec<PathBuf> = scenario.clips().collect();
    clips.sort();
    clips.dedup();
    clips.iter().for_each(|clip| output::mention_sound(clip));
}

/// Runs `scenario` once for each of `ccs` and prints and writes them together.
pub fn side_by_side(
    scenario: &Scenario,
    ccs: &[String],
    title: &str,
    results: Results<'_>,
    format: args::Format,
) -> Result<(), Failure> {
    let out = results.out;
    let scenarios = ccs.iter().map(|cc| scenario.with_cc(cc).map_err(Failure::input));
    let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?;
    let begin = Instant::now();
    let outcomes = simulate(&scenarios, results)?;
    if let Some(out) = out {
        report::output::write_comparison(out, title, &outcomes).map_err(Failure::work)?;
    }
    if format.json {
        output::json(&lab::output::comparison_json(&outcomes));
        return Ok(());
    }
    println!("{}", results::of_runs(outcomes.iter().map(|outcome| &outcome.summary)));
    close(&outcomes, out, begin.elapsed());
    Ok(())
}

/// Runs scenarios, as many at a time as there are processors, under one progress bar. The folder for the
/// results is made sure of before anything is run. Rows that don't fit into memory are written there as the
/// runs go on.
fn simulate(scenarios: &[Scenario], results: Results<'_>) -> Result<Vec<Outcome>, Failure> {
    let Results { out, own, tables } = results;
    out.map_or(Ok(()), can_make_folder)?;
    let folders = out.filter(|_| tables).map(|out| match own {
        true => lab::output::folders_of(out, scenarios.iter()),
        false => vec![out.to_owned()],
    });
    let bar = output::progress(STEPS as u64, "simulating");
    let progress = |share: f64| bar.set_position((share * STEPS) as u64);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let commit = env!("FRAMEWIRE_COMMIT").to_owned();
    let (keep, tables_in) = (Keep::Bounded, folders.as_deref());
    let options =
        RunOptions { commit, keep, progress: &progress, threads, tables: tables_in, ..RunOptions::default() };
    output::warn(scenarios.iter().flat_map(lab::summary::warnings));
    let outcomes = lab::run::run_all(scenarios, &options);
    bar.finish_and_clear();
    let mut outcomes = outcomes.map_err(|error| match error {
        LabError::Write(error) => Failure::work(error),
        refused => Failure::input(refused),
    })?;
    if !tables {
        outcomes.iter_mut().for_each(|outcome| outcome.tables = Tables::None);
    }
    Ok(outcomes)
}

/// Where results go: where `--out` says; for people, who asked for no folder, `out/NAME`.
fn folder(args: &args::Scenario, scenario: &Scenario) -> Option<PathBuf> {
    let usual =
        || (!args.format.json).then(|| Path::new("out").join(lab::output::folder_name(&scenario.name)));
    args.out.clone().or_else(usual)
}

/// Whether a folder is there or could be made, found out without making it: a run that fails leaves nothing
/// behind.
pub fn can_make_folder(folder: &Path) -> Result<(), Failure> {
    let whole = std::path::absolute(folder).map_err(Failure::input)?;
    let nearest = whole.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let refuse =
        |what| Err(Failure::Input(format!("--out {}: {} {what}", folder.display(), nearest.display())));
    let name = CString::new(nearest.as_os_str().as_encoded_bytes()).map_err(Failure::input)?;
    // SAFETY: `name` ends with a zero and lives until the call returns.
    let writable = unsafe { libc::access(name.as_ptr(), libc::W_OK) } == 0;
    match (nearest.is_dir(), writable) {
        (false, _) => refuse("is a file"),
        (true, false) => refuse("may not be written to"),
        (true, true) => Ok(()),
    }
}

/// Makes sure of a folder for results.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::Input(format!("--out {}: {error}", folder.display())))
}

/// The last lines for people: what would repeat the run, and where the rest is.
fn close(outcomes: &[Outcome], out: Option<&Path>, took: Duration) {
    let simulated: f64 = outcomes.iter().map(|outcome| outcome.summary.duration_s).sum();
    println!("{simulated:.0} s of network in {:.1} s", took.as_secs_f64());
    let first = &outcomes[0].summary;
    let hashes: Vec<_> = outcomes.iter().map(|outcome| outcome.summary.hash.as_str()).collect();
    println!("seed {}, commit {}, hash {}", first.seed, first.commit, hashes.join(" "));
    if let Some(out) = out {
        println!("report: {}", out.join("report.html").display());
    }
}
