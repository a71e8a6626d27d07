//! `framewire lab real`: its arguments, and what it prints. What is run lives in `instruments`.

use std::path::PathBuf;

use experiments::{Experiment, RealMeasures, RealResults};
use instruments::real_lab::{Competition, EXPERIMENT, run};
use serde_json::json;

use crate::args::Format;
use crate::failure::Failure;
use crate::output::{self, Terminal};
use crate::shipped;
use crate::table::Table;

/// `framewire lab real`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  framewire lab real                      SQP against the kernel's CUBIC and BBR: four minutes
  framewire lab real --cc sqp,pcc,gcc,sprout,vivace,copa-auto --runs 3 --json
  framewire lab real --cc sprout --runs 3     adds Sprout to what OUT holds

Needs root, as `framewire link` does, and a kernel with `bbr` (modprobe tcp_bbr). Every run takes 60 s, in real time, four of them a
controller, and is run in the simulator too, with the same seed. OUT/real.json keeps the results of all invocations, and `framewire lab
report` shows them beside the claims.")]
pub struct Real {
    /// Controllers of experiments/competition.toml, separated by commas
    #[arg(long, value_name = "CC,CC,...", value_delimiter = ',', default_value = "sqp")]
    pub cc: Vec<String>,
    /// Runs of each point, with seeds from 1 on
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub runs: u64,
    /// Forget what earlier invocations left in OUT
    #[arg(long)]
    pub fresh: bool,
    /// Folder of the experiments' files
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub experiments: PathBuf,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
    #[command(flatten)]
    pub format: Format,
}

/// Runs the points asked for, in both worlds, and prints them with what was run before.
pub fn real(args: &Real) -> Result<(), Failure> {
    let file = shipped::or_shipped(&args.experiments.join(format!("{EXPERIMENT}.toml")))?;
    let experiment = Experiment::load(&file).map_err(Failure::input)?;
    let competition = Competition {
        controllers: args.cc.clone(),
        runs: args.runs,
        fresh: args.fresh,
        out: args.out.clone(),
    };
    let results = run(&experiment, &competition, &Terminal)?;
    print(&results, args.format.json);
    Ok(())
}

fn print(results: &RealResults, json: bool) {
    if json {
        output::json(&json!({ "results": results, "rows": results.rows() }));
        return;
    }
    let heads = [
        "point",
        "runs",
        "share",
        "simulated",
        "P10 Mbit/s",
        "simulated",
        "P90",
        "simulated",
        "TCP's share",
        "simulated",
    ];
    let mut table = Table::new(heads);
    for point in &results.points {
        let mut row = vec![point.labels.join(", "), point.runs.len().to_string()];
        let measures: [fn(&RealMeasures) -> f64; 4] = [|m| m.share, |m| m.p10, |m| m.p90, |m| m.other_share];
        for of in measures {
            let means = [point.mean(|run| of(&run.real)), point.mean(|run| of(&run.simulated))];
            row.extend(means.map(|mean| format!("{mean:.2}")));
        }
        table.row(row);
    }
    print!("{table}");
    let mut table = Table::new(["claim", "measured", "for real", "simulated"]);
    for row in results.rows() {
        table.row([row.id.to_owned(), row.what, format!("{:.2}", row.real), format!("{:.2}", row.simulated)]);
    }
    print!("\n{table}");
}
