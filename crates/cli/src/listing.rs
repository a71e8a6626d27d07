//! What there is to choose from.

use serde_json::json;

use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// `framewire queues`: every queue discipline and how it is written.
pub fn queues(as_json: bool) -> Result<(), Failure> {
    use netsim::queue::REGISTRY;
    if as_json {
        let row = |entry: &netsim::queue::Entry| {
            let (name, summary, syntax) = (entry.name, entry.summary, entry.syntax);
            json!({ "name": name, "summary": summary, "syntax": syntax, "options": options(entry.options) })
        };
        output::json(&json!({ "queues": REGISTRY.iter().map(row).collect::<Vec<_>>() }));
        return Ok(());
    }
    let mut table = Table::new(["queue", "what it does"]);
    let mut before: &[_] = &[];
    for entry in REGISTRY {
        table.row([entry.name, entry.summary]);
        table.row(["", &format!("as in {}", entry.syntax)]);
        // Presets take the options of the row before.
        let options = if entry.options == before { &[] } else { entry.options };
        for (name, help) in options {
            table.row([format!("  {name}="), (*help).to_owned()]);
        }
        before = entry.options;
    }
    print!("{table}");
    println!(
        "\nWrite NAME or NAME:OPTION=VALUE,OPTION=VALUE; switches and limits may be written alone: codel:300p,ecn"
    );
    Ok(())
}

/// `framewire playouts`: every playout policy with its options.
pub fn playouts(as_json: bool) -> Result<(), Failure> {
    use session::playout::{Entry, REGISTRY};
    if as_json {
        let row = |entry: &Entry| json!({ "name": entry.name, "summary": entry.summary, "options": options(entry.options) });
        output::json(&json!({ "playouts": REGISTRY.iter().map(row).collect::<Vec<_>>() }));
        return Ok(());
    }
    let mut table = Table::new(["playout", "when a frame is shown"]);
    for entry in REGISTRY {
        table.row([entry.name, entry.summary]);
        for (name, help) in entry.options {
            table.row([format!("  {name}="), (*help).to_owned()]);
        }
    }
    print!("{table}");
    println!(
        "\nWrite NAME or NAME:OPTION=VALUE: `framewire receive --playout fixed:delay=80ms`, `framewire serve --playout adaptive`,\n\
         `playout = \"adaptive\"` of a scenario's flow. docs/playout.md compares them."
    );
    Ok(())
}

/// Options for programs.
pub fn options(options: &[(&str, &str)]) -> Vec<serde_json::Value> {
    options.iter().map(|(name, help)| json!({ "name": name, "summary": help })).collect()
}
