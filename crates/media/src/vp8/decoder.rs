//! The decoder: strict, because a concealed picture would be measured as if it had been received.

use std::collections::VecDeque;

use bytes::Bytes;
use units::Time;

use super::raw::DecoderHandle;
use super::{LARGEST, refuse};
use crate::{CodecError, Decoded, Decoder, RawFrame};

/// Decodes VP8, one frame a call.
///
/// A frame of VP8 doesn't say which frame it is predicted from: that none is missing is the caller's to see
/// to, as the session does with the reference every packet names. What is damaged within is an error, and so
/// is every frame after it until the next key frame.
pub struct Vp8Decoder {
    inner: DecoderHandle,
    /// No picture since the start or the last error: only a key frame can be decoded.
    waiting: bool,
    ready: VecDeque<Decoded>,
}

/// Width and height of a key frame's picture, by its header (RFC 6386 section 9.1); `None` of a frame that is
/// no key frame.
///
/// # Errors
/// If it claims to be one and isn't.
fn key_size(coded: &[u8]) -> Result<Option<(usize, usize)>, CodecError> {
    match *coded {
        [tag, ..] if tag & 1 == 1 => Ok(None),
        // After the start code 14 bits each, below two of a scale that only says how to show it.
        [_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..] => {
            let side = |low, high| usize::from(u16::from_le_bytes([low, high]) & 0x3fff);
            Ok(Some((side(w0, w1), side(h0, h1))))
        }
        _ => refuse(format!("{} bytes that are no frame of VP8", coded.len())),
    }
}

impl Vp8Decoder {
    /// Opens a decoder.
    ///
    /// # Errors
    /// [`CodecError::Codec`] if libvpx can't be started.
    pub fn new() -> Result<Vp8Decoder, CodecError> {
        let inner = DecoderHandle::open().or_else(refuse)?;
        Ok(Vp8Decoder { inner, waiting: true, ready: VecDeque::new() })
    }

    /// Decodes one frame.
    ///
    /// # Errors
    /// [`CodecError`] if it can't be decoded, or isn't one to be shown; decoding resumes at the next key
    /// frame.
    pub fn decode(&mut self, coded: &[u8]) -> Result<RawFrame, CodecError> {
        let decoded = self.decode_frame(coded);
        self.waiting = decoded.is_err();
        decoded
    }

    fn decode_frame(&mut self, coded: &[u8]) -> Result<RawFrame, CodecError> {
        match key_size(coded)? {
            None if self.waiting => return refuse("waiting for a key frame".to_owned()),
            None => {}
            Some((width, height)) => {
                // Memory goes by what the header claims.
                if width.max(height) > LARGEST.0 || width.min(height) > LARGEST.1 {
                    return refuse(format!(
                        "a picture of {width}x{height}; at most {}x{}",
                        LARGEST.0, LARGEST.1
                    ));
                }
                if self.waiting {
                    // Nothing of what went wrong may reach the frames after it.
                    self.inner = DecoderHandle::open().or_else(refuse)?;
                }
            }
        }
        let picture = self.inner.decode(coded).or_else(refuse)?;
        picture.map_or_else(|| refuse("a frame that is not to be shown".to_owned()), Ok)
    }
}

impl Decoder for Vp8Decoder {
    fn submit(&mut self, _: Time, frame: u32, coded: Bytes) {
        let picture = self.decode(&coded);
        self.ready.push_back(Decoded::whole(frame, picture));
    }

    fn poll(&mut self, _: Time) -> Option<Decoded> {
        self.ready.pop_front()
    }

    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|_| Time::ZERO)
    }
}
