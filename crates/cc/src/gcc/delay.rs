//! From packets to a signal: groups, a filter, the detector.

use units::{Span, Time};

use super::detector::{CODE, Column, DRAFT, Detector, Signal};
use super::groups::{Grouping, Groups, Packet, Variation};
use super::kalman::{Planar, Scalar};
use super::revision::Revision;
use super::trendline::Trendline;

/// Without a packet for this long the path may be another: everything is learnt afresh (libwebrtc
/// `kStreamTimeOut`).
pub const STREAM_TIMEOUT: Span = Span::from_secs(2);

/// The three filters, each with its own detector constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// The draft's scalar filter, with chi.
    Scalar(f64),
    /// The two-dimensional filter of libwebrtc up to 2017, with a revision's constants.
    Planar(Revision),
    /// The trendline, over this many groups.
    Trendline(usize),
}

#[derive(Clone, Debug)]
enum Filter {
    Scalar(Scalar),
    Planar(Planar),
    Trendline(Trendline),
}

impl Form {
    fn filter(self) -> Filter {
        match self {
            Form::Scalar(chi) => Filter::Scalar(Scalar::new(chi)),
            Form::Planar(revision) => Filter::Planar(Planar::new(revision.wander)),
            Form::Trendline(window) => Filter::Trendline(Trendline::new(window)),
        }
    }

    fn column(self) -> Column {
        match self {
            Form::Scalar(_) => DRAFT,
            Form::Planar(revision) => revision.column,
            Form::Trendline(_) => CODE,
        }
    }
}

/// Watches the delay of a stream of packets.
#[derive(Clone, Debug)]
pub struct Delay {
    form: Form,
    grouping: Grouping,
    groups: Groups,
    filter: Filter,
    detector: Detector,
    value: f64,
    heard_at: Option<Time>,
}

impl Delay {
    /// One that has seen nothing; a time is that within which the packets of a group are sent.
    pub fn new(form: Form, grouping: impl Into<Grouping>) -> Delay {
        let grouping = grouping.into();
        Delay {
            form,
            grouping,
            groups: Groups::new(grouping),
            filter: form.filter(),
            detector: Detector::new(form.column()),
            value: 0.0,
            heard_at: None,
        }
    }

    /// Takes a packet. Says the signal if a group was completed.
    pub fn push(&mut self, packet: &Packet) -> Option<Signal> {
        if self.heard_at.is_some_and(|at| packet.heard - at > STREAM_TIMEOUT) {
            *self = Delay::new(self.form, self.grouping);
        }
        self.heard_at = Some(packet.heard);
        let variation = self.groups.push(packet)?;
        Some(self.learn(&variation))
    }

    fn learn(&mut self, variation: &Variation) -> Signal {
        let (delay, departure) = (variation.delay_ms(), variation.departure.as_millis_f64());
        let signal = self.detector.signal();
        self.value = match &mut self.filter {
            Filter::Scalar(filter) => filter.update(delay, departure),
            Filter::Planar(filter) => filter.update(delay, variation.size, departure, signal),
            Filter::Trendline(filter) => filter.update(delay, variation.arrived),
        };
        self.detector.update(self.value, departure, variation.arrival.as_millis_f64())
    }

    /// What the detector said last.
    pub fn signal(&self) -> Signal {
        self.detector.signal()
    }

    /// The last tested quantity and its threshold, in ms, for plots.
    pub fn tested(&self) -> (f64, f64) {
        (self.value, self.detector.threshold())
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::BURST;
    use super::super::revision::LAST;
    use super::*;

    /// A 30-frames/s stream through a queue that grows by `growth_ms` a frame for `frames`; the first
    /// over-use.
    fn first_over(form: Form, growth_ms: f64, frames: u64) -> Option<u64> {
        let mut delay = Delay::new(form, BURST);
        (0..frames).find(|&n| {
            let sent = Time::from_micros(n * 33_333);
            let arrived = sent + Span::from_secs_f64((20.0 + growth_ms * n as f64) / 1e3);
            let packet =
                Packet { sent: sent.on_wire(), arrived: arrived.on_wire(), heard: arrived, size: 1000 };
            delay.push(&packet) == Some(Signal::Over)
        })
    }

    #[test]
    fn the_trendline_and_the_planar_filter_see_the_ramp_that_the_draft_s_filter_misses() {
        // A ramp of 5 ms a group.
        assert_eq!(first_over(Form::Scalar(0.01), 5.0, 3000), None);
        assert!(first_over(Form::Planar(LAST), 5.0, 3000).is_some_and(|n| n <= 25));
        assert!(first_over(Form::Trendline(20), 5.0, 3000).is_some_and(|n| n <= 24));
    }

    #[test]
    fn a_pause_forgets() {
        let mut delay = Delay::new(Form::Trendline(20), BURST);
        let packet = |ms: u64| {
            let at = Time::from_millis(ms);
            Packet { sent: at.on_wire(), arrived: at.on_wire(), heard: at, size: 1000 }
        };
        assert!((0..3).filter_map(|n| delay.push(&packet(20 * n))).count() == 1);
        assert!((0..2).filter_map(|n| delay.push(&packet(5000 + 20 * n))).count() == 0);
    }
}
