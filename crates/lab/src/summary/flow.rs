//! One flow in numbers.

use netsim::IP_UDP_OVERHEAD;
use serde::Serialize;
use units::{Span, Time};
use wire::Segment;

use super::Context;
use crate::collect::{Collector, FlowRecord, PacketRow};
use crate::metrics::{
    SimulatedFrame, Spread, coefficient_of_variation, latencies, nearest_rank, psnr_summary, simulate, slots,
    stalls_between, throughput,
};
use crate::scenario::{Flow, Supply};

/// Slots the simulated encoder of equation 10 smooths over. The paper does not say; metrics.md settles on 4.
const SMOOTHING: usize = 4;
/// Frame interval where equation 10 is applied to a flow that has no frames: 60 frames/s, as in the paper.
const SIMULATED_INTERVAL: Span = Span::from_nanos(16_666_667);

/// A distribution of times in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl From<Spread> for Percentiles {
    fn from(s: Spread) -> Percentiles {
        Percentiles { mean: s.mean, p50: s.p50, p90: s.p90, p95: s.p95, p99: s.p99, max: s.max }
    }
}

/// A distribution of rates in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatePercentiles {
    /// Arithmetic mean.
    pub mean: f64,
    /// 10th percentile.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
}

impl From<Spread> for RatePercentiles {
    fn from(s: Spread) -> RatePercentiles {
        RatePercentiles { mean: s.mean, p10: s.p10, p50: s.p50, p90: s.p90 }
    }
}

/// A mean and what only five per cent fall below.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean5 {
    /// The mean: of PSNR, ffmpeg's (over squared errors).
    pub mean: f64,
    /// 5th percentile over displayed frames.
    pub p5: f64,
}

/// Frames counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrameCounts {
    /// Captured.
    pub captured: usize,
    /// Encoded.
    pub encoded: usize,
    /// Displayed.
    pub displayed: usize,
    /// Of the displayed, after their deadline.
    pub late: usize,
    /// Left out by the sender.
    pub skipped: usize,
    /// Key frames among the encoded.
    pub key: usize,
    /// At the end, without any later displayed frame: their delay is measured to the end of the run.
    pub cut_off: usize,
}

/// Packets counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketCounts {
    /// Sent.
    pub sent: u64,
    /// Received, each once.
    pub received: u64,
    /// Never arrived; those under way at the end are not among them.
    pub lost: u64,
    /// Sent again.
    pub retransmitted: u64,
    /// Taken for lost by the sender although they had arrived.
    pub spurious: u64,
    /// Received a second time.
    pub duplicates: u64,
}

/// Stalls: gaps between displayed frames of more than `max(3 I, I + 150 ms)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StallSummary {
    /// How many.
    pub count: usize,
    /// How long in all.
    pub total_s: f64,
    /// The longest.
    pub longest_ms: f64,
}

/// What equation 10 of seed 000 makes of the flow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// Bitrate of the simulated frames.
    pub bitrate_bps: RatePercentiles,
    /// Their delay.
    pub frame_delay_ms: Percentiles,
}

/// A flow in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSummary {
    /// Its name.
    pub name: String,
    /// Its controller, with options.
    pub cc: String,
    /// `video` or `backlog`.
    pub source: &'static str,
    /// Delivered wire bits over the time from the first delivery to the last.
    pub throughput_bps: f64,
    /// Unique payload bits over the same time.
    pub goodput_bps: f64,
    /// Of the bytes that left the bottleneck while the flow was on, its share (cross traffic counts as others).
    pub share: Option<f64>,
    /// Bytes sent that never arrived over bytes sent; those under way at the end count on neither side.
    pub loss: f64,
    /// One-way delay of packets, in true time.
    pub owd_ms: Option<Percentiles>,
    /// Round-trip samples of the sender.
    pub rtt_ms: Option<Percentiles>,
    /// Capture to display; frames never displayed count until the next displayed one.
    pub frame_delay_ms: Option<Percentiles>,
    /// From the start of sending a frame until the sender knows that it arrived.
    pub frame_rtt_ms: Option<Percentiles>,
    /// Frames counted.
    pub frames: FrameCounts,
    /// Frames displayed per second.
    pub frame_rate: f64,
    /// Media bitrate, frame by frame; skipped frames count as zero. Of a backlogged flow, the simulated one.
    pub bitrate_bps: Option<RatePercentiles>,
    /// Luma PSNR of displayed frames.
    pub psnr_db: Option<Mean5>,
    /// SSIM (All) of displayed frames.
    pub ssim: Option<Mean5>,
    /// `measured` on the displayed pictures, or the `encoder`'s word.
    pub quality: Option<&'static str>,
    /// How often and how long the picture stood still.
    pub stalls: StallSummary,
    /// Variation (standard deviation over mean) of the wire bytes sent per frame, or per 16.67 ms of a backlogged flow.
    pub send_rate_cv: Option<f64>,
    /// Equation 10's view of the flow.
    pub simulated: Option<Simulated>,
    /// Packets counted.
    pub packets: PacketCounts,
    /// Bits of feedback per second.
    pub feedback_bps: f64,
}

/// A flow, seen from the warm-up on and as long as it was on.
struct View<'a> {
    record: &'a FlowRecord,
    from: Time,
    to: Time,
    interval: Span,
}

pub(super) fn summarise(run: &Collector, index: usize, context: &Context<'_>) -> FlowSummary {
    let flow = &context.scenario.flows[index];
    let record = &run.flows[index];
    let view = View {
        record,
        from: context.from().max(Time::ZERO + flow.start),
        to: flow.stop.map_or(context.to(), |stop| context.to().min(Time::ZERO + stop)),
        interval: context.intervals.get(index).copied().unwrap_or(SIMULATED_INTERVAL),
    };
    let simulated = view.simulated();
    let (frames, frame_delay_ms) = view.frames();
    let (loss, lost) = view.loss(context.to());
    let header = match flow.source {
        Supply::Tcp => Segment::LEN as u32,
        Supply::Smoltcp => smol::HEADER as u32,
        Supply::Video | Supply::Backlog | Supply::Quic => context.header,
    };
    let (throughput_bps, goodput_bps) = view.rates(header);
    let bitrate_bps =
        if flow.source == Supply::Video { view.bitrate() } else { simulated.as_ref().map(|s| s.bitrate_bps) };
    let active = (view.to - view.from).as_secs_f64();
    FlowSummary {
        name: flow.name.clone(),
        cc: flow.cc.clone(),
        source: source_name(flow),
        throughput_bps,
        goodput_bps,
        share: share(run, index, view.from, view.to),
        loss,
        owd_ms: milliseconds(view.packets().filter_map(|p| Some(p.arrived? - p.sent))),
        rtt_ms: milliseconds(record.rtt.iter().filter(|s| s.at >= view.from).map(|s| s.latest)),
        frame_delay_ms,
        frame_rtt_ms: milliseconds(record.frame_rtts(view.from).into_iter()),
        frame_rate: if active > 0.0 { frames.displayed as f64 / active } else { 0.0 },
        frames,
        bitrate_bps,
        psnr_db: view.psnr(),
        ssim: view.ssim(),
        quality: view.quality_source(),
        stalls: view.stalls(flow),
        send_rate_cv: view.send_rate_cv(flow),
        simulated,
        packets: PacketCounts { lost, ..packet_counts(record) },
        feedback_bps: if active > 0.0 { record.totals.feedback_bytes as f64 * 8.0 / active } else { 0.0 },
    }
}

fn source_name(flow: &Flow) -> &'static str {
    match flow.source {
        Supply::Video => "video",
        Supply::Backlog => "backlog",
        Supply::Tcp => "tcp",
        Supply::Quic => "quic",
        Supply::Smoltcp => "smoltcp",
    }
}

fn milliseconds(spans: impl Iterator<Item = Span>) -> Option<Percentiles> {
    Spread::of(spans.map(Span::as_millis_f64)).map(Percentiles::from)
}

fn packet_counts(record: &FlowRecord) -> PacketCounts {
    let totals = &record.totals;
    PacketCounts {
        sent: totals.sent,
        received: totals.received,
        lost: 0,
        retransmitted: totals.retransmitted,
        spurious: totals.spurious,
        duplicates: totals.duplicates,
    }
}

/// Frames counted where no rows were kept, warm-up included.
fn frame_totals(record: &FlowRecord) -> FrameCounts {
    let t = &record.totals;
    let [captured, encoded, displayed, late, skipped] =
        [t.captured, t.encoded, t.displayed, t.late, t.skipped].map(|count| count as usize);
    FrameCounts { captured, encoded, displayed, late, skipped, ..FrameCounts::default() }
}

fn share(run: &Collector, index: usize, from: Time, to: Time) -> Option<f64> {
    let departed = run.link.departures.iter().filter(|d| d.at >= from && d.at <= to);
    let (mut own, mut all) = (0u64, 0u64);
    for departure in departed {
        all += u64::from(departure.size);
        own += if usize::from(departure.flow) == index { u64::from(departure.size) } else { 0 };
    }
    (all > 0).then(|| own as f64 / all as f64)
}

impl View<'_> {
    /// Packets sent in view.
    fn packets(&self) -> impl Iterator<Item = &PacketRow> {
        self.record.packets.iter().filter(|p| p.sent >= self.from)
    }

    /// Throughput and goodput. Where no rows were kept, throughput is over the flow's whole time and goodput unknown.
    fn rates(&self, header: u32) -> (f64, f64) {
        let totals = &self.record.totals;
        if self.record.packets.is_empty() && totals.received > 0 {
            let bytes = totals.received_bytes + totals.received * u64::from(IP_UDP_OVERHEAD);
            return (bytes as f64 * 8.0 / (self.to - self.from).as_secs_f64(), 0.0);
        }
        let deliveries = self.record.deliveries();
        let deliveries = &deliveries[deliveries.partition_point(|d| d.0 < self.from)..];
        let wire = throughput(deliveries.iter().copied());
        let (Some(first), Some(last)) = (deliveries.first(), deliveries.last()) else { return (0.0, 0.0) };
        let seconds = (last.0 - first.0).as_secs_f64();
        let payload = self.record.unique_payload(self.from, header) as f64 * 8.0;
        (wire, if seconds > 0.0 { payload / seconds } else { 0.0 })
    }

    /// Lost over sent bytes, and lost packets. What was sent within the longest one-way delay of the end may still be under
    /// way: it counts on neither side.
    fn loss(&self, end: Time) -> (f64, u64) {
        let delays = self.record.one_way_delays().map(|(_, delay)| delay);
        let settled = end - delays.max().unwrap_or(Span::ZERO);
        let (mut sent, mut lost, mut count) = (0u64, 0u64, 0u64);
        for packet in self.packets().filter(|p| p.sent < settled) {
            let size = u64::from(packet.size + IP_UDP_OVERHEAD);
            sent += size;
            if packet.arrived.is_none() {
                (lost, count) = (lost + size, count + 1);
            }
        }
        (lost as f64 / sent.max(1) as f64, count)
    }

    fn frames(&self) -> (FrameCounts, Option<Percentiles>) {
        let mut counts = FrameCounts::default();
        if self.record.streams.is_empty() {
            return (frame_totals(self.record), None);
        }
        let mut times = Vec::new();
        for (captured, frame) in self.record.captured().filter(|(at, _)| *at >= self.from) {
            counts.captured += 1;
            counts.encoded += usize::from(frame.encoded.is_some());
            counts.displayed += usize::from(frame.displayed.is_some());
            counts.late += usize::from(frame.late);
            counts.skipped += usize::from(frame.skipped);
            counts.key += usize::from(frame.key);
            times.push((captured, frame.displayed));
        }
        let found = latencies(&times, self.to);
        counts.cut_off = found.cut_off;
        (counts, milliseconds(found.of_frames.into_iter()))
    }

    fn bitrate(&self) -> Option<RatePercentiles> {
        let frames = self.record.captured().filter(|(at, _)| *at >= self.from);
        let seconds = self.interval.as_secs_f64();
        Spread::of(frames.map(|(_, frame)| f64::from(frame.size) * 8.0 / seconds)).map(RatePercentiles::from)
    }

    fn psnr(&self) -> Option<Mean5> {
        let shown = self.record.captured().filter(|(at, _)| *at >= self.from);
        let mut values: Vec<f64> = shown.filter_map(|(_, frame)| frame.psnr()).collect();
        values.sort_unstable_by(f64::total_cmp);
        Some(Mean5 { mean: psnr_summary(&values)?, p5: nearest_rank(&values, 5.0)? })
    }

    fn ssim(&self) -> Option<Mean5> {
        let shown = self.record.captured().filter(|(at, _)| *at >= self.from);
        let spread = Spread::of(shown.filter_map(|(_, frame)| frame.ssim()))?;
        Some(Mean5 { mean: spread.mean, p5: spread.p5 })
    }

    fn quality_source(&self) -> Option<&'static str> {
        let shown = || self.record.frames().iter().filter(|frame| frame.psnr().is_some());
        let measured = shown().any(|frame| frame.shown_quality.0.is_some());
        shown().next().map(|_| if measured { "measured" } else { "encoder" })
    }

    fn stalls(&self, flow: &Flow) -> StallSummary {
        let displays = self.record.displays();
        let in_view = &displays[displays.partition_point(|at| *at < self.from)..];
        let found = stalls_between(in_view, self.to, self.interval, flow.pauses());
        StallSummary {
            count: found.count(),
            total_s: found.total().as_secs_f64(),
            longest_ms: found.spans.iter().map(|(a, b)| (*b - *a).as_millis_f64()).fold(0.0, f64::max),
        }
    }

    fn send_rate_cv(&self, flow: &Flow) -> Option<f64> {
        match flow.source {
            Supply::Video => coefficient_of_variation(&self.record.bytes_per_frame(self.from)),
            Supply::Backlog | Supply::Tcp | Supply::Quic | Supply::Smoltcp => {
                let sent = slots(self.record.transmissions(), self.from, self.to, SIMULATED_INTERVAL);
                // The last slot may be cut short.
                coefficient_of_variation(&sent[..sent.len().saturating_sub(1)])
            }
        }
    }

    fn simulated(&self) -> Option<Simulated> {
        let packets = self.record.path_packets();
        let frames = simulate(&packets, self.from, self.to, SIMULATED_INTERVAL, SMOOTHING);
        let delays = frames.iter().map(|f: &SimulatedFrame| f.delay);
        Some(Simulated {
            bitrate_bps: Spread::of(frames.iter().map(|f| f.bitrate))?.into(),
            frame_delay_ms: milliseconds(delays)?,
        })
    }
}
