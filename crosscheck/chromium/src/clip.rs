//! The video both sides of the comparison send: 30 frames a second, each of as many bytes as the simulated
//! flow's, coded by OpenH264 and cut into RTP payloads (RFC 6184, non-interleaved mode).
//!
//! The clip is coded once, before the first cell. It begins with a key frame and is played from there again
//! when it ends, or when the receiver asks for a key frame.

use std::sync::Arc;

use media::{Ask, CodecError, Encoder, H264Config, H264Encoder, Source, SyntheticConfig, SyntheticGame};
use units::{Rate, Span, Time};

/// Time between frames.
pub const INTERVAL: Span = Span::from_nanos(33_333_333);
/// Time from capture until a frame is coded, as the simulated encoder's ([`media::ModelConfig::perfect`]).
pub const ENCODING: Span = Span::from_millis(4);
/// Bytes of a frame: what the flow of `experiments/playout.toml` (at most 5 Mbit/s with headers and repairs)
/// sends without loss, a key frame included.
const FRAME: usize = 20_112;
/// Largest RTP payload, so that a frame takes 18 packets, as that flow's.
const PAYLOAD: usize = 1_124;
/// From a frame's first packet to its last, as that flow's pacing has it.
pub const PACED: Span = Span::from_micros(15_740);
/// Frames until the clip repeats: longer than a cell, so that no key frame comes unasked.
const LENGTH: u32 = 1_500;
/// What the pictures themselves are coded with; filler data makes up the rest, so that every frame has its
/// size exactly.
const PICTURES: Rate = Rate::from_kbps(600);

/// RTP payloads of one frame, in order.
pub type Payloads = Vec<Arc<[u8]>>;

/// The payloads of all frames; the first one's is a key frame.
pub fn record() -> Result<Vec<Payloads>, CodecError> {
    let (width, height) = (320, 180);
    let source = SyntheticConfig { interval: INTERVAL, ..SyntheticConfig::new(width, height) };
    let mut source = SyntheticGame::new(source);
    let mut encoder =
        H264Encoder::new(H264Config { latency: Span::ZERO, ..H264Config::new(width, height, INTERVAL) })?;
    let mut now = Time::ZERO;
    let mut frames = Vec::new();
    for frame in 0..LENGTH {
        let picture = source.next_picture().expect("the synthetic clip never ends");
        let (bitrate, interval, key) = (PICTURES, INTERVAL, frame == 0);
        let ask = Ask { frame, bitrate, interval, key, largest: None, height: None, peer: None };
        encoder.submit(now, Some(&picture), &ask)?;
        let coded = encoder.poll(now).and_then(|coded| coded.payload).expect("OpenH264 leaves nothing out");
        frames.push(payloads(&coded));
        now += INTERVAL;
    }
    Ok(frames)
}

/// A frame in Annex B's byte stream as RTP payloads, made up to [`FRAME`] bytes with filler data.
fn payloads(coded: &[u8]) -> Payloads {
    let mut units = units_of(coded);
    let filler = filler(FRAME.saturating_sub(units.iter().map(|unit| unit.len()).sum()));
    if filler.len() > 2 {
        units.push(&filler);
    }
    units.into_iter().flat_map(fragments).collect()
}

/// Filler data (H.264 section 7.3.2.7, NAL unit type 12) of `length` bytes.
fn filler(length: usize) -> Vec<u8> {
    let mut unit = vec![0xff; length.max(2)];
    unit[0] = 12;
    *unit.last_mut().expect("at least two bytes") = 0x80;
    unit
}

/// The NAL units of a byte stream (H.264 annex B).
fn units_of(coded: &[u8]) -> Vec<&[u8]> {
    let codes: Vec<usize> =
        (0..coded.len().saturating_sub(2)).filter(|&at| coded[at..].starts_with(&[0, 0, 1])).collect();
    let ends = codes.iter().skip(1).copied().chain([coded.len()]);
    let trim = |unit: &[u8]| unit.len() - unit.iter().rev().take_while(|&&byte| byte == 0).count();
    let units = codes.iter().zip(ends).map(|(&code, end)| &coded[code + 3..end]);
    units.map(|unit| &unit[..trim(unit)]).filter(|unit| !unit.is_empty()).collect()
}

/// A NAL unit as one payload, or as fragments of equal size (RFC 6184 section 5.8, FU-A).
fn fragments(unit: &[u8]) -> Payloads {
    const FU_A: u8 = 28;
    const START: u8 = 0x80;
    const END: u8 = 0x40;
    if unit.len() <= PAYLOAD {
        return vec![unit.into()];
    }
    let (header, body) = (unit[0], &unit[1..]);
    let count = body.len().div_ceil(PAYLOAD - 2);
    let size = body.len().div_ceil(count);
    let pieces = body.chunks(size).enumerate().map(|(index, piece)| {
        let place = if index == 0 { START } else { 0 } | if index + 1 == count { END } else { 0 };
        [&[header & 0xe0 | FU_A, header & 0x1f | place], piece].concat().into()
    });
    pieces.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a depacketiser makes of payloads.
    fn joined(payloads: &[Arc<[u8]>]) -> Vec<Vec<u8>> {
        let mut units: Vec<Vec<u8>> = Vec::new();
        for payload in payloads {
            match (payload[0] & 0x1f, payload.get(1)) {
                (28, Some(fu)) if fu & 0x80 != 0 => {
                    units.push([&[payload[0] & 0xe0 | fu & 0x1f], &payload[2..]].concat());
                }
                (28, _) => {
                    units.last_mut().expect("a fragment continues a unit").extend_from_slice(&payload[2..])
                }
                _ => units.push(payload.to_vec()),
            }
        }
        units
    }

    #[test]
    fn a_frame_comes_back_from_its_payloads_and_has_the_size_of_the_simulated_flow() {
        let slice = [&[0x41u8][..], &(0..3_000).map(|n| (n % 250) as u8 + 3).collect::<Vec<_>>()].concat();
        let coded = [&[0, 0, 0, 1, 0x67, 7, 8][..], &[0, 0, 1], &slice].concat();
        let payloads = payloads(&coded);
        let units = joined(&payloads);
        assert_eq!(units[0], [0x67, 7, 8]);
        assert_eq!(units[1], slice);
        assert_eq!(units[2][0], 12, "filler data");
        assert_eq!(units.iter().map(Vec::len).sum::<usize>(), FRAME);
        assert!(payloads.iter().all(|payload| payload.len() <= PAYLOAD));
    }
}
