//! The project's experiments, and what the lab promises of any.
#![allow(missing_docs, reason = "tests")]

use std::path::Path;

use framewire_experiments::{Cache, Execution, Experiment, Results, Verdict, book, check, execute};

const SMALL: &str = r#"
title = "Two flows"
seed = "ours"
source = "nowhere"
about = "A small one."
seeds = 2
[scenario]
duration = "3s"
[scenario.link]
rate = "5mbit"
delay = "10ms"
[[scenario.flow]]
cc = "sqp"
count = 2
start_spread = "100ms"
[[axis]]
name = "cc"
fields = ["flow[1].cc"]
values = ["sqp", "fixed:rate=1mbit"]
[metrics]
rate = "rate(1, 1, 3)"
all = "rates(1, 3)"
curve = "rate_curve(1, 0.5)"
never = "rise(1, 0, 3, 100, 0.5)"
[[row]]
id = "X-1"
kind = "O"
claim = "one megabit is one megabit"
measure = 'at("fixed:rate=1mbit").rate'
band = "0.9..1.2"
also = 'at("fixed:rate=1mbit").all.len() == 2 && at("sqp").rate > at("fixed:rate=1mbit").rate'
[[row]]
id = "X-2"
kind = "O"
claim = "it does not reach a hundred"
measure = 'at("sqp").never'
band = "<= 3"
[[plot]]
title = "Rate"
y = "curve"
x_label = "seconds"
y_label = "Mbit/s"
"#;

fn run(threads: usize, cache: Option<Cache>) -> (Experiment, Results) {
    run_of(SMALL, threads, cache)
}

fn how(threads: usize, cache: Option<Cache>) -> Execution<'static> {
    Execution {
        commit: "test".into(),
        threads,
        cache,
        hashes: true,
        progress: &|_| {},
        instruments: &[],
        cpu_seconds: || 0.0,
    }
}

fn run_of(text: &str, threads: usize, cache: Option<Cache>) -> (Experiment, Results) {
    let experiment = Experiment::parse(text, Path::new("small.toml")).unwrap();
    let how = how(threads, cache);
    let results = execute(std::slice::from_ref(&experiment), &how).unwrap().remove(0);
    (experiment, results)
}

#[test]
fn every_experiment_reads_and_every_point_is_a_scenario() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let experiments = Experiment::all(&folder).unwrap();
    let mut ids: Vec<String> = Vec::new();
    for experiment in &experiments {
        for point in experiment.points().unwrap() {
            experiment.scenario(&point, 1).unwrap();
        }
        ids.extend(experiment.rows.iter().map(|row| row.id.clone()));
    }
    let rows = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), rows, "two claims share a name");
    assert!(rows > 100, "{rows}");
}

#[test]
fn results_do_not_depend_on_threads_and_claims_get_their_verdicts() {
    let (experiment, alone) = run(1, None);
    let (_, together) = run(4, None);
    assert_eq!((&alone.hashes, &alone.points), (&together.hashes, &together.points));
    assert_eq!(alone.hashes.len(), 4);
    let rows = check(&experiment, &alone).unwrap();
    assert_eq!([rows[0].verdict, rows[1].verdict], [Verdict::Held, Verdict::Missed]);
    assert_eq!(rows[1].measured, None, "it never happened");
    let page = book(&[experiment], &[alone], None, "test").unwrap();
    assert!(page.contains("<polyline") && page.contains("X-1") && !page.contains("NaN"));
}

#[test]
fn what_was_run_is_not_run_again() {
    let folder = std::env::temp_dir().join(format!("framewire-lab-{}", std::process::id()));
    let cache = |program: &str| Some(Cache::new(&folder, program));
    let kept = || std::fs::read_dir(&folder).unwrap().count();
    let (_, first) = run(2, cache("a"));
    assert_eq!(kept(), 4);
    let (_, again) = run(2, cache("a"));
    assert_eq!((&first.points, kept()), (&again.points, 4));
    run(2, cache("b"));
    assert_eq!(kept(), 8, "another program's runs are its own");
    let trace = folder.with_extension("trace");
    let text = SMALL.replace("rate = \"5mbit\"", &format!("trace = \"{}\"", trace.display()));
    for (times, runs) in [("1\n2\n", 12), ("1\n2\n", 12), ("1\n3\n", 16)] {
        std::fs::write(&trace, times).unwrap();
        run_of(&text, 2, cache("b"));
        assert_eq!(kept(), runs, "a run is by what its files hold");
    }
    std::fs::remove_file(&trace).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn runs_are_hashed_for_who_asks_and_measure_the_same() {
    let folder = std::env::temp_dir().join(format!("framewire-hashes-{}", std::process::id()));
    let experiment = [Experiment::parse(SMALL, Path::new("small.toml")).unwrap()];
    let of = |hashes| {
        let how = Execution { hashes, ..how(2, Some(Cache::new(&folder, "a"))) };
        execute(&experiment, &how).unwrap().remove(0)
    };
    let (plain, hashed, kept) = (of(false), of(true), of(false));
    assert_eq!((plain.hashes.len(), hashed.hashes.len()), (0, 4));
    assert_eq!((&plain.points, &kept.hashes), (&hashed.points, &hashed.hashes));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_wrong_formula_names_file_and_place() {
    let text = SMALL.replace("rate(1, 1, 3)", "rate(7, 1, 3)");
    let experiment = Experiment::parse(&text, Path::new("small.toml")).unwrap();
    let how = how(1, None);
    let error = execute(&[experiment], &how).unwrap_err().to_string();
    assert!(error.starts_with("small.toml: run") && error.contains("metric `rate`"), "{error}");
    assert!(error.contains("there is no flow 7; this run has flows 1 to 2"), "{error}");
}

#[test]
fn claims_about_data_that_is_not_here_are_skipped() {
    let needs = SMALL.replace(
        "fields = [\"flow[1].cc\"]\nvalues = [\"sqp\", \"fixed:rate=1mbit\"]",
        "fields = [\"link.trace\"]\nvalues = [\"data:no/such/trace\"]",
    );
    let experiment = Experiment::parse(&needs, Path::new("small.toml")).unwrap();
    let how = how(1, None);
    let results = execute(std::slice::from_ref(&experiment), &how).unwrap().remove(0);
    assert_eq!(results.missing.as_deref(), Some("data:no/such/trace"));
    let rows = check(&experiment, &results).unwrap();
    assert!(rows.iter().all(|row| row.verdict == Verdict::Skipped && row.measured.is_none()));
}

#[test]
fn claims_that_need_what_is_not_here_are_skipped() {
    let with = |needs: &str| {
        let text = format!("needs = [{needs}]\n{SMALL}");
        Experiment::parse(&text, Path::new("small.toml"))
    };
    assert_eq!(with("\"data:no/such/clip\"").unwrap().missing().as_deref(), Some("data:no/such/clip"));
    assert_eq!(with("").unwrap().missing(), None);
    let error = with("\"a wish\"").unwrap_err().to_string();
    assert_eq!(error, "small.toml: needs: `a wish`; `data:FILE`, `ffmpeg` and `x264` are possible");
}

#[test]
fn a_decoder_catches_up_as_the_thesis_has_it() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/prism-catch-up.toml");
    let experiment = Experiment::load(&file).unwrap();
    let results = execute(std::slice::from_ref(&experiment), &how(1, None)).unwrap().remove(0);
    let rows = check(&experiment, &results).unwrap();
    assert_eq!((rows[0].id.as_str(), rows[0].verdict), ("S3P-5", Verdict::Held), "{:?}", rows[0].measured);
}
