//! The controller's rate as it is, and pictures that shrink when they look bad: libwebrtc's quality scaler,
//! the baseline of Vidaptive's paper.
//!
//! ```text
//!  every 2 s, from the first step down on every 5 s, mean of the quantiser over the last 150 frames, at least 60:
//!      VP8: above 95 of 127 -> one rung down        at most 29 -> one rung up        then count anew
//!      H.264: above 37 of 51                        at most 24
//! ```
//!
//! The first picture is the largest that is at most 320x240 below 300 kbit/s and at most 640x480 below 500,
//! four rungs down at most.
//!
//! Constants and rules: libwebrtc of 2023, `modules/video_coding/utility/quality_scaler.cc`,
//! `libvpx_vp8_encoder.cc`, `h264_encoder_impl.cc` and `DropDueToSize` of `video/video_stream_encoder.cc`;
//! its steps of 3/5 in picture elements are those of the ladder.
//!
//! An encoder that does not tell its quantiser keeps the source's size: libwebrtc begins small only where it
//! can scale (`InitialFrameDropper`).
//!
//! Deviation: libwebrtc drops a frame for each of the first rungs; here the first frame has its size at once.
//! And it knows beforehand whether the encoder tells, here a first frame says so. H.264's quantiser is the
//! mean of a picture's macroblocks here, there the one that the last slice begins with. Not here: what an
//! overloaded processor does, and that pictures shrink where the encoder leaves out 60 % of them.

use std::collections::VecDeque;

use media::Quantiser;
use units::{Rate, Span, Time};

use super::direct::{self, Direct};
use super::{Entry, Ladder, Manner, Plan, RateControl, View};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "webrtc",
    summary: "the controller's rate as it is, and libwebrtc's quality scaler",
    options: &[direct::QUEUE],
    build: |options| Ok(Box::new(WebRtc { rate: Direct::build(options)?, ..WebRtc::default() })),
};

/// Frames whose quantisers are averaged at most, and at least.
const FRAMES: (usize, usize) = (60, 150);
/// VP8's quantiser index up to which pictures grow, and above which they shrink.
const VP8: (u32, u32) = (29, 95);
/// The same of H.264's quantiser (`kLowH264QpThreshold`, `kHighH264QpThreshold`).
const H264: (u32, u32) = (24, 37);
/// Time between looks until the first step down, and then.
const PERIODS: (Span, Span) = (Span::from_secs(2), Span::from_secs(5));

/// A key frame takes so long at the encoder's rate at most: half of libvpx's optimal buffer of 600 ms
/// (`LibvpxVp8Encoder::MaxIntraTarget`).
const LARGEST_KEY: Span = Span::from_millis(300);

/// Below this rate a first picture has at most so many elements.
const FIRST: [(Rate, u32); 2] = [(Rate::from_kbps(300), 320 * 240), (Rate::from_kbps(500), 640 * 480)];
/// Rungs down before the first picture at most.
const FIRST_RUNGS: usize = 4;

/// The rows of the first picture of a source with so many, taken as 16:9 like the ladder.
fn first(source: u16, rate: Rate) -> u16 {
    let most = FIRST.iter().find(|&&(below, _)| rate < below).map_or(u32::MAX, |&(_, elements)| elements);
    let large = |height: u16| u32::from(height) * (u32::from(height) * 16 / 9) > most;
    let mut height = source;
    for _ in 0..FIRST_RUNGS {
        match Ladder::CALLS.below(height).filter(|_| large(height)) {
            Some(below) => height = below,
            None => break,
        }
    }
    height
}

/// libwebrtc's rate policy: the estimate goes to the encoder at once, and its quality scaler sizes pictures.
#[derive(Clone, Debug, Default)]
pub struct WebRtc {
    rate: Direct,
    quantisers: VecDeque<u8>,
    /// The bounds of their scale.
    bounds: (u32, u32),
    look_at: Option<Time>,
    /// It has shrunk pictures before.
    wary: bool,
    /// The encoder does not tell its quantiser.
    silent: bool,
    height: Option<u16>,
}

impl WebRtc {
    fn learn(&mut self, view: &View<'_>) {
        self.silent |= view.departed.iter().any(|frame| frame.quantiser.is_none());
        for quantiser in view.departed.iter().filter_map(|frame| frame.quantiser) {
            let (quantiser, bounds) = match quantiser {
                Quantiser::Vp8(index) => (index, VP8),
                Quantiser::H264(parameter) => (parameter, H264),
            };
            self.bounds = bounds;
            if self.quantisers.len() == FRAMES.1 {
                self.quantisers.pop_front();
            }
            self.quantisers.push_back(quantiser);
        }
    }

    /// The mean quantiser, rounded down, once enough frames are known.
    fn quantiser(&self) -> Option<u32> {
        let sum: u32 = self.quantisers.iter().map(|&quantiser| u32::from(quantiser)).sum();
        (self.quantisers.len() >= FRAMES.0).then(|| sum / self.quantisers.len() as u32)
    }

    fn size(&mut self, view: &View<'_>, rate: Rate) -> u16 {
        if self.silent {
            return view.height;
        }
        let height = self.height.unwrap_or_else(|| first(view.height, rate)).min(view.height);
        if view.now < *self.look_at.get_or_insert(view.now + PERIODS.0) {
            return height;
        }
        let (fine, coarse) = self.bounds;
        let step = match self.quantiser() {
            Some(bad) if bad > coarse => Some((true, Ladder::CALLS.below(height))),
            Some(good) if good <= fine => Some((false, Ladder::CALLS.above(height, view.height))),
            _ => None,
        };
        if let Some((down, _)) = step {
            self.wary |= down;
            self.quantisers.clear();
        }
        self.look_at = Some(view.now + if self.wary { PERIODS.1 } else { PERIODS.0 });
        step.and_then(|(_, next)| next).unwrap_or(height)
    }
}

impl RateControl for WebRtc {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        self.learn(view);
        let plan = self.rate.plan(view);
        self.height = (view.height > 0).then(|| self.size(view, plan.bitrate));
        Plan { height: self.height, largest_key: Some(plan.bitrate.bytes_in(LARGEST_KEY)), ..plan }
    }

    fn manner(&self) -> Manner {
        Manner { spill: true, ..self.rate.manner() }
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        if let Some(height) = self.height {
            sink("height", f64::from(height));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Departed;
    use units::Bytes;

    /// When the height changes over `seconds` of frames with this quantiser, and to what.
    fn changes(
        policy: &mut WebRtc,
        from: u64,
        seconds: u64,
        quantiser: Option<Quantiser>,
    ) -> Vec<(u64, u16)> {
        let mut found = Vec::new();
        let mut last = policy.height;
        for tick in from * 30..(from + seconds) * 30 {
            let now = Time::ZERO + Span::from_nanos(33_333_333) * tick as i64;
            let (size, target, span) = (Bytes::new(1_000), Rate::from_mbps(1), Span::from_millis(5));
            let frame = tick as u32;
            let departed = [Departed {
                frame,
                at: now,
                queued: span,
                served: span,
                size,
                sent: size,
                target,
                quantiser,
            }];
            let view = View {
                now,
                stream: 0,
                frame,
                interval: Span::from_nanos(33_333_333),
                cc_rate: Some(Rate::from_mbps(1)),
                queued: Bytes::ZERO,
                in_flight: Bytes::ZERO,
                waited: Span::ZERO,
                cut: false,
                open: true,
                patience: Span::from_millis(100),
                limits: (Rate::from_kbps(30), Rate::from_mbps(12)),
                height: 720,
                departed: &departed,
            };
            let height = policy.plan(&view).height;
            if let (Some(height), true) = (height, last.is_some() && height != last) {
                found.push((tick / 30, height));
            }
            last = height;
        }
        found
    }

    #[test]
    fn bad_pictures_shrink_and_good_ones_grow_slowly() {
        let mut policy = WebRtc::default();
        let vp8 = |index| Some(Quantiser::Vp8(index));
        assert_eq!(changes(&mut policy, 0, 13, vp8(96)), [(2, 540), (7, 360), (12, 270)]);
        assert!(changes(&mut policy, 13, 10, vp8(60)).is_empty());
        assert!(matches!(changes(&mut policy, 23, 30, vp8(10)).last(), Some((_, 720))));
    }

    #[test]
    fn each_codec_has_its_scale() {
        let h264 = |parameter| Some(Quantiser::H264(parameter));
        let mut policy = WebRtc::default();
        assert!(changes(&mut policy, 0, 13, h264(37)).is_empty());
        assert_eq!(changes(&mut policy, 13, 7, h264(51)), [(14, 540), (19, 360)]);
        assert!(changes(&mut policy, 20, 13, h264(25)).is_empty());
        assert!(matches!(changes(&mut policy, 33, 30, h264(24)).last(), Some((_, 720))));
    }

    #[test]
    fn the_first_picture_suits_the_rate() {
        let firsts = |source| [299, 300, 499, 500].map(|kbps| first(source, Rate::from_kbps(kbps)));
        assert_eq!(firsts(1080), [270, 360, 360, 1080], "four rungs are the most");
        assert_eq!(firsts(720), [180, 360, 360, 720]);
        assert_eq!(firsts(180), [180; 4]);
    }

    #[test]
    fn an_encoder_that_does_not_tell_keeps_its_size() {
        assert!(changes(&mut WebRtc::default(), 0, 60, None).is_empty());
        // Begun small, it is back at the source's size once its first frame has left.
        let mut policy = WebRtc { height: Some(360), ..WebRtc::default() };
        changes(&mut policy, 0, 1, None);
        assert_eq!(policy.height, Some(720));
    }
}
