//! One flow in numbers.

use serde::Serialize;

use crate::metrics::Spread;

/// A distribution of times in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// Arithmetic mean.
    pub mean: f64,
    /// The median (50th percentile).
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The largest value.
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
    /// The median (50th percentile).
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
    /// Frames captured.
    pub captured: usize,
    /// Frames that the encoder finished.
    pub encoded: usize,
    /// Frames shown.
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
    /// Packets sent.
    pub sent: u64,
    /// Received, each once.
    pub received: u64,
    /// Never arrived; those under way at the end are not among them. Unknown as [`FlowSummary::loss`] is.
    pub lost: Option<u64>,
    /// Sent again; QUIC's packets don't tell.
    pub retransmitted: Option<u64>,
    /// Taken for lost by the sender although they had arrived; neither quinn nor smoltcp says.
    pub spurious: Option<u64>,
    /// Received a second time.
    pub duplicates: u64,
}

/// Stalls, as [`stalls`](crate::metrics::stalls) defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StallSummary {
    /// How many stalls there were.
    pub count: usize,
    /// How long in all.
    pub total_s: f64,
    /// The longest stall, in ms.
    pub longest_ms: f64,
}

/// What equation 10 of SQP's paper makes of the flow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// Bitrate of the simulated frames.
    pub bitrate_bps: RatePercentiles,
    /// One-way delay of the simulated frames, in ms.
    pub frame_delay_ms: Percentiles,
}

/// A flow in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSummary {
    /// The flow's name, as the scenario has it.
    pub name: String,
    /// Its controller, with options.
    pub cc: String,
    /// `video` or `backlog`.
    pub source: &'static str,
    /// Delivered wire bits over the time from the first delivery to the last.
    pub throughput_bps: f64,
    /// Unique payload bits over the same time; unknown where no rows were kept.
    pub goodput_bps: Option<f64>,
    /// Of the bytes that left the bottleneck while the flow was on, its share (cross traffic counts as
    /// others).
    pub share: Option<f64>,
    /// Bytes sent that never arrived over bytes sent; those under way at the end count on neither side.
    /// Unknown where nothing was sent, or no rows were kept.
    pub loss: Option<f64>,
    /// One-way delay of packets, in true time.
    pub owd_ms: Option<Percentiles>,
    /// Round-trip samples of the sender.
    pub rtt_ms: Option<Percentiles>,
    /// From the first frame's capture until a frame was first displayed, warm-up or not.
    pub first_frame_ms: Option<f64>,
    /// Capture to display; frames never displayed count until the next displayed one. Unknown where none ever
    /// was.
    pub frame_delay_ms: Option<Percentiles>,
    /// From the start of sending a frame until the sender knows that it arrived.
    pub frame_rtt_ms: Option<Percentiles>,
    /// Frames counted.
    pub frames: FrameCounts,
    /// Frames displayed per second of video.
    pub frame_rate: Option<f64>,
    /// Bitrate of the coded video, frame by frame; skipped frames count as zero. Only of video.
    pub bitrate_bps: Option<RatePercentiles>,
    /// Luma PSNR of displayed frames.
    pub psnr_db: Option<Mean5>,
    /// SSIM (All) of displayed frames.
    pub ssim: Option<Mean5>,
    /// SQI-SSIM of the frames captured in view ([`sqi`](crate::metrics::sqi)); unknown where a shown frame's
    /// SSIM is, and of runs that are too long to keep each frame.
    pub sqi: Option<f64>,
    /// Where PSNR, SSIM and SQI come from: `measured` on the displayed pictures, an `encoder`'s word, or a
    /// `model` of an encoder, which makes no pictures.
    pub quality: Option<&'static str>,
    /// Stalls; only of video.
    pub stalls: Option<StallSummary>,
    /// Variation (standard deviation over mean) of the wire bytes sent per frame, or per 16.67 ms of a
    /// backlogged flow.
    pub send_rate_cv: Option<f64>,
    /// Equation 10's view of the flow.
    pub simulated: Option<Simulated>,
    /// Packets counted.
    pub packets: PacketCounts,
    /// Bits of feedback per second.
    pub feedback_bps: f64,
}
