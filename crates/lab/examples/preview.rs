//! Temporary preview.
use std::path::Path;
use lab::{report, run, scenario::Scenario};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let scenario = Scenario::load(Path::new(&a[1])).unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(2) });
    let ccs: Vec<String> = a.get(3).map(|s| s.split(',').map(Into::into).collect()).unwrap_or_default();
    let options = run::RunOptions { commit: "1a2b3c4".into(), threads: 2, ..Default::default() };
    let t = std::time::Instant::now();
    let outcomes = if ccs.is_empty() { vec![run::run(&scenario, &options).unwrap()] } else { run::compare(&scenario, &ccs, &options).unwrap() };
    eprintln!("ran {:?}", t.elapsed());
    let runs = outcomes.iter().map(|o| o.view(o.scenario.flows[0].name.clone())).collect();
    let title = if ccs.is_empty() { scenario.name.clone() } else { format!("{} compared", ccs.join(", ")) };
    let html = report::render(&report::ReportData { title, description: scenario.description.clone(), runs });
    std::fs::write(&a[2], &html).unwrap();
    eprintln!("{} bytes, {:?}", html.len(), t.elapsed());
    for o in &outcomes { println!("{}", serde_json::to_string_pretty(&o.summary).unwrap()); }
}
