//! The unsafe edge: libvpx's VP8 encoder and decoder behind two small safe handles.
//!
//! `libvpx.c` stands between the two: it is compiled against the headers that are installed, so that none of
//! libvpx's structures is spelt out here.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong};
use std::ptr::null_mut;

use super::references::{Plan, Reference};
use crate::RawFrame;

/// Ticks of the encoder's clock in a second (RTP's for video).
pub(super) const TICKS: u32 = 90_000;

#[repr(C)]
struct EncoderObject([u8; 0]);
#[repr(C)]
struct DecoderObject([u8; 0]);

/// One coded frame, in libvpx's memory.
#[repr(C)]
struct Frame {
    bytes: *const u8,
    length: usize,
    key: c_int,
    quantiser: c_int,
}

/// One coded frame.
pub(super) struct Encoded {
    pub bytes: Vec<u8>,
    pub key: bool,
    /// Its quantiser index, 0 to 127.
    pub quantiser: u8,
}

/// One picture, in libvpx's memory.
#[repr(C)]
struct Picture {
    planes: [*const u8; 3],
    strides: [usize; 3],
    width: usize,
    height: usize,
}

unsafe extern "C" {
    fn framewire_vp8_error(code: c_int) -> *const c_char;
    fn framewire_vp8_encoder_open(
        out: *mut *mut EncoderObject,
        width: c_uint,
        height: c_uint,
        ticks: c_uint,
        kbps: c_uint,
        threads: c_uint,
        speed: c_uint,
        drop: c_uint,
    ) -> c_int;
    fn framewire_vp8_encoder_rate(encoder: *mut EncoderObject, kbps: c_uint) -> c_int;
    fn framewire_vp8_encoder_key_limit(encoder: *mut EncoderObject, percent: c_uint) -> c_int;
    fn framewire_vp8_encode(
        encoder: *mut EncoderObject,
        planes: *const *const u8,
        at: i64,
        ticks: c_ulong,
        key: c_int,
        from: c_int,
        replaces: c_int,
        out: *mut Frame,
    ) -> c_int;
    fn framewire_vp8_encoder_close(encoder: *mut EncoderObject);
    fn framewire_vp8_decoder_open(out: *mut *mut DecoderObject) -> c_int;
    fn framewire_vp8_decode(
        decoder: *mut DecoderObject,
        bytes: *const u8,
        length: c_uint,
        out: *mut Picture,
    ) -> c_int;
    fn framewire_vp8_decoder_close(decoder: *mut DecoderObject);
}

/// How a frame is to be coded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Key,
    /// References are libvpx's own business.
    Free,
    Planned(Plan),
}

/// What libvpx says of a code it returned.
fn check(code: c_int) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: libvpx answers any code with a text that is never freed.
    let text = unsafe { CStr::from_ptr(framewire_vp8_error(code)) };
    Err(text.to_string_lossy().into_owned())
}

/// What the encoder is opened with; ranges are checked by the caller.
pub(super) struct Settings {
    pub width: usize,
    pub height: usize,
    pub kbps: u32,
    pub threads: u16,
    pub speed: u8,
    pub drop: u8,
}

/// An encoder object. Owned by one thread at a time.
pub(super) struct EncoderHandle {
    object: *mut EncoderObject,
    width: usize,
    height: usize,
}

// SAFETY: the object has no ties to the thread that made it; `&mut self` on every call keeps it to one at a
// time.
unsafe impl Send for EncoderHandle {}

impl EncoderHandle {
    pub fn open(settings: &Settings) -> Result<EncoderHandle, String> {
        let mut object = null_mut();
        let (width, height) = (settings.width, settings.height);
        // SAFETY: the pointer is valid for writing the object's address, which is written if and only if all
        // went well.
        check(unsafe {
            framewire_vp8_encoder_open(
                &raw mut object,
                width as c_uint,
                height as c_uint,
                TICKS,
                settings.kbps,
                c_uint::from(settings.threads),
                c_uint::from(settings.speed),
                c_uint::from(settings.drop),
            )
        })?;
        Ok(EncoderHandle { object, width, height })
    }

    /// Changes the rate, in kbit/s, from the next frame on.
    pub fn set_rate(&mut self, kbps: u32) -> Result<(), String> {
        // SAFETY: the object is open.
        check(unsafe { framewire_vp8_encoder_rate(self.object, kbps) })
    }

    /// Bounds key frames to this percentage of an average frame, from the next one on.
    pub fn set_key_limit(&mut self, percent: u32) -> Result<(), String> {
        // SAFETY: the object is open.
        check(unsafe { framewire_vp8_encoder_key_limit(self.object, percent) })
    }

    /// Encodes one picture of the configured size that is shown from tick `at` on for `ticks`; `None` if it
    /// was left out. `at` must grow from call to call.
    ///
    /// # Panics
    /// If the picture has another size: the codec would read beyond it.
    pub fn encode(
        &mut self,
        picture: &RawFrame,
        at: i64,
        ticks: u32,
        kind: Kind,
    ) -> Result<Option<Encoded>, String> {
        let (width, height) = (self.width, self.height);
        assert!((picture.width, picture.height) == (width, height) && picture.y.len() == width * height);
        assert!(picture.u.len() == width * height / 4 && picture.v.len() == width * height / 4);
        let planes = [picture.y.as_ptr(), picture.u.as_ptr(), picture.v.as_ptr()];
        let mut frame = Frame { bytes: null_mut(), length: 0, key: 0, quantiser: 0 };
        let slot = |slot: usize| slot as c_int + 1;
        let (from, replaces) = match kind {
            Kind::Key | Kind::Free => (-1, 0),
            Kind::Planned(Plan { from: Reference::Last, replaces }) => (0, replaces.map_or(0, slot)),
            Kind::Planned(Plan { from: Reference::Kept(kept), replaces }) => {
                (slot(kept), replaces.map_or(0, slot))
            }
        };
        // SAFETY: the planes have the sizes checked above and are only read, during the call; `frame` is ours
        // to write.
        check(unsafe {
            framewire_vp8_encode(
                self.object,
                planes.as_ptr(),
                at,
                c_ulong::from(ticks),
                c_int::from(matches!(kind, Kind::Key)),
                from,
                replaces,
                &raw mut frame,
            )
        })?;
        if frame.bytes.is_null() {
            return Ok(None);
        }
        // SAFETY: as many bytes lie there until the next call.
        let bytes = unsafe { std::slice::from_raw_parts(frame.bytes, frame.length) };
        let quantiser = frame.quantiser.clamp(0, 127) as u8;
        Ok(Some(Encoded { bytes: bytes.to_vec(), key: frame.key != 0, quantiser }))
    }
}

impl Drop for EncoderHandle {
    fn drop(&mut self) {
        // SAFETY: the object is open and nothing uses it after this.
        unsafe { framewire_vp8_encoder_close(self.object) }
    }
}

/// A decoder object. Owned by one thread at a time.
pub(super) struct DecoderHandle(*mut DecoderObject);

// SAFETY: as for the encoder.
unsafe impl Send for DecoderHandle {}

impl DecoderHandle {
    pub fn open() -> Result<DecoderHandle, String> {
        let mut object = null_mut();
        // SAFETY: the pointer is valid for writing the object's address, which is written if and only if all
        // went well.
        check(unsafe { framewire_vp8_decoder_open(&raw mut object) })?;
        Ok(DecoderHandle(object))
    }

    /// Decodes one frame; `None` if it is not to be shown. Odd sides lose their last column or row.
    pub fn decode(&mut self, coded: &[u8]) -> Result<Option<RawFrame>, String> {
        let length =
            c_uint::try_from(coded.len()).map_err(|_| format!("a frame of {} bytes", coded.len()))?;
        let mut picture = Picture { planes: [null_mut(); 3], strides: [0; 3], width: 0, height: 0 };
        // SAFETY: `coded` is only read, during the call; `picture` is ours to write.
        check(unsafe { framewire_vp8_decode(self.0, coded.as_ptr(), length, &raw mut picture) })?;
        let (width, height) = (picture.width & !1, picture.height & !1);
        if picture.planes.iter().any(|plane| plane.is_null()) || width == 0 || height == 0 {
            return Ok(None);
        }
        let plane = |index: usize, width, height| {
            // SAFETY: an I420 image of libvpx's has planes of at least these sizes, with rows `stride` apart,
            // and keeps them until the next call.
            unsafe { copy(picture.planes[index], picture.strides[index], width, height) }
        };
        let y = plane(0, width, height);
        let [u, v] = [1, 2].map(|index| plane(index, width / 2, height / 2));
        Ok(Some(RawFrame { width, height, y, u, v }))
    }
}

/// Copies a plane out of rows `stride` apart.
///
/// # Safety
/// From `first` on there are `height` rows of at least `width` bytes, `stride` apart.
unsafe fn copy(first: *const u8, stride: usize, width: usize, height: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(width * height);
    for row in 0..height {
        // SAFETY: by the caller's word, and for the last row nothing beyond its `width` is touched.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(first.add(row * stride), width) });
    }
    out
}

impl Drop for DecoderHandle {
    fn drop(&mut self) {
        // SAFETY: the object is open and nothing uses it after this.
        unsafe { framewire_vp8_decoder_close(self.0) }
    }
}
