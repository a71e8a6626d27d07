//! `framewire sweep`: a scenario under every combination of some settings, each with several seeds.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use sweep::{
    Axis, Group, KEY, Options, Plan, SweepError, Table as Rows, groups, groups_json, page, seeds_note,
};
use units::Span;

use crate::args::{self, Format, MOST_SEED};
use crate::experiments::program;
use crate::failure::Failure;
use crate::live::{catch_interrupts, go_on};
use crate::output;
use crate::scenario;
use crate::simulate::can_make_folder;
use crate::table::Table;
use crate::values::named;

/// `framewire sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire sweep scenarios/sqp-20mbit.toml --vary link.rate=1mbit,2mbit,5mbit --vary 'flow[1].cc=sqp,gcc' --seeds 10
  framewire sweep scenarios/sqp-20mbit.toml --vary 'flow[1].cc=sqp:target=0.8,sqp,copa:delta=0.5' --duration 10s
  framewire sweep scenarios/sqp-20mbit.toml --vary link.loss=,0.01,0.05 --seeds 3,7,9 --out out/loss --json

A comma separates values; what follows one as OPTION=VALUE belongs to the name before it. A value in brackets, such as
'link.steps=[[\"0s\", \"5mbit\"]]', is one value: repeat --vary FIELD= for more. An empty value takes the field away.
In the folder: runs.parquet, a row a flow and run; groups.parquet, means over seeds with 95 % confidence intervals;
report.html. The same command goes on where an earlier one was interrupted, and writes the same bytes (docs/sweeps.md).")]
pub struct Sweep {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO.toml")]
    file: PathBuf,
    /// A field and the values it takes; may be repeated, for the same field to add values, for others to
    /// combine them
    #[arg(long, value_name = "FIELD=VALUE,VALUE,...")]
    vary: Vec<String>,
    /// Seeds of each setting: how many, from the scenario's on, or which, such as 3,7,9
    #[arg(long, value_name = "N", default_value = "5")]
    seeds: Seeds,
    /// The first seed, instead of the scenario's
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    seed: Option<u64>,
    /// How long each run takes in virtual time, such as 10s, instead of the scenario's
    #[arg(long)]
    duration: Option<Span>,
    /// Change one field in every run, as for `framewire run`; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    changes: Vec<String>,
    /// Folder for tables, report and journal; it is made. out/sweep/NAME if left out
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs at the same time; as many as there are processors if left out. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Forget what the folder holds of an earlier sweep, and begin anew
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    format: Format,
}

/// Which seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seeds {
    /// So many, from the scenario's on.
    Count(u64),
    /// These.
    These(Vec<u64>),
}

impl std::str::FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let number = |text: &str| text.trim().parse::<u64>().ok().filter(|&seed| seed <= MOST_SEED);
        let numbers: Option<Vec<u64>> = text.split(',').map(number).collect();
        match numbers.as_deref() {
            None | Some([0]) => Err("write how many, such as 10, or which, such as 3,7,9".to_owned()),
            Some(&[count]) => Ok(Seeds::Count(count)),
            Some(these) => Ok(Seeds::These(these.to_vec())),
        }
    }
}

impl Seeds {
    fn from(&self, first: u64) -> Result<Vec<u64>, Failure> {
        match self {
            Seeds::These(seeds) => Ok(seeds.clone()),
            Seeds::Count(count) if *count > sweep::MOST_RUNS as u64 => {
                Err(Failure::Input(format!("--seeds {count}: a sweep has at most {} runs", sweep::MOST_RUNS)))
            }
            Seeds::Count(count) => Ok((0..*count).map(|more| first.saturating_add(more)).collect()),
        }
    }
}

/// Runs a sweep, or what is left of it, and writes and prints its tables.
pub fn sweep(args: &Sweep) -> Result<(), Failure> {
    let base = scenario::load(&args::Scenario {
        file: args.file.clone(),
        seed: args.seed,
        duration: args.duration,
        changes: args.changes.clone(),
        out: None,
        no_tables: true,
        format: args.format,
    })?;
    let plan = Plan::new(&base, axes(&args.vary)?, args.seeds.from(base.seed)?).map_err(refused)?;
    let usual = || Path::new("out/sweep").join(lab::output::folder_name(&base.name));
    let out = args.out.clone().unwrap_or_else(usual);
    can_make_folder(&out)?;
    output::warn(plan.warnings().iter().cloned());
    let rows = driven(&plan, &out, args)?;
    let groups = groups(&rows);
    write(&rows, &groups, &out).map_err(Failure::work)?;
    if args.format.json {
        output::json(&groups_json(&rows, &groups));
        return Ok(());
    }
    print!("{}", table(&rows, &groups));
    println!("{}", closing(&plan));
    if let Some(note) = seeds_note(&rows, &groups) {
        println!("{note}");
    }
    println!("rows: {}, {}", out.join(Rows::NAME).display(), out.join("groups.parquet").display());
    println!("report: {}", out.join("report.html").display());
    Ok(())
}

/// The axes asked for, those of one field joined.
fn axes(asked: &[String]) -> Result<Vec<Axis>, Failure> {
    let mut axes: Vec<Axis> = Vec::new();
    for text in asked {
        let pair = text.split_once('=').filter(|(field, _)| !field.trim().is_empty());
        let (field, values) =
            pair.ok_or_else(|| Failure::Input(format!("--vary {text}: write FIELD=VALUE,VALUE,...")))?;
        let (field, values) = (field.trim(), values.trim());
        let whole = values.starts_with(['[', '{', '"']);
        let values = if whole { vec![values.to_owned()] } else { named(values) };
        match axes.iter_mut().find(|axis| axis.field == field) {
            Some(axis) => axis.values.extend(values),
            None => axes.push(Axis::new(field, values)),
        }
    }
    Ok(axes)
}

/// Runs what is missing, with progress.
fn driven(plan: &Plan, out: &Path, args: &Sweep) -> Result<Rows, Failure> {
    let processors = || std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let bar = output::long_progress(plan.len() as u64);
    let (begun, first) = (Instant::now(), OnceLock::new());
    let progress = |done: usize, of: usize| {
        // What an earlier invocation did took no time of this one.
        let before = *first.get_or_init(|| {
            bar.set_position(done as u64);
            bar.reset_eta();
            done
        });
        let speed = (done - before) as f64 / begun.elapsed().as_secs_f64().max(1e-3);
        bar.set_position(done as u64);
        bar.set_message(format!("{done} of {of} runs  {speed:.1} runs/s"));
    };
    catch_interrupts();
    let options = Options {
        jobs: args.jobs.map_or_else(processors, usize::from),
        commit: env!("FRAMEWIRE_COMMIT").to_owned(),
        program: program(),
        fresh: args.fresh,
        progress: &progress,
        stop: &|| go_on().is_break(),
    };
    let rows = sweep::run(plan, out, &options);
    bar.finish_and_clear();
    rows.map_err(|error| match error {
        SweepError::Stopped { .. } => {
            Failure::Work(format!("{error}; the same command goes on from there ({})", out.display()))
        }
        error => refused(error),
    })
}

fn refused(error: SweepError) -> Failure {
    match error {
        SweepError::Setting { .. } => Failure::Input(format!("--vary {error}")),
        SweepError::Other { .. } => Failure::Input(format!("--out {error}")),
        error if error.is_input() => Failure::input(error),
        error => Failure::work(error),
    }
}

fn write(rows: &Rows, groups: &[Group], out: &Path) -> Result<(), SweepError> {
    rows.write(out)?;
    sweep::write_groups(rows, groups, out)?;
    page::write(rows, groups, out)
}

/// A row a setting and flow: means over seeds with half their intervals.
fn table(rows: &Rows, groups: &[Group]) -> Table {
    let plan = rows.plan();
    let varied: Vec<usize> = (0..plan.axes().len()).filter(|&at| plan.axes()[at].values.len() > 1).collect();
    let known: Vec<_> =
        KEY.iter().filter(|key| groups.iter().any(|group| group.figure(key.name).n > 0)).collect();
    let heads = varied.iter().map(|&at| plan.axes()[at].field.clone()).chain(["flow".to_owned()]);
    let units = known.iter().map(|key| match key.unit {
        "" => key.heading.to_owned(),
        "Mbit/s" => key.unit.to_owned(),
        unit => format!("{}, {unit}", key.heading),
    });
    let mut table = Table::new(heads.chain(units));
    for group in groups {
        let cells = plan.cells(group.setting);
        let settings = varied.iter().map(|&at| page::value(&cells[at])).chain([group.flow.clone()]);
        let figures = known.iter().map(|key| page::interval(&group.figure(key.name).scaled(key.scale)));
        table.row(settings.chain(figures));
    }
    table
}

fn closing(plan: &Plan) -> String {
    let seeds = plan.seeds().len();
    let what = match seeds {
        1 => "one seed, so no intervals".to_owned(),
        _ => format!("means over {seeds} seeds ± half the 95 % confidence interval (Student's t)"),
    };
    format!("{} runs: {what}. –: not measured.", plan.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(asked: &[&str]) -> Vec<Axis> {
        let asked: Vec<String> = asked.iter().map(|&text| text.to_owned()).collect();
        axes(&asked).unwrap_or_else(|failure| panic!("{}", failure.text()))
    }

    #[test]
    fn values_are_split_as_controllers_are() {
        assert_eq!(
            read(&["flow[1].cc=sqp:target=0.8,window=3,gcc", "link.loss=,0.01", "flow[1].cc=copa"]),
            [
                Axis::new("flow[1].cc", ["sqp:target=0.8,window=3", "gcc", "copa"]),
                Axis::new("link.loss", ["", "0.01"])
            ]
        );
        let steps = r#"[["0s", "5mbit"], ["3s", "1mbit"]]"#;
        assert_eq!(read(&[&format!("link.steps={steps}")]), [Axis::new("link.steps", [steps])]);
        for bad in ["link.rate", "=1mbit"] {
            assert!(axes(&[bad.to_owned()]).is_err_and(|failure| failure.text().contains("FIELD=VALUE")));
        }
    }

    #[test]
    fn seeds_are_a_count_or_a_list() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.from(7).map_err(|f| f.text()));
        assert_eq!(seeds("3"), Ok(Ok(vec![7, 8, 9])));
        assert_eq!(seeds("3,7, 9"), Ok(Ok(vec![3, 7, 9])));
        for bad in ["0", "x", "1,", "-1", "1,9223372036854775808"] {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }
}
