//! The unsafe edge: OpenH264's C++ encoder object behind a small safe handle.
//!
//! The `openh264` crate's own encoder hides the maximum bitrate, the key frame ratio and the start-up call,
//! so the object's table of functions is called directly.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use openh264_sys2::source::APILoader;
use openh264_sys2::{
    API, CAMERA_VIDEO_REAL_TIME, CONSTANT_ID, ENCODER_LTR_MARKING_FEEDBACK, ENCODER_LTR_RECOVERY_REQUEST,
    ENCODER_OPTION, ENCODER_OPTION_BITRATE, ENCODER_OPTION_GET_STATISTICS, ENCODER_OPTION_RC_MODE,
    ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, ENCODER_OPTION_TRACE_LEVEL, HIGH_COMPLEXITY, ISVCEncoder,
    ISVCEncoderVtbl, LEVEL_5_2, LOW_COMPLEXITY, LTR_MARKING_FAILED, LTR_MARKING_SUCCESS,
    LTR_RECOVERY_REQUEST, MEDIUM_COMPLEXITY, PRO_BASELINE, RC_BITRATE_MODE, RC_OFF_MODE, SBitrateInfo,
    SEncParamExt, SEncoderStatistics, SFrameBSInfo, SLTRMarkingFeedback, SLTRRecoverRequest, SLayerBSInfo,
    SM_FIXEDSLCNUM_SLICE, SM_SINGLE_SLICE, SM_SIZELIMITED_SLICE, SPATIAL_LAYER_ALL, SSliceArgument,
    SSourcePicture, VIDEO_CODING_LAYER, WELS_LOG_QUIET, videoFormatI420, videoFrameTypeIDR,
};

use super::Complexity;
use super::references::Feedback;
use crate::RawFrame;

/// Level 5.2's own maximum in bit/s (H.264 table A-1: 240,000 units of 1,200 bits): asking for it at start-up
/// is what allows every lower rate later.
const LEVEL_MAX_BITRATE: c_int = 288_000_000;
/// Finest quantiser of the rate control (`GOM_MIN_QP_MODE`).
const FINEST: c_int = 12;
/// Coarsest: H.264's, for whole pictures. With OpenH264's own choice, the second, 720p25 of a racing game
/// takes 3.4 times as much as was asked for at 0.44 Mbit/s, and fills any queue. With slices of bounded size
/// that stays: left more, the rate control goes to the end of it after each key frame (720p at 2 Mbit/s: from
/// 31.6 to 24.4 dB, with a third of the bits that were asked for).
const COARSEST: (c_int, c_int) = (51, 42);
/// Slots for long-term references: OpenH264 has two, whatever it is asked for (`LONG_TERM_REF_NUM`).
const LONG_TERM: c_int = 2;
/// Pictures between one that is marked and the next, at least. 0 would be 30; what lets the next one wait is
/// that it must be known what became of the one before.
const MARKING_PERIOD: c_uint = 1;
/// Room left in every slice for the parameter sets that precede a key frame's first one (about 30 bytes), so
/// that they can travel with it.
const PARAMETER_SETS: usize = 40;

/// What the encoder is opened with; ranges are checked by the caller.
#[derive(Debug)]
pub(super) struct Settings {
    pub width: usize,
    pub height: usize,
    pub fps: f64,
    pub bitrate: c_int,
    pub slice_bytes: Option<usize>,
    pub threads: u16,
    pub complexity: Complexity,
    pub key_percent: c_int,
    /// Keep long-term references.
    pub references: bool,
}

/// One coded frame as it comes out.
pub(super) struct Stream {
    pub bytes: Vec<u8>,
    pub key: bool,
    /// Ends of the slices, empty if there is but one slice by design.
    pub pieces: Vec<u32>,
    /// Mean quantiser of its macroblocks, 0 to 51.
    pub quantiser: u8,
}

/// An encoder object. Owned by one thread at a time.
pub(super) struct Handle {
    api: APILoader,
    encoder: *mut ISVCEncoder,
    params: Box<SEncParamExt>,
    info: Box<SFrameBSInfo>,
    sliced: bool,
    width: usize,
    height: usize,
}

// SAFETY: the object has no ties to the thread that made it; `&mut self` on every call keeps it to one at a
// time.
unsafe impl Send for Handle {}

fn slicing(settings: &Settings) -> SSliceArgument {
    let mut argument = SSliceArgument::default();
    match settings.slice_bytes {
        Some(bytes) => {
            argument.uiSliceMode = SM_SIZELIMITED_SLICE;
            argument.uiSliceSizeConstraint = (bytes - PARAMETER_SETS) as u32;
        }
        None if settings.threads > 1 => {
            argument.uiSliceMode = SM_FIXEDSLCNUM_SLICE;
            argument.uiSliceNum = u32::from(settings.threads);
        }
        None => {
            argument.uiSliceMode = SM_SINGLE_SLICE;
            argument.uiSliceNum = 1;
        }
    }
    argument
}

fn fill(params: &mut SEncParamExt, settings: &Settings) {
    params.iUsageType = CAMERA_VIDEO_REAL_TIME;
    params.iPicWidth = settings.width as c_int;
    params.iPicHeight = settings.height as c_int;
    params.iTargetBitrate = settings.bitrate;
    params.iMaxBitrate = LEVEL_MAX_BITRATE;
    params.iRCMode = RC_BITRATE_MODE;
    params.fMaxFrameRate = settings.fps as f32;
    params.iComplexityMode = match settings.complexity {
        Complexity::Low => LOW_COMPLEXITY,
        Complexity::Medium => MEDIUM_COMPLEXITY,
        Complexity::High => HIGH_COMPLEXITY,
    };
    (params.iMinQp, params.iMaxQp) =
        (FINEST, if settings.slice_bytes.is_some() { COARSEST.1 } else { COARSEST.0 });
    // Key frames only when asked for: none by period, none by scene change.
    params.uiIntraPeriod = 0;
    params.bEnableSceneChangeDetect = false;
    params.bEnableFrameSkip = false;
    // Skipping what looks like background makes sizes jump: on Big Buck Bunny with random targets the 5th
    // percentile of size over target is 0.11 with it and 0.21 without, the 95th 1.57 and 1.39.
    params.bEnableBackgroundDetection = false;
    params.eSpsPpsIdStrategy = CONSTANT_ID;
    params.iIdrBitrateRatio = settings.key_percent;
    if settings.references {
        params.bEnableLongTermReference = true;
        params.iLTRRefNum = LONG_TERM;
        params.iLtrMarkPeriod = MARKING_PERIOD;
    }
    params.iMultipleThreadIdc = settings.threads;
    // Balancing would move slice borders by measured time.
    params.bUseLoadBalancing = false;
    params.uiMaxNalSize = settings.slice_bytes.map_or(0, |bytes| bytes as u32);
    // Filtering across slice borders would make a slice depend on its neighbours.
    params.iLoopFilterDisableIdc = if settings.slice_bytes.is_some() { 2 } else { 0 };
    let layer = &mut params.sSpatialLayers[0];
    layer.iVideoWidth = settings.width as c_int;
    layer.iVideoHeight = settings.height as c_int;
    layer.fFrameRate = settings.fps as f32;
    layer.iSpatialBitrate = settings.bitrate;
    layer.iMaxSpatialBitrate = LEVEL_MAX_BITRATE;
    layer.uiProfileIdc = PRO_BASELINE;
    layer.uiLevelIdc = LEVEL_5_2;
    layer.sSliceArgument = slicing(settings);
}

fn ok(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

impl Handle {
    /// Creates and starts an encoder; on failure says which call returned what.
    pub fn open(settings: &Settings) -> Result<Handle, (&'static str, c_int)> {
        let api = APILoader::new();
        let mut encoder: *mut ISVCEncoder = null_mut();
        // SAFETY: the pointer is valid for writing the object's address.
        let code = unsafe { api.WelsCreateSVCEncoder(&raw mut encoder) };
        if code != 0 || encoder.is_null() {
            return Err(("WelsCreateSVCEncoder", code));
        }
        let sliced = settings.slice_bytes.is_some() || settings.threads > 1;
        let (width, height) = (settings.width, settings.height);
        let (params, info) = (Box::default(), Box::default());
        let mut handle = Handle { api, encoder, params, info, sliced, width, height };
        // What goes wrong is returned, not printed.
        let mut quiet = WELS_LOG_QUIET;
        handle.set(ENCODER_OPTION_TRACE_LEVEL, &mut quiet).map_err(|code| ("SetOption", code))?;
        handle.start(settings)?;
        Ok(handle)
    }

    fn start(&mut self, settings: &Settings) -> Result<(), (&'static str, c_int)> {
        let params = &raw mut *self.params;
        let (defaults, initialize) = (self.table().GetDefaultParams, self.table().InitializeExt);
        let (defaults, initialize) = defaults.zip(initialize).expect("OpenH264 has these functions");
        // SAFETY: `encoder` lives as long as `self`, `params` is a valid structure to write and read.
        unsafe {
            ok(defaults(self.encoder, params)).map_err(|code| ("GetDefaultParams", code))?;
            fill(&mut *params, settings);
            ok(initialize(self.encoder, params)).map_err(|code| ("InitializeExt", code))
        }
    }

    fn table(&self) -> &ISVCEncoderVtbl {
        // SAFETY: a created object points to its table of functions, which is static.
        unsafe { &**self.encoder }
    }

    fn set<T>(&mut self, option: ENCODER_OPTION, value: &mut T) -> Result<(), c_int> {
        let set = self.table().SetOption.expect("OpenH264 has this function");
        // SAFETY: each caller passes the type its option reads.
        ok(unsafe { set(self.encoder, option, std::ptr::from_mut(value).cast::<c_void>()) })
    }

    /// Changes the rate, in bit/s, from the next frame on.
    pub fn set_bitrate(&mut self, bitrate: c_int) -> Result<(), c_int> {
        let mut info = SBitrateInfo { iLayer: SPATIAL_LAYER_ALL, iBitrate: bitrate };
        self.set(ENCODER_OPTION_BITRATE, &mut info)
    }

    /// Makes the next frame a key frame.
    pub fn force_key(&mut self) -> Result<(), c_int> {
        let force = self.table().ForceIntraFrame.expect("OpenH264 has this function");
        // SAFETY: the object was started.
        ok(unsafe { force(self.encoder, true) })
    }

    /// Tells what became of the picture that was marked as a long-term reference; heeded once the next
    /// picture is coded.
    pub fn tell(&mut self, feedback: Feedback) -> Result<(), c_int> {
        let kind = if feedback.success { LTR_MARKING_SUCCESS } else { LTR_MARKING_FAILED };
        let mut told = SLTRMarkingFeedback {
            uiFeedbackType: kind as c_uint,
            uiIDRPicId: feedback.idr,
            iLTRFrameNum: feedback.frame_num as c_int,
            iLayerId: 0,
        };
        self.set(ENCODER_LTR_MARKING_FEEDBACK, &mut told)
    }

    /// Predicts the next picture from the newest long-term reference that was received, whose `frame_num`
    /// this is, after the key picture with this `idr_pic_id`.
    pub fn recover(&mut self, (idr, frame_num): (u32, u32)) -> Result<(), c_int> {
        let mut request = SLTRRecoverRequest {
            uiFeedbackType: LTR_RECOVERY_REQUEST as c_uint,
            uiIDRPicId: idr,
            iLastCorrectFrameNum: frame_num as c_int,
            // Nothing newer is known: OpenH264 then forgets none of what it marked, which is told it picture
            // by picture.
            iCurrentFrameNum: -1,
            iLayerId: 0,
        };
        self.set(ENCODER_LTR_RECOVERY_REQUEST, &mut request)
    }

    /// Codes with this quantiser (0 to 51), whatever the rate, until told `None`. Setting all parameters anew
    /// is the only way to change the quantiser; with nothing else changed the codec goes on where it is.
    pub fn fix_quantiser(&mut self, quantiser: Option<c_int>) -> Result<(), c_int> {
        let mode = if quantiser.is_some() { RC_OFF_MODE } else { RC_BITRATE_MODE };
        if let Some(quantiser) = quantiser {
            let mut params = *self.params;
            params.sSpatialLayers[0].iDLayerQp = quantiser;
            self.set(ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, &mut params)?;
        }
        self.set(ENCODER_OPTION_RC_MODE, &mut { mode })
    }

    /// Encodes one picture of the configured size, captured `ms` milliseconds after the start.
    ///
    /// # Panics
    /// If the picture has another size: the codec would read beyond it.
    pub fn encode(&mut self, picture: &RawFrame, ms: u64) -> Result<Stream, c_int> {
        let (width, height) = (self.width, self.height);
        assert!((picture.width, picture.height) == (width, height) && picture.y.len() == width * height);
        assert!(picture.u.len() == width * height / 4 && picture.v.len() == width * height / 4);
        let source = SSourcePicture {
            iColorFormat: videoFormatI420,
            iStride: [width as c_int, width as c_int / 2, width as c_int / 2, 0],
            pData: [
                picture.y.as_ptr().cast_mut(),
                picture.u.as_ptr().cast_mut(),
                picture.v.as_ptr().cast_mut(),
                null_mut(),
            ],
            iPicWidth: width as c_int,
            iPicHeight: height as c_int,
            uiTimeStamp: ms as i64,
            bPsnrY: false,
            bPsnrU: false,
            bPsnrV: false,
        };
        let encode = self.table().EncodeFrame.expect("OpenH264 has this function");
        // SAFETY: the planes have the sizes checked above and are only read; `info` is ours to write.
        ok(unsafe { encode(self.encoder, &raw const source, &raw mut *self.info) })?;
        let quantiser = self.quantiser()?;
        Ok(Stream { quantiser, ..self.collect() })
    }

    /// Mean quantiser of the last picture.
    fn quantiser(&self) -> Result<u8, c_int> {
        let mut statistics = SEncoderStatistics::default();
        let get = self.table().GetOption.expect("OpenH264 has this function");
        let option = ENCODER_OPTION_GET_STATISTICS;
        // SAFETY: the object was started, and this option writes such a structure.
        ok(unsafe { get(self.encoder, option, (&raw mut statistics).cast::<c_void>()) })?;
        Ok(statistics.uiAverageFrameQP.min(51) as u8)
    }

    /// Copies the frame out of the codec's buffers.
    fn collect(&self) -> Stream {
        let key = self.info.eFrameType == videoFrameTypeIDR;
        let mut stream = Stream { bytes: Vec::new(), key, pieces: Vec::new(), quantiser: 0 };
        for layer in &self.info.sLayerInfo[..self.info.iLayerNum.max(0) as usize] {
            self.append(layer, &mut stream);
        }
        stream
    }

    fn append(&self, layer: &SLayerBSInfo, stream: &mut Stream) {
        if layer.pBsBuf.is_null() || layer.pNalLengthInByte.is_null() || layer.iNalCount <= 0 {
            return;
        }
        // SAFETY: the codec filled in `iNalCount` lengths, and as many bytes as they add up to lie at
        // `pBsBuf`; both stay until the next call.
        let lengths = unsafe { std::slice::from_raw_parts(layer.pNalLengthInByte, layer.iNalCount as usize) };
        let total = lengths.iter().map(|&n| n.max(0) as usize).sum();
        let bytes = unsafe { std::slice::from_raw_parts(layer.pBsBuf, total) };
        let mut end = stream.bytes.len();
        stream.bytes.extend_from_slice(bytes);
        if self.sliced && c_int::from(layer.uiLayerType) == VIDEO_CODING_LAYER as c_int {
            stream.pieces.extend(lengths.iter().map(|&n| {
                end += n.max(0) as usize;
                end as u32
            }));
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let uninitialize = self.table().Uninitialize.expect("OpenH264 has this function");
        // SAFETY: the object was created and nothing uses it after this.
        unsafe {
            uninitialize(self.encoder);
            self.api.WelsDestroySVCEncoder(self.encoder);
        }
    }
}
