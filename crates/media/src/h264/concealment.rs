//! The unsafe edge of concealment: OpenH264's decoder called so that it gives back what it can make of a
//! picture of which slices are missing.
//!
//! OpenH264 conceals once it sees that another picture begins. `decode` of the `openh264` crate ends each
//! access unit in the one way (`bInstantDecFlag`) that waits for missing slices instead. Here an access unit
//! delimiter (ITU-T H.264 section 7.3.2.4) follows each picture and ends it.

use std::ffi::c_int;
use std::ptr::null_mut;

use openh264::decoder::Decoder as Inner;
use openh264_sys2::{
    DECODER_OPTION_ERROR_CON_IDC, ERROR_CON_DISABLE, ERROR_CON_IDC, ERROR_CON_SLICE_COPY_CROSS_IDR,
    SBufferInfo, dsDataErrorConcealed,
};

use crate::RawFrame;

/// What stands in for missing macroblocks: those at the same place of the picture decoded last, also where
/// this one is a key picture. Copied along the mean motion of what did arrive (`SLICE_MV_COPY`) they are no
/// nearer (docs/concealment.md).
const METHOD: ERROR_CON_IDC = ERROR_CON_SLICE_COPY_CROSS_IDR;
/// An access unit delimiter in Annex B form: any types of slices may follow.
const DELIMITER: [u8; 6] = [0, 0, 0, 1, 9, 0xf0];

/// What came out of one access unit.
pub(super) struct Picture {
    pub picture: Option<RawFrame>,
    /// Macroblocks of it are stand-ins, or are predicted from a picture with such.
    pub concealed: bool,
}

/// Lets the decoder conceal, or makes it strict again.
pub(super) fn allow(inner: &mut Inner, allowed: bool) -> Result<(), String> {
    let mut method = if allowed { METHOD } else { ERROR_CON_DISABLE };
    // SAFETY: the decoder lives, and this option reads an `int`.
    let code = unsafe { inner.raw_api().set_option(DECODER_OPTION_ERROR_CON_IDC, (&raw mut method).cast()) };
    if code == 0 { Ok(()) } else { Err(format!("choosing how to conceal returned {code}")) }
}

/// Decodes one access unit, or what is there of it, where concealment is allowed.
///
/// # Errors
/// What OpenH264 said, if it is anything but that it concealed.
pub(super) fn decode(inner: &mut Inner, coded: &[u8]) -> Result<Picture, String> {
    let ended = [coded, &DELIMITER].concat();
    let length =
        c_int::try_from(ended.len()).map_err(|_| format!("an access unit of {} bytes", coded.len()))?;
    let mut planes = [null_mut::<u8>(); 3];
    let mut about = SBufferInfo::default();
    // SAFETY: the bytes are only read, during the call; the pointers and the description are ours to write.
    let code =
        unsafe { inner.raw_api().decode_frame2(ended.as_ptr(), length, planes.as_mut_ptr(), &raw mut about) };
    if code & !dsDataErrorConcealed != 0 {
        return Err(format!("decoding what is there returned {code}"));
    }
    let concealed = code & dsDataErrorConcealed != 0;
    if about.iBufferStatus != 1 || planes.iter().any(|plane| plane.is_null()) {
        return Ok(Picture { picture: None, concealed });
    }
    // SAFETY: with a buffer's status of 1 the description is that of a picture in memory.
    let about = unsafe { about.UsrData.sSystemBuffer };
    let [width, height, luma, chroma] = [about.iWidth, about.iHeight, about.iStride[0], about.iStride[1]]
        .map(|n| usize::try_from(n).unwrap_or(0));
    if width == 0 || height == 0 || width % 2 == 1 || height % 2 == 1 || luma < width || chroma < width / 2 {
        return Err(format!("a picture of {width}x{height}, which 4:2:0 frames here can't have"));
    }
    let plane = |index: usize, stride, width, height| {
        // SAFETY: a picture of OpenH264's has planes of at least these sizes, with rows `stride` apart, and
        // keeps them until the next call.
        unsafe { copy(planes[index], stride, width, height) }
    };
    let y = plane(0, luma, width, height);
    let [u, v] = [1, 2].map(|index| plane(index, chroma, width / 2, height / 2));
    Ok(Picture { picture: Some(RawFrame { width, height, y, u, v }), concealed })
}

/// Copies a plane out of rows `stride` apart.
///
/// # Safety
/// From `first` on there are `height` rows of at least `width` bytes, `stride` apart.
unsafe fn copy(first: *const u8, stride: usize, width: usize, height: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(width * height);
    for row in 0..height {
        // SAFETY: by the caller's word, and of the last row nothing beyond its `width` is touched.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(first.add(row * stride), width) });
    }
    out
}
