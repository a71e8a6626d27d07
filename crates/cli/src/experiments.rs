//! `framewire lab`: the papers' experiments.

use experiments::{
    Cache, Execution, Experiment, ExperimentError, Fingerprint, Paper, RealResults, Results, Value, Verdict,
    VerdictRow, book, check, count, execute, execute_for_claims, natural, vixnn_page,
};
use instruments::measure::thread_time;
use serde_json::json;

use crate::args;
use crate::failure::Failure;
use crate::output;
use crate::shipped;
use crate::table::Table;

/// Runs `framewire lab` with one of its subcommands.
pub fn lab(args: &args::Lab) -> Result<(), Failure> {
    match args {
        args::Lab::List(args) => list(args),
        args::Lab::Run(args) => run(args),
        args::Lab::Check(args) => check_all(args),
        args::Lab::Report(args) => report(args),
        args::Lab::Pictures(args) => pictures(args),
        args::Lab::Grid(args) => crate::grid::grid(args),
        #[cfg(target_os = "linux")]
        args::Lab::Real(args) => crate::real_lab::real(args),
        #[cfg(target_os = "linux")]
        args::Lab::Twin(args) => crate::twin::twin(args),
    }
}

/// The documents whose experiments are asked for; none if all are. A paper goes by its key, or by its
/// document's number.
fn documents(which: &args::Selection) -> Result<Option<Vec<&str>>, Failure> {
    let Some(name) = which.paper.as_deref() else { return Ok(which.seed.as_deref().map(|seed| vec![seed])) };
    let documents = Paper::documents(name);
    if documents.is_empty() {
        let instead = units::instead(name, &Paper::keys());
        return Err(Failure::Input(format!("no paper is called `{name}`; {instead}")));
    }
    Ok(Some(documents))
}

/// The experiments asked for. Where claims are named, only those remain.
fn selected(which: &args::Selection) -> Result<Vec<Experiment>, Failure> {
    let mut experiments =
        Experiment::all(&shipped::or_shipped(&which.experiments)?).map_err(Failure::input)?;
    let all = experiments.clone();
    let documents = documents(which)?;
    let asked = |experiment: &Experiment| {
        documents.as_ref().is_none_or(|documents| documents.contains(&experiment.seed.as_str()))
    };
    experiments.retain(asked);
    if !which.ids.is_empty() {
        let named = |id: &String| which.ids.iter().any(|wanted| wanted.eq_ignore_ascii_case(id));
        for experiment in experiments.iter_mut().filter(|experiment| !named(&experiment.id)) {
            experiment.rows.retain(|row| named(&row.id));
        }
        experiments.retain(|experiment| named(&experiment.id) || !experiment.rows.is_empty());
    }
    let found = |id: &&String| {
        let same = |other: &str| other.eq_ignore_ascii_case(id);
        experiments.iter().any(|e| same(&e.id) || e.rows.iter().any(|row| same(&row.id)))
    };
    if let Some(unknown) = which.ids.iter().find(|id| !found(id)) {
        let claims = all.iter().flat_map(|e| e.rows.iter().map(|row| row.id.as_str()));
        let names: Vec<&str> = all.iter().map(|e| e.id.as_str()).chain(claims).collect();
        let instead = units::instead(unknown, &names);
        let what = format!(
            "no experiment or claim is called `{unknown}`; {instead} (`framewire lab list` shows them)"
        );
        return Err(Failure::Input(what));
    }
    if experiments.is_empty() {
        let mut known: Vec<&str> = all.iter().map(|e| e.seed.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let asked = documents.and_then(|documents| documents.first().copied()).unwrap_or_default();
        let what = format!("no experiment is of document `{asked}`; {}", units::instead(asked, &known));
        return Err(Failure::Input(what));
    }
    Ok(experiments)
}

fn list(args: &args::LabList) -> Result<(), Failure> {
    let experiments = selected(&args.which)?;
    if args.format.json {
        let of = |e: &Experiment| {
            json!({ "id": e.id, "seed": e.seed, "source": e.source, "title": e.title,
                    "rows": e.rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>() })
        };
        output::json(&json!({ "experiments": experiments.iter().map(of).collect::<Vec<_>>() }));
        return Ok(());
    }
    let mut table = Table::new(["experiment", "paper", "where", "runs", "claims"]);
    for experiment in &experiments {
        let runs = count(std::slice::from_ref(experiment));
        let rows: Vec<&str> = experiment.rows.iter().map(|row| row.id.as_str()).collect();
        let (paper, runs) = (Paper::key_of(&experiment.seed), runs.to_string());
        table.row([&experiment.id, paper, &experiment.source, &runs, &rows.join(" ")]);
    }
    print!("{table}");
    Ok(())
}

/// How much of experiments is run: all, or what rows read.
type Extent = fn(&[Experiment], &Execution<'_>) -> Result<Vec<Results>, ExperimentError>;

/// Runs what is asked for, under one progress bar.
fn results(
    how: &args::Laboratory,
    hashes: bool,
    run: Extent,
) -> Result<(Vec<Experiment>, Vec<Results>), Failure> {
    let experiments = selected(&how.which)?;
    let bar = output::progress(count(&experiments) as u64, "lab");
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let execution = Execution {
        commit: env!("FRAMEWIRE_COMMIT").to_owned(),
        threads: how.threads.map_or(threads, usize::from),
        cache: (!how.fresh).then(|| Cache::new(&how.out.join("runs"), &program())),
        hashes,
        progress: &|now| {
            bar.set_message(now.experiment.to_owned());
            bar.set_length(now.of as u64);
            bar.set_position(now.done as u64);
        },
        instruments: &[ccfuzz::claims::INSTRUMENT, instruments::vixnn_speed::INSTRUMENT],
        cpu_seconds: || thread_time().as_secs_f64(),
    };
    let results = run(&experiments, &execution);
    bar.finish_and_clear();
    results
        .map(|results| (experiments, results))
        .map_err(|error| if error.failed { Failure::work(error) } else { Failure::input(error) })
}

/// What names exactly this code: the commit; where the sources differ from it, the program's own bytes as
/// well.
pub fn program() -> String {
    let commit = env!("FRAMEWIRE_COMMIT");
    if !commit.ends_with('+') && commit != "unknown" {
        return commit.to_owned();
    }
    let bytes = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
    let mut fingerprint = Fingerprint::default();
    fingerprint.add_bytes(&bytes);
    format!("{commit}{fingerprint}")
}

fn run(args: &args::LabRun) -> Result<(), Failure> {
    let (experiments, results) = results(&args.how, args.format.json, execute)?;
    if args.format.json {
        let of = |(e, r): (&Experiment, &Results)| {
            let points: Vec<_> =
                r.points.iter().map(|(labels, seeds)| json!({ "labels": labels, "seeds": seeds })).collect();
            json!({ "id": e.id, "axes": e.axes.iter().map(|axis| axis.name.clone()).collect::<Vec<_>>(),
                    "points": points, "hashes": r.hashes, "seconds": r.seconds })
        };
        output::json(&json!({ "experiments": experiments.iter().zip(&results).map(of).collect::<Vec<_>>() }));
        return Ok(());
    }
    for (experiment, results) in experiments.iter().zip(&results) {
        println!("{} ({}): {}", experiment.id, experiment.source, experiment.title);
        print!("{}", measured(experiment, results));
        println!();
    }
    Ok(())
}

/// Every point's numbers; curves are for the book.
fn measured(experiment: &Experiment, results: &Results) -> Table {
    let plain = |value: &Value| matches!(value, Value::Number(_));
    let first = results.points.first().and_then(|(_, seeds)| seeds.first());
    let names: Vec<&String> =
        first.into_iter().flatten().filter(|(_, value)| plain(value)).map(|(name, _)| name).collect();
    let axes = experiment.axes.iter().map(|axis| axis.name.clone());
    let mut table = Table::new(axes.chain(names.iter().map(|name| (*name).clone())));
    for (labels, seeds) in &results.points {
        let mean = |name: &String| {
            let values: Vec<Value> = seeds.iter().filter_map(|seed| seed.get(name).cloned()).collect();
            match Value::mean(&values) {
                Some(Value::Number(number)) => number_text(number),
                _ => "–".to_owned(),
            }
        };
        table.row(labels.iter().cloned().chain(names.iter().map(|name| mean(name))));
    }
    table
}

fn check_all(args: &args::LabCheck) -> Result<(), Failure> {
    let (experiments, results) = results(&args.how, false, execute_for_claims)?;
    let rows: Result<Vec<Vec<VerdictRow>>, ExperimentError> =
        experiments.iter().zip(&results).map(|(experiment, results)| check(experiment, results)).collect();
    let mut rows: Vec<VerdictRow> = rows.map_err(Failure::input)?.into_iter().flatten().collect();
    rows.sort_by_key(|row| natural(&row.id));
    let tally = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let (held, missed, skipped) = (tally(Verdict::Held), tally(Verdict::Missed), tally(Verdict::Skipped));
    if args.format.json {
        output::json(&json!({ "rows": rows, "held": held, "missed": missed, "skipped": skipped }));
        return Ok(());
    }
    let mut table = Table::new(["id", "kind", "verdict", "measured", "band", "unit", "claim"]);
    for row in &rows {
        let verdict = match row.verdict {
            Verdict::Held => "held",
            Verdict::Missed => "MISSED",
            Verdict::Skipped => "skipped",
        };
        let measured = row.measured.map_or("–".to_owned(), number_text);
        let band = if row.also.is_some() { format!("{} *", row.band) } else { row.band.clone() };
        table.row([&row.id, &row.kind, verdict, &measured, &band, &row.unit, &row.claimed]);
    }
    print!("{table}");
    println!("* a second condition must hold too; --json and the book name it");
    println!("{held} held, {missed} missed, {skipped} skipped");
    Ok(())
}

fn report(args: &args::LabReport) -> Result<(), Failure> {
    let (experiments, results) = results(&args.how, false, execute)?;
    let commit = env!("FRAMEWIRE_COMMIT");
    let real = RealResults::open(&args.how.out).map_err(Failure::Input)?;
    let page = book(&experiments, &results, real.as_ref(), commit).map_err(Failure::input)?;
    let path = args.how.out.join("book.html");
    lab::files::write_text(&path, &page).map_err(Failure::work)?;
    println!("{}", path.display());
    Ok(())
}

fn pictures(args: &args::LabPictures) -> Result<(), Failure> {
    let path = vixnn_page(&args.out).map_err(Failure::work)?;
    println!("{}", path.display());
    Ok(())
}

fn number_text(number: f64) -> String {
    match number.abs() {
        _ if !number.is_finite() => number.to_string(),
        1000.0.. => format!("{number:.0}"),
        100.0.. => format!("{number:.1}"),
        1.0.. => format!("{number:.2}"),
        0.0 => "0".to_owned(),
        0.01.. => format!("{number:.3}"),
        _ => format!("{number:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_that_matter() {
        let texts = [18.7234, 0.0, 0.95123, 1.234e-5, 12345.6, f64::INFINITY].map(number_text);
        assert_eq!(texts, ["18.72", "0", "0.951", "1.23e-5", "12346", "inf"]);
    }
}
