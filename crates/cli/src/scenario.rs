//! A scenario file with the command line's changes applied. The changed text is what runs and what is kept
//! with the results, so that they always say what they are results of.

use lab::scenario::Scenario;
use lab::scenario::patch::{literal, set};
use toml::{Table, Value};

use crate::args;
use crate::failure::Failure;
use crate::shipped;

/// Reads the scenario and applies `--seed`, `--duration` and every `--set`.
pub fn load(args: &args::Scenario) -> Result<Scenario, Failure> {
    let file = shipped::or_shipped(&args.file)?;
    let original = Scenario::load(&file).map_err(Failure::input)?;
    let changes = changes(args)?;
    if changes.is_empty() {
        return Ok(original);
    }
    let mut table: Table = original.text.parse().expect("a scenario that was read is a table");
    for (field, value) in &changes {
        set(&mut table, field, value.clone())
            .map_err(|what| Failure::Input(format!("--set {field}: {what}")))?;
    }
    let text = toml::to_string(&table).expect("a table can be written");
    Scenario::parse(&text, &file).map_err(|error| {
        // Its line is one of the changed text, which nobody has seen.
        let file = args.file.display();
        Failure::Input(format!("{file} as changed by the command line: {}: {}", error.field, error.what))
    })
}

fn changes(args: &args::Scenario) -> Result<Vec<(String, Value)>, Failure> {
    let seed = args.seed.map(|seed| ("seed".to_owned(), Value::Integer(seed as i64)));
    let duration =
        args.duration.map(|d| ("duration".to_owned(), Value::String(format!("{}ns", d.as_nanos()))));
    let asked = args.changes.iter().map(|change| {
        let pair = change.split_once('=');
        let (field, value) =
            pair.ok_or_else(|| Failure::Input(format!("--set {change}: write FIELD=VALUE")))?;
        Ok((field.trim().to_owned(), literal(value.trim())))
    });
    seed.into_iter().chain(duration).map(Ok).chain(asked).collect()
}
