//! What there is to choose from.

use serde_json::json;

use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// `framewire controllers`: every row of the registry, and its options.
pub fn controllers(as_json: bool) -> Result<(), Failure> {
    if as_json {
        output::json(&json!({ "controllers": cc::REGISTRY.iter().map(row).collect::<Vec<_>>() }));
        return Ok(());
    }
    let mut table = Table::new(["controller", "what it does"]);
    for entry in cc::REGISTRY {
        table.row([entry.name, entry.summary]);
        for (name, help) in entry.options {
            table.row([format!("  {name}="), (*help).to_owned()]);
        }
    }
    print!("{table}");
    println!("\nWrite NAME or NAME:OPTION=VALUE,OPTION=VALUE wherever a command takes --cc.");
    Ok(())
}

/// `framewire queues`: every queue discipline and how it is written.
pub fn queues(as_json: bool) -> Result<(), Failure> {
    use netsim::queue::REGISTRY;
    if as_json {
        let row = |entry: &netsim::queue::Entry| json!({ "name": entry.name, "summary": entry.summary, "syntax": entry.syntax });
        output::json(&json!({ "queues": REGISTRY.iter().map(row).collect::<Vec<_>>() }));
        return Ok(());
    }
    let mut table = Table::new(["queue", "what it does", "written"]);
    for entry in REGISTRY {
        table.row([entry.name, entry.summary, entry.syntax]);
    }
    print!("{table}");
    Ok(())
}

fn row(entry: &cc::Entry) -> serde_json::Value {
    let option = |(name, help): &(&str, &str)| json!({ "name": name, "summary": help });
    let options: Vec<_> = entry.options.iter().map(option).collect();
    json!({ "name": entry.name, "summary": entry.summary, "options": options })
}
