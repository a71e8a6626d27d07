//! The decoder: strict with whole frames, because a concealed picture would be measured as if it had been
//! received. It conceals where it is told that slices are missing, and says so.

use std::collections::VecDeque;

use bytes::Bytes;
use openh264::OpenH264API;
use openh264::decoder::{DecodedYUV, Decoder as Inner, DecoderConfig};
use openh264::formats::YUVSource;

use units::Time;

use super::concealment::{self, Picture};
use crate::{CodecError, Decoded, Decoder, Parts, RawFrame};

/// Types of network abstraction layer units (H.264 table 7-1) that hold a part of a picture.
const SLICES: [u8; 5] = [1, 2, 3, 4, 5];
/// Those that need nothing before them: a key picture's slice, a sequence and a picture parameter set.
const BEGINNINGS: [u8; 3] = [5, 7, 8];
/// A key picture's slice.
const KEY_SLICE: [u8; 1] = [5];
/// A sequence parameter set.
const SEQUENCE: [u8; 1] = [7];

/// Decodes H.264 in Annex B form, one access unit a call.
///
/// Of [whole frames](H264Decoder::decode) one whose slices or references are missing is an error, and so is
/// every frame after it until the next key frame.
///
/// Of a frame that is known to have [lost slices](H264Decoder::decode_parts) the missing macroblocks are
/// copied from the same place of the picture decoded last. The frames that are predicted from it are decoded,
/// and are as wrong there, until one comes that is predicted from nothing wrong.
pub struct H264Decoder {
    inner: Inner,
    /// No picture since the start or the last error: only a key frame can be decoded.
    waiting: bool,
    /// The last picture was concealed, or predicted from one that was.
    concealed: bool,
    ready: VecDeque<Decoded>,
}

fn fail<T>(what: impl std::fmt::Display) -> Result<T, CodecError> {
    Err(CodecError::Codec { codec: "openh264 decoder", what: what.to_string() })
}

fn open() -> Result<Inner, CodecError> {
    Inner::with_api_config(OpenH264API::from_source(), DecoderConfig::new()).or_else(fail)
}

/// Whether a unit of one of these types is anywhere in an Annex B stream.
fn holds(coded: &[u8], types: &[u8]) -> bool {
    coded.windows(4).any(|w| w[..3] == [0, 0, 1] && types.contains(&(w[3] & 0x1f)))
}

/// Whether a part begins as a network abstraction layer unit does in Annex B form.
fn begins_unit(part: &[u8]) -> bool {
    matches!(part, [0, 0, 1, _, ..] | [0, 0, 0, 1, _, ..])
}

/// Copies a plane out of rows `stride` apart.
fn plane(source: &[u8], stride: usize, width: usize, height: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(width * height);
    for row in 0..height {
        out.extend_from_slice(source.get(row * stride..row * stride + width)?);
    }
    Some(out)
}

fn copy(picture: &DecodedYUV<'_>) -> Option<RawFrame> {
    let (width, height) = picture.dimensions();
    let (luma, blue, red) = picture.strides();
    if width == 0 || height == 0 || width % 2 == 1 || height % 2 == 1 {
        return None;
    }
    let y = plane(picture.y(), luma, width, height)?;
    let u = plane(picture.u(), blue, width / 2, height / 2)?;
    let v = plane(picture.v(), red, width / 2, height / 2)?;
    Some(RawFrame { width, height, y, u, v })
}

impl H264Decoder {
    /// Opens a decoder.
    ///
    /// # Errors
    /// [`CodecError::Codec`] if OpenH264 can't be started.
    pub fn new() -> Result<H264Decoder, CodecError> {
        Ok(H264Decoder { inner: open()?, waiting: true, concealed: false, ready: VecDeque::new() })
    }

    /// Whether the last picture was concealed, or predicted from one that was.
    pub fn is_concealed(&self) -> bool {
        self.concealed
    }

    /// Decodes one access unit; `None` if it held no picture.
    ///
    /// # Errors
    /// [`CodecError`] if it can't be decoded; decoding resumes at the next key frame.
    pub fn decode(&mut self, coded: &[u8]) -> Result<Option<RawFrame>, CodecError> {
        if coded.is_empty() || coded.len() > i32::MAX as usize {
            return fail(format!("an access unit of {} bytes", coded.len()));
        }
        if self.waiting && !holds(coded, &BEGINNINGS) {
            return fail("waiting for a key frame");
        }
        let mut decoded = self.decode_unit(coded);
        if decoded.is_err() {
            self.reset()?;
            // Damage that went by unnoticed must not spoil the key frame that ends it.
            if holds(coded, &KEY_SLICE) {
                decoded = self.decode_unit(coded);
            }
        }
        match &decoded {
            Ok(Some(_)) => self.waiting = false,
            Ok(None) => {}
            Err(_) => self.reset()?,
        }
        decoded
    }

    /// Decodes what is there of an access unit; where nothing is missing, like
    /// [`decode`](H264Decoder::decode).
    ///
    /// # Errors
    /// [`CodecError`] if no slice is there, if it is the first since the start or an error, if it is a key
    /// frame without its parameter sets (its pictures may have another size now), or if what is there can't
    /// be decoded. Decoding resumes at the next key frame.
    pub fn decode_parts(&mut self, parts: &Parts) -> Result<RawFrame, CodecError> {
        if parts.complete {
            return self.decode(&parts.join())?.map_or_else(|| fail("no picture in it"), Ok);
        }
        let units = parts.present.iter().filter(|part| begins_unit(&part.bytes));
        let there: Vec<u8> = units.flat_map(|part| part.bytes.iter().copied()).collect();
        let decoded = match () {
            () if self.waiting => fail("waiting for a key frame"),
            () if !holds(&there, &SLICES) => fail("no slice is there"),
            () if holds(&there, &KEY_SLICE) && !holds(&there, &SEQUENCE) => {
                fail("a key frame without its parameter sets")
            }
            () => self.conceal(&there).and_then(|picture| picture.map_or_else(|| fail("no picture"), Ok)),
        };
        if decoded.is_err() {
            self.reset()?;
        }
        decoded
    }

    fn conceal(&mut self, coded: &[u8]) -> Result<Option<RawFrame>, CodecError> {
        concealment::allow(&mut self.inner, true).or_else(fail)?;
        let Picture { picture, concealed } = concealment::decode(&mut self.inner, coded).or_else(fail)?;
        self.concealed = concealed;
        if !concealed {
            concealment::allow(&mut self.inner, false).or_else(fail)?;
        }
        Ok(picture)
    }

    fn decode_unit(&mut self, coded: &[u8]) -> Result<Option<RawFrame>, CodecError> {
        if self.concealed {
            return match self.conceal(coded)? {
                None if holds(coded, &SLICES) => fail("slices that make no picture"),
                picture => Ok(picture),
            };
        }
        match self.inner.decode(coded) {
            Ok(Some(picture)) => match copy(&picture) {
                Some(frame) => Ok(Some(frame)),
                None => fail("a picture with odd sides, which 4:2:0 frames here can't have"),
            },
            Ok(None) if holds(coded, &SLICES) => fail("slices that make no picture"),
            Ok(None) => Ok(None),
            Err(error) => fail(error),
        }
    }

    /// Starts over with a decoder that keeps nothing of what went wrong.
    fn reset(&mut self) -> Result<(), CodecError> {
        (self.waiting, self.concealed) = (true, false);
        self.inner = open()?;
        Ok(())
    }
}

impl Decoder for H264Decoder {
    fn submit(&mut self, _: Time, frame: u32, coded: Bytes) {
        let picture =
            self.decode(&coded).and_then(|picture| picture.map_or_else(|| fail("no picture in it"), Ok));
        self.ready.push_back(Decoded { concealed: self.concealed, ..Decoded::whole(frame, picture) });
    }

    fn uses_parts(&self) -> bool {
        true
    }

    fn submit_parts(&mut self, _: Time, frame: u32, parts: &Parts) {
        let picture = self.decode_parts(parts);
        self.ready.push_back(Decoded { concealed: self.concealed, ..Decoded::whole(frame, picture) });
    }

    fn poll(&mut self, _: Time) -> Option<Decoded> {
        self.ready.pop_front()
    }

    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|_| Time::ZERO)
    }
}
