//! Claims against measurements.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::answers::{Judge, Measured};
use crate::execute::Results;
use crate::file::{Band, Experiment, ExperimentError, Row};

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Measured inside the band.
    Held,
    /// Measured outside of it.
    Missed,
    /// Not measured: what it needs is not on this machine.
    Skipped,
}

/// A row of `framewire lab check`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictRow {
    /// The claim's name, such as `S0-40`.
    pub id: String,
    /// How the paper states it; see [`Row::kind`].
    pub kind: String,
    /// What the paper says.
    pub claimed: String,
    /// What was measured; `null` if nothing was.
    pub measured: Option<f64>,
    /// What counts as holding.
    pub band: String,
    /// What must be true besides, if anything.
    pub also: Option<String>,
    /// Whether the claim holds.
    pub verdict: Verdict,
    /// Processor seconds its experiment's runs took; of cached runs, when they were run.
    pub seconds: f64,
    /// The unit of what is claimed and measured.
    pub unit: String,
    /// The experiment's name.
    pub experiment: String,
}

impl Band {
    /// Whether a measured value lies inside. A truth is 1 or 0.
    pub fn holds(&self, measured: f64) -> bool {
        match *self {
            Band::True => measured == 1.0,
            Band::Between(least, most) => (least..=most).contains(&measured),
        }
    }
}

/// Holds every row of `experiment` against `results`.
///
/// # Errors
/// [`ExperimentError`] if a row's formula can't be evaluated.
pub fn check(experiment: &Experiment, results: &Results) -> Result<Vec<VerdictRow>, ExperimentError> {
    let judge = Judge::new(experiment.labels(), &results.points);
    let refuse = |row: &Row, what| experiment.refuse(format!("row {}", row.id), what);
    let row = |row: &Row| {
        let measured = match results.missing {
            Some(_) => None,
            None => Some(judge.evaluate(&row.measure).map_err(|what| refuse(row, what))?),
        };
        let besides = match row.also.as_ref().filter(|_| measured.is_some()) {
            Some(also) => judge.evaluate(also).map_err(|what| refuse(row, what))? == 1.0,
            None => true,
        };
        let verdict = match measured {
            None => Verdict::Skipped,
            Some(value) if besides && row.band.holds(value) => Verdict::Held,
            Some(_) => Verdict::Missed,
        };
        Ok(VerdictRow {
            id: row.id.clone(),
            kind: row.kind.clone(),
            claimed: row.claim.clone(),
            measured: measured.filter(|value| value.is_finite()),
            band: row.band.to_string(),
            also: row.also.clone(),
            verdict,
            seconds: results.seconds,
            unit: row.unit.clone(),
            experiment: experiment.id.clone(),
        })
    };
    experiment.rows.iter().map(row).collect()
}

/// Numbers of the points that rows read and that are not among the `measured` ones. With more of them, rows
/// may turn out to read others.
pub(crate) fn wanted(experiment: &Experiment, measured: &[Measured]) -> BTreeSet<usize> {
    let judge = Judge::new(experiment.labels(), measured);
    for row in &experiment.rows {
        // What it gives means nothing yet, nor does what it complains of.
        let _ = judge.evaluate(&row.measure);
        let _ = row.also.as_ref().map(|also| judge.evaluate(also));
    }
    judge.wanted()
}

/// Sorts `S0-2` before `S0-10`: words and numbers alternately.
pub fn natural(id: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = id;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, more) = rest.split_at(word);
        let digits = more.find(|c: char| !c.is_ascii_digit()).unwrap_or(more.len());
        let (number, more) = more.split_at(digits);
        parts.push((text.to_owned(), number.parse().unwrap_or(0)));
        rest = more;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_listed_in_their_order() {
        let mut ids = ["S1-T2a", "S0-10", "S0-2", "S1-T1h", "S1-T1a"];
        ids.sort_by_key(|id| natural(id));
        assert_eq!(ids, ["S0-2", "S0-10", "S1-T1a", "S1-T1h", "S1-T2a"]);
    }
}
