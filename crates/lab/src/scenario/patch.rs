//! Changes to a scenario's text, field by field: what `--set` and an experiment's axes do.

use toml::{Table, Value};

use super::{Scenario, ScenarioError};

/// Why changes to a scenario are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The scenario has no such place, as [`set`] says.
    #[error("{field}: {what}")]
    NoPlace {
        /// The path of the field.
        field: String,
        /// Why there is no such place.
        what: String,
    },
    /// What the changes make of it is no scenario. The error's line is one of the changed text, which nobody
    /// has seen.
    #[error("{}: {}", .0.field, .0.what)]
    NoScenario(ScenarioError),
}

/// The scenario with fields of its text set, as [`set`] does it, one after the other. The changes are named
/// in its [`settings`](Scenario::settings) and made to its text, so that this stays a full account of the
/// run.
///
/// # Errors
/// [`Refusal`] that names the field.
///
/// ```
/// use std::path::Path;
///
/// use framewire_lab::scenario::{Scenario, patch};
///
/// let text = "duration = \"3s\"\n[link]\nrate = \"5mbit\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n";
/// let scenario = Scenario::parse(text, Path::new("example.toml"))?;
/// let slower = patch::changed(&scenario, &[("link.rate".to_owned(), patch::literal("1mbit"))])?;
/// assert_eq!(slower.settings["link.rate"], "1mbit");
/// let refused = patch::changed(&scenario, &[("flow[2].cc".to_owned(), patch::literal("gcc"))]);
/// assert_eq!(refused.unwrap_err().to_string(), "flow[2].cc: `flow` has 1 elements, counted from 1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn changed(scenario: &Scenario, changes: &[(String, Value)]) -> Result<Scenario, Refusal> {
    if changes.is_empty() {
        return Ok(scenario.clone());
    }
    let mut table: Table = scenario.text.parse().expect("a scenario that was read is a table");
    let mut settings = scenario.settings.clone();
    for (field, value) in changes {
        set(&mut table, field, value.clone())
            .map_err(|what| Refusal::NoPlace { field: field.clone(), what })?;
        settings.insert(field.clone(), serde_json::to_value(value).expect("a value of TOML is plain data"));
    }
    let text = toml::to_string(&table).expect("a table can be written");
    let scenario = Scenario::parse(&text, &scenario.file).map_err(Refusal::NoScenario)?;
    Ok(Scenario { settings, ..scenario })
}

/// A TOML value if it reads as one (`20.0`, `true`, `["1s", "2s"]`), else text, so that quotes can be left
/// out.
pub fn literal(text: &str) -> Value {
    text.parse().unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Sets the field at a path such as `link.rate` or `flow[1].encoder.fps`; tables on the way are made. An
/// empty text takes the field away, so that its default applies: what a flow needs that gets another source.
///
/// # Errors
/// Why there is no such place.
pub fn set(table: &mut Table, path: &str, value: Value) -> Result<(), String> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let (key, index) = indexed(head)?;
    if rest.is_none() && index.is_none() && value.as_str() == Some("") {
        table.remove(key);
        return Ok(());
    }
    let slot = table.entry(key.to_owned()).or_insert_with(|| Value::Table(Table::new()));
    let slot = match (index, slot) {
        (None, slot) => slot,
        (Some(index), Value::Array(list)) => {
            let length = list.len();
            list.get_mut(index - 1).ok_or_else(|| format!("`{key}` has {length} elements, counted from 1"))?
        }
        (Some(_), _) => return Err(format!("`{key}` is no list")),
    };
    match (rest, slot) {
        (None, slot) => *slot = value,
        (Some(rest), Value::Table(inner)) => return set(inner, rest, value),
        (Some(_), Value::Array(_)) => {
            return Err(format!("`{key}` is a list; write {key}[1] for its first element"));
        }
        (Some(_), _) => return Err(format!("`{key}` has no fields")),
    }
    Ok(())
}

/// `flow[2]` is `flow` and 2; `flow` is `flow` alone.
fn indexed(head: &str) -> Result<(&str, Option<usize>), String> {
    let Some((key, rest)) = head.split_once('[') else {
        return if head.is_empty() { Err("a field has a name".to_owned()) } else { Ok((head, None)) };
    };
    let index = rest.strip_suffix(']').and_then(|text| text.parse().ok()).filter(|&index| index > 0);
    index
        .map(|index| (key, Some(index)))
        .ok_or_else(|| format!("`{head}` is not NAME[NUMBER], counted from 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(path: &str, value: &str) -> Result<String, String> {
        let mut table: Table = "a = 1\n[[flow]]\ncc = \"x\"\n[[flow]]\ncc = \"y\"\n".parse().unwrap();
        set(&mut table, path, literal(value))?;
        Ok(table.to_string())
    }

    #[test]
    fn fields_are_set_wherever_they_are() {
        assert!(changed("a", "2").unwrap().contains("a = 2"));
        assert!(changed("link.rate", "5mbit").unwrap().contains("[link]\nrate = \"5mbit\""));
        assert!(
            changed("flow[2].cc", "z").unwrap().contains("\"x\"")
                && changed("flow[2].cc", "z").unwrap().contains("\"z\"")
        );
        assert!(changed("flow[1].encoder.fps", "60.0").unwrap().contains("fps = 60.0"));
        assert_eq!(changed("flow[2].cc", "").unwrap().matches("cc = ").count(), 1);
        assert!(!changed("a", "").unwrap().contains("a = "));
    }

    #[test]
    fn impossible_fields_are_refused() {
        assert_eq!(changed("flow[3].cc", "z").unwrap_err(), "`flow` has 2 elements, counted from 1");
        assert_eq!(changed("flow[0].cc", "z").unwrap_err(), "`flow[0]` is not NAME[NUMBER], counted from 1");
        assert_eq!(
            changed("flow.cc", "z").unwrap_err(),
            "`flow` is a list; write flow[1] for its first element"
        );
        assert_eq!(changed("a.b", "z").unwrap_err(), "`a` has no fields");
        assert_eq!(changed("a[1]", "z").unwrap_err(), "`a` is no list");
        assert_eq!(changed(".b", "z").unwrap_err(), "a field has a name");
    }
}
