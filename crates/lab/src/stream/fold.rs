//! A few rows for each column of a chart, in place of all of them.
//!
//! Columns are equal parts of the bins that charts count in. Of packets, sums over a column are kept; of what
//! charts draw as it comes (windows, queues, a controller's inner quantities), each column's lowest and
//! highest; of its frames the slowest, with the means of the others. Accordingly the charts of a folded run
//! show its sums, means and extremes as those of a run whose rows are whole do.

use std::collections::BTreeMap;

use netsim::IP_UDP_OVERHEAD;
use units::{Rate, Span, Time};

use crate::collect::{
    Arrival, Coding, Collector, Decided, Departure, Drop, FlowRecord, FoldedFlow, FrameRow, LinkRecord,
    NO_FRAME, PacketRow, RttSample, StreamFrames,
};
use crate::metrics::{LatencyOf, bin_of, burst_width_of};
use crate::scenario::Scenario;
use crate::summary::Figures;

/// Columns of a bin for up to so many sources of traffic: with 60 to 240 bins, more columns than a chart is
/// wide where there are few. Every width of a bin is a multiple of each.
const COLUMNS: [(usize, i64); 3] = [(4, 25), (50, 5), (usize::MAX, 1)];

/// The most that a row's size says.
const MOST: u64 = u32::MAX as u64;

/// Rows folded so far.
pub(super) struct Fold {
    columns: Columns,
    flows: Vec<FlowFold>,
    links: Vec<LinkFold>,
}

#[derive(Clone, Copy)]
struct Columns {
    width: Span,
}

impl Columns {
    fn of(self, at: Time) -> u32 {
        (at.as_nanos() / self.width.as_nanos() as u64) as u32
    }

    fn middle(self, column: u32) -> Time {
        Time::ZERO + self.width * i64::from(column) + self.width / 2
    }
}

impl Fold {
    pub(super) fn new(scenario: &Scenario) -> Fold {
        let crowd = scenario.flows.len() + scenario.cross.len();
        let (_, columns) = COLUMNS.into_iter().find(|(most, _)| crowd <= *most).expect("the last is for any");
        let width = bin_of(scenario.duration) / columns;
        let ends = scenario.flows.iter().map(|flow| flow.stop.unwrap_or(scenario.duration));
        Fold {
            columns: Columns { width },
            flows: ends.map(|end| FlowFold { end: Time::ZERO + end, ..FlowFold::default() }).collect(),
            links: scenario.link.iter().map(|_| LinkFold::new(scenario)).collect(),
        }
    }

    pub(super) fn take(&mut self, rows: &Collector) {
        let columns = self.columns;
        self.flows.iter_mut().zip(&rows.flows).for_each(|(flow, rows)| flow.take(rows, columns));
        self.links.iter_mut().zip(rows.links()).for_each(|(link, rows)| link.take(rows, columns));
    }

    /// Bytes of memory that grow with the length of the run.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let links = self.links.iter().map(LinkFold::held).sum::<usize>();
        self.flows.iter().map(FlowFold::held).sum::<usize>() + links
    }

    /// Puts the folded rows where charts look for rows.
    pub(super) fn finish(self, figures: &Figures, record: &mut Collector) {
        let columns = self.columns;
        let flows = self.flows.into_iter().zip(&mut record.flows).zip(figures.flows());
        for ((fold, record), figures) in flows {
            let estimate = &fold.estimate;
            let mean = |(&column, sum): (&u32, &Mean)| (columns.middle(column), sum.mean());
            let (stalls, shown) = figures.stalls();
            record.folded = Some(Box::new(FoldedFlow {
                estimate: estimate.iter().map(mean).collect(),
                delays: figures.frame_delays().counted(),
                shown,
                stalls,
            }));
            fold.finish(record, columns);
        }
        let records = std::iter::once(&mut record.link).chain(&mut record.further);
        self.links.into_iter().zip(records).for_each(|(link, record)| link.finish(record, columns));
        record.folded_fairness = Some(figures.fairness());
    }
}

/// A mean of what comes one by one.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn push(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn mean(self) -> f64 {
        self.sum / f64::from(self.count)
    }

    fn known(self) -> Option<f64> {
        (self.count > 0).then(|| self.mean())
    }
}

/// The rows with the least and the greatest of a quantity, column by column.
struct Extremes<R> {
    columns: Vec<(u32, R, R)>,
}

impl<R> Default for Extremes<R> {
    fn default() -> Extremes<R> {
        Extremes { columns: Vec::new() }
    }
}

impl<R: Copy> Extremes<R> {
    fn push(&mut self, column: u32, row: R, of: impl Fn(&R) -> f64) {
        match self.columns.last_mut() {
            Some((last, least, most)) if *last == column => {
                if of(&row) < of(least) {
                    *least = row;
                }
                if of(&row) > of(most) {
                    *most = row;
                }
            }
            _ => self.columns.push((column, row, row)),
        }
    }

    fn rows(self) -> impl Iterator<Item = R> {
        self.columns.into_iter().flat_map(|(_, least, most)| [least, most])
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        size_of_val(&self.columns[..])
    }
}

#[derive(Default)]
struct FlowFold {
    end: Time,
    /// Wire bytes by the column of their sending and, if they arrived, that of their arrival.
    packets: BTreeMap<(u32, Option<u32>), u64>,
    windows: Extremes<Decided>,
    paces: Extremes<Decided>,
    estimate: BTreeMap<u32, Mean>,
    smoothed: Option<Span>,
    observed: BTreeMap<&'static str, Extremes<(Time, f64)>>,
    watched: Option<Coding>,
    frames: BTreeMap<u32, FrameFold>,
    latencies: LatencyOf,
}

#[derive(Default)]
struct FrameFold {
    slowest: Option<(Time, Span)>,
    /// Some were shown late, or not at all.
    uneven: bool,
    size: Mean,
    target: Mean,
    psnr: Mean,
    ssim: Mean,
    measured: bool,
}

impl FrameFold {
    fn delay(&mut self, captured: Time, delay: Span) {
        if self.slowest.is_none_or(|(_, slowest)| delay > slowest) {
            self.slowest = Some((captured, delay));
        }
    }

    fn take(&mut self, row: &FrameRow) {
        self.uneven |= row.late || row.displayed.is_none();
        if row.encoded.is_some() {
            self.size.push(f64::from(row.size));
            self.target.push(row.target.as_f64());
        }
        row.psnr().into_iter().for_each(|psnr| self.psnr.push(psnr));
        row.ssim().into_iter().for_each(|ssim| self.ssim.push(ssim));
        self.measured |= row.shown_quality.0.is_some();
    }

    fn row(self) -> Option<FrameRow> {
        let (captured, delay) = self.slowest?;
        let quality = (self.psnr.known(), self.ssim.known());
        Some(FrameRow {
            captured: Some(captured),
            displayed: Some(captured + delay),
            late: self.uneven,
            encoded: self.target.known().map(|_| captured),
            size: self.size.known().unwrap_or_default() as u32,
            target: Rate::from_bps(self.target.known().unwrap_or_default() as u64),
            encoder_quality: quality,
            shown_quality: if self.measured { quality } else { (None, None) },
            ..FrameRow::default()
        })
    }
}

impl FlowFold {
    fn take(&mut self, rows: &FlowRecord, columns: Columns) {
        for row in &rows.packets {
            let key = (columns.of(row.sent), row.arrived.map(|at| columns.of(at)));
            *self.packets.entry(key).or_default() += u64::from(row.size + IP_UDP_OVERHEAD);
        }
        self.decide(&rows.decisions, &rows.rtt, columns);
        for (name, values) in rows.observed.iter() {
            let extremes = self.observed.entry(name).or_default();
            values.iter().for_each(|&(at, value)| extremes.push(columns.of(at), (at, value), |row| row.1));
        }
        if let Some((&coding, frames)) = rows.streams.iter().next()
            && *self.watched.get_or_insert(coding) == coding
        {
            frames.rows.iter().for_each(|row| self.frame(row, columns));
        }
    }

    fn decide(&mut self, decisions: &[Decided], samples: &[RttSample], columns: Columns) {
        let mut samples = samples.iter().peekable();
        for decided in decisions {
            while let Some(sample) = samples.next_if(|sample| sample.at <= decided.at) {
                self.smoothed = Some(sample.smoothed);
            }
            let column = columns.of(decided.at);
            self.windows.push(column, *decided, |decided| decided.window as f64);
            self.paces.push(column, *decided, |decided| decided.pacing.as_f64());
            if let Some(estimate) = decided.estimate(self.smoothed) {
                self.estimate.entry(column).or_default().push(estimate);
            }
        }
        self.smoothed = samples.last().map(|sample| sample.smoothed).or(self.smoothed);
    }

    fn frame(&mut self, row: &FrameRow, columns: Columns) {
        let Some(captured) = row.captured else { return };
        let frames = &mut self.frames;
        frames.entry(columns.of(captured)).or_default().take(row);
        self.latencies.push(captured, row.displayed, |captured, delay| {
            frames.entry(columns.of(captured)).or_default().delay(captured, delay);
        });
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        self.packets.len() * 24
            + self.windows.held()
            + self.paces.held()
            + self.estimate.len() * 20
            + self.observed.values().map(Extremes::held).sum::<usize>()
            + self.frames.len() * size_of::<FrameFold>()
            + self.latencies.waiting() * size_of::<Time>()
    }

    fn finish(mut self, record: &mut FlowRecord, columns: Columns) {
        let frames = &mut self.frames;
        self.latencies.finish(self.end, |captured, delay| {
            frames.entry(columns.of(captured)).or_default().delay(captured, delay);
        });
        for ((sent, arrived), bytes) in self.packets {
            let row = |(packet, size): (u64, u32)| PacketRow {
                packet,
                sent: columns.middle(sent),
                arrived: arrived.map(|column| columns.middle(column)),
                acked: None,
                size,
                frame: NO_FRAME,
                index: 0,
                coding: Coding::first(0),
                retransmission: false,
                lost: false,
                spurious: false,
            };
            let first = record.packets.len() as u64;
            record.packets.extend((first..).zip(sizes(bytes, IP_UDP_OVERHEAD)).map(row));
        }
        record.decisions = self.windows.rows().chain(self.paces.rows()).collect();
        record.decisions.sort_by_key(|decided| decided.at);
        record.decisions.dedup();
        let observed = self.observed.into_iter();
        record.observed =
            observed.map(|(name, extremes)| (name, in_order(extremes.rows(), |row| row.0))).collect();
        if let Some(coding) = self.watched {
            let rows = self.frames.into_values().filter_map(FrameFold::row).collect();
            record.streams = BTreeMap::from([(coding, StreamFrames { rows, first: 0 })]);
        }
    }
}

fn in_order<R: PartialEq>(rows: impl Iterator<Item = R>, at: impl Fn(&R) -> Time) -> Vec<R> {
    let mut rows: Vec<R> = rows.collect();
    rows.sort_by_key(at);
    rows.dedup();
    rows
}

/// `bytes` as sizes of rows, each of which counts `overhead` more.
fn sizes(bytes: u64, overhead: u32) -> impl Iterator<Item = u32> {
    let step = MOST - u64::from(overhead);
    let rows = bytes.div_ceil(step).max(1);
    (0..rows).map(move |row| {
        let size = (bytes - row * step).min(step);
        size.saturating_sub(u64::from(overhead)) as u32
    })
}

/// The bottleneck.
struct LinkFold {
    /// Number of the first flow of cross traffic.
    cross: u16,
    burst: Span,
    bursts: Vec<u32>,
    backlog: Extremes<Arrival>,
    departures: BTreeMap<(u32, u16), (u64, Span)>,
    drops: BTreeMap<(u32, u16), Drop>,
}

impl LinkFold {
    fn new(scenario: &Scenario) -> LinkFold {
        let burst = burst_width_of(scenario.duration);
        LinkFold {
            cross: scenario.flows.len() as u16,
            burst,
            bursts: vec![0; (scenario.duration.as_nanos() / burst.as_nanos()) as usize + 1],
            backlog: Extremes::default(),
            departures: BTreeMap::new(),
            drops: BTreeMap::new(),
        }
    }

    fn take(&mut self, rows: &LinkRecord, columns: Columns) {
        for row in &rows.arrivals {
            self.backlog.push(columns.of(row.at), *row, |arrival| f64::from(arrival.packets));
            self.count(row.at, row.flow);
        }
        for row in &rows.departures {
            let (bytes, slowest) = self.departures.entry((columns.of(row.at), row.flow)).or_default();
            *bytes += u64::from(row.size);
            *slowest = row.sojourn.max(*slowest);
        }
        for row in &rows.drops {
            self.drops.entry((columns.of(row.at), row.flow)).or_insert(*row);
            self.count(row.at, row.flow);
        }
    }

    fn count(&mut self, at: Time, flow: u16) {
        if flow >= self.cross {
            let burst = (at.as_nanos() / self.burst.as_nanos() as u64) as usize;
            self.bursts.get_mut(burst).into_iter().for_each(|count| *count += 1);
        }
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        self.backlog.held() + (self.departures.len() + self.drops.len()) * 32 + self.bursts.len() * 4
    }

    fn finish(self, record: &mut LinkRecord, columns: Columns) {
        record.arrivals = in_order(self.backlog.rows(), |row| row.at);
        for ((column, flow), (bytes, sojourn)) in self.departures {
            let at = columns.middle(column);
            record.departures.extend(sizes(bytes, 0).map(|size| Departure { at, flow, size, sojourn }));
        }
        record.drops = in_order(self.drops.into_values(), |row| row.at);
        record.folded = Some((self.burst, self.bursts));
    }
}
