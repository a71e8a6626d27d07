//! What is varied: a field of the scenario and the values it takes.

use lab::scenario::patch::literal;
use lab::tables::Kind;
use serde::{Deserialize, Serialize};
use toml::Value;

/// A value of a table: what a run measured, or how it was set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Not known.
    None,
    /// A whole number.
    Int(i64),
    /// A real number.
    Real(f64),
    /// Text, as it was written or measured.
    Text(String),
}

impl Cell {
    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Int(value) => Some(*value as f64),
            Cell::Real(value) => Some(*value),
            Cell::None | Cell::Text(_) => None,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Cell::Text(text) = self { Some(text) } else { None }
    }
}

/// A field of the scenario that is varied, and its values in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The path of the field, such as `link.rate` or `flow[1].cc`.
    pub field: String,
    /// Its values as they are written after `--set FIELD=`; an empty one takes the field away, so that its
    /// default applies.
    pub values: Vec<String>,
}

impl Axis {
    /// An axis of `field` with these values.
    pub fn new<V: Into<String>>(field: impl Into<String>, values: impl IntoIterator<Item = V>) -> Axis {
        Axis { field: field.into(), values: values.into_iter().map(Into::into).collect() }
    }

    /// What its column holds: whole numbers if all values are, numbers if all are, else text as it was
    /// written.
    pub fn kind(&self) -> Kind {
        let literals: Vec<Value> = self.given().map(literal).collect();
        if literals.iter().all(Value::is_integer) && !literals.is_empty() {
            Kind::Int
        } else if literals.iter().all(|value| value.is_integer() || value.is_float()) && !literals.is_empty()
        {
            Kind::Real
        } else {
            Kind::Text
        }
    }

    /// A value as its column has it; nothing where the field is taken away.
    pub fn cell(&self, index: usize) -> Cell {
        let text = &self.values[index];
        match (self.kind(), literal(text)) {
            _ if text.is_empty() => Cell::None,
            (Kind::Int, Value::Integer(value)) => Cell::Int(value),
            (Kind::Real, Value::Integer(value)) => Cell::Real(value as f64),
            (Kind::Real, Value::Float(value)) => Cell::Real(value),
            _ => Cell::Text(text.clone()),
        }
    }

    /// Whether the values are amounts, such as `5mbit` or `0.5`, which a line may join: all begin with a
    /// digit.
    pub fn is_amount(&self) -> bool {
        self.given().all(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Whether it is a flow's controller.
    pub fn is_controller(&self) -> bool {
        self.field.starts_with("flow[") && self.field.ends_with("].cc")
    }

    fn given(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(String::as_str).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_type_of_all_their_values() {
        let kind = |values: &[&str]| Axis::new("x", values.iter().copied()).kind();
        assert_eq!(kind(&["1", "2"]), Kind::Int);
        assert_eq!(kind(&["1", "2.5", ""]), Kind::Real);
        assert_eq!(kind(&["1mbit", "2"]), Kind::Text);
        assert_eq!(kind(&[""]), Kind::Text);
        let axis = Axis::new("x", ["1", "2.5", ""]);
        assert_eq!([0, 1, 2].map(|index| axis.cell(index)), [Cell::Real(1.0), Cell::Real(2.5), Cell::None]);
    }

    #[test]
    fn a_cell_survives_a_line_of_text_to_the_last_bit() {
        for cell in [
            Cell::None,
            Cell::Int(-7),
            Cell::Real(1e6),
            Cell::Real(0.1 + 0.2),
            Cell::Real(5e-324),
            Cell::Text("a\n\"b".to_owned()),
        ] {
            let line = serde_json::to_string(&cell).unwrap();
            assert_eq!(serde_json::from_str::<Cell>(&line).unwrap(), cell, "{line}");
        }
    }
}
