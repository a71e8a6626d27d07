//! Runs whose rows leave memory beside the same runs whose rows don't.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};

use super::*;
use crate::metrics::{bin_of, slots};
use crate::output::write_data;
use crate::run::{Outcome, RunOptions, run, run_watched};
use crate::summary::Percentiles;

/// Rows leave memory from the first seconds on.
const SOON: Limits = Limits { rows: 30_000, values: usize::MAX, patience: Span::from_secs(2) };

const LINK: &str = "seed = 5\nduration = \"8s\"\nwarmup = \"1s\"\n[link]\nrate = \"6mbit\"\ndelay = \"20ms\"\nqueue = \"droptail:80ms\"\n";

fn scenario(text: &str) -> Scenario {
    Scenario::parse(&format!("{LINK}{text}"), Path::new("x.toml")).unwrap()
}

fn scenarios() -> Vec<Scenario> {
    let lossy = "loss = \"2%\"\njitter = \"3ms\"\nreorder = { share = \"1%\", delay = \"15ms\" }\nduplicate = \"1%\"\n";
    let flow = |cc, rest: &str| format!("[[flow]]\ncc = \"{cc}\"\n{rest}");
    let texts = [
        flow("sqp", ""),
        format!("{lossy}{}", flow("gcc", "rate = \"webrtc\"\n")),
        format!(
            "blackout = [[\"3s\", \"3.8s\"]]\n{}{}",
            flow("sqp", ""),
            flow("copa", "start = \"2s\"\nstop = \"6s\"\n")
        ),
        format!(
            "{lossy}{}",
            flow("newreno", "source = \"backlog\"\n[[cross]]\nkind = \"poisson\"\nrate = \"1mbit\"\n")
        ),
        flow("cubic", "source = \"tcp\"\n"),
    ];
    texts.iter().map(|text| scenario(text)).collect()
}

fn bounded(limits: Limits) -> RunOptions<'static> {
    RunOptions { keep: Keep::Bounded, limits, ..RunOptions::default() }
}

/// The run with its rows, and the same run without.
fn pair(scenario: &Scenario, limits: Limits) -> (Outcome, Outcome) {
    let whole = run(scenario, &RunOptions::default()).unwrap();
    let streamed = run(scenario, &bounded(limits)).unwrap();
    assert!(streamed.record.folded_fairness.is_some(), "{}: its rows should have left", scenario.text);
    (whole, streamed)
}

#[test]
fn figures_are_the_same_to_the_bit() {
    for scenario in scenarios() {
        let (whole, streamed) = pair(&scenario, SOON);
        assert_eq!(whole.summary, streamed.summary, "{}", scenario.text);
    }
}

#[test]
fn a_short_run_keeps_its_rows() {
    let scenario = &scenarios()[0];
    let whole = run(scenario, &RunOptions::default()).unwrap();
    let bounded = run(scenario, &bounded(Limits::default())).unwrap();
    assert_eq!(whole.record.flows[0].packets, bounded.record.flows[0].packets);
    assert_eq!(whole.summary, bounded.summary);
}

#[test]
fn percentiles_of_many_values_are_within_their_resolution() {
    for scenario in scenarios() {
        let (whole, streamed) = pair(&scenario, Limits { values: 50, ..SOON });
        let near =
            |a: f64, b: f64| assert!((a - b).abs() <= 3.1e-5 * a.abs(), "{b} for {a}: {}", scenario.text);
        let spreads = |a: Option<Percentiles>, b: Option<Percentiles>| {
            let Some((a, b)) = a.zip(b) else { return assert_eq!(a, b) };
            for (a, b) in [(a.p50, b.p50), (a.p90, b.p90), (a.p99, b.p99), (a.mean, b.mean)] {
                near(a, b);
            }
            assert_eq!(a.max, b.max);
        };
        spreads(whole.summary.link.queue_ms, streamed.summary.link.queue_ms);
        for (a, b) in whole.summary.flows.iter().zip(&streamed.summary.flows) {
            spreads(a.owd_ms, b.owd_ms);
            spreads(a.rtt_ms, b.rtt_ms);
            spreads(a.frame_delay_ms, b.frame_delay_ms);
            spreads(a.frame_rtt_ms, b.frame_rtt_ms);
            near(a.send_rate_cv.unwrap_or_default(), b.send_rate_cv.unwrap_or_default());
            near(a.psnr_db.map_or(0.0, |q| q.mean), b.psnr_db.map_or(0.0, |q| q.mean));
            assert_eq!(
                (a.loss, a.goodput_bps, a.frames, a.stalls),
                (b.loss, b.goodput_bps, b.frames, b.stalls)
            );
        }
    }
}

#[test]
fn memory_stays_within_bounds_however_long_a_run_is() {
    // A hundredth of the usual limits for about a hundredth of the usual rate.
    let text = "duration = \"600s\"\n[link]\nrate = \"250kbit\"\ndelay = \"20ms\"\nqueue = \"droptail:200ms\"\n\
                [[flow]]\ncc = \"sqp\"\nencoder = { fps = 15.0 }\n";
    let scenario = Scenario::parse(text, Path::new("x.toml")).unwrap();
    let limits = Limits { rows: 200_000, values: 500, patience: Span::from_secs(10) };
    let mut held = Vec::new();
    let folder = Folder::new("bounds");
    let tables = [folder.0.join("run")];
    let options = RunOptions { tables: Some(&tables), ..bounded(limits) };
    run_watched(&scenario, &options, &mut |recording| held.push(recording.held())).unwrap();
    // Between a fifth and two fifths of the run, and in all of it: charts get their columns and distributions
    // their buckets as the run goes on, of which there is a most. Rows that stayed would be two and a half
    // times as many at the end.
    let (early, most) = (held[40..80].iter().max().unwrap(), held.iter().max().unwrap());
    assert!(*most < 2 * early, "{most} after {early} bytes");
    let rows = run(&scenario, &RunOptions::default()).unwrap().record.held();
    assert!(rows > 4 * limits.rows, "{rows} bytes of rows had to leave");
}

#[test]
fn charts_count_the_same_bytes() {
    for scenario in scenarios() {
        let (whole, folded) = pair(&scenario, SOON);
        let width = bin_of(scenario.duration);
        let end = Time::ZERO + scenario.duration;
        for (a, b) in whole.record.flows.iter().zip(&folded.record.flows) {
            let bins = |of: Vec<(Time, u32)>| slots(of, Time::ZERO, end, width);
            assert_eq!(bins(a.deliveries()), bins(b.deliveries()), "{}", scenario.text);
            assert_eq!(bins(a.transmissions().collect()), bins(b.transmissions().collect()));
        }
        let slowest = |outcome: &Outcome| {
            let sojourns = outcome.record.link.departures.iter().map(|departure| departure.sojourn);
            sojourns.max()
        };
        assert_eq!(slowest(&whole), slowest(&folded));
        // A report holds what an encoder coded against what was asked of it.
        for frames in folded.record.flows.iter().map(|flow| flow.frames()) {
            assert!(frames.iter().all(|row| (row.encoded.is_some()) == (row.size > 0)), "{}", scenario.text);
        }
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("framewire-stream-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn rows_of(path: &Path) -> Vec<String> {
    let table = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let mut rows: Vec<String> =
        table.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    let meta = table.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(
        meta.iter()
            .any(|pair| pair.key == "hash" && pair.value.as_ref().is_some_and(|hash| hash.len() == 16))
    );
    rows.sort_unstable();
    rows
}

#[test]
fn tables_have_every_row_and_nothing_else_is_left() {
    let folder = Folder::new("tables");
    for (number, scenario) in scenarios().into_iter().enumerate() {
        let (a, b) = (folder.0.join(format!("{number}-whole")), folder.0.join(format!("{number}-streamed")));
        write_data(&a, &run(&scenario, &RunOptions::default()).unwrap()).unwrap();
        let tables = [b.clone()];
        let options = RunOptions { tables: Some(&tables), ..bounded(SOON) };
        let outcome = run(&scenario, &options).unwrap();
        assert!(b.join("packets.parquet.partial").exists() && !b.join("packets.parquet").exists());
        write_data(&b, &outcome).unwrap();
        drop(outcome);
        for name in ["packets.parquet", "frames.parquet", "link.parquet", "decisions.parquet"] {
            assert!(rows_of(&a.join(name)) == rows_of(&b.join(name)), "{name} of {}", scenario.text);
        }
        let mut left = std::fs::read_dir(&b).unwrap().map(|file| file.unwrap().file_name());
        assert!(left.all(|name| !name.to_string_lossy().ends_with(".partial")));
    }
}

#[test]
fn a_run_that_is_not_written_leaves_nothing_and_trouble_ends_it() {
    let folder = Folder::new("nothing");
    let scenario = &scenarios()[0];
    let tables = [folder.0.join("run")];
    let options = RunOptions { tables: Some(&tables), ..bounded(SOON) };
    drop(run(scenario, &options).unwrap());
    assert!(!tables[0].exists());
    std::fs::write(&tables[0], "no folder").unwrap();
    let trouble = run(scenario, &options).map(drop).unwrap_err().to_string();
    assert!(trouble.starts_with("cannot write "), "{trouble}");
}
