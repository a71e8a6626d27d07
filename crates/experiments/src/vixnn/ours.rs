//! The codec that live streams here have, OpenH264 in slices, under the same losses: a key frame every eight
//! frames, and what its own decoder conceals.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use media::{Ask, Encoder, H264Config, H264Decoder, H264Encoder, Part, Parts, RawFrame};
use units::{Rate, Rng, Span, Time};
use vixnn::Picture;

use super::channel::Channel;
use super::ffmpeg;
use super::h264::to_rate;
use super::pictures::{Clip, split};
use super::stream::PAYLOAD;

/// A key frame every so many frames, as GOP8 has.
const KEYS: usize = 8;
const INTERVAL: Span = Span::from_millis(super::matroska::INTERVAL as i64);

/// A frame as it is sent.
pub(super) struct Frame {
    /// Its slices, each a packet.
    pub slices: Vec<Bytes>,
    /// Parameter sets before the first slice, which always arrive, as x264's do.
    sets: Bytes,
}

/// What stands before the first slice of a frame.
fn sets(frame: &Bytes) -> Bytes {
    let is_slice = |unit: &[u8]| unit[..3] == [0, 0, 1] && matches!(unit[3] & 0x1f, 1 | 5);
    let at = frame.windows(4).position(is_slice).unwrap_or(0);
    // A start code may have a zero before it.
    frame.slice(..if at > 0 && frame[at - 1] == 0 { at - 1 } else { at })
}

fn frames_of(clip: &Clip) -> impl Iterator<Item = RawFrame> {
    let (width, height) = clip.size;
    let luma = width * height;
    clip.planes.chunks_exact(luma * 3 / 2).map(move |planes| RawFrame {
        width,
        height,
        y: planes[..luma].to_vec(),
        u: planes[luma..luma * 5 / 4].to_vec(),
        v: planes[luma * 5 / 4..].to_vec(),
    })
}

/// A clip coded with so many bits a frame; each is coded once.
pub(super) fn coded(name: &str, clip: &Clip, bits: f64) -> Result<Arc<Vec<Frame>>, String> {
    static KNOWN: Mutex<BTreeMap<String, Arc<Vec<Frame>>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(frames) = known.get(name) {
        return Ok(frames.clone());
    }
    let frames = to_rate(bits, |asked| {
        let frames = code(clip, asked)?;
        let bytes: usize = frames.iter().flat_map(|frame| &frame.slices).map(Bytes::len).sum();
        let found = 8.0 * bytes as f64 / frames.len() as f64;
        Ok((frames, found))
    })?;
    let frames = Arc::new(frames);
    known.insert(name.to_owned(), frames.clone());
    Ok(frames)
}

fn code(clip: &Clip, bits: f64) -> Result<Vec<Frame>, String> {
    let (width, height) = clip.size;
    let bitrate = Rate::from_f64(bits / INTERVAL.as_secs_f64());
    let config =
        H264Config { initial: bitrate, slices: Some(PAYLOAD), ..H264Config::new(width, height, INTERVAL) };
    let mut encoder = H264Encoder::new(config).map_err(|error| error.to_string())?;
    let mut frames = Vec::new();
    for (frame, picture) in (0u32..).zip(frames_of(clip)) {
        let key = (frame as usize).is_multiple_of(KEYS);
        let ask = Ask { frame, bitrate, interval: INTERVAL, key, largest: None, height: None, peer: None };
        let now = Time::ZERO + INTERVAL * i64::from(frame);
        encoder.submit(now, Some(&Arc::new(picture)), &ask).map_err(|error| error.to_string())?;
        let coded = encoder.poll(Time::MAX).ok_or("no frame came out")?;
        let bytes = coded.payload.ok_or("a frame without bytes")?;
        let mut from = 0;
        let piece = |&end: &u32| {
            let piece = bytes.slice(from..end as usize);
            from = end as usize;
            piece
        };
        let slices: Vec<Bytes> = coded.pieces.iter().map(piece).collect();
        let slices = if slices.is_empty() { vec![bytes.clone()] } else { slices };
        frames.push(Frame { slices, sets: sets(&bytes) });
    }
    Ok(frames)
}

/// What is shown, frame by frame; nothing where there is nothing new.
pub(super) fn shown(
    clip: &Clip,
    frames: &[Frame],
    channel: Channel,
    rng: &mut Rng,
) -> Result<Vec<Option<Picture>>, String> {
    let numbers: Vec<usize> =
        frames.iter().enumerate().flat_map(|(number, frame)| vec![number; frame.slices.len()]).collect();
    let mut arrivals = channel.arrivals(&numbers, rng).into_iter();
    let mut decoder = H264Decoder::new().map_err(|error| error.to_string())?;
    let (mut planes, mut places) = (Vec::new(), Vec::new());
    for frame in frames {
        let arrived: Vec<bool> = arrivals.by_ref().take(frame.slices.len()).collect();
        let there = (0u8..).zip(&frame.slices).zip(&arrived).filter(|(_, arrived)| **arrived);
        let mut present: Vec<Part> =
            there.map(|((number, bytes), _)| Part { number, bytes: bytes.clone() }).collect();
        if !arrived[0] && !frame.sets.is_empty() {
            present.insert(0, Part { number: 0, bytes: frame.sets.clone() });
        }
        let parts = Parts { present, complete: arrived.iter().all(|arrived| *arrived) };
        // What can't be decoded is not shown; it goes on at the next key frame.
        let picture = decoder.decode_parts(&parts).ok();
        places.push(picture.is_some());
        planes.extend(picture.into_iter().flat_map(|picture| [picture.y, picture.u, picture.v].concat()));
    }
    let input = ffmpeg::raw_input("yuv420p", clip.size.0, clip.size.1);
    let output = ["-fps_mode", "passthrough", "-pix_fmt", "rgb24", "-f", "rawvideo", "pipe:1"];
    let input = ffmpeg::borrowed(&input);
    let arguments = [["-v", "error"].as_slice(), &input, &ffmpeg::UPSAMPLING, &output].concat();
    let mut pictures = split(&ffmpeg::run(&arguments, &planes)?.out, clip.size)?.into_iter();
    Ok(places.into_iter().map(|is_shown| is_shown.then(|| pictures.next()).flatten()).collect())
}
