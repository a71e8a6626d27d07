//! A flow's figures, made of its rows as these are complete: all at once where a run's rows are kept, part by
//! part where they are not.
//!
//! ```text
//! packets (in send order) -> deliveries, loss, delays, equation 10 --.
//!                         -> parts of frames --.                      >-- FlowSummary
//! frames (in capture order) -------------------'-> delays, quality --'
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use netsim::IP_UDP_OVERHEAD;
use units::{Span, Time};
use wire::Segment;

use super::flow::{
    FlowSummary, FrameCounts, Mean5, PacketCounts, Percentiles, RatePercentiles, Simulated, StallSummary,
};
use super::{JAIN_WINDOW, Plan};
use crate::collect::{Coding, FlowRecord, FlowTotals, FrameRow, NO_FRAME, PacketRow};
use crate::metrics::{
    Distribution, LatencyOf, PathPacket, SQI, SimulatedFrame, Simulator, SqiFrame, StallFinder, Stalls,
    Variation, psnr_of_counted, sqi, sqi_slots,
};
use crate::scenario::{Encoder, EncoderKind, Flow, Source};

/// Slots the simulated encoder of equation 10 smooths over. The paper does not say; 4 lies within those of
/// its figure 15b.
const SMOOTHING: usize = 4;
/// Frame interval where equation 10 is applied to a flow that has no frames: 60 frames/s, as in the paper.
const SIMULATED_INTERVAL: Span = Span::from_nanos(16_666_667);

/// A flow, seen from the warm-up on and as long as it was on.
pub struct FlowFigures {
    from: Time,
    to: Time,
    video: bool,
    /// Bytes of a packet that are no payload.
    header: u32,
    received: Received,
    loss: Loss,
    owd: Distribution,
    rtt: Distribution,
    frame_rtt: Distribution,
    frames: Frames,
    open: BTreeMap<(Coding, u32), Parts>,
    variation: Variation,
    /// What is sent in the current slot, where the flow has no frames: its number, and bytes.
    slot: (usize, u64),
    simulator: Simulator,
    simulated_rate: Distribution,
    simulated_delay: Distribution,
    /// Wire bytes that arrived in each window of Jain's index; empty where there is nobody to share with.
    windows: Vec<f64>,
    /// When the first window begins, and when the last one ends.
    windows_on: (Time, Time),
}

/// Deliveries in view.
#[derive(Default)]
struct Received {
    any: bool,
    ends: Option<(Time, Time)>,
    bits: u64,
    payload: u64,
}

/// Wire bytes sent in view, and what of them never arrived.
#[derive(Default)]
struct Loss {
    longest: Span,
    sent: u64,
    lost: u64,
    count: u64,
}

/// What is known of the packets of a frame that is not complete.
#[derive(Default)]
struct Parts {
    bytes: u64,
    /// Arrivals of each index, with UDP payload bytes.
    arrived: Vec<(u16, Time, u32)>,
    /// When the sender learnt of them.
    acked: Vec<(u16, Time)>,
}

/// Frames in view.
struct Frames {
    /// The stream people watch; none before the first frame.
    watched: Option<Coding>,
    counts: FrameCounts,
    latencies: LatencyOf,
    delay: Distribution,
    bitrate: Distribution,
    psnr: Distribution,
    ssim: Distribution,
    /// Each frame in view, for SQI; none where a shown one's quality is not known, or where there are more
    /// than may be kept.
    slots: Option<Vec<SqiFrame>>,
    /// Frames that may be kept.
    limit: usize,
    /// Whether any shown frame's quality was measured, if any is known.
    measured: Option<bool>,
    /// The first capture, and the earliest display, warm-up or not.
    first: (Option<Time>, Option<Time>),
    interval: Span,
    /// Displays that a later frame's may still precede.
    shown: BinaryHeap<Reverse<Time>>,
    stalls: StallFinder,
}

impl FlowFigures {
    /// Figures of flow number `index` that keep each of up to `limit` values of a distribution.
    pub(super) fn new(plan: &Plan<'_>, index: usize, limit: usize) -> FlowFigures {
        let flow = &plan.scenario.flows[index];
        let (from, to) = plan.view(flow);
        let interval = plan.intervals.get(index).copied().unwrap_or(SIMULATED_INTERVAL);
        let values = || Distribution::of_at_most(limit);
        let alone = plan.scenario.flows.len() < 2;
        let view = (plan.to() - plan.from()).as_nanos() as u64;
        let windows = if alone { 0 } else { view.div_ceil(JAIN_WINDOW.as_nanos() as u64) as usize };
        FlowFigures {
            from,
            to,
            video: flow.video().is_some(),
            header: header(flow, plan.header),
            received: Received::default(),
            loss: Loss::default(),
            owd: values(),
            rtt: values(),
            frame_rtt: values(),
            frames: Frames {
                watched: None,
                counts: FrameCounts::default(),
                latencies: LatencyOf::default(),
                delay: values(),
                bitrate: values(),
                psnr: values(),
                ssim: values(),
                slots: Some(Vec::new()),
                limit,
                measured: None,
                first: (None, None),
                interval,
                shown: BinaryHeap::new(),
                stalls: StallFinder::new(interval, flow.pauses()),
            },
            open: BTreeMap::new(),
            variation: Variation::of_at_most(limit),
            slot: (0, 0),
            simulator: Simulator::new(from, to, SIMULATED_INTERVAL, SMOOTHING),
            simulated_rate: values(),
            simulated_delay: values(),
            windows: vec![0.0; windows],
            windows_on: (plan.from(), plan.to()),
        }
    }

    /// Takes rows that are complete, which follow those taken before. `end` is when the run ended, if these
    /// are the last.
    pub(super) fn take(&mut self, rows: &FlowRecord, end: Option<Time>) {
        let delays = rows.one_way_delays().map(|(_, delay)| delay);
        self.loss.longest = delays.max().unwrap_or_default().max(self.loss.longest);
        // What was sent within the longest one-way delay of the end may still be under way: it counts on
        // neither side of the loss.
        let settled = end.map_or(Time::MAX, |end| end - self.loss.longest);
        rows.packets.iter().for_each(|row| self.packet(row, settled));
        let samples = rows.rtt.iter().filter(|sample| sample.at >= self.from);
        samples.for_each(|sample| self.rtt.push(sample.latest.as_millis_f64()));
        for (&coding, frames) in &rows.streams {
            for (number, row) in frames.numbered() {
                self.frame(coding, number, row);
            }
        }
        if end.is_some() {
            self.close();
        }
    }

    fn packet(&mut self, row: &PacketRow, settled: Time) {
        let wire = row.size + IP_UDP_OVERHEAD;
        if let Some(at) = row.arrived {
            self.received.take(at, wire, self.from);
            let (from, to) = self.windows_on;
            let window = ((at - from).as_nanos() / JAIN_WINDOW.as_nanos()) as usize;
            if at >= from
                && at < to
                && let Some(bytes) = self.windows.get_mut(window)
            {
                *bytes += f64::from(wire);
            }
        }
        if row.sent >= self.from {
            row.arrived.into_iter().for_each(|at| self.owd.push((at - row.sent).as_millis_f64()));
            if row.sent < settled {
                self.loss.take(wire, row.arrived.is_none());
            }
        }
        if row.frame != NO_FRAME {
            let parts = self.open.entry((row.coding, row.frame)).or_default();
            parts.bytes += u64::from(wire);
            parts.arrived.extend(row.arrived.map(|at| (row.index, at, row.size)));
            parts.acked.extend(row.acked.filter(|_| row.sent >= self.from).map(|at| (row.index, at)));
        } else if row.arrived.is_some_and(|at| at >= self.from) {
            self.received.payload += u64::from(row.size.saturating_sub(self.header));
        }
        self.send(row.sent, wire);
        let packet = PathPacket { sent: row.sent, size: wire, arrived: row.arrived };
        self.simulator.push(packet, simulated(&mut self.simulated_rate, &mut self.simulated_delay));
    }

    /// Bytes in slots, where the flow has no frames to count them by.
    fn send(&mut self, at: Time, wire: u32) {
        if self.video || at < self.from || at >= self.to {
            return;
        }
        self.fill_slots(((at - self.from).as_nanos() / SIMULATED_INTERVAL.as_nanos()) as usize);
        self.slot.1 += u64::from(wire);
    }

    fn fill_slots(&mut self, until: usize) {
        while self.slot.0 < until {
            self.variation.push(self.slot.1);
            self.slot = (self.slot.0 + 1, 0);
        }
    }

    fn frame(&mut self, coding: Coding, number: u32, row: &FrameRow) {
        let parts = self.open.remove(&(coding, number)).unwrap_or_default();
        let (acknowledged, bytes) = (parts.acknowledged(), parts.bytes);
        self.received.payload += parts.payload(self.from, self.header);
        // A capture's first track, whose rows say what was shown, stands for it.
        if coding != Coding::first(session::capture_of(coding.stream)) {
            return;
        }
        if row.packets > 0
            && acknowledged.0 == usize::from(row.packets)
            && let Some((last, first)) = acknowledged.1.zip(row.first_sent)
        {
            self.frame_rtt.push((last - first).as_millis_f64());
        }
        if *self.frames.watched.get_or_insert(coding) != coding {
            return;
        }
        self.frames.take(row, self.from);
        if self.video && row.sent.is_some() && row.captured.is_some_and(|at| at >= self.from) {
            self.variation.push(bytes);
        }
    }

    fn close(&mut self) {
        for parts in std::mem::take(&mut self.open).into_values() {
            self.received.payload += parts.payload(self.from, self.header);
        }
        self.frames.close(self.to);
        self.simulator.finish(simulated(&mut self.simulated_rate, &mut self.simulated_delay));
        if !self.video && self.to > self.from {
            // The last slot may be cut short.
            let last = (self.to - self.from - Span::from_nanos(1)).as_nanos() / SIMULATED_INTERVAL.as_nanos();
            self.fill_slots(last as usize);
        }
    }

    /// Wire bytes that arrived in each window of Jain's index.
    pub(super) fn windows(&self) -> &[f64] {
        &self.windows
    }

    /// Frame delays in ms.
    pub fn frame_delays(&self) -> &Distribution {
        &self.frames.delay
    }

    /// All stalls of the run, and the first and last display.
    pub fn stalls(&self) -> (Stalls, Option<(Time, Time)>) {
        let begin = self.frames.first.0.unwrap_or(self.to);
        (self.stalls_since(begin), self.frames.stalls.ends())
    }

    fn stalls_since(&self, start: Time) -> Stalls {
        self.frames.stalls.clone().finish(start, self.to)
    }

    /// Bytes of memory that grow with the length of the run.
    pub fn held(&self) -> usize {
        let frames = &self.frames;
        let distributions = [
            &self.owd,
            &self.rtt,
            &self.frame_rtt,
            &frames.delay,
            &frames.bitrate,
            &frames.psnr,
            &frames.ssim,
            &self.simulated_rate,
            &self.simulated_delay,
        ];
        let parts = |parts: &Parts| size_of::<Parts>() + 16 * (parts.arrived.len() + parts.acked.len());
        distributions.iter().map(|d| d.held()).sum::<usize>()
            + self.variation.held()
            + self.open.values().map(parts).sum::<usize>()
            + size_of_val(&self.windows[..])
            + frames.slots.as_ref().map_or(0, |slots| size_of_val(&slots[..]))
    }

    /// The figures, once the last rows were taken.
    pub(super) fn summary(&self, flow: &Flow, totals: &FlowTotals, share: Option<f64>) -> FlowSummary {
        let active = (self.to - self.from).as_secs_f64();
        let simulated = self.simulated();
        let frames = match self.frames.watched {
            Some(_) => self.frames.counts,
            None => frame_totals(totals),
        };
        let video = flow.video().is_some();
        let bitrate = self.frames.bitrate.spread().map(RatePercentiles::from);
        let loss = self.loss.share();
        let (throughput_bps, goodput_bps) = self.rates(totals);
        FlowSummary {
            name: flow.name.clone(),
            cc: flow.cc.clone(),
            source: flow.source.name(),
            throughput_bps,
            goodput_bps,
            share,
            loss,
            owd_ms: milliseconds(&self.owd),
            rtt_ms: milliseconds(&self.rtt),
            first_frame_ms: self.frames.first_frame(),
            // Without a displayed frame all that is known is how long the run went on.
            frame_delay_ms: milliseconds(&self.frames.delay).filter(|_| frames.displayed > 0),
            frame_rtt_ms: milliseconds(&self.frame_rtt),
            frame_rate: (video && active > 0.0).then(|| frames.displayed as f64 / active),
            frames,
            bitrate_bps: bitrate.filter(|_| video),
            psnr_db: self.frames.psnr(),
            ssim: self.frames.ssim.spread().map(|spread| Mean5 { mean: spread.mean, p5: spread.p5 }),
            sqi: self.frames.sqi(),
            quality: self
                .frames
                .measured
                .zip(flow.video())
                .map(|(measured, video)| if measured { "measured" } else { word_of(&video.encoder) }),
            stalls: self.stall_summary(),
            send_rate_cv: self.variation.coefficient(),
            simulated,
            packets: PacketCounts { lost: loss.map(|_| self.loss.count), ..packet_counts(totals, flow) },
            feedback_bps: if active > 0.0 { totals.feedback_bytes as f64 * 8.0 / active } else { 0.0 },
        }
    }

    /// Throughput and goodput. Where no rows were kept, throughput is over the flow's whole time and goodput
    /// unknown.
    fn rates(&self, totals: &FlowTotals) -> (f64, Option<f64>) {
        if !self.received.any && totals.received > 0 {
            let bytes = totals.received_bytes + totals.received * u64::from(IP_UDP_OVERHEAD);
            return (bytes as f64 * 8.0 / (self.to - self.from).as_secs_f64(), None);
        }
        let Some((first, last)) = self.received.ends.filter(|(first, last)| last > first) else {
            return (0.0, Some(0.0));
        };
        let seconds = (last - first).as_secs_f64();
        (self.received.bits as f64 / seconds, Some(self.received.payload as f64 * 8.0 / seconds))
    }

    /// Of a flow that captured frames.
    fn stall_summary(&self) -> Option<StallSummary> {
        let found = self.stalls_since(self.from.max(self.frames.first.0?));
        Some(StallSummary {
            count: found.count(),
            total_s: found.total().as_secs_f64(),
            longest_ms: found.spans.iter().map(|(a, b)| (*b - *a).as_millis_f64()).fold(0.0, f64::max),
        })
    }

    fn simulated(&self) -> Option<Simulated> {
        let bitrate_bps = self.simulated_rate.spread()?.into();
        Some(Simulated { bitrate_bps, frame_delay_ms: milliseconds(&self.simulated_delay)? })
    }
}

/// Where the frames of equation 10 go.
fn simulated(rate: &mut Distribution, delay: &mut Distribution) -> impl FnMut(usize, SimulatedFrame) {
    |_, frame| {
        rate.push(frame.bitrate);
        delay.push(frame.delay.as_millis_f64());
    }
}

impl Received {
    fn take(&mut self, at: Time, wire: u32, from: Time) {
        self.any = true;
        if at >= from {
            let (first, last) = self.ends.unwrap_or((at, at));
            self.ends = Some((first.min(at), last.max(at)));
            self.bits += u64::from(wire) * 8;
        }
    }
}

impl Loss {
    /// Lost over sent bytes; unknown where none were sent.
    fn share(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.lost as f64 / self.sent as f64)
    }

    fn take(&mut self, wire: u32, lost: bool) {
        self.sent += u64::from(wire);
        if lost {
            self.lost += u64::from(wire);
            self.count += 1;
        }
    }
}

impl Parts {
    /// How many indices were acknowledged, and when the last of them was for the first time.
    fn acknowledged(&self) -> (usize, Option<Time>) {
        let mut acked = self.acked.clone();
        acked.sort_unstable();
        acked.dedup_by_key(|part| part.0);
        (acked.len(), acked.iter().map(|part| part.1).max())
    }

    /// Payload bytes that arrived for the first time at or after `from`: each index once, however often it
    /// was sent.
    fn payload(mut self, from: Time, header: u32) -> u64 {
        self.arrived.sort_unstable();
        self.arrived.dedup_by_key(|part| part.0);
        let in_view = self.arrived.iter().filter(|part| part.1 >= from);
        in_view.map(|part| u64::from(part.2.saturating_sub(header))).sum()
    }
}

impl Frames {
    fn take(&mut self, row: &FrameRow, from: Time) {
        self.shown.extend(row.displayed.map(Reverse));
        if row.psnr().is_some() {
            *self.measured.get_or_insert_default() |= row.shown_quality.0.is_some();
        }
        let Some(captured) = row.captured else { return };
        self.first.0.get_or_insert(captured);
        self.first.1 = [self.first.1, row.displayed].into_iter().flatten().min();
        // No later frame is shown before it is captured.
        while let Some(&Reverse(at)) = self.shown.peek()
            && at <= captured
        {
            self.shown.pop();
            self.stalls.push(at);
        }
        if captured < from {
            return;
        }
        let counts = &mut self.counts;
        counts.captured += 1;
        counts.encoded += usize::from(row.encoded.is_some());
        counts.displayed += usize::from(row.displayed.is_some());
        counts.late += usize::from(row.late);
        counts.skipped += usize::from(row.skipped);
        counts.key += usize::from(row.key);
        let delay = &mut self.delay;
        self.latencies.push(captured, row.displayed, |_, latency| delay.push(latency.as_millis_f64()));
        self.bitrate.push(f64::from(row.size) * 8.0 / self.interval.as_secs_f64());
        row.psnr().into_iter().for_each(|psnr| self.psnr.push(psnr));
        row.ssim().into_iter().for_each(|ssim| self.ssim.push(ssim));
        self.keep_slot(captured, row);
    }

    fn keep_slot(&mut self, captured: Time, row: &FrameRow) {
        let known = row.displayed.is_none() || row.ssim().is_some();
        let full = |slots: &[SqiFrame]| slots.len() >= self.limit;
        let Some(slots) = self.slots.as_mut().filter(|slots| known && !full(slots)) else {
            self.slots = None;
            return;
        };
        slots.push((captured, row.displayed.zip(row.ssim())));
    }

    fn sqi(&self) -> Option<f64> {
        let slots = self.slots.as_ref().filter(|slots| slots.iter().any(|(_, shown)| shown.is_some()))?;
        sqi(&sqi_slots(slots, self.interval), self.interval.as_secs_f64(), &SQI)
    }

    fn close(&mut self, to: Time) {
        let mut left: Vec<Time> = std::mem::take(&mut self.shown).into_iter().map(|Reverse(at)| at).collect();
        left.sort_unstable();
        left.into_iter().for_each(|at| self.stalls.push(at));
        let delay = &mut self.delay;
        self.counts.cut_off = self.latencies.finish(to, |_, latency| delay.push(latency.as_millis_f64()));
    }

    /// From the first capture to the first display, in ms.
    fn first_frame(&self) -> Option<f64> {
        let (captured, displayed) = self.first;
        Some((displayed? - captured?).as_millis_f64())
    }

    fn psnr(&self) -> Option<Mean5> {
        Some(Mean5 { mean: psnr_of_counted(&self.psnr.counted())?, p5: self.psnr.percentile(5.0)? })
    }
}

fn header(flow: &Flow, media: u32) -> u32 {
    match flow.source {
        Source::Tcp(_) => Segment::LEN as u32,
        Source::Smoltcp(_) => smol::HEADER as u32,
        Source::Video(_) | Source::Backlog(_) | Source::Quic(_) => media,
    }
}

fn milliseconds(delays: &Distribution) -> Option<Percentiles> {
    delays.spread().map(Percentiles::from)
}

/// Whose word a quality is that was not measured.
fn word_of(encoder: &Encoder) -> &'static str {
    if matches!(encoder.kind, EncoderKind::Model | EncoderKind::VixnnModel) { "model" } else { "encoder" }
}

/// All but the lost ones.
fn packet_counts(totals: &FlowTotals, flow: &Flow) -> PacketCounts {
    let quic = matches!(flow.source, Source::Quic(_));
    let foreign = quic || matches!(flow.source, Source::Smoltcp(_));
    PacketCounts {
        sent: totals.sent,
        received: totals.received,
        lost: None,
        retransmitted: (!quic).then_some(totals.retransmitted),
        spurious: (!foreign).then_some(totals.spurious),
        duplicates: totals.duplicates,
    }
}

/// Frames counted where no rows were kept, warm-up included.
fn frame_totals(t: &FlowTotals) -> FrameCounts {
    let [captured, encoded, displayed, late, skipped] =
        [t.captured, t.encoded, t.displayed, t.late, t.skipped].map(|count| count as usize);
    FrameCounts { captured, encoded, displayed, late, skipped, ..FrameCounts::default() }
}
