//! What every codec and every clip looks like to the session.

use std::sync::Arc;

use units::{Bytes, Rate, Span, Time};

use crate::RawFrame;

/// What the session asks of the encoder for one frame.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The frame's capture index.
    pub frame: u32,
    /// Bitrate to encode at from this frame on, in bits of coded picture.
    pub bitrate: Rate,
    /// Time to the next frame: the frame's budget is `bitrate * interval`.
    pub interval: Span,
    /// Must decode without any earlier frame.
    pub key: bool,
    /// Largest the frame should be if it is predicted from nothing (a key frame, asked for or at a scene
    /// cut); none for no limit. A codec that has no such control does what it can.
    pub largest: Option<Bytes>,
    /// Rows to code the picture with, no more than it has; `None` leaves it as it is.
    /// [`Resizing`](crate::Resizing) gives this to any encoder; whoever asks for another height than before
    /// asks for a key frame, too.
    pub height: Option<u16>,
    /// What the peer has of the stream. `None` where nobody says: the encoder then keeps nothing for its
    /// sake, and each frame refers to the one before. Where it is given, it is given with every frame from
    /// the first on.
    pub peer: Option<Peer>,
}

/// What is known of the peer's decoder, so that a loss need not cost a key frame ([`Encoder::refers_back`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The newest frame since the last key frame that is known to have been decoded, with all that it depends
    /// on.
    pub known: Option<u32>,
    /// Frames from this capture index on may be missing or undecodable at the peer: this frame must not refer
    /// to them, neither must those after it. Given once. An encoder that keeps nothing else codes a key
    /// frame.
    pub broken_from: Option<u32>,
}

/// One coded frame.
#[derive(Clone, Debug)]
pub struct Coded {
    /// The frame's capture index, as asked.
    pub frame: u32,
    /// Size in bytes; 0 if the encoder left the frame out, as libvpx does where its buffer runs low or a
    /// scene cut would overshoot. The next one refers to the one before it.
    pub size: u32,
    /// The bytes, unless the encoder is a model.
    pub payload: Option<bytes::Bytes>,
    /// Decodes without any earlier frame.
    pub key: bool,
    /// The frame that it is predicted from, where the encoder says so; else that is the last one that came
    /// out. None for a key frame.
    pub refers_to: Option<u32>,
    /// The frame that encoder and decoder keep from this one on, if it begins with this one: it, or an
    /// earlier one.
    pub keeps: Option<u32>,
    /// Bitrate it was encoded at.
    pub target: Rate,
    /// Ends of the pieces that decode alone (slices), in bytes from the start, the last equal to `size`;
    /// empty if none do.
    pub pieces: Vec<u32>,
    /// Each piece travels in packets of its own. Otherwise small pieces share one.
    pub apart: bool,
    /// Quality of the coded picture against its source, where the encoder knows it.
    pub quality: Option<Quality>,
    /// What it was quantised with, where that is known.
    pub quantiser: Option<Quantiser>,
    /// How long the encoder was busy with it, where that was measured. Not how late it comes: a pipeline is
    /// busy with several at once.
    pub took: Option<Span>,
    /// How many of the frames that were submitted just before it are coded in it, too
    /// ([`Decoded::earlier`]). They don't come out by themselves.
    pub earlier: u32,
}

impl Coded {
    /// Whether the encoder left it out.
    pub fn is_left_out(&self) -> bool {
        self.size == 0
    }

    /// What was asked for, in `size` bytes of which nothing else is known.
    pub fn of_size(ask: &Ask, size: u32) -> Coded {
        Coded {
            frame: ask.frame,
            size,
            payload: None,
            key: ask.key,
            refers_to: None,
            keeps: None,
            target: ask.bitrate,
            pieces: Vec::new(),
            apart: false,
            quality: None,
            quantiser: None,
            took: None,
            earlier: 0,
        }
    }
}

/// How coarsely a picture was coded, on its codec's own scale: the larger the coarser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantiser {
    /// VP8's quantiser index, 0 to 127 (RFC 6386 section 9.6).
    Vp8(u8),
    /// H.264's quantisation parameter, 0 to 51 (section 7.4.3), the mean of a picture's macroblocks.
    H264(u8),
}

/// Picture quality of one frame against its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// PSNR of luma in dB, at most 60.
    pub psnr_y: f64,
    /// PSNR over all samples of all planes in dB, at most 60.
    pub psnr_avg: f64,
    /// SSIM "All" by ffmpeg's convention: flat 8x8 windows at stride 4, planes weighted 4:1:1.
    pub ssim: f64,
}

/// Why a picture could not be coded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The codec refused; a key frame starts afresh.
    #[error("{codec}: {what}")]
    Codec {
        /// Which codec.
        codec: &'static str,
        /// What it said.
        what: String,
    },
    /// Something that is not here is needed: no later frame of the stream can be decoded either.
    #[error("{codec}: {what}")]
    Unavailable {
        /// Which codec.
        codec: &'static str,
        /// What is missing, and what helps.
        what: String,
    },
    /// The picture does not fit the codec's configuration.
    #[error("a picture of {found_width}x{found_height} in a stream of {width}x{height}")]
    Size {
        /// The stream's width.
        width: usize,
        /// The stream's height.
        height: usize,
        /// The picture's width.
        found_width: usize,
        /// The picture's height.
        found_height: usize,
    },
}

/// Turns pictures into coded frames. Encoding takes time in both worlds: a frame submitted now is ready
/// later.
///
/// ```
/// use framewire_media as media;
/// use media::{Ask, Encoder, EncoderModel, ModelConfig, Table};
/// use units::{Rate, Span, Time};
///
/// // A model needs no picture; H264Encoder is called in the same way, with one.
/// let mut encoder = EncoderModel::new(ModelConfig::recorded(Table::big_buck_bunny(), 1))?;
/// let (bitrate, interval) = (Rate::from_mbps(2), Span::from_millis(20));
/// let ask = |frame| Ask {
///     frame, bitrate, interval, key: frame == 0, largest: None, height: None, peer: None,
/// };
/// let mut bytes = 0;
/// for frame in 0..50 {
///     let captured = Time::ZERO + interval * i64::from(frame);
///     encoder.submit(captured, None, &ask(frame))?;
///     let ready = encoder.next_ready().expect("one frame is in the making");
///     let coded = encoder.poll(ready).expect("it is ready now");
///     assert!(coded.frame == frame && ready >= captured);
///     bytes += coded.size;
/// }
/// assert!((100_000..500_000).contains(&bytes), "a second of 2 Mbit/s: {bytes}");
/// # Ok::<(), media::CodecError>(())
/// ```
pub trait Encoder: Send {
    /// Begins a frame. `picture` is `None` only for encoders that are models.
    ///
    /// # Errors
    /// [`CodecError`] if the codec refuses; the frame is then lost and the next one should be a key frame.
    fn submit(&mut self, now: Time, picture: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError>;
    /// The oldest frame that is ready at `now`.
    fn poll(&mut self, now: Time) -> Option<Coded>;
    /// When the next frame will be ready, if one is in the making.
    fn next_ready(&self) -> Option<Time>;
    /// Whether it can keep frames that the peer is known to have, and predict from them when told that newer
    /// ones are broken ([`Ask::peer`]). Where it can't, only a key frame helps.
    fn refers_back(&self) -> bool {
        false
    }
    /// How many of the frames that were submitted it has done its work on, and keeps until others come that
    /// it codes together with them ([`Coded::earlier`]).
    fn held(&self) -> usize {
        0
    }
    /// No frame is submitted for now: what it [holds](Encoder::held) is to come out without others.
    fn flush(&mut self, now: Time) {
        let _ = now;
    }
}

/// Consecutive bytes of a coded frame that begin where one of its pieces does ([`Coded::pieces`]) and end
/// where one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the piece that they begin with; pieces beyond 255 share the last number.
    pub number: u8,
    /// The bytes of this piece, and maybe of those after it.
    pub bytes: bytes::Bytes,
}

/// What arrived of a coded frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// What is there, in order.
    pub present: Vec<Part>,
    /// Every part of the frame is there.
    pub complete: bool,
}

impl Parts {
    /// The bytes that are there, one after the other.
    pub fn join(&self) -> bytes::Bytes {
        match self.present.as_slice() {
            [one] => one.bytes.clone(),
            many => many.iter().flat_map(|part| part.bytes.iter().copied()).collect(),
        }
    }
}

/// Turns coded frames back into pictures, in order. Decoding takes time in both worlds: a frame submitted now
/// is ready later.
pub trait Decoder: Send {
    /// Begins to decode a whole frame of this capture index.
    fn submit(&mut self, now: Time, frame: u32, coded: bytes::Bytes);
    /// Whether it makes a picture of a frame of which parts are missing
    /// ([`submit_parts`](Decoder::submit_parts)).
    fn uses_parts(&self) -> bool {
        false
    }
    /// How to tell, by the bytes of a packet that begins with a piece ([`Coded::pieces`]), that it decodes
    /// without any other packet of its frame or of an earlier one. `None` of a decoder of no such codec. A
    /// receiver shows what has arrived of such a frame once a newer one begins, and needs no key frame after
    /// it. It is a function, since a receiver asks before the first frame has told the decoder what it is of.
    fn standalone(&self) -> Option<fn(&[u8]) -> bool> {
        None
    }
    /// Begins a frame of which these parts have arrived, where the decoder
    /// [uses parts](Decoder::uses_parts), they are [standalone](Decoder::standalone), or nothing is missing.
    /// The frame it is predicted from has been decoded, whole or of parts.
    fn submit_parts(&mut self, now: Time, frame: u32, parts: &Parts) {
        self.submit(now, frame, parts.join());
    }
    /// The oldest frame that is ready at `now`.
    fn poll(&mut self, now: Time) -> Option<Decoded>;
    /// When the next frame will be ready, if one is in the making.
    fn next_ready(&self) -> Option<Time>;
}

/// What became of one coded frame.
#[derive(Debug)]
pub struct Decoded {
    /// The frame's number, as submitted.
    pub frame: u32,
    /// Its picture. After an error decoding resumes at the next key frame.
    pub picture: Result<RawFrame, CodecError>,
    /// Some of the picture stands in for what did not arrive, or is predicted from a picture of which that
    /// is so.
    pub concealed: bool,
    /// The pictures of frames before it that were coded in it ([`Coded::earlier`]), oldest first.
    pub earlier: Vec<Earlier>,
}

/// A picture that came in the coding of a later frame.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// How many frames before that one it was captured, ...
    pub back: u32,
    /// ... and how long before it.
    pub before: Span,
    /// What it shows.
    pub picture: RawFrame,
}

impl Decoded {
    /// A frame of which everything arrived, as did all that it is predicted from.
    pub fn whole(frame: u32, picture: Result<RawFrame, CodecError>) -> Decoded {
        Decoded { frame, picture, concealed: false, earlier: Vec::new() }
    }
}

/// A clip or a camera: pictures at a fixed rate.
pub trait Source: Send {
    /// Width and height in pixels.
    fn size(&self) -> (usize, usize);
    /// Time between two pictures.
    fn interval(&self) -> Span;
    /// Whether [`next_picture`](Source::next_picture) returns at once. A sender asks one that is not ready a
    /// little later again, since whoever waits for a picture holds up the network.
    fn is_ready(&mut self) -> bool {
        true
    }
    /// The next picture; `None` at the end.
    fn next_picture(&mut self) -> Option<Arc<RawFrame>>;
    /// When the picture was captured that it gave last, if its pictures are of before: an archive. `None` for
    /// clips and cameras. It is no lack if an archive has no picture ready.
    fn captured(&self) -> Option<Time> {
        None
    }
}
