//! Our TCP beside that of ns-3, on one flow: the bands that hold, as in `docs/reproduction.md`. Says so and
//! passes where the Python named by `FRAMEWIRE_NS3_PYTHON` (default `python3`) has no module `ns3`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Ours over ns-3's.
const GOODPUT: std::ops::RangeInclusive<f64> = 0.97..=1.03;
const QUEUE: std::ops::RangeInclusive<f64> = 0.85..=1.15;

/// `tools/ns3-check` on one flow; nothing without Python or ns-3.
fn check(controllers: &str) -> Option<Vec<Value>> {
    let python = std::env::var("FRAMEWIRE_NS3_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/ns3-check");
    let mut command = Command::new(&python);
    command.arg(script).arg(env!("CARGO_BIN_EXE_framewire"));
    command.args(["--setups", "one", "--json", "--controllers", controllers]);
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        println!("skipped: no Python called {python}");
        return None;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let result: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    if result["skipped"] == Value::Bool(true) {
        println!("skipped: {}", error.trim());
        return None;
    }
    Some(result["rows"].as_array().expect("a list of rows").clone())
}

fn ratio(row: &Value, of: &str) -> f64 {
    row[of].as_f64().expect("a number")
}

#[test]
fn one_flow_fares_as_in_ns3() {
    let Some(rows) = check("newreno,cubic,cubic-classic,bbr") else { return };
    assert_eq!(rows.len(), 4);
    for row in &rows {
        println!("{row}");
        assert!(GOODPUT.contains(&ratio(row, "goodput_ratio")), "{row}");
        // After PRR ns-3's CUBIC cuts twice, and its BBR measures too much: the page has why the queues
        // differ.
        if row["controller"] == "newreno" || row["controller"] == "cubic-classic" {
            assert!(QUEUE.contains(&ratio(row, "queue_ratio")), "{row}");
        }
    }
}
