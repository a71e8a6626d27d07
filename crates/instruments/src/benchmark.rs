//! What a benchmark found.

use serde_json::{Map, Value, json};

use crate::measure;

/// One benchmark's result.
pub struct Benchmark {
    /// The name by which `framewire bench` knows it.
    pub name: &'static str,
    /// Unit of `value`.
    pub unit: &'static str,
    /// The figure to compare.
    pub value: f64,
    /// Everything else it found.
    pub details: Map<String, Value>,
}

impl Benchmark {
    /// A result whose details are the fields of the object `details`.
    pub fn new(name: &'static str, unit: &'static str, value: f64, details: Value) -> Benchmark {
        Benchmark { name, unit, value, details: details.as_object().cloned().unwrap_or_default() }
    }

    /// One flat object: name, unit, value, the process's peak memory in bytes, and the details.
    pub fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".into(), json!(self.name));
        object.insert("unit".into(), json!(self.unit));
        object.insert("value".into(), json!(self.value));
        object.insert("peak_rss_bytes".into(), json!(measure::peak_memory()));
        object.extend(self.details.clone());
        Value::Object(object)
    }
}

/// Adds the fields of one object to another.
pub(crate) fn extend(object: &mut Value, fields: Value) {
    if let (Value::Object(object), Value::Object(fields)) = (object, fields) {
        object.extend(fields);
    }
}
