//! Open-loop cross traffic: packets that nobody answers, sent into links beside the flows under test.
//!
//! ```text
//! cbr       |  |  |  |  |  |  |     every size / rate
//! poisson   | ||   |  |   ||  |     exponential gaps of the same mean
//! onoff     ||||        |||||       constant rate while on; on and off last fixed or exponential times
//! listed    |   || |        |       at given instants
//! ```

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use units::{Bytes, Rate, Rng, Span, Time};

use crate::instants::Instants;
use crate::text::{self, TextError};

/// When packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Evenly spaced.
    Constant,
    /// With exponentially distributed gaps.
    Poisson,
    /// Evenly spaced during on periods, none in between. It starts with an on period.
    OnOff {
        /// Length of an on period (its mean, if exponential).
        on: Span,
        /// Length of an off period (its mean, if exponential).
        off: Span,
        /// Whether the lengths are exponentially distributed instead of fixed.
        exponential: bool,
    },
}

/// An open-loop source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossTraffic {
    /// When packets are sent.
    pub pattern: Pattern,
    /// Rate of IP bytes: the mean rate, or for [`Pattern::OnOff`] the rate during on periods.
    pub rate: Rate,
    /// Bytes of each IP packet.
    pub size: u32,
    /// World time of the first packet (for Poisson, of the start of the first gap).
    pub start: Time,
    /// World time from which no more packets are sent.
    pub stop: Time,
}

/// Size of cross-traffic packets where none is given: a full Ethernet frame's IP packet (RFC 894).
pub const DEFAULT_SIZE: u32 = 1500;

impl CrossTraffic {
    /// A source of `rate` and `pattern` with packets of [`DEFAULT_SIZE`], for the whole run.
    pub fn new(pattern: Pattern, rate: Rate) -> CrossTraffic {
        CrossTraffic { pattern, rate, size: DEFAULT_SIZE, start: Time::ZERO, stop: Time::MAX }
    }
}

const FORMS: &str = "cbr:5mbit, poisson:5mbit, onoff:5mbit,on=200ms,off=800ms (exponential unless ,fixed); \
                     each with size=1200B, start=5s, stop=20s if wanted";

impl FromStr for CrossTraffic {
    type Err = TextError;

    /// Reads `cbr:5mbit`, `poisson:5mbit,size=1200B`,
    /// `onoff:5mbit,on=200ms,off=800ms,fixed,start=5s,stop=20s`.
    fn from_str(text: &str) -> Result<CrossTraffic, TextError> {
        let refuse = || TextError::new(text, "cross traffic", FORMS);
        let (name, arguments) = text::split_name(text);
        if !["cbr", "poisson", "onoff"].contains(&name) {
            return Err(refuse());
        }
        let mut traffic = CrossTraffic::new(Pattern::Constant, Rate::ZERO);
        let (mut on, mut off, mut exponential) = (None, None, true);
        for (key, value) in text::parts(arguments) {
            match (key, value) {
                ("", "fixed") => exponential = false,
                ("", "exponential") => exponential = true,
                ("", rate) => traffic.rate = text::quantity(rate, "a rate", "a rate such as 5mbit")?,
                ("size", size) => traffic.size = packet_size(size)?,
                ("on", span) => on = Some(time(span)?),
                ("off", span) => off = Some(time(span)?),
                ("start", span) => traffic.start = Time::ZERO + time(span)?,
                ("stop", span) => traffic.stop = Time::ZERO + time(span)?,
                _ => return Err(refuse()),
            }
        }
        traffic.pattern = match (name, on, off) {
            ("cbr", None, None) => Pattern::Constant,
            ("poisson", None, None) => Pattern::Poisson,
            ("onoff", Some(on), Some(off)) if on.is_positive() => Pattern::OnOff { on, off, exponential },
            _ => return Err(refuse()),
        };
        if traffic.rate == Rate::ZERO { Err(refuse()) } else { Ok(traffic) }
    }
}

fn time(text: &str) -> Result<Span, TextError> {
    text::quantity(text, "a time", "a time such as 200ms or 5s")
}

fn packet_size(text: &str) -> Result<u32, TextError> {
    let accepted = "a size from 28B to 65535B";
    let size: Bytes = text::quantity(text, "a packet size", accepted)?;
    match u32::try_from(size.get()) {
        Ok(size @ 28..=65_535) => Ok(size),
        _ => Err(TextError::new(text, "a packet size", accepted)),
    }
}

impl fmt::Display for CrossTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.rate.as_bps();
        match self.pattern {
            Pattern::Constant => write!(f, "cbr:{bps}bit")?,
            Pattern::Poisson => write!(f, "poisson:{bps}bit")?,
            Pattern::OnOff { on, off, exponential } => {
                let law = if exponential { "exponential" } else { "fixed" };
                write!(f, "onoff:{bps}bit,on={on},off={off},{law}")?;
            }
        }
        write!(f, ",size={}B,start={}", self.size, self.start - Time::ZERO)?;
        if self.stop < Time::MAX { write!(f, ",stop={}", self.stop - Time::ZERO) } else { Ok(()) }
    }
}

/// A running source.
#[derive(Clone)]
pub(crate) enum Source {
    Drawn(Drawn),
    Listed(Listed),
}

impl Source {
    /// Bytes of each IP packet.
    pub fn size(&self) -> u32 {
        match self {
            Source::Drawn(drawn) => drawn.traffic.size,
            Source::Listed(listed) => listed.size,
        }
    }

    /// When the next packet is sent; [`Time::MAX`] for never.
    pub fn next(&self) -> Time {
        match self {
            Source::Drawn(drawn) => drawn.next(),
            Source::Listed(listed) => listed.instants.at(listed.index),
        }
    }

    /// The packet of `next` has been sent; works out the one after.
    pub fn step(&mut self) {
        match self {
            Source::Drawn(drawn) => drawn.step(),
            Source::Listed(listed) => listed.index += 1,
        }
    }
}

/// Sends at given instants.
#[derive(Clone)]
pub(crate) struct Listed {
    pub instants: Arc<Instants>,
    pub size: u32,
    pub index: usize,
}

/// Sends by a pattern.
#[derive(Clone)]
pub(crate) struct Drawn {
    traffic: CrossTraffic,
    rng: Rng,
    gap: Span,
    next: Time,
    on_until: Time,
}

impl Drawn {
    /// The source numbered `index` in its world; its random stream is `cross<index>`.
    pub fn new(traffic: CrossTraffic, seed: u64, index: usize) -> Drawn {
        let mut source = Drawn {
            gap: traffic.rate.time_to_send(Bytes::new(u64::from(traffic.size))).max(Span::from_nanos(1)),
            rng: Rng::stream(seed, &format!("cross{index}")),
            next: traffic.start,
            on_until: Time::MAX,
            traffic,
        };
        match traffic.pattern {
            Pattern::Constant => {}
            Pattern::Poisson => source.next = traffic.start + source.poisson_gap(),
            Pattern::OnOff { on, exponential, .. } => {
                source.on_until = traffic.start + source.period(on, exponential);
            }
        }
        source
    }

    fn next(&self) -> Time {
        if self.next < self.traffic.stop { self.next } else { Time::MAX }
    }

    fn step(&mut self) {
        match self.traffic.pattern {
            Pattern::Constant => self.next += self.gap,
            Pattern::Poisson => {
                let gap = self.poisson_gap();
                self.next += gap;
            }
            Pattern::OnOff { on, off, exponential } => {
                self.next += self.gap;
                while self.next >= self.on_until && self.on_until < self.traffic.stop {
                    self.next = self.on_until + self.period(off, exponential);
                    self.on_until = self.next + self.period(on, exponential);
                }
            }
        }
    }

    fn poisson_gap(&mut self) -> Span {
        Span::from_nanos(self.rng.exponential(self.gap.as_nanos() as f64).round() as i64)
    }

    /// At least a nanosecond, so that time goes on.
    fn period(&mut self, mean: Span, exponential: bool) -> Span {
        let ns = mean.as_nanos();
        let drawn = if exponential { self.rng.exponential(ns as f64).round() as i64 } else { ns };
        Span::from_nanos(drawn.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(text: &str, until: Time) -> Vec<Time> {
        let mut source = Drawn::new(text.parse().unwrap(), 1, 0);
        let mut times = Vec::new();
        while source.next() < until {
            times.push(source.next());
            source.step();
        }
        times
    }

    #[test]
    fn constant_rate_is_even_and_starts_and_stops() {
        let times = sent("cbr:12mbit,start=1s,stop=2s", Time::MAX);
        assert_eq!(times.len(), 1000);
        assert_eq!(
            (times[0], times[1], times[999]),
            (Time::from_secs(1), Time::from_millis(1001), Time::from_millis(1999))
        );
    }

    #[test]
    fn poisson_has_the_mean_and_spread_of_exponential_gaps() {
        let times = sent("poisson:12mbit", Time::from_secs(100));
        assert!((99_000..101_000).contains(&times.len()), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis_f64()).collect();
        let variance = gaps.iter().map(|gap| (gap - 1.0).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn on_off_sends_during_on_periods_only() {
        let times = sent("onoff:12mbit,on=100ms,off=300ms,fixed", Time::from_secs(4));
        assert_eq!(times.len(), 1000);
        assert!(times.iter().all(|at| at.as_nanos() % 400_000_000 < 100_000_000));
        // Exponential periods of 100 and 300 ms send a quarter of the time.
        let times = sent("onoff:12mbit,on=100ms,off=300ms", Time::from_secs(1000));
        assert!((225_000..275_000).contains(&times.len()), "{}", times.len());
    }

    #[test]
    fn text_round_trips_and_errors_list_the_forms() {
        for text in [
            "cbr:5000000bit,size=1500B,start=0ns",
            "onoff:5000000bit,on=200ms,off=800ms,fixed,size=1200B,start=5s,stop=20s",
        ] {
            assert_eq!(text.parse::<CrossTraffic>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "cbr",
            "cbr:",
            "cbr:0mbit",
            "cbr:5",
            "onoff:5mbit",
            "cbr:5mbit,on=1s",
            "poisson:5mbit,size=3B",
            "cbr:1mbit,x=2",
        ] {
            assert!(bad.parse::<CrossTraffic>().is_err(), "{bad}");
        }
        assert!(
            "tcp:1".parse::<CrossTraffic>().unwrap_err().to_string().contains("accepted: cbr:5mbit, poisson")
        );
    }
}
