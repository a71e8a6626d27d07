//! The codecs by name: what commands and scenario files choose from, and what a receiver recognises.

mod h264;
mod options;
mod registry;
mod vixnn;
mod vp8;

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use units::{Rate, Span, Time};

use crate::{CodecError, Decoded, Decoder, Parts, Resizing};

pub use options::{CodecChoice, CodecOptions, PacketOrder};
use registry::{Entry, REGISTRY};

/// A codec for pictures, one of [`Codec::ALL`].
///
/// ```
/// use framewire_media::Codec;
///
/// assert_eq!(Codec::by_name("h264"), Some(Codec::H264));
/// let decoder = Codec::H264.decoder()?;
/// # Ok::<(), framewire_media::CodecError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Codec(&'static Entry);

impl PartialEq for Codec {
    fn eq(&self, other: &Codec) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Codec {}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Default for Codec {
    fn default() -> Codec {
        REGISTRY[0]
    }
}

/// What every codec needs to know.
#[derive(Clone, Copy, Debug)]
pub struct CodecConfig {
    /// Picture width in pixels.
    pub width: usize,
    /// Picture height in pixels.
    pub height: usize,
    /// Usual time between frames.
    pub interval: Span,
    /// Bitrate before the first ask.
    pub initial: Rate,
    /// Highest bitrate it will be asked for.
    pub max: Rate,
    /// Cut each frame into slices of at most this many bytes.
    pub slices: Option<usize>,
    /// Time from submitting a frame until it is ready; the codec's own default if `None`.
    pub latency: Option<Span>,
}

impl Codec {
    /// The codec that comes with this crate: H.264, constrained baseline, by OpenH264.
    pub const H264: Codec = h264::CODEC;

    /// ViXNN, a learned codec whose packets decode each alone, with the feature `vixnn`.
    pub const VIXNN: Codec = vixnn::CODEC;

    /// All of them, in the order they are listed to people; the first is what is sent where none is named.
    pub const ALL: &[Codec] = REGISTRY;

    /// What it is called on the command line and in scenarios.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// One line for people.
    pub fn summary(self) -> &'static str {
        self.0.summary
    }

    /// The codec of this [name](Codec::name).
    pub fn by_name(name: &str) -> Option<Codec> {
        REGISTRY.iter().copied().find(|codec| codec.0.name == name)
    }

    /// Its name in WebCodecs, which stands for it where two ends agree on one.
    pub fn web_name(self) -> &'static str {
        self.0.web_name
    }

    /// The codec of this name in WebCodecs, whatever profile and level follow it.
    pub fn by_web_name(name: &str) -> Option<Codec> {
        let kind = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        REGISTRY.iter().copied().find(|codec| kind(codec.0.web_name) == kind(name))
    }

    /// The codec that `coded` is a key frame of, by how it begins.
    pub fn of_key_frame(coded: &[u8]) -> Option<Codec> {
        REGISTRY.iter().copied().find(|codec| (codec.0.begins)(coded))
    }

    /// Whether every frame comes in packets that each decode alone, [`CodecConfig::slices`] or not.
    pub fn is_standalone(self) -> bool {
        self.0.standalone
    }

    /// Whether `packet`, which begins with one of the encoder's pieces, is of a codec of that kind
    /// ([`Decoder::standalone`]).
    pub fn stands_alone(packet: &[u8]) -> bool {
        REGISTRY.iter().any(|codec| codec.0.standalone && (codec.0.begins)(packet))
    }

    /// Names of the options that it has.
    pub fn options(self) -> &'static [&'static str] {
        self.0.options
    }

    /// Whether this build has it.
    ///
    /// # Errors
    /// [`CodecError`] that says how to build it, if not.
    pub fn check(self) -> Result<(), CodecError> {
        (self.0.check)()
    }

    /// An encoder for pictures of that size, and of any smaller one that is asked for.
    ///
    /// # Errors
    /// [`CodecError`] if the configuration is out of its range, or it was not built in.
    pub fn encoder(self, config: CodecConfig) -> Result<Resizing, CodecError> {
        self.encoder_with(config, &CodecOptions::default())
    }

    /// [`encoder`](Codec::encoder), told what only this codec can be told.
    ///
    /// # Errors
    /// [`CodecError`] as there, and if it has no such option or does not take what the option says.
    pub fn encoder_with(self, config: CodecConfig, options: &CodecOptions) -> Result<Resizing, CodecError> {
        self.check()?;
        self.check_options(options)?;
        if config.slices.is_some() && !self.0.slices {
            return Err(CodecError::Codec { codec: self.0.name, what: "it has no slices".to_owned() });
        }
        let options = options.clone();
        let open =
            move |(width, height)| (self.0.encoder)(&CodecConfig { width, height, ..config }, &options);
        Resizing::new((config.width, config.height), Box::new(open))
    }

    /// Opens a decoder.
    ///
    /// # Errors
    /// [`CodecError`] if it can't be started, or was not built in.
    pub fn decoder(self) -> Result<Box<dyn Decoder>, CodecError> {
        self.decoder_with(&CodecOptions::default())
    }

    /// [`decoder`](Codec::decoder), told what only this codec can be told; what it has no option for is left
    /// aside, since a receiver does not know what comes.
    ///
    /// # Errors
    /// [`CodecError`] as there, and if it does not take what an option says.
    pub fn decoder_with(self, options: &CodecOptions) -> Result<Box<dyn Decoder>, CodecError> {
        (self.0.decoder)(options)
    }

    fn check_options(self, options: &CodecOptions) -> Result<(), CodecError> {
        let unknown = options.given().find(|name| !self.options().contains(name));
        unknown.map_or(Ok(()), |name| {
            Err(CodecError::Codec { codec: self.0.name, what: format!("it has no option `{name}`") })
        })
    }
}

/// A decoder for whatever comes: the first key frame says of which codec the stream is, or any packet of a
/// codec whose packets decode alone, and a later one may be of another.
pub struct AnyDecoder {
    current: Option<(Codec, Box<dyn Decoder>)>,
    options: CodecOptions,
    ready: VecDeque<Decoded>,
    unbuilt: Box<dyn FnMut(CodecError) + Send>,
}

impl AnyDecoder {
    /// A decoder that tells `unbuilt` when a stream is of a codec that this build lacks, or needs what is not
    /// here ([`CodecError::Unavailable`]).
    pub fn new(unbuilt: impl FnMut(CodecError) + Send + 'static) -> AnyDecoder {
        let options = CodecOptions::default();
        AnyDecoder { current: None, options, ready: VecDeque::new(), unbuilt: Box::new(unbuilt) }
    }

    /// Tells the decoders of codecs that have such options what these say.
    pub fn with_options(self, options: CodecOptions) -> AnyDecoder {
        AnyDecoder { options, ..self }
    }

    /// The decoder for `coded`, which is opened if it begins a stream of another codec.
    fn open(&mut self, coded: &[u8]) -> Result<&mut dyn Decoder, CodecError> {
        let begun = Codec::of_key_frame(coded).or(self.current.as_ref().map(|(codec, _)| *codec));
        let Some(codec) = begun else {
            return Err(CodecError::Codec { codec: "decoder", what: "waiting for a key frame".to_owned() });
        };
        if self.current.as_ref().is_none_or(|(current, _)| *current != codec) {
            if let Err(error) = codec.check() {
                (self.unbuilt)(error);
            }
            self.current = Some((codec, codec.decoder_with(&self.options)?));
        }
        let (_, decoder) = self.current.as_mut().expect("it was opened");
        Ok(decoder.as_mut())
    }
}

impl AnyDecoder {
    /// Gives a frame that begins like this to its decoder.
    fn hand_over(&mut self, now: Time, frame: u32, begins: &[u8], submit: impl FnOnce(&mut dyn Decoder)) {
        match self.open(begins) {
            Ok(decoder) => {
                submit(decoder);
                // Each decodes at once; taken out here, frames of one stream and the next keep their order.
                let decoded: Vec<_> = std::iter::from_fn(|| decoder.poll(now)).collect();
                for Decoded { picture, .. } in &decoded {
                    if let Err(CodecError::Unavailable { codec, what }) = picture {
                        (self.unbuilt)(CodecError::Unavailable { codec, what: what.clone() });
                    }
                }
                self.ready.extend(decoded);
            }
            Err(error) => self.ready.push_back(Decoded::whole(frame, Err(error))),
        }
    }
}

impl Decoder for AnyDecoder {
    fn submit(&mut self, now: Time, frame: u32, coded: Bytes) {
        self.hand_over(now, frame, &coded.clone(), |decoder| decoder.submit(now, frame, coded));
    }

    fn uses_parts(&self) -> bool {
        self.current.as_ref().is_some_and(|(_, decoder)| decoder.uses_parts())
    }

    fn standalone(&self) -> Option<fn(&[u8]) -> bool> {
        Some(Codec::stands_alone)
    }

    fn submit_parts(&mut self, now: Time, frame: u32, parts: &Parts) {
        let begins = parts.present.first().map_or(&[][..], |part| &part.bytes);
        self.hand_over(now, frame, begins, |decoder| decoder.submit_parts(now, frame, parts));
    }

    fn poll(&mut self, _: Time) -> Option<Decoded> {
        self.ready.pop_front()
    }

    fn next_ready(&self) -> Option<Time> {
        self.ready.front().map(|_| Time::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{Ask, Coded, Encoder, RawFrame, Source, SyntheticConfig, SyntheticGame};

    const INTERVAL: Span = Span::from_nanos(33_333_333);

    fn config() -> CodecConfig {
        CodecConfig {
            width: 64,
            height: 48,
            interval: INTERVAL,
            initial: Rate::from_mbps(1),
            max: Rate::from_mbps(2),
            slices: None,
            latency: Some(Span::ZERO),
        }
    }

    fn stream(codec: Codec, count: u32) -> Vec<Coded> {
        let mut encoder = codec.encoder(config()).unwrap();
        let mut source =
            SyntheticGame::new(SyntheticConfig { interval: INTERVAL, ..SyntheticConfig::new(64, 48) });
        let mut code = |frame| {
            let ask = Ask {
                frame,
                bitrate: Rate::from_mbps(1),
                interval: INTERVAL,
                key: frame == 0,
                largest: None,
                height: None,
                peer: None,
            };
            encoder.submit(Time::ZERO, source.next_picture().as_ref(), &ask).unwrap();
            encoder.poll(Time::ZERO).unwrap()
        };
        (0..count).map(&mut code).collect()
    }

    const VP8: Codec = vp8::CODEC;

    fn built() -> Vec<Codec> {
        REGISTRY.iter().copied().filter(|codec| codec.check().is_ok()).collect()
    }

    #[test]
    fn a_row_is_found_by_its_names_and_no_two_share_one() {
        for (index, &codec) in REGISTRY.iter().enumerate() {
            assert!(!codec.summary().is_empty());
            assert_eq!(Codec::by_name(codec.name()), Some(codec));
            assert_eq!(Codec::by_web_name(codec.web_name()), Some(codec));
            let earlier = &REGISTRY[..index];
            assert!(earlier.iter().all(|other| other.name() != codec.name()));
        }
        assert_eq!((Codec::by_name("av9"), Codec::default()), (None, Codec::H264));
    }

    #[test]
    fn a_codec_without_slices_refuses_to_cut_them() {
        for codec in built() {
            let config = CodecConfig { slices: Some(1200), ..config() };
            assert_eq!(codec.encoder(config).is_ok(), codec.0.slices, "{codec:?}");
        }
    }

    #[test]
    fn names_are_understood_with_any_profile() {
        assert_eq!(Codec::by_web_name("avc1.42E01F"), Some(Codec::H264));
        assert!(["", "vp09.00.10.08", "av01.0.04M.08"].iter().all(|name| Codec::by_web_name(name).is_none()));
    }

    #[test]
    fn what_is_not_built_says_how_to_build_it() {
        assert!(Codec::H264.check().is_ok());
        assert_eq!(VP8.check().is_ok(), cfg!(feature = "vpx"));
        assert_eq!(VP8.decoder().is_ok(), cfg!(feature = "vpx"));
        if let Err(error) = VP8.check() {
            let said = error.to_string();
            assert!(said.contains("--features vpx") && said.contains("libvpx-dev"), "{said}");
        }
    }

    #[test]
    fn a_stream_is_recognised_by_its_key_frames_and_may_change() {
        let unbuilt = Arc::new(Mutex::new(0));
        let told = unbuilt.clone();
        let mut decoder = AnyDecoder::new(move |_| *told.lock().unwrap() += 1);
        let mut expected = Vec::new();
        let mut frame = 0;
        // Twice each, with what is no beginning before the first.
        decoder.submit(Time::ZERO, frame, Bytes::from_static(b"none of them"));
        expected.push((frame, false));
        for codec in [built(), built()].concat() {
            for coded in stream(codec, 5) {
                frame += 1;
                let payload = coded.payload.unwrap();
                assert_eq!(
                    Codec::of_key_frame(&payload).is_some_and(|of| of == codec && coded.key),
                    coded.key
                );
                decoder.submit(Time::ZERO, frame, payload);
                expected.push((frame, true));
            }
        }
        assert_eq!(decoder.next_ready(), Some(Time::ZERO));
        let size = |frame: &RawFrame| (frame.width, frame.height) == (64, 48);
        let back = std::iter::from_fn(|| decoder.poll(Time::ZERO))
            .map(|decoded| (decoded.frame, decoded.picture.is_ok_and(|picture| size(&picture))));
        assert!(back.eq(expected));
        assert_eq!((decoder.next_ready(), *unbuilt.lock().unwrap()), (None, 0));
    }

    #[test]
    fn a_stream_that_this_build_lacks_is_told_of() {
        let unbuilt = Arc::new(Mutex::new(Vec::new()));
        let told = unbuilt.clone();
        let mut decoder = AnyDecoder::new(move |error| told.lock().unwrap().push(error.to_string()));
        decoder.submit(Time::ZERO, 0, Bytes::from_static(&[0x10, 0, 0, 0x9d, 0x01, 0x2a, 64, 0, 48, 0]));
        assert!(decoder.poll(Time::ZERO).unwrap().picture.is_err());
        assert_eq!(unbuilt.lock().unwrap().len(), usize::from(!cfg!(feature = "vpx")));
    }
}
