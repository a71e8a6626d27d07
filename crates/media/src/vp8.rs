//! VP8 by the system's libvpx, set up as WebRTC sets it up: the codec of the video calls that papers measure.
//! Only with the feature `vpx`.
//!
//! ```text
//!   Ask { bitrate, interval, key, largest } -> rc_target_bitrate, duration, FORCE_KF, MAX_INTRA_BITRATE -> vpx_codec_encode
//! ```
//!
//! One pass at constant bitrate, in real time, without lookahead. libvpx steers towards the target over its
//! buffer of 0.6 s rather than frame by frame, and so follows it in its own time; that is the codec's nature,
//! and left as it is. The encoder's clock counts the intervals of frames that are coded, as WebRTC's does: a
//! frame that was left out leaves no bits to the next one.
//!
//! libvpx may leave a frame out, as it may in WebRTC: where its buffer has run low, and at a scene cut, whose
//! first picture would be tens of times its budget; the next one then has the coarsest quantiser (56). With
//! `drop` 0 whatever is submitted is coded.
//!
//! A stream whose first [`Ask`] says what the peer has ([`Ask::peer`]) keeps frames as golden and alternate
//! references, so that after a loss the next frame is predicted from one that arrived. Others are coded as
//! they would be without.
//!
//! Deviation: WebRTC takes the noise out of camera pictures first, which would count against the encoder
//! where its pictures are held against their sources. Here that is off.

mod decoder;
mod header;
mod raw;
mod references;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use units::{Rate, Span, Time};

pub use decoder::Vp8Decoder;

use crate::{Ask, CodecError, Coded, Encoder, Quantiser, RawFrame};
use raw::{EncoderHandle, Kind, Settings, TICKS};
use references::{References, Said};

/// How to set up a [`Vp8Encoder`].
#[derive(Clone, Debug)]
pub struct Vp8Config {
    /// Picture width in pixels: even, 16 to 3840.
    pub width: usize,
    /// Picture height in pixels: even, 16 to 2160.
    pub height: usize,
    /// Usual time between frames; each [`Ask`] brings its own.
    pub interval: Span,
    /// Bitrate before the first [`Ask`].
    pub initial: Rate,
    /// Higher asks are held to this rate, and it to 1 Gbit/s.
    pub max: Rate,
    /// Time from submitting a frame until it is ready. In virtual time this stands for the time encoding
    /// takes; in real time, where encoding takes its time itself, it is zero.
    pub latency: Span,
    /// Speed of the search, 1 to 16: libvpx's `cpu-used`, negated. (Its positive values adapt to the
    /// machine's load, and the same pictures would no longer give the same bytes.)
    pub speed: u8,
    /// Encoder threads, 1 to 16.
    pub threads: u16,
    /// Frames are left out where libvpx's buffer is below so many percent of its optimal level, 0 to 100;
    /// never with 0.
    pub drop: u8,
}

/// libvpx reckons a frame's bits in 31: this rate over the longest interval is what they hold.
const MAX_KBPS: u64 = 1_000_000;
/// An [`Ask`]'s interval is held to these: 180 frames/s are the most that VP8's rate control believes in.
const INTERVALS: (Span, Span) = (Span::from_micros(5_556), Span::from_secs(1));

impl Vp8Config {
    /// Defaults for pictures of this size, `interval` apart: WebRTC's speed on a desktop (6) and frame
    /// dropper (30), one thread, 4 ms latency.
    pub fn new(width: usize, height: usize, interval: Span) -> Vp8Config {
        Vp8Config {
            width,
            height,
            interval,
            initial: Rate::from_mbps(2),
            max: Rate::from_mbps(200),
            latency: Span::from_millis(4),
            speed: 6,
            threads: 1,
            drop: 30,
        }
    }

    fn check(&self) -> Result<(), CodecError> {
        let side = |n: usize, most: usize| n.is_multiple_of(2) && (16..=most).contains(&n);
        let (long, short) = (self.width.max(self.height), self.width.min(self.height));
        if !side(long, LARGEST.0) || !side(short, LARGEST.1) {
            return refuse(format!(
                "{}x{} is not an even size from 16x16 to {}x{}",
                self.width, self.height, LARGEST.0, LARGEST.1
            ));
        }
        if !self.interval.is_positive() {
            return refuse(format!("an interval of {} between frames", self.interval));
        }
        if !(1..=16).contains(&self.speed) {
            return refuse(format!("a speed of {}; 1 to 16 are possible", self.speed));
        }
        if !(1..=16).contains(&self.threads) {
            return refuse(format!("{} threads; 1 to 16 are possible", self.threads));
        }
        if self.drop > 100 {
            return refuse(format!("frames left out below {} %; 0 to 100 are possible", self.drop));
        }
        Ok(())
    }
}

/// Longer and shorter side of the largest picture, in pixels, that is encoded or decoded.
const LARGEST: (usize, usize) = (3840, 2160);

fn refuse<T>(what: String) -> Result<T, CodecError> {
    Err(CodecError::Codec { codec: "libvpx", what })
}

fn kbps(rate: Rate) -> u32 {
    (rate.as_bps().saturating_add(500) / 1_000).clamp(1, MAX_KBPS) as u32
}

/// The encoder. Deterministic: the same pictures and asks give the same bytes.
pub struct Vp8Encoder {
    handle: EncoderHandle,
    config: Vp8Config,
    /// Rate the codec was last told, in kbit/s.
    kbps: u32,
    /// Bound on key frames it was last told, in percent of an average frame; 0 for none.
    key_limit: u32,
    /// Where the next frame begins on the encoder's clock, in ticks.
    clock: i64,
    /// After a failure only a key frame is safe.
    broken: bool,
    /// What is kept, in a stream that says what its peer has.
    references: Option<References>,
    /// Nothing was asked for yet.
    fresh: bool,
    ready: VecDeque<(Time, Coded)>,
}

impl Vp8Encoder {
    /// Opens an encoder.
    ///
    /// # Errors
    /// [`CodecError::Codec`] if the configuration is out of range or libvpx refuses it.
    pub fn new(config: Vp8Config) -> Result<Vp8Encoder, CodecError> {
        config.check()?;
        let kbps = kbps(config.initial.min(config.max));
        let settings = Settings {
            width: config.width,
            height: config.height,
            kbps,
            threads: config.threads,
            speed: config.speed,
            drop: config.drop,
        };
        let handle = EncoderHandle::open(&settings).or_else(refuse)?;
        Ok(Vp8Encoder {
            handle,
            config,
            kbps,
            key_limit: 0,
            clock: 0,
            broken: false,
            references: None,
            fresh: true,
            ready: VecDeque::new(),
        })
    }

    fn set_rate(&mut self, kbps: u32) -> Result<(), CodecError> {
        if kbps != self.kbps {
            let set = self.handle.set_rate(kbps);
            set.or_else(|what| refuse(format!("setting {kbps} kbit/s: {what}")))?;
            self.kbps = kbps;
        }
        Ok(())
    }

    fn set_key_limit(&mut self, percent: u32) -> Result<(), CodecError> {
        if percent != self.key_limit {
            let set = self.handle.set_key_limit(percent);
            set.or_else(|what| refuse(format!("bounding key frames to {percent} %: {what}")))?;
            self.key_limit = percent;
        }
        Ok(())
    }

    /// How this frame is to be coded.
    fn kind(&mut self, ask: &Ask) -> Kind {
        if std::mem::take(&mut self.fresh) && ask.peer.is_some() {
            self.references = Some(References::default());
        }
        let lost = ask.peer.is_some_and(|peer| peer.broken_from.is_some());
        match &mut self.references {
            _ if ask.key || self.broken => Kind::Key,
            Some(references) => {
                references.plan(&ask.peer.unwrap_or_default()).map_or(Kind::Key, Kind::Planned)
            }
            None if lost => Kind::Key,
            None => Kind::Free,
        }
    }

    /// What the frame says of references.
    fn said(&mut self, frame: u32, kind: Kind, coded: &[u8]) -> Result<Said, CodecError> {
        let Some(references) = &mut self.references else { return Ok(Said::default()) };
        let header = header::read(coded).or_else(|error| refuse(format!("frame {frame}: {error}")))?;
        let plan = if let Kind::Planned(plan) = kind { Some(plan) } else { None };
        references.coded(frame, plan, &header).or_else(|what| refuse(format!("frame {frame} {what}")))
    }

    fn encode(&mut self, picture: &RawFrame, ask: &Ask) -> Result<Coded, CodecError> {
        let target = ask.bitrate.min(self.config.max);
        let interval = if ask.interval.is_positive() { ask.interval } else { self.config.interval };
        let interval = interval.clamp(INTERVALS.0, INTERVALS.1);
        self.set_rate(kbps(target))?;
        self.set_key_limit(key_limit(self.kbps, interval, ask.largest.map(|bytes| bytes.get())))?;
        let (kind, ticks) = (self.kind(ask), (interval.as_secs_f64() * f64::from(TICKS)) as u32);
        let key = matches!(kind, Kind::Key);
        let encoded = self
            .handle
            .encode(picture, self.clock, ticks, kind)
            .or_else(|what| refuse(format!("encoding frame {}: {what}", ask.frame)))?;
        self.clock += i64::from(ticks);
        let Some(encoded) = encoded else {
            return if key {
                refuse(format!("key frame {} was left out", ask.frame))
            } else {
                Ok(Coded::of_size(ask, 0))
            };
        };
        if key && !encoded.key {
            return refuse(format!("frame {} is not the key frame asked for", ask.frame));
        }
        let Said { refers_to, keeps } = self.said(ask.frame, kind, &encoded.bytes)?;
        Ok(Coded {
            frame: ask.frame,
            size: encoded.bytes.len() as u32,
            payload: Some(Bytes::from(encoded.bytes)),
            key: encoded.key,
            refers_to,
            keeps,
            target,
            pieces: Vec::new(),
            apart: false,
            quality: None,
            quantiser: Some(Quantiser::Vp8(encoded.quantiser)),
            took: None,
            earlier: 0,
        })
    }
}

/// Bound on a key frame in percent of an average frame: WebRTC's, half of libvpx's optimal buffer of 600 ms
/// but at least three frames, or `largest` bytes where that is less, and no more than libvpx can reckon with.
fn key_limit(kbps: u32, interval: Span, largest: Option<u64>) -> u32 {
    let usual = (0.3 / interval.as_secs_f64() * 100.0).max(300.0);
    let average = f64::from(kbps) * 125.0 * interval.as_secs_f64();
    let most = usual.min(f64::from(i32::MAX) / (average * 8.0));
    let bound = largest.map_or(most, |bytes| most.min(bytes as f64 / average * 100.0));
    // 0 would be no bound.
    bound.max(1.0) as u32
}

impl Encoder for Vp8Encoder {
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
        let coded = self.encode(picture, ask);
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
mod recovery;
#[cfg(test)]
mod tests;
