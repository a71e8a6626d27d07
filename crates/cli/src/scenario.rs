//! A scenario file with the command line's changes applied. The changed text is what runs and what is kept
//! with the results, so that they always say what they are results of.

use lab::scenario::Scenario;
use lab::scenario::patch::{Refusal, changed, literal};
use toml::Value;
use units::Span;

use crate::args;
use crate::failure::Failure;
use crate::shipped;

/// Reads the scenario and applies `--seed`, `--duration` and every `--set`.
pub fn load(args: &args::Scenario) -> Result<Scenario, Failure> {
    let file = shipped::or_shipped(&args.file)?;
    let original = Scenario::load(&file).map_err(Failure::input)?;
    let changes = changes(args)?;
    let mut scenario = changed(&original, &changes).map_err(|refusal| match refusal {
        Refusal::NoPlace { field, what } => Failure::Input(format!("--set {field}: {what}")),
        refused @ Refusal::NoScenario(_) => {
            Failure::Input(format!("{} as changed by the command line: {refused}", args.file.display()))
        }
    })?;
    // Results name a duration as people write it.
    if let (Some(duration), Some(named)) = (args.duration, scenario.settings.get_mut("duration"))
        && *named == exactly(duration)
    {
        *named = duration.to_string().into();
    }
    Ok(scenario)
}

fn exactly(span: Span) -> String {
    format!("{}ns", span.as_nanos())
}

fn changes(args: &args::Scenario) -> Result<Vec<(String, Value)>, Failure> {
    let seed = args.seed.map(|seed| ("seed".to_owned(), Value::Integer(seed as i64)));
    let duration = args.duration.map(|d| ("duration".to_owned(), Value::String(exactly(d))));
    let asked = args.changes.iter().map(|change| {
        let pair = change.split_once('=');
        let (field, value) =
            pair.ok_or_else(|| Failure::Input(format!("--set {change}: write FIELD=VALUE")))?;
        Ok((field.trim().to_owned(), literal(value.trim())))
    });
    seed.into_iter().chain(duration).map(Ok).chain(asked).collect()
}
