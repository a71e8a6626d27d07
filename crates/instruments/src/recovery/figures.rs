//! What a run's logs come to.
//!
//! ```text
//! sent       1  2  x  x  5  6            lost: x; a loss event is all that is lost within a round trip of its first
//! shown      |--|--------|--|            gap: from one picture to the next
//!               '-I-'stall               stall: what a gap is longer than the time between frames, I
//! ```

use lab::metrics::{latencies, nearest_rank};
use serde_json::{Value, json};
use units::{Span, Time};

use super::logs::{Logs, Sent, Shown};

/// Nothing that begins earlier is judged: threads start, the first key frame is on its way.
const WARM_UP: Span = Span::from_secs(1);

/// What the path and the clip are known to be.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Time between frames.
    pub interval: Span,
    /// Each way.
    pub delay: Span,
}

impl Known {
    /// The longest stall that a loss should cost: a round trip and two frames.
    pub fn bound(&self) -> Span {
        self.delay * 2 + self.interval * 2
    }
}

/// Of one run. What was not measured is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Frames captured.
    pub captured: usize,
    /// Pictures shown.
    pub shown: usize,
    /// ... of each track, the first track first.
    pub by_track: Vec<usize>,
    /// Pictures that were shown after a newer one, or again.
    pub back_in_time: usize,
    /// Share of the packets of frames that did not arrive.
    pub loss: Option<f64>,
    /// The longest stall of each loss event.
    pub stalls: Vec<Span>,
    /// From capture to picture, of each frame.
    pub delays: Vec<Span>,
    /// Bytes of all packets of frames.
    pub bytes: u64,
    /// Bytes of packets that were sent again.
    pub resent: u64,
    /// Bytes of further tracks.
    pub further_tracks: u64,
    /// Bytes of the first track's key frames after the first.
    pub key_frames: u64,
    /// Bytes of the first track's parity packets.
    pub parity: u64,
}

impl Figures {
    /// Of a run over what is `known`.
    pub fn of(logs: &Logs, known: &Known) -> Figures {
        let mut figures =
            Figures { captured: logs.captured.len(), shown: logs.shown.len(), ..Figures::default() };
        figures.count_pictures(&logs.shown);
        figures.count_bytes(logs);
        let Some(from) = logs.captured.values().min().map(|first| *first + WARM_UP) else { return figures };
        let lost = lost(logs);
        let judged = logs.sent.iter().filter(|sent| heard_beyond(logs, sent)).count();
        figures.loss = (judged > 0).then(|| lost.len() as f64 / judged as f64);
        figures.stalls = stalls(&events(&lost, known.delay * 2), &logs.shown, from, known);
        figures.delays = delays(logs, from);
        figures
    }

    fn count_pictures(&mut self, shown: &[Shown]) {
        let mut newest = None;
        for picture in shown {
            let track = usize::from(session::track_of(picture.stream));
            if self.by_track.len() <= track {
                self.by_track.resize(track + 1, 0);
            }
            self.by_track[track] += 1;
            self.back_in_time += usize::from(newest.is_some_and(|newest| picture.frame <= newest));
            newest = newest.max(Some(picture.frame));
        }
    }

    fn count_bytes(&mut self, logs: &Logs) {
        for sent in &logs.sent {
            self.bytes += sent.size;
            let parity = logs.cut.get(&(sent.stream, sent.frame)).is_some_and(|cut| sent.index >= *cut);
            let key = sent.frame > 0 && logs.keys.contains(&(sent.stream, sent.frame));
            match (session::track_of(sent.stream), sent.again) {
                (_, true) => self.resent += sent.size,
                (1.., false) => self.further_tracks += sent.size,
                (0, false) if parity => self.parity += sent.size,
                (0, false) if key => self.key_frames += sent.size,
                (0, false) => {}
            }
        }
    }

    /// Bytes that were spent on recovery.
    pub fn recovery(&self) -> u64 {
        self.resent + self.further_tracks + self.key_frames + self.parity
    }

    /// Share of the loss events whose stall is at most `bound`.
    pub fn within(&self, bound: Span) -> Option<f64> {
        let within = self.stalls.iter().filter(|stall| **stall <= bound).count();
        (!self.stalls.is_empty()).then(|| within as f64 / self.stalls.len() as f64)
    }

    /// A percentile of the stalls, in ms.
    pub fn stall_ms(&self, percentile: f64) -> Option<f64> {
        of_spans(&self.stalls, percentile)
    }

    /// A percentile of the delays, in ms.
    pub fn delay_ms(&self, percentile: f64) -> Option<f64> {
        of_spans(&self.delays, percentile)
    }

    /// For programs.
    pub fn json(&self, known: &Known) -> Value {
        let spread = |at: &dyn Fn(f64) -> Option<f64>| json!({ "p50": at(50.0), "p90": at(90.0), "p95": at(95.0), "p99": at(99.0), "max": at(100.0) });
        json!({
            "frames": { "captured": self.captured, "shown": self.shown, "by_track": self.by_track, "back_in_time": self.back_in_time },
            "loss": self.loss, "loss_events": self.stalls.len(),
            "stall_ms": spread(&|p| self.stall_ms(p)), "within": self.within(known.bound()),
            "whole_gap_within": self.within(known.bound() - known.interval),
            "delay_ms": spread(&|p| self.delay_ms(p)),
            "bytes": { "all": self.bytes, "recovery": self.recovery(), "resent": self.resent,
                       "further_tracks": self.further_tracks, "key_frames": self.key_frames,
                       "parity": self.parity },
        })
    }
}

fn of_spans(spans: &[Span], percentile: f64) -> Option<f64> {
    let mut values: Vec<f64> = spans.iter().map(|span| span.as_millis_f64()).collect();
    values.sort_unstable_by(f64::total_cmp);
    nearest_rank(&values, percentile)
}

/// Of what left last nobody knows whether it was lost: the receiver may have ended before.
fn heard_beyond(logs: &Logs, sent: &Sent) -> bool {
    logs.received.last().is_some_and(|last| sent.number < *last)
}

/// When each packet that did not arrive was sent, in order.
fn lost(logs: &Logs) -> Vec<Time> {
    let lost =
        logs.sent.iter().filter(|sent| heard_beyond(logs, sent) && !logs.received.contains(&sent.number));
    lost.map(|sent| sent.at).collect()
}

/// When each loss event began: all that is lost within a round trip is one (RFC 5348 section 5.2).
fn events(lost: &[Time], rtt: Span) -> Vec<Time> {
    let mut events: Vec<Time> = Vec::new();
    for &at in lost {
        if events.last().is_none_or(|begun| at > *begun + rtt) {
            events.push(at);
        }
    }
    events
}

/// The longest stall of each event that began at `from` or later. An event has all gaps between pictures that
/// touch the time from when its first packet would have arrived until the next event's would have: a gap that
/// two events share counts for both.
fn stalls(events: &[Time], shown: &[Shown], from: Time, known: &Known) -> Vec<Span> {
    let Some(last) = shown.last().map(|picture| picture.at) else { return Vec::new() };
    let ends = events.iter().skip(1).copied().chain([last]);
    let judged = events.iter().zip(ends).filter(|(begun, _)| **begun >= from && **begun + known.delay < last);
    let longest = |(begun, next): (&Time, Time)| {
        let (begun, next) = (*begun + known.delay, next + known.delay);
        let gaps = shown.windows(2).filter(|pair| pair[1].at > begun && pair[0].at < next);
        let gap = gaps.map(|pair| pair[1].at - pair[0].at).max().unwrap_or_default();
        (gap - known.interval).max(Span::ZERO)
    };
    judged.map(longest).collect()
}

/// Of the frames captured from `from` on: until each or a newer one was shown.
fn delays(logs: &Logs, from: Time) -> Vec<Span> {
    let newest = logs.shown.iter().map(|picture| picture.frame).max();
    let mut shown = std::collections::BTreeMap::new();
    logs.shown.iter().rev().for_each(|picture| {
        shown.insert(picture.frame, picture.at);
    });
    let judged = logs.captured.iter().filter(|(frame, at)| **at >= from && Some(**frame) <= newest);
    let times: Vec<_> = judged.map(|(frame, at)| (*at, shown.get(frame).copied())).collect();
    let end = logs.shown.last().map_or(from, |picture| picture.at);
    latencies(&times, end).of_frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const KNOWN: Known = Known { interval: Span::from_millis(40), delay: Span::from_millis(20) };

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// A frame every 40 ms from 0 on, each a packet that is shown 30 ms after its capture, but for `missing`.
    fn logs(frames: u32, missing: &[u32]) -> Logs {
        let mut logs = Logs { captured: BTreeMap::new(), ..Logs::default() };
        for frame in 0..frames {
            let at = ms(40 * u64::from(frame));
            let number = u64::from(frame);
            logs.captured.insert(frame, at);
            logs.sent.push(Sent { number, at, size: 100, stream: 0, frame, index: 0, again: false });
            if !missing.contains(&frame) {
                logs.received.insert(number);
                logs.shown.push(Shown { at: at + Span::from_millis(30), stream: 0, frame });
            }
        }
        logs
    }

    #[test]
    fn a_loss_costs_the_time_that_its_picture_was_overdue() {
        let figures = Figures::of(&logs(100, &[50, 51, 70]), &KNOWN);
        assert_eq!(figures.loss, Some(3.0 / 99.0), "the last packet is not judged");
        // 50 and 51 are within a round trip of 40 ms: two frames late. 70 alone: one.
        assert_eq!(figures.stalls, [Span::from_millis(80), Span::from_millis(40)]);
        assert_eq!((KNOWN.bound(), figures.within(KNOWN.bound())), (Span::from_millis(120), Some(1.0)));
        assert_eq!(figures.within(Span::from_millis(40)), Some(0.5));
        assert_eq!(figures.stall_ms(100.0), Some(80.0));
        // A frame that is never shown waits for the next.
        assert_eq!((figures.delay_ms(50.0), figures.delay_ms(100.0)), (Some(30.0), Some(110.0)));
        assert_eq!((figures.shown, figures.back_in_time), (97, 0));
    }

    #[test]
    fn what_was_not_measured_is_none() {
        let none = Figures::of(&Logs::default(), &KNOWN);
        assert_eq!(none, Figures::default());
        assert_eq!(
            (none.within(KNOWN.bound()), none.stall_ms(50.0), none.delay_ms(99.0)),
            (None, None, None)
        );
        // Losses while threads start are not judged, and without a loss there is no stall.
        let early = Figures::of(&logs(100, &[3]), &KNOWN);
        assert_eq!((early.stalls.len(), early.loss), (0, Some(1.0 / 99.0)));
    }

    #[test]
    fn an_older_picture_after_a_newer_one_counts_and_so_does_the_same_again() {
        let mut logs = logs(10, &[]);
        let at = ms(500);
        logs.shown.extend([(3, 16), (9, 0), (12, 0)].map(|(frame, stream)| Shown { at, stream, frame }));
        let figures = Figures::of(&logs, &KNOWN);
        assert_eq!((figures.back_in_time, figures.by_track), (2, vec![12, 1]));
    }

    #[test]
    fn bytes_of_recovery_are_repairs_further_tracks_key_frames_and_parity() {
        let mut logs = logs(3, &[]);
        logs.keys = BTreeSet::from([(0, 0), (0, 2), (16, 1)]);
        logs.cut = BTreeMap::from([((0, 1), 1)]);
        let sent = Sent { number: 3, at: ms(90), size: 7, stream: 0, frame: 1, index: 0, again: true };
        let parity = Sent { number: 5, size: 13, index: 1, again: false, ..sent };
        logs.sent.extend([sent, Sent { number: 4, size: 11, stream: 16, again: false, ..sent }, parity]);
        let figures = Figures::of(&logs, &KNOWN);
        assert_eq!((figures.resent, figures.further_tracks, figures.key_frames), (7, 11, 100));
        assert_eq!((figures.parity, figures.recovery(), figures.bytes), (13, 131, 331));
    }
}
