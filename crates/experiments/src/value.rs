//! What a metric's formula gives.

use rhai::{Array, Dynamic};
use serde::{Deserialize, Serialize};

/// A number, a list of numbers, or a curve. Serialised as JSON numbers and lists of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// One number; infinite or none where the run never got there.
    #[serde(with = "maybe_infinite")]
    Number(f64),
    /// Points `[x, y]`.
    Curve(Vec<(f64, f64)>),
    /// Numbers in the order they were measured.
    List(Vec<f64>),
}

/// JSON knows no infinity: it is written as text.
mod maybe_infinite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(f64),
        Text(String),
    }

    pub fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        let either =
            if number.is_finite() { Either::Number(*number) } else { Either::Text(number.to_string()) };
        either.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Either::deserialize(deserializer)? {
            Either::Number(number) => Ok(number),
            Either::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// A number of either kind; a truth is 1 or 0.
pub(crate) fn number(value: &Dynamic) -> Option<f64> {
    let integer = || value.as_int().ok().map(|n| n as f64);
    let truth = || value.as_bool().ok().map(f64::from);
    value.as_float().ok().or_else(integer).or_else(truth)
}

fn numbers(value: &Dynamic) -> Option<Vec<f64>> {
    value.read_lock::<Array>()?.iter().map(number).collect()
}

impl Value {
    /// What a formula's result is, if it is any of these.
    pub(crate) fn of(result: &Dynamic) -> Option<Value> {
        if let Some(number) = number(result) {
            return Some(Value::Number(number));
        }
        let list = result.read_lock::<Array>()?;
        let pair = |item: &Dynamic| match numbers(item)?.as_slice() {
            &[x, y] => Some((x, y)),
            _ => None,
        };
        match list.iter().map(pair).collect::<Option<Vec<_>>>().filter(|curve| !curve.is_empty()) {
            Some(curve) => Some(Value::Curve(curve)),
            None => list.iter().map(number).collect::<Option<_>>().map(Value::List),
        }
    }

    /// The same for formulas to read.
    pub(crate) fn to_dynamic(&self) -> Dynamic {
        let floats = |numbers: &[f64]| numbers.iter().map(|&n| Dynamic::from_float(n)).collect::<Array>();
        match self {
            Value::Number(number) => Dynamic::from_float(*number),
            Value::List(list) => floats(list).into(),
            Value::Curve(curve) => {
                curve.iter().map(|&(x, y)| Dynamic::from(floats(&[x, y]))).collect::<Array>().into()
            }
        }
    }

    /// The mean over seeds: of numbers, and of lists place by place. Of curves the first, which is a run like
    /// any other.
    pub fn mean(of: &[Value]) -> Option<Value> {
        let count = of.len() as f64;
        match of.first()? {
            Value::Number(_) => {
                let sum: f64 =
                    of.iter().filter_map(|v| if let Value::Number(n) = v { Some(n) } else { None }).sum();
                Some(Value::Number(sum / count))
            }
            Value::List(first) => {
                let mut sums = vec![0.0; first.len()];
                for value in of {
                    let Value::List(list) = value else { continue };
                    sums.iter_mut().zip(list).for_each(|(sum, n)| *sum += n / count);
                }
                Some(Value::List(sums))
            }
            curve => Some(curve.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_json_even_infinite_ones() {
        let all = [
            Value::Number(1.5),
            Value::Number(f64::INFINITY),
            Value::List(vec![1.0, 2.0]),
            Value::Curve(vec![(0.0, 1.0), (2.0, 3.0)]),
        ];
        for value in all {
            let text = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn seeds_are_averaged() {
        let mean = |of: &[Value]| Value::mean(of).unwrap();
        assert_eq!(mean(&[Value::Number(1.0), Value::Number(2.0)]), Value::Number(1.5));
        assert_eq!(
            mean(&[Value::List(vec![1.0, 0.0]), Value::List(vec![3.0, 1.0])]),
            Value::List(vec![2.0, 0.5])
        );
    }
}
