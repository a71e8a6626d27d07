//! Predictors by name.

use std::path::Path;

use units::instead;

use crate::features::{Input, WINDOWS};
use crate::network::Network;

/// Why there is no predictor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredictError {
    /// There is none of this name.
    #[error("no loss predictor is called `{found}`; {instead}")]
    Name {
        /// What was asked for.
        found: String,
        /// What may have been meant.
        instead: String,
    },
    /// It does not take this option, or not with this value.
    #[error("loss predictor `{name}`: {found}; {remedy}")]
    Option {
        /// The predictor that was asked for.
        name: &'static str,
        /// The option as it was written.
        found: String,
        /// What would be right.
        remedy: &'static str,
    },
    /// A file of weights that is none.
    #[error("{file}: {place}: {found}; {remedy}")]
    File {
        /// The file as it was named.
        file: String,
        /// Line and column, or the field.
        place: String,
        /// What is wrong there.
        found: String,
        /// What would be right, or how to get it.
        remedy: String,
    },
}

/// Says how likely it is that a packet sent within [`HORIZON`](crate::HORIZON) is lost.
pub trait Predictor: Send {
    /// From 0 (unlikely) to 1, of what the last 200 ms looked like. Neither the time nor earlier calls change
    /// the answer.
    fn probability(&mut self, input: &Input) -> f32;

    /// The probability from which on a sender should act.
    fn threshold(&self) -> f32;
}

/// A predictor, or why there is none.
type Built = Result<Box<dyn Predictor>, PredictError>;

/// One row: a predictor.
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The one option it takes, as `KEY=WHAT`.
    pub option: &'static str,
    /// Builds it; with the option's value, if it was given.
    build: fn(Option<&str>) -> Built,
}

/// All of them, in the order they are listed to people.
pub const REGISTRY: &[Entry] = &[
    Entry {
        name: "cnn",
        summary: "a convolutional network over 200 ms of round trips, packets and losses (thesis section 4.5.4)",
        option: "weights=FILE",
        build: |weights| match weights {
            Some(path) => Ok(Box::new(Network::read(Path::new(path))?)),
            None => Ok(Box::new(Network::shipped())),
        },
    },
    Entry {
        name: "rtt",
        summary: "a threshold on the round trip over the least one of the connection (thesis section 4.7)",
        option: "above=RATIO",
        build: |above| Ok(Box::new(above.map_or(Ok(RttThreshold::default()), RttThreshold::parse)?)),
    },
];

/// Builds the predictor that `text` names: `cnn`, `cnn:weights=FILE`, `rtt`, `rtt:above=2.5`.
///
/// # Errors
/// [`PredictError`] if there is none of that name, it does not take the option, or its file is not usable.
///
/// ```
/// let error = framewire_predict::build("rnn").err().expect("there is none");
/// assert_eq!(error.to_string(), "no loss predictor is called `rnn`; did you mean `cnn`?");
/// ```
pub fn build(text: &str) -> Result<Box<dyn Predictor>, PredictError> {
    let (name, option) = text.split_once(':').map_or((text, None), |(name, option)| (name, Some(option)));
    let Some(entry) = REGISTRY.iter().find(|entry| entry.name == name) else {
        let names: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
        return Err(PredictError::Name { found: name.to_owned(), instead: instead(name, &names) });
    };
    let key = entry.option.split_once('=').map_or("", |(key, _)| key);
    match option.map(|option| option.split_once('=')) {
        None => (entry.build)(None),
        Some(Some((found, value))) if found == key => (entry.build)(Some(value)),
        Some(_) => {
            let found = format!("no option `{}`", option.unwrap_or_default());
            Err(PredictError::Option { name: entry.name, found, remedy: entry.option })
        }
    }
}

/// The round trip of the newest window that has one, over the least of the connection: a queue that grows is
/// about to overflow. What section 4.7.2.1 of the thesis calls a dummy.
///
/// ```
/// use framewire_predict::{Input, Predictor, RttThreshold};
///
/// let mut predictor = RttThreshold::default();
/// assert_eq!(predictor.probability(&Input::default()), 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RttThreshold {
    above: f32,
}

/// The lowest ratio with no more than two false triggers a second, over the runs that chose the network's
/// threshold (docs/loss-predictor.md).
const ABOVE: f32 = 4.36;

impl Default for RttThreshold {
    fn default() -> RttThreshold {
        RttThreshold { above: ABOVE }
    }
}

impl RttThreshold {
    fn parse(text: &str) -> Result<RttThreshold, PredictError> {
        let above = text.parse().ok().filter(|above| (1.0..=1e3).contains(above));
        let refuse = || PredictError::Option {
            name: "rtt",
            found: format!("above={text}"),
            remedy: "1 to 1000 is possible: the round trip over the least one",
        };
        above.map(|above| RttThreshold { above }).ok_or_else(refuse)
    }

    /// The share of a round trip of `ratio` least ones that is spent in queues.
    fn share(ratio: f32) -> f32 {
        if ratio > 1.0 { 1.0 - 1.0 / ratio } else { 0.0 }
    }
}

impl Predictor for RttThreshold {
    fn probability(&mut self, input: &Input) -> f32 {
        let newest = (0..WINDOWS).rev().map(|window| input.0[window]).find(|row| row[7] == 0.0);
        newest.map_or(0.0, |row| RttThreshold::share(row[2]))
    }

    fn threshold(&self) -> f32 {
        RttThreshold::share(self.above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_and_a_wrong_one_is_told_what_there_is() {
        for entry in REGISTRY {
            let mut predictor = build(entry.name).unwrap();
            assert!((0.0..1.0).contains(&predictor.probability(&Input::default())), "{}", entry.name);
            assert!((0.0..1.0).contains(&predictor.threshold()), "{}", entry.name);
        }
        let said = |text: &str| build(text).err().unwrap().to_string();
        assert_eq!(said("oracle"), "no loss predictor is called `oracle`; there are cnn, rtt");
        assert_eq!(said("rtt:below=2"), "loss predictor `rtt`: no option `below=2`; above=RATIO");
        assert!(said("rtt:above=nan").contains("above=nan; 1 to 1000 is possible"));
        assert!(said("cnn:weights=none.json").starts_with("none.json: file: "));
    }

    #[test]
    fn the_threshold_is_on_the_newest_round_trip() {
        let mut predictor = *Box::new(RttThreshold::parse("3").unwrap());
        let mut input = Input::default();
        input.0[9] = [1.0, 3.5, 2.9, 0.0, 0.0, 5.0, 0.0, 0.0];
        assert!(predictor.probability(&input) < predictor.threshold());
        input.0[10] = [1.0, 3.5, 3.1, 0.0, 0.0, 5.0, 0.0, 0.0];
        assert!(predictor.probability(&input) > predictor.threshold());
    }
}
