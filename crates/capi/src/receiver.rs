//! A receiver whose frames the host decodes and shows.

use std::ffi::c_char;
use std::ptr::null;

use bytes::Bytes;
use session::{Receiver, ReceiverBuilder, ReceiverConfig};
use wire::Endpoint;

use crate::decoder::{Decoding, HostDecoder, Lent, Noting};
use crate::driven::Driven;
use crate::guard::{Handle, Refusal, create, enter, free, text, wrong};
use crate::sized::{self, Growing};
use crate::{FW_UNKNOWN, fw_result};

/// How a receiver is made. What is zero or null has a default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fw_receiver_options {
    /// sizeof this struct.
    pub size: u32,
    /// Session number, which both ends agree on. Default: the first one heard.
    pub session: u32,
    /// Playout policy with options, which says when frames are shown: "at-once", "fixed:delay=100ms",
    /// "adaptive". Default: at once.
    pub playout: *const c_char,
    /// Not 0: the host's decoder makes pictures of frames of which pieces are missing (`fw_coded.pieces`).
    pub conceal: u32,
    /// Zero, for what may come.
    pub reserved: u32,
}

/// A frame to be decoded.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fw_frame {
    /// sizeof this struct.
    pub size: u32,
    /// Its number, as the sender's host got it from `fw_sender_capture`.
    pub frame: u32,
    /// Its bytes. They are yours to read until the next `fw_receiver_next_frame`.
    pub data: *const u8,
    /// Length of `data` in bytes.
    pub length: usize,
    /// When it was captured, in ns on the sender's clock, to 1 us; `FW_UNKNOWN` where a peer's packets claim
    /// thousands of frames at once.
    pub captured_ns: i64,
    /// Not 0: it decodes without any earlier frame.
    pub key: u32,
    /// Not 0: all of it is there.
    pub complete: u32,
}

/// A frame to be shown.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct fw_shown {
    /// sizeof this struct.
    pub size: u32,
    /// Its number, as in `fw_frame`.
    pub frame: u32,
    /// When it was captured, in ns on the sender's clock.
    pub captured_ns: i64,
    /// Not 0: its deadline has passed.
    pub late: u32,
    /// Not 0: parts of it were missing.
    pub concealed: u32,
}

/// How a receiver is doing; counts are since its start.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct fw_receiver_stats {
    /// sizeof this struct.
    pub size: u32,
    /// Not 0: the sender said that nothing more will come, and what came has been shown.
    pub finished: u32,
    /// Packets accepted, ...
    pub packets: u64,
    /// ... and their bytes.
    pub bytes: u64,
    /// Feedback packets sent.
    pub feedback: u64,
    /// Requests to send packets again.
    pub nacks: u64,
    /// Key frames asked for.
    pub key_requests: u64,
    /// Frames of which every packet arrived.
    pub assembled: u64,
    /// Frames shown, ...
    pub displayed: u64,
    /// ... of which after their deadline.
    pub late: u64,
    /// Frames decoded and never shown, because a newer one was due as well.
    pub passed_over: u64,
    /// Frames handed out though parts of them are missing.
    pub concealed: u64,
    /// Frames given up, for want of packets or of time to decode them.
    pub abandoned: u64,
    /// Frames that would not decode (`fw_receiver_decoder_failed`).
    pub decode_errors: u64,
    /// Datagrams refused because they do not decode, ...
    pub malformed: u64,
    /// ... are of another session or kind, ...
    pub foreign: u64,
    /// ... had arrived before, ...
    pub duplicates: u64,
    /// ... are of frames long gone, ...
    pub stale: u64,
    /// ... are numbered impossibly far ahead, ...
    pub far_future: u64,
    /// ... or found a buffer full.
    pub buffer_full: u64,
}

// SAFETY: integers and pointers, of which the first is the size; no padding at the end.
unsafe impl Growing for fw_receiver_options {}
// SAFETY: as above.
unsafe impl Growing for fw_frame {}
// SAFETY: as above.
unsafe impl Growing for fw_shown {}
// SAFETY: as above.
unsafe impl Growing for fw_receiver_stats {}

/// A receiver: puts frames together, asks for what is missing, reports what arrived, and says what is to be
/// decoded and when it is to be shown.
pub struct fw_receiver {
    driven: Driven<Receiver>,
    decoding: Decoding,
    /// What the host may be reading.
    lent: Bytes,
    poisoned: bool,
}

impl Handle for fw_receiver {
    fn poisoned(&mut self) -> &mut bool {
        &mut self.poisoned
    }
}

/// # Safety
/// The text ends with a NUL.
unsafe fn built(options: &fw_receiver_options) -> Result<fw_receiver, Refusal> {
    let (decoding, conceals) = (Decoding::default(), options.conceal != 0);
    let mut builder = ReceiverBuilder::default()
        .config(ReceiverConfig { conceal: conceals, ..ReceiverConfig::default() })
        .decoder(Box::new(HostDecoder { decoding: decoding.clone(), conceals }))
        .screen(Box::new(decoding.clone()));
    if options.session != 0 {
        builder = builder.session(options.session);
    }
    // SAFETY: as the caller promises.
    if let Some(playout) = unsafe { text("playout", options.playout) }? {
        builder = builder.playout(playout);
    }
    let receiver = builder.build().map_err(|error| wrong(error.to_string()))?;
    let receiver = receiver.speaking(Box::new(Noting(decoding.clone())));
    Ok(fw_receiver { driven: Driven::new(receiver), decoding, lent: Bytes::new(), poisoned: false })
}

/// Makes a receiver and leaves it at `out`. It is yours: free it with `fw_receiver_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_new(
    options: *const fw_receiver_options,
    out: *mut *mut fw_receiver,
) -> fw_result {
    // SAFETY: what a host promises of options and pointers.
    unsafe {
        create(out, || {
            let options = sized::read("options", options)?;
            built(&options)
        })
    }
}

/// Frees a receiver, and the frame that it lent; of a null one, does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_free(receiver: *mut fw_receiver) {
    // SAFETY: what a host promises of handles.
    unsafe { free(receiver) }
}

/// A datagram of `length` bytes came from the sender.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_receive(
    receiver: *mut fw_receiver,
    now: i64,
    data: *const u8,
    length: usize,
) -> fw_result {
    // SAFETY: what a host promises of handles and bytes.
    unsafe { enter(receiver, |receiver| receiver.driven.receive(now, data, length)) }
}

/// Time has passed. Early or often does no harm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_wake(receiver: *mut fw_receiver, now: i64) -> fw_result {
    // SAFETY: what a host promises of handles.
    unsafe { enter(receiver, |receiver| receiver.driven.wake(now)) }
}

/// Leaves at `at` when `fw_receiver_wake` is wanted next; what lies in the past is wanted at once.
/// `FW_NONE`: no time brings anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_next_wake(receiver: *mut fw_receiver, at: *mut i64) -> fw_result {
    // SAFETY: what a host promises of handles and pointers.
    unsafe { enter(receiver, |receiver| receiver.driven.next_wake(at)) }
}

/// Writes the next datagram for the sender to `out` and its length to `length`; `FW_NONE` if there is none
/// now. As `fw_sender_transmit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_transmit(
    receiver: *mut fw_receiver,
    now: i64,
    out: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> fw_result {
    // SAFETY: what a host promises of handles and of room.
    unsafe { enter(receiver, |receiver| receiver.driven.transmit(now, out, capacity, length)) }
}

/// Lends the next frame to decode, until `FW_NONE`. Frames come in the order of decoding, and each counts
/// as decoded when the next one is asked for; ask after `fw_receiver_receive` and `fw_receiver_wake`. With
/// four frames that nobody takes, later ones wait, and are given up when their deadlines have passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_next_frame(
    receiver: *mut fw_receiver,
    now: i64,
    frame: *mut fw_frame,
) -> fw_result {
    let work = |receiver: &mut fw_receiver| {
        sized::has_room("frame", frame)?;
        let now = receiver.driven.at(now)?;
        receiver.decoding.take_back();
        receiver.driven.endpoint.wake(now);
        let lent = receiver.decoding.lend();
        receiver.lent = lent.as_ref().map_or_else(Bytes::new, |lent| lent.bytes.clone());
        let Some(Lent { frame: number, bytes, complete, captured, key }) = lent else {
            return Ok(fw_result::FW_NONE);
        };
        let captured_ns = captured.map_or(FW_UNKNOWN, |captured| captured.as_nanos());
        let data = if bytes.is_empty() { null() } else { bytes.as_ptr() };
        let (key, complete, length) = (u32::from(key), u32::from(complete), bytes.len());
        let told = fw_frame { size: 0, frame: number, data, length, captured_ns, key, complete };
        // SAFETY: what a host promises of structs with a size. The bytes are shared with `receiver.lent`.
        unsafe { sized::write("frame", frame, &told) }?;
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(receiver, work) }
}

/// The frame lent at present would not decode or, if none is, one before it: the sender is asked for a key
/// frame, and frames until then count as failed. Call it before the next `fw_receiver_next_frame`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_decoder_failed(receiver: *mut fw_receiver) -> fw_result {
    let work = |receiver: &mut fw_receiver| {
        receiver.decoding.fail();
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(receiver, work) }
}

/// Says which frame is to be shown now, until `FW_NONE`: each at most once, in order, of those that were
/// decoded. Ask after `fw_receiver_next_frame`; a host that shows all it has decoded need not ask at all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_next_shown(
    receiver: *mut fw_receiver,
    shown: *mut fw_shown,
) -> fw_result {
    let work = |receiver: &mut fw_receiver| {
        sized::has_room("shown", shown)?;
        let Some(due) = receiver.decoding.next_shown() else { return Ok(fw_result::FW_NONE) };
        let told = fw_shown {
            size: 0,
            frame: due.frame,
            captured_ns: due.captured.as_nanos(),
            late: u32::from(due.late),
            concealed: u32::from(due.concealed),
        };
        // SAFETY: what a host promises of structs with a size.
        unsafe { sized::write("shown", shown, &told) }?;
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(receiver, work) }
}

/// Whether this receiver can follow the sender's controller: an error where that has a half that lives at the
/// receiver and this library does not know it. The sender is then not answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_check(receiver: *mut fw_receiver) -> fw_result {
    let work = |receiver: &mut fw_receiver| match receiver.driven.endpoint.trouble() {
        None => Ok(fw_result::FW_OK),
        Some(trouble) => Err(wrong(format!("the sender's controller: {trouble}"))),
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(receiver, work) }
}

fn figures(receiver: &Receiver) -> fw_receiver_stats {
    let counted = receiver.counters();
    fw_receiver_stats {
        size: 0,
        finished: u32::from(receiver.is_finished()),
        packets: counted.packets,
        bytes: counted.bytes,
        feedback: counted.feedback,
        nacks: counted.nacks,
        key_requests: counted.key_requests,
        assembled: counted.assembled,
        displayed: counted.displayed,
        late: counted.late,
        passed_over: counted.passed_over,
        concealed: counted.concealed,
        abandoned: counted.abandoned,
        decode_errors: counted.decode_errors,
        malformed: counted.malformed,
        foreign: counted.foreign,
        duplicates: counted.duplicates,
        stale: counted.stale,
        far_future: counted.far_future,
        buffer_full: counted.buffer_full,
    }
}

/// Writes how the receiver is doing to `stats`, whose size the host has set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_receiver_get_stats(
    receiver: *mut fw_receiver,
    stats: *mut fw_receiver_stats,
) -> fw_result {
    let work = |receiver: &mut fw_receiver| {
        // SAFETY: what a host promises of structs with a size.
        unsafe { sized::write("stats", stats, &figures(&receiver.driven.endpoint)) }?;
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(receiver, work) }
}
