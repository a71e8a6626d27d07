//! H.264 by OpenH264 (built from source with the crate, no system package): the embedded real codec.
//!
//! Every frame is coded at the bitrate asked for that frame, without a key frame in between, and a key frame
//! comes only when one is asked for. With `slices` set, a frame is cut into slices that each fit a packet.
//!
//! ```text
//!   Ask { bitrate, interval, key } -> bits of this frame = bitrate * interval -> ENCODER_OPTION_BITRATE -> EncodeFrame
//! ```
//!
//! What makes the rate adjustable (found by trying): the level must be 5.2 and the initial maximum high, else
//! a later raise is refused; the layer must be `SPATIAL_LAYER_ALL`; frame skipping must be off; the mode must
//! be Bitrate, since Bufferbased ignores the rate and Timestamp overflows 32 bits above about 1 Mbit a frame.
//!
//! No key frame is asked for at a scene's cut, but one may be sent there: OpenH264 lets its quantiser fall
//! while a picture stands still, and codes the first of the next scene with what it fell to. At 2 Mbit/s that
//! frame of 720p takes 386 kB, a second and a half of the link; coded again as a key frame, 55 kB. So a frame
//! far above its budget is coded again.
//!
//! The rate control codes no key frame with a quantiser above 40, at whatever rate: 720p of the synthetic
//! clip takes 40 kB, half a second of a link of 0.7 Mbit/s. One that is larger than asked for is coded again
//! with a coarser quantiser, and the frames after it refine the picture step by step.
//!
//! A stream whose first [`Ask`] says what the peer has ([`Ask::peer`]) keeps long-term references, so that
//! after a loss the next frame is predicted from one that arrived. Others are coded as they would be without.

mod concealment;
mod decoder;
mod raw;
mod references;
mod slice;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use units::{Bytes as Size, Rate, Span, Time};

pub use decoder::H264Decoder;
pub use slice::{Marking, Reference, SliceError, SliceHeader, SliceReader};

use crate::{Ask, CodecError, Coded, Encoder, Peer, Quantiser, RawFrame};
use raw::{Handle, Settings, Stream};
use references::{References, Said};

/// How hard the encoder searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Complexity {
    /// Fastest; what live encoding uses.
    #[default]
    Low,
    /// Between the two in time and size of frames.
    Medium,
    /// Slowest, and the smallest frames.
    High,
}

/// How to set up an [`H264Encoder`].
#[derive(Clone, Debug)]
pub struct H264Config {
    /// Picture width in pixels: even, 16 to 3840.
    pub width: usize,
    /// Picture height in pixels: even, 16 to 2160.
    pub height: usize,
    /// Usual time between frames; each [`Ask`] brings its own.
    pub interval: Span,
    /// Bitrate before the first [`Ask`].
    pub initial: Rate,
    /// Higher asks are held to this rate, and it to 240 Mbit/s (level 5.2 ends at 288).
    pub max: Rate,
    /// Cut each frame into slices of at most this many bytes (500 to 65,000); one slice a frame if `None`.
    pub slices: Option<usize>,
    /// Time from submitting a frame until it is ready. In virtual time this stands for the time encoding
    /// takes; in real time, where encoding takes its time itself, it is zero.
    pub latency: Span,
    /// How hard to search.
    pub complexity: Complexity,
    /// Encoder threads (1 to 16). More than one cuts the frame into as many slices.
    pub threads: u16,
    /// Size aimed at for key frames after the first, in average frames (0.5 to 10). Quality limits of the
    /// codec make real key frames larger than this at low rates.
    pub key_ratio: f64,
    /// Spend all that a key frame may take ([`Ask::largest`]): it is coded again with finer quantisers while
    /// it fits. A stream of key frames alone then has the quality that its rate allows. Costs several
    /// encodings a key frame.
    pub fill_keys: bool,
}

impl H264Config {
    /// Defaults for pictures of this size, `interval` apart: 4 ms latency, one slice, one thread, fastest
    /// search, and key frames aimed at twice an average frame (OpenH264's own default of four takes a live
    /// link four frame times).
    pub fn new(width: usize, height: usize, interval: Span) -> H264Config {
        H264Config {
            width,
            height,
            interval,
            initial: Rate::from_mbps(2),
            max: Rate::from_mbps(200),
            slices: None,
            latency: Span::from_millis(4),
            complexity: Complexity::Low,
            threads: 1,
            key_ratio: 2.0,
            fill_keys: false,
        }
    }

    fn check(&self) -> Result<(), CodecError> {
        let side = |n: usize, most: usize| n.is_multiple_of(2) && (16..=most).contains(&n);
        let (long, short) = (self.width.max(self.height), self.width.min(self.height));
        if !side(long, 3840) || !side(short, 2160) {
            return refuse(format!(
                "{}x{} is not an even size from 16x16 to 3840x2160",
                self.width, self.height
            ));
        }
        if !self.interval.is_positive() {
            return refuse(format!("an interval of {} between frames", self.interval));
        }
        if self.slices.is_some_and(|bytes| !(500..=65_000).contains(&bytes)) {
            return refuse(format!("slices of {:?} bytes; 500 to 65,000 are possible", self.slices));
        }
        if !(1..=16).contains(&self.threads) {
            return refuse(format!("{} threads; 1 to 16 are possible", self.threads));
        }
        if !(0.5..=10.0).contains(&self.key_ratio) {
            return refuse(format!("a key frame ratio of {}; 0.5 to 10 are possible", self.key_ratio));
        }
        Ok(())
    }
}

fn open(config: &H264Config, fps: f64, bitrate: i32, references: bool) -> Result<Handle, CodecError> {
    let settings = Settings {
        width: config.width,
        height: config.height,
        fps,
        bitrate,
        slice_bytes: config.slices,
        threads: config.threads,
        complexity: config.complexity,
        key_percent: (config.key_ratio * 100.0).round() as i32,
        references,
    };
    Handle::open(&settings).or_else(|(call, code)| refuse(format!("{call} returned {code} for {settings:?}")))
}

fn refuse<T>(what: String) -> Result<T, CodecError> {
    Err(CodecError::Codec { codec: "openh264", what })
}

/// What OpenH264's rate control believes in at most, in bit/s: its own limit is level 5.2's 288,000,000,
/// which the target must stay below.
const MAX_BITRATE: u64 = 240_000_000;
/// Fastest frame rate OpenH264 accepts; beyond it only the bits per frame count, which is all we use.
const MAX_FPS: f64 = 60.0;

/// A frame of more budgets than this is too large, unless the last key frame was as large ...
const OVERSIZE: f64 = 8.0;
/// ... to within this factor: coding it again would gain nothing.
const KEY_MARGIN: f64 = 1.25;

/// Finest quantiser that a filled key frame gets, which the rate control has for its bound, too.
const FINEST_KEY: i32 = 12;
/// Coarsest quantiser that OpenH264's rate control gives a key frame; with more bits than 0.01 a pixel it is
/// 34 to 37 (`RcCalculateIdrQp`), ...
const COARSEST_KEY: i32 = 40;
/// ... so that one of its key frames may have had this, ...
const USUAL_KEY: i32 = 36;
/// ... coarsest there is (H.264 section 7.4.2.1.1), ...
const COARSEST: i32 = 51;
/// ... and how many steps halve a key frame, at least (synthetic clip, 720p: 47.6 kB by the rate control are
/// 8.9 kB with 47 and 6.6 kB with 50).
const HALVING: f64 = 4.0;

/// What is coded, and when.
struct Shot<'a> {
    now: Time,
    picture: &'a RawFrame,
    frame: u32,
}

/// The encoder. Deterministic: the same pictures and asks give the same bytes.
pub struct H264Encoder {
    handle: Handle,
    config: H264Config,
    /// Frame rate the codec was told.
    fps: f64,
    /// Rate the codec was last told, in bit/s at `fps`.
    bitrate: i32,
    /// Bytes of the last key frame as the rate control had it, once there is one.
    last_key: Option<usize>,
    /// Quantiser of the next frame, while it is coarser than any that the rate control gives a key frame.
    coarse: Option<i32>,
    /// Quantiser of the last key frame that was filled: where the search for the next one begins.
    filled: i32,
    /// After a failure only a key frame is safe.
    broken: bool,
    /// What is kept, in a stream that says what its peer has.
    references: Option<References>,
    /// Nothing was coded yet.
    fresh: bool,
    ready: VecDeque<(Time, Coded)>,
}

impl H264Encoder {
    /// Opens an encoder.
    ///
    /// # Errors
    /// [`CodecError::Codec`] if the configuration is out of range or OpenH264 refuses it.
    pub fn new(config: H264Config) -> Result<H264Encoder, CodecError> {
        config.check()?;
        let fps = (1.0 / config.interval.as_secs_f64()).clamp(1.0, MAX_FPS);
        let initial = config.initial.as_bps().clamp(1_000, MAX_BITRATE) as i32;
        let handle = open(&config, fps, initial, false)?;
        Ok(H264Encoder {
            handle,
            config,
            fps,
            bitrate: initial,
            last_key: None,
            coarse: None,
            filled: USUAL_KEY,
            broken: false,
            references: None,
            fresh: true,
            ready: VecDeque::new(),
        })
    }

    /// Keeps long-term references from the first frame on, for which the codec must be opened anew.
    fn keep_references(&mut self) -> Result<(), CodecError> {
        let initial = self.config.initial.as_bps().clamp(1_000, MAX_BITRATE) as i32;
        self.handle = open(&self.config, self.fps, initial, true)?;
        (self.bitrate, self.references) = (initial, Some(References::default()));
        Ok(())
    }

    /// Tells the codec what the peer has. True if the next frame will be predicted from what is known to have
    /// arrived, false if only a key frame helps.
    fn heed(&mut self, peer: &Peer) -> Result<bool, CodecError> {
        let Some(references) = &mut self.references else { return Ok(peer.broken_from.is_none()) };
        let refused = |code| refuse(format!("what the peer has ({peer:?}) returned {code}"));
        if let Some(feedback) = references.feedback(peer) {
            self.handle.tell(feedback).or_else(refused)?;
        }
        if peer.broken_from.is_none() {
            return Ok(true);
        }
        let Some(reference) = references.recovery(peer) else { return Ok(false) };
        self.handle.recover(reference).or_else(refused)?;
        Ok(true)
    }

    /// What the frame says of references. A frame that refers to what is broken would be worth nothing.
    fn said(&mut self, frame: u32, stream: &Stream, peer: Option<Peer>) -> Result<Said, CodecError> {
        let nothing = Said { refers_to: None, keeps: None };
        let Some(references) = &mut self.references else { return Ok(nothing) };
        let said = references
            .coded(frame, &stream.bytes)
            .or_else(|error| refuse(format!("the header of frame {frame}: {error}")))?;
        let broken = peer.and_then(|peer| peer.broken_from).zip(said.refers_to);
        match broken {
            Some((from, to)) if to >= from => {
                refuse(format!("frame {frame} refers to {to}, which is broken"))
            }
            _ => Ok(said),
        }
    }

    /// The rate that an ask gets: what it asks for, within the encoder's limits.
    fn granted(&self, ask: &Ask) -> Rate {
        // A bound may be below the budget.
        let bound = ask.largest.map_or(Rate::MAX, |largest| Rate::average(largest, ask.interval));
        ask.bitrate.min(bound).min(self.config.max).min(Rate::from_bps(MAX_BITRATE))
    }

    /// Tells the codec this frame's budget in bits, as the rate that gives it at the frame rate the codec
    /// believes in.
    fn set_budget(&mut self, bits: f64) -> Result<(), CodecError> {
        // At least a byte a frame, which OpenH264 insists on, and at most what it believes in.
        let bitrate = (bits * self.fps).clamp(self.fps * 8.0, MAX_BITRATE as f64).round() as i32;
        if bitrate != self.bitrate {
            self.handle
                .set_bitrate(bitrate)
                .or_else(|code| refuse(format!("setting {bitrate} bit/s returned {code}")))?;
            self.bitrate = bitrate;
        }
        Ok(())
    }

    fn encode(&mut self, now: Time, picture: &RawFrame, ask: &Ask) -> Result<Coded, CodecError> {
        let target = self.granted(ask);
        let interval = if ask.interval.is_positive() { ask.interval } else { self.config.interval };
        let budget = target.as_f64() * interval.as_secs_f64();
        if std::mem::take(&mut self.fresh) && ask.peer.is_some() {
            self.keep_references()?;
        }
        let mut key = ask.key || self.broken;
        if let Some(peer) = ask.peer.filter(|_| !key) {
            key = !self.heed(&peer)?;
        }
        self.set_budget(budget)?;
        let shot = Shot { now, picture, frame: ask.frame };
        let mut stream = self.code(&shot, key, self.coarse.filter(|_| !key))?;
        if self.oversized(&stream, budget) {
            stream = self.code(&shot, true, None)?;
        }
        if stream.key {
            self.last_key = Some(stream.bytes.len());
            stream = self.bounded(&shot, stream, ask.largest)?;
        } else {
            self.refine(stream.bytes.len() as f64 * 8.0 / budget);
        }
        let Said { refers_to, keeps } = self.said(ask.frame, &stream, ask.peer)?;
        Ok(Coded {
            frame: ask.frame,
            size: stream.bytes.len() as u32,
            payload: Some(Bytes::from(stream.bytes)),
            key: stream.key,
            refers_to,
            keeps,
            target,
            pieces: stream.pieces,
            apart: false,
            quality: None,
            quantiser: Some(Quantiser::H264(stream.quantiser)),
            took: None,
            earlier: 0,
        })
    }

    /// Codes one picture, by the codec's rate control or with a quantiser of its own.
    fn code(&mut self, shot: &Shot<'_>, key: bool, quantiser: Option<i32>) -> Result<Stream, CodecError> {
        let Shot { now, picture, frame } = *shot;
        let setting = |code| refuse(format!("quantiser {quantiser:?} for frame {frame} returned {code}"));
        if key {
            self.handle
                .force_key()
                .or_else(|code| refuse(format!("asking for a key frame returned {code}")))?;
        }
        if quantiser.is_some() {
            self.handle.fix_quantiser(quantiser).or_else(setting)?;
            // That has put back the rate of the start, too.
            self.bitrate = 0;
        }
        let stream = self.handle.encode(picture, now.as_nanos() / 1_000_000);
        if quantiser.is_some() {
            self.handle.fix_quantiser(None).or_else(setting)?;
        }
        let stream = stream.or_else(|code| refuse(format!("encoding frame {frame} returned {code}")))?;
        if stream.bytes.is_empty() || (key && !stream.key) {
            return refuse(format!("frame {frame} came out empty or not as the key frame asked for"));
        }
        Ok(stream)
    }

    /// A key frame of at most `largest` bytes, if the coarsest quantiser makes it so small: the one there is,
    /// or one coded anew.
    fn bounded(&mut self, shot: &Shot<'_>, key: Stream, largest: Option<Size>) -> Result<Stream, CodecError> {
        if let Some(largest) = largest.filter(|_| self.config.fill_keys) {
            return self.filled(shot, largest);
        }
        let (mut stream, mut quantiser) = (key, USUAL_KEY);
        let largest = largest.map_or(f64::INFINITY, |largest| largest.get().max(1) as f64);
        while stream.bytes.len() as f64 > largest && quantiser < COARSEST {
            let halvings = (stream.bytes.len() as f64 / largest).log2();
            quantiser = (quantiser + (halvings * HALVING).ceil() as i32).min(COARSEST);
            stream = self.code(shot, true, Some(quantiser))?;
        }
        self.coarse = Some(quantiser).filter(|quantiser| *quantiser > COARSEST_KEY);
        Ok(stream)
    }

    /// The largest key frame of at most `largest` bytes, or the coarsest there is. Sizes fall with the
    /// quantiser: a search from the last key frame's on, in growing steps, finds it in a few encodings.
    fn filled(&mut self, shot: &Shot<'_>, largest: Size) -> Result<Stream, CodecError> {
        let (mut too_fine, mut fits) = (FINEST_KEY - 1, COARSEST + 1);
        let (mut quantiser, mut step) = (self.filled, 1);
        loop {
            let stream = self.code(shot, true, Some(quantiser))?;
            let small = stream.bytes.len() as u64 <= largest.get() || quantiser == COARSEST;
            if small {
                fits = quantiser;
            } else {
                too_fine = quantiser;
            }
            // The codec predicts from what it coded last, so that must be the one that is kept.
            if small && fits == too_fine + 1 {
                self.filled = fits;
                self.coarse = Some(fits).filter(|quantiser| *quantiser > COARSEST_KEY);
                return Ok(stream);
            }
            let next = if small { quantiser - step } else { quantiser + step };
            let between = next.clamp(too_fine + 1, (fits - 1).max(too_fine + 1));
            (quantiser, step) = (between, step * 2);
        }
    }

    /// After a coarse key frame that took `share` of its budget: the next one is a little finer, if this one
    /// left room for that, until the rate control takes over. It knows nothing of a quantiser that was not
    /// its own, and would refine the whole picture at once.
    fn refine(&mut self, share: f64) {
        let step = match share {
            ..0.5 => -2,
            ..1.0 => -1,
            ..2.0 => 0,
            _ => 1,
        };
        self.coarse = self.coarse.map(|quantiser| (quantiser + step).min(COARSEST));
        self.coarse = self.coarse.filter(|quantiser| *quantiser > COARSEST_KEY);
    }

    fn oversized(&self, stream: &Stream, budget: f64) -> bool {
        let size = stream.bytes.len() as f64;
        let news = self.last_key.is_none_or(|key| size > KEY_MARGIN * key as f64);
        self.coarse.is_none() && size * 8.0 > OVERSIZE * budget && news
    }
}

impl Encoder for H264Encoder {
    fn submit(&mut self, now: Time, picture: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        let Some(picture) = picture else {
            return refuse(format!("frame {} came without a picture", ask.frame));
        };
        if (picture.width, picture.height) != (self.config.width, self.config.height) {
            return Err(CodecError::Size {
                width: self.config.width,
                height: self.config.height,
                found_width: picture.width,
                found_height: picture.height,
            });
        }
        let coded = self.encode(now, picture, ask);
        self.broken = coded.is_err();
        self.ready.push_back((now + self.config.latency, coded?));
        Ok(())
    }

    fn poll(&mut self, now: Time) -> Option<Coded> {
        let due = self.ready.front().is_some_and(|(at, _)| *at <= now);
        if due { self.ready.pop_front().map(|(_, coded)| coded) } else { None }
    }

    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|(at, _)| *at)
    }

    fn refers_back(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod lost_slices;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod tests;
