//! The arguments of a queue: `codel:300p,target=13ms,ecn`, read against the options its registry row lists.
//!
//! A word alone is a switch if the row lists it (`ecn` is `ecn=on`), and a limit if not (`300p` is
//! `limit=300p`).

use std::ops::RangeInclusive;
use std::str::FromStr;

use units::{Bytes, Rate, Span};

use super::room::Room;
use super::{Entry, Limit, Setup};
use crate::text::{self, TextError};

/// The option that words without a key belong to.
const LIMIT: &str = "limit";
/// The switch of limits in time that follow the link's rate.
pub(super) const FOLLOW: &str = "follow";

/// A length of the queue, in the unit it is watched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threshold {
    Packets(u64),
    Bytes(u64),
}

impl FromStr for Threshold {
    type Err = ();

    fn from_str(text: &str) -> Result<Threshold, ()> {
        let packets =
            text.strip_suffix('p').and_then(|number| number.trim().parse().ok()).map(Threshold::Packets);
        let bytes = || text.parse().ok().map(|size: Bytes| Threshold::Bytes(size.get()));
        match packets.or_else(bytes) {
            None | Some(Threshold::Packets(0) | Threshold::Bytes(0)) => Err(()),
            Some(threshold) => Ok(threshold),
        }
    }
}

/// What was written after a queue's name, all of it known to its registry row.
pub struct Options<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Reads `text`, the part after `NAME:`.
    ///
    /// # Errors
    /// [`TextError`] listing the row's options if one is written that it does not have.
    pub(super) fn read(entry: &Entry, text: &'a str) -> Result<Options<'a>, TextError> {
        let known = |key: &str| entry.options.iter().any(|(name, _)| *name == key);
        let mut pairs = Vec::new();
        for (key, value) in text::parts(text) {
            let (key, value) = match (key, value) {
                ("", word) if known(word) && word != LIMIT => (word, "on"),
                ("", limit) => (LIMIT, limit),
                pair => pair,
            };
            if !known(key) {
                let found = if key == LIMIT { value } else { key };
                let names: Vec<_> = entry.options.iter().map(|(name, _)| *name).collect();
                let near = units::near_names(found, &names);
                let meant = if near.is_empty() { &names } else { &near };
                let accepted = if meant.is_empty() { "none".to_owned() } else { meant.join(", ") };
                return Err(TextError::new(found, "an option of this queue", accepted));
            }
            pairs.push((key, value));
        }
        Ok(Options { pairs })
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// Whether the option is written.
    pub(super) fn has(&self, key: &str) -> bool {
        self.text(key).is_some()
    }

    fn parsed<T: FromStr>(
        &self,
        key: &'static str,
        default: T,
        accepts: impl Fn(&T) -> bool,
        accepted: &str,
    ) -> Result<T, TextError> {
        let Some(text) = self.text(key) else { return Ok(default) };
        text.parse().ok().filter(accepts).ok_or_else(|| {
            let accepted = format!("{key}= with {accepted}");
            TextError::new(&format!("{key}={text}"), "a value of this option", accepted)
        })
    }

    /// All the limits written, each of which must be met; `default` where there is none.
    pub(super) fn limit(&self, reference: Rate, default: Limit) -> Result<Limit, TextError> {
        let mut written = self.pairs.iter().filter(|(name, _)| *name == LIMIT).peekable();
        if written.peek().is_none() {
            return Ok(default);
        }
        written.try_fold(Limit::NONE, |limit, (_, text)| Ok(limit.and(read_limit(text, reference)?)))
    }

    /// The same for a queue whose limits in time may follow the link (`follow`).
    ///
    /// # Errors
    /// As [`limit`](Options::limit), or that nothing is there to follow.
    pub(super) fn room(&self, setup: &Setup) -> Result<Room, TextError> {
        let limit = self.limit(setup.reference, Limit::NONE)?;
        if !self.switch(FOLLOW, false)? {
            return Ok(Room::fixed(limit));
        }
        let limits = self.pairs.iter().filter(|(name, _)| *name == LIMIT).map(|(_, text)| *text);
        let (times, others): (Vec<&str>, Vec<&str>) = limits.partition(|text| read_time(text).is_some());
        let time = times.into_iter().filter_map(read_time).min().ok_or_else(|| {
            TextError::new(FOLLOW, "an option without a limit in time", "a time before it: 300ms,follow")
        })?;
        let read = |limit: Limit, text: &str| Ok(limit.and(read_limit(text, setup.reference)?));
        let fixed = others.into_iter().try_fold(Limit::NONE, read)?;
        Ok(Room::following(fixed, time, setup))
    }

    /// A length of the queue.
    pub(super) fn threshold(&self, key: &'static str, default: Threshold) -> Result<Threshold, TextError> {
        self.parsed(key, default, |_| true, "packets (5p) or a size (30kB) above zero")
    }

    /// A time of a microsecond or more: periodic updates shorter than that would stop the simulator.
    pub(super) fn time(&self, key: &'static str, default: Span) -> Result<Span, TextError> {
        let accepted = "a time of at least 1us such as 5ms";
        self.parsed(key, default, |&span| span >= Span::from_micros(1), accepted)
    }

    /// A time, perhaps zero.
    pub(super) fn time_or_zero(&self, key: &'static str, default: Span) -> Result<Span, TextError> {
        let accepted = "a time such as 5ms, or 0ms";
        self.parsed(key, default, |&span| span >= Span::ZERO, accepted)
    }

    /// A packet's size in bytes.
    pub(super) fn size(&self, key: &'static str, default: u32) -> Result<u32, TextError> {
        let fits = |size: &Bytes| (1..=65_535).contains(&size.get());
        let size = self.parsed(key, Bytes::new(default.into()), fits, "a size from 1B to 65535B")?;
        Ok(size.get() as u32)
    }

    /// A whole number within `range`.
    pub(super) fn count(
        &self,
        key: &'static str,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> Result<u32, TextError> {
        let accepted = format!("a whole number from {} to {}", range.start(), range.end());
        self.parsed(key, default, |number| range.contains(number), &accepted)
    }

    /// A number within `range`.
    pub(super) fn number(
        &self,
        key: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, TextError> {
        let accepted = format!("a number from {} to {}", range.start(), range.end());
        self.parsed(key, default, |number| range.contains(number), &accepted)
    }

    /// A probability, as `0.1` or `10%`.
    pub(super) fn probability(&self, key: &'static str, default: f64) -> Result<f64, TextError> {
        self.text(key).map_or(Ok(default), text::probability)
    }

    /// A switch: the word alone, or `on` or `off`.
    pub(super) fn switch(&self, key: &'static str, default: bool) -> Result<bool, TextError> {
        self.choice(key, default, &[("on", true), ("off", false)])
    }

    /// One of several words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &'static str,
        default: T,
        words: &[(&str, T)],
    ) -> Result<T, TextError> {
        let Some(text) = self.text(key) else { return Ok(default) };
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("{key}={word}")).collect();
            TextError::new(&format!("{key}={text}"), "a value of this option", words.join(", "))
        })
    }
}

fn read_time(text: &str) -> Option<Span> {
    text.parse::<Span>().ok().filter(|span| span.is_positive())
}

fn read_limit(text: &str, reference: Rate) -> Result<Limit, TextError> {
    let packets = || text.strip_suffix('p')?.trim().parse().ok().filter(|&n| n > 0).map(Limit::packets);
    let bytes = || text.parse().ok().filter(|&size| size > Bytes::ZERO).map(Limit::bytes);
    let time = || read_time(text).map(|time| Limit::time(time, reference));
    packets().or_else(bytes).or_else(time).ok_or_else(|| {
        let accepted = "packets (100p), a size (300kB), a time (120ms)";
        TextError::new(text, "a queue limit above zero", accepted)
    })
}

#[cfg(test)]
mod tests {
    use crate::QueueSpec;

    fn refusal(text: &str) -> String {
        text.parse::<QueueSpec>().unwrap_err().to_string()
    }

    #[test]
    fn errors_say_what_is_accepted() {
        assert_eq!(refusal("infinite:3p"), "`3p` is not an option of this queue; accepted: none");
        assert_eq!(
            refusal("droptail:ecn=on"),
            "`ecn` is not an option of this queue; accepted: limit, follow"
        );
        let limit = "`gentle` is not a queue limit above zero; accepted: packets (100p), a size (300kB), a time (120ms)";
        assert_eq!(refusal("droptail:gentle"), limit);
        assert_eq!(
            refusal("codel:target=-1ms"),
            "`target=-1ms` is not a value of this option; accepted: target= with a time of at least 1us such as 5ms"
        );
        assert_eq!(
            refusal("codel:ecn=maybe"),
            "`ecn=maybe` is not a value of this option; accepted: ecn=on, ecn=off"
        );
        assert!(refusal("codel:speed=3").contains("accepted: limit, target, interval"));
    }

    #[test]
    fn words_are_switches_or_limits() {
        for text in
            ["codel:ecn", "codel:300p,ecn", "codel:ecn=off,linux", "codel:limit=300kB", "codel: 2p , 9kB "]
        {
            assert!(text.parse::<QueueSpec>().is_ok(), "{text}");
        }
    }
}
