//! What formulas can ask of the pictures that a flow showed: their quality, how they moved, and how a decoder
//! caught up.
//!
//! ```text
//!   frames of a run: size, key or predicted, when shown, in which coding
//!        |-- as measured, or the encoder model's word ---------------> ssim, sqi
//!        '-- Prism's black-box model of a real clip, iterated over
//!            what each track coded ----------------------------------> prism_ssim, prism_sqi, ...
//! ```
//!
//! The encoder model gives a key frame the quality of a predicted frame of its size, and knows nothing of the
//! frame before. The black-box model does: it is what the thesis' own simulations need.

use std::collections::BTreeMap;

use lab::collect::{Coding, FlowRecord, FrameRow, NO_FRAME};
use lab::metrics::{SQI, SqiFrame, nearest_rank, sqi, sqi_slots};
use lab::run::Run;
use prism::survey::Surveyed;
use prism::{Pictures, Quality};
use units::{Rate, Span, Time};

/// What belongs to an event, which the thesis does not say: a delay above twice the median and 10 ms, ...
const HIGH: (f64, f64) = (2.0, 10.0);
/// ... and so many frames after it; events nearer than the second number are one.
const PADDING: (usize, usize) = (30, 15);

/// A frame of a capture, and what is known of the picture that was shown.
struct Seen<'a> {
    number: u32,
    captured: Time,
    row: &'a FrameRow,
    ssim: Option<f64>,
}

impl Seen<'_> {
    fn delay(&self) -> Option<f64> {
        Some(self.row.delay()?.as_millis_f64())
    }

    fn slot(&self) -> SqiFrame {
        (self.captured, self.row.displayed.zip(self.ssim))
    }
}

/// The pictures of a flow's first capture, captured between two instants.
pub(crate) struct Shown<'a> {
    frames: Vec<Seen<'a>>,
    record: &'a FlowRecord,
    interval: Span,
}

/// What was seen of events, or of all frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct View {
    /// Mean SSIM of the frames shown.
    pub ssim: f64,
    /// Mean SQI-SSIM of their slots, by the constants of [`lab::metrics::SQI`].
    pub sqi: f64,
    /// Mean delay of the frames shown, in ms.
    pub delay: f64,
    /// Its 95th percentile.
    pub p95: f64,
    /// Share of the frames captured that is in view.
    pub share: f64,
}

impl<'a> Shown<'a> {
    /// With quality as it was measured, or as the encoder has it.
    pub fn of(run: &'a Run, flow: usize, from: Time, to: Time) -> Shown<'a> {
        Shown::new(run, flow, (from, to), |_, row| row.ssim())
    }

    /// With quality by Prism's black-box model of a clip, which repeats from where it is steady on.
    pub fn modelled(run: &'a Run, flow: usize, from: Time, to: Time, seen: &Surveyed) -> Shown<'a> {
        let qualities = qualities(run, flow, seen);
        let of_shown = |number, row: &FrameRow| {
            let coding = row.shown.filter(|_| row.displayed.is_some())?;
            qualities.get(&(coding, number)).copied()
        };
        Shown::new(run, flow, (from, to), of_shown)
    }

    fn new(
        run: &'a Run,
        flow: usize,
        (from, to): (Time, Time),
        quality: impl Fn(u32, &FrameRow) -> Option<f64>,
    ) -> Shown<'a> {
        let record = &run.record.flows[flow - 1];
        let rows = record.streams.get(&Coding::first(0)).into_iter().flat_map(|stream| stream.numbered());
        let frames = rows.filter_map(|(number, row)| {
            let captured = row.captured.filter(|at| (from..to).contains(at))?;
            Some(Seen { number, captured, row, ssim: quality(number, row) })
        });
        Shown { frames: frames.collect(), record, interval: run.intervals[flow - 1] }
    }

    /// SSIM of the frames shown.
    pub fn ssims(&self) -> Vec<f64> {
        self.frames.iter().filter(|frame| frame.row.displayed.is_some()).filter_map(|f| f.ssim).collect()
    }

    /// SQI-SSIM; not a number where a shown frame's quality is not known.
    pub fn sqi(&self) -> f64 {
        let known = self.frames.iter().all(|frame| frame.row.displayed.is_none() || frame.ssim.is_some());
        let slots: Vec<SqiFrame> = self.frames.iter().map(Seen::slot).collect();
        let slots = sqi_slots(&slots, self.interval);
        sqi(&slots, self.interval.as_secs_f64(), &SQI).filter(|_| known).unwrap_or(f64::NAN)
    }

    /// Of the frames that belong to events.
    pub fn events(&self) -> View {
        let parts = self.event_parts();
        let mut slots = 0;
        let mut sum = 0.0;
        let all: Vec<SqiFrame> = self.frames.iter().map(Seen::slot).collect();
        let all = sqi_slots(&all, self.interval);
        let (mut ssims, mut delays) = (Vec::new(), Vec::new());
        for part in &parts {
            let of_part = sqi(&all[part.clone()], self.interval.as_secs_f64(), &SQI).unwrap_or(f64::NAN);
            sum += of_part * part.len() as f64;
            slots += part.len();
            ssims.extend(self.frames[part.clone()].iter().filter_map(|frame| frame.ssim));
            delays.extend(self.frames[part.clone()].iter().filter_map(Seen::delay));
        }
        delays.sort_by(f64::total_cmp);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        View {
            ssim: mean(&ssims),
            sqi: sum / slots as f64,
            delay: mean(&delays),
            p95: nearest_rank(&delays, 95.0).unwrap_or(f64::NAN),
            share: slots as f64 / self.frames.len() as f64,
        }
    }

    /// The median delay of the frames shown, in ms.
    fn usual(&self) -> f64 {
        let mut delays: Vec<f64> = self.frames.iter().filter_map(Seen::delay).collect();
        delays.sort_by(f64::total_cmp);
        nearest_rank(&delays, 50.0).unwrap_or(f64::NAN)
    }

    /// Stretches of frames that were late, missing, shown as key frames or sent again, and 30 after each.
    fn event_parts(&self) -> Vec<std::ops::Range<usize>> {
        let limit = self.high_limit();
        let again: std::collections::BTreeSet<u32> = self
            .record
            .packets
            .iter()
            .filter(|packet| packet.retransmission && packet.frame != NO_FRAME)
            .map(|packet| packet.frame)
            .collect();
        let is_event = |frame: &Seen<'_>| {
            let other = frame.row.shown.is_some_and(|coding| coding != Coding::first(0));
            frame.delay().is_none_or(|delay| delay > limit)
                || other
                || frame.row.key
                || again.contains(&frame.number)
        };
        let mut parts: Vec<std::ops::Range<usize>> = Vec::new();
        for at in (0..self.frames.len()).filter(|&at| is_event(&self.frames[at])) {
            let end = (at + 1 + PADDING.0).min(self.frames.len());
            match parts.last_mut().filter(|part| at < part.end + PADDING.1) {
                Some(part) => part.end = end,
                None => parts.push(at..end),
            }
        }
        parts
    }

    fn high_limit(&self) -> f64 {
        HIGH.0 * self.usual() + HIGH.1
    }

    /// The longest stretch of frames in a row, in seconds, that were not shown or later than twice the median
    /// and 10 ms; `limit` in ms is another bound if it is above zero.
    pub fn high(&self, limit: f64) -> f64 {
        let limit = if limit > 0.0 { limit } else { self.high_limit() };
        let high = |frame: &Seen<'_>| frame.delay().is_none_or(|delay| delay > limit);
        let runs = self.frames.chunk_by(|a, b| high(a) == high(b)).filter(|run| high(&run[0]));
        runs.map(<[_]>::len).max().unwrap_or(0) as f64 * self.interval.as_secs_f64()
    }

    /// The first backlog of frames behind one that came late, in ms: for how long that one kept them waiting
    /// beyond the usual delay, and how long the decoder then was busy until a frame did not have to wait. Not
    /// a number where no frame came late.
    pub fn backlog(&self) -> (f64, f64) {
        let usual = self.usual();
        let none = (f64::NAN, f64::NAN);
        let late = |frame: &&Seen<'_>| frame.delay().is_some_and(|delay| delay > usual + 1.0);
        let Some(first) = self.frames.iter().position(|frame| late(&frame)) else { return none };
        let Some(arrived) = self.frames[first].row.assembled else { return none };
        // The decoder's own time is what an unhurried frame takes from its last packet on.
        let own = |frame: &Seen<'_>| Some(frame.row.displayed? - frame.row.assembled?);
        let decode = self.frames[..first].iter().filter_map(own).min().unwrap_or_default();
        let due = self.frames[first].captured + Span::from_secs_f64(usual / 1e3) - decode;
        let waits = |frame: &&Seen<'_>| own(frame).is_none_or(|took| took > decode + Span::from_micros(100));
        let behind = self.frames[first + 1..].iter().take_while(waits);
        let last = behind.last().unwrap_or(&self.frames[first]);
        let Some(caught_up) = last.row.displayed else { return none };
        ((arrived - due).as_millis_f64(), (caught_up - arrived).as_millis_f64())
    }
}

/// SSIM of every coded frame of a flow's first capture, by the black-box model: key frames by their own size,
/// predicted ones by their size and the frame that was coded before them in their track. Rates are scaled to
/// the clip's pictures as a table's are.
fn qualities(run: &Run, flow: usize, seen: &Surveyed) -> BTreeMap<(Coding, u32), f64> {
    let interval = run.intervals[flow - 1];
    let size = run.scenario.flows[flow - 1].video().and_then(|video| video.encoder.size);
    let coded = size.map_or(Pictures::THESIS, |size| Pictures::new(size.width, size.height, interval));
    let scale = seen.footage.pictures().scale_from(coded);
    let (start, frames) = (seen.course_start(), seen.footage.frames());
    let place = |number: u32| start + number as usize % (frames - start);
    let mut found = BTreeMap::new();
    let streams = &run.record.flows[flow - 1].streams;
    for (&coding, stream) in streams.iter().filter(|(coding, _)| session::capture_of(coding.stream) == 0) {
        let mut last = None;
        for (number, row) in stream.numbered().filter(|(_, row)| row.size > 0) {
            let rate = f64::from(row.size) * 8.0 / interval.as_secs_f64() * scale;
            let (rate, at) = (Rate::from_f64(rate), place(number));
            let quality = match last.filter(|_| !row.key) {
                Some(before) => seen.model.next(rate, at, before),
                None => seen.model.key(rate, at),
            };
            found.insert((coding, number), quality);
            last = Some(quality);
        }
    }
    found
}
