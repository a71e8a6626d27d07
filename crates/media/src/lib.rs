//! Pictures before and after a codec: everything between a clip and a coded frame, and back to a number that
//! says how good it looked.
//!
//! ```text
//!   Source ------> RawFrame ------> Encoder ------> Coded ~~~ network ~~~> Decoder ------> RawFrame ------> quality
//!   Clip (y4m,     [barcode]        H264Encoder                            H264Decoder     [barcode]        PSNR, SSIM
//!   ffmpeg),                        Vp8Encoder                             Vp8Decoder
//!   SyntheticGame                   VixnnEncoder                           VixnnDecoder
//!                                   EncoderModel (no pictures: sizes and
//!                                   qualities from a recorded Table)
//! ```

#[cfg(feature = "codecs")]
mod archive;
pub mod barcode;
mod clip;
#[cfg(feature = "codecs")]
mod codec;
mod ffmpeg;
mod frame;
#[cfg(feature = "codecs")]
mod h264;
mod jpeg;
#[cfg(feature = "codecs")]
mod measuring;
mod model;
mod quality;
#[cfg(feature = "codecs")]
mod recording;
#[cfg(feature = "codecs")]
mod resizing;
#[cfg(feature = "vixnn")]
mod rgb;
#[cfg(feature = "codecs")]
mod scale;
mod shelf;
mod shipped;
mod synthetic;
mod table;
mod traits;
pub mod trajectory;
#[cfg(feature = "vixnn")]
mod vixnn;
#[cfg(feature = "vpx")]
mod vp8;
mod y4m;

#[cfg(test)]
mod testing;

#[cfg(feature = "codecs")]
pub use archive::{Archive, ArchiveError, Packed, Stored, sum};
pub use clip::{Clip, ClipError, ClipOptions, has_sound, open_clip};
#[cfg(feature = "codecs")]
pub use codec::{AnyDecoder, Codec, CodecChoice, CodecConfig, CodecOptions, PacketOrder};
pub use ffmpeg::{FfmpegOptions, FfmpegPipe, open_ffmpeg};
pub use frame::RawFrame;
#[cfg(feature = "codecs")]
pub use h264::{
    Complexity, H264Config, H264Decoder, H264Encoder, Marking, Reference, SliceError, SliceHeader,
    SliceReader,
};
pub use jpeg::jpeg;
#[cfg(feature = "codecs")]
pub use measuring::Measuring;
pub use model::{Cap, EncoderModel, ModelConfig};
pub use quality::{PSNR_CAP, psnr, quality, squared_error};
#[cfg(feature = "codecs")]
pub use recording::{Recorded, record_table};
#[cfg(feature = "codecs")]
pub use resizing::Resizing;
#[cfg(feature = "codecs")]
pub use scale::{Scaler, size_of_height};
pub use shelf::Shelf;
pub use synthetic::{SyntheticConfig, SyntheticGame};
pub use table::{Curve, Fit, Memorised, Memory, Table, TableError};
pub use traits::{
    Ask, CodecError, Coded, Decoded, Decoder, Earlier, Encoder, Part, Parts, Peer, Quality, Quantiser, Source,
};
#[cfg(feature = "vixnn")]
pub use vixnn::{
    Qualities, RecordedVixnn, VixnnConfig, VixnnDecoder, VixnnEncoder, VixnnLook, VixnnLooks,
    VixnnModelDecoder, VixnnTable, model_file, open_model, record_vixnn_table,
};
#[cfg(feature = "vpx")]
pub use vp8::{Vp8Config, Vp8Decoder, Vp8Encoder};
pub use y4m::{MAX_SIDE, Y4mHeader, Y4mReader, Y4mWriter};
