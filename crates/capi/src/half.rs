//! The half of a controller that lives at the receiver, for a host with a transport of its own.

use cc::{Received, ReceiverHalf};
use units::{Ecn, RemoteTime, Span, Time};

use crate::core::{controller, fw_core_options};
use crate::driven::{HostTime, leave};
use crate::guard::{Handle, Refusal, create, enter, free, given, wrong};
use crate::sized::{self, Growing};
use crate::{FW_UNKNOWN, fw_result};

/// A packet as the receiver saw it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fw_received {
    /// sizeof this struct.
    pub size: u32,
    /// Its length in bytes (UDP payload).
    pub bytes: u32,
    /// The number that `fw_core_sent` gave it at the sender. Packets may come in any order, each once.
    pub packet: u64,
    /// When it was sent, in ns on the sender's clock.
    pub sent_ns: i64,
    /// Time since a report left that this packet is the first to confirm, in ns; `FW_UNKNOWN` if it
    /// confirms none.
    pub rtt_ns: i64,
    /// The ECN bits it arrived with, 0 to 3.
    pub ecn: u32,
    /// Zero, for what may come.
    pub reserved: u32,
}

// SAFETY: integers, of which the first is the size; no padding at the end.
unsafe impl Growing for fw_received {}

/// The half of a controller that lives at the receiver (of Sprout, and of GCC's early forms): it sees
/// packets arrive, and writes a few bytes for each report.
pub struct fw_half {
    half: Box<dyn ReceiverHalf>,
    clock: HostTime,
    word: Vec<u8>,
    poisoned: bool,
}

impl Handle for fw_half {
    fn poisoned(&mut self) -> &mut bool {
        &mut self.poisoned
    }
}

/// # Safety
/// As [`controller`].
unsafe fn built(options: &fw_core_options) -> Result<Option<fw_half>, Refusal> {
    // SAFETY: as the caller promises.
    let (name, setup) = unsafe { controller(options) }?;
    let half = cc::build_receiver(&name, &setup).map_err(|error| wrong(error.to_string()))?;
    Ok(half.map(|half| fw_half { half, clock: HostTime::default(), word: Vec::new(), poisoned: false }))
}

/// Makes the half at the receiver of a controller that was made with the same options, and leaves it at
/// `out`. `FW_NONE`, and a null pointer there, if the controller has none. It is yours: free it with
/// `fw_half_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_half_new(options: *const fw_core_options, out: *mut *mut fw_half) -> fw_result {
    // SAFETY: what a host promises of options and pointers.
    unsafe {
        create(out, || {
            let options = sized::read("options", options)?;
            built(&options)
        })
    }
}

/// Frees a half; of a null one, does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_half_free(half: *mut fw_half) {
    // SAFETY: what a host promises of handles.
    unsafe { free(half) }
}

fn seen(now: Time, packet: &fw_received) -> Result<Received, Refusal> {
    let &fw_received { bytes, packet, sent_ns, rtt_ns, ecn, .. } = packet;
    if ecn > 3 {
        return Err(wrong(format!("ecn of packet {packet} is {ecn}; it must be 0 to 3")));
    }
    let rtt = Some(Span::from_nanos(rtt_ns)).filter(|_| rtt_ns != FW_UNKNOWN);
    let sent = RemoteTime::from_nanos(sent_ns);
    Ok(Received { now, packet, sent, size: bytes, ecn: Ecn::from_bits(ecn as u8), rtt })
}

/// A packet arrived at `now`, on the receiver's clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_half_received(
    half: *mut fw_half,
    now: i64,
    packet: *const fw_received,
) -> fw_result {
    let work = |half: &mut fw_half| {
        // SAFETY: what a host promises of structs with a size.
        let packet = unsafe { sized::read("packet", packet) }?;
        let packet = seen(half.clock.at(now)?, &packet)?;
        half.half.on_packet(&packet);
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(half, work) }
}

/// Time has passed. Early or often does no harm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_half_wake(half: *mut fw_half, now: i64) -> fw_result {
    let work = |half: &mut fw_half| {
        let now = half.clock.at(now)?;
        if half.half.next_timer().is_some_and(|at| at <= now) {
            half.half.on_timer(now);
        }
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(half, work) }
}

/// Leaves at `at` when `fw_half_wake` is wanted next; `FW_NONE`: no time brings anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_half_next_wake(half: *mut fw_half, at: *mut i64) -> fw_result {
    let work = |half: &mut fw_half| {
        given("at", at)?;
        // SAFETY: the host promises room for a time.
        unsafe { leave(half.half.next_timer(), at) }
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(half, work) }
}

/// Leaves at `at` when a report should go for this half's sake; `FW_NONE` if its news can wait for the next
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_half_due(half: *mut fw_half, at: *mut i64) -> fw_result {
    let work = |half: &mut fw_half| {
        given("at", at)?;
        // SAFETY: the host promises room for a time.
        unsafe { leave(half.half.due_at(), at) }
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(half, work) }
}

/// Writes what the other half is to hear to `out`, and its length to `length`: `fw_report.blob` of the
/// report that leaves now. `capacity` is 255 at least.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_half_write(
    half: *mut fw_half,
    now: i64,
    out: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> fw_result {
    let work = |half: &mut fw_half| {
        given("out", out)?;
        given("length", length)?;
        if capacity < 255 {
            return Err(wrong(format!("room for {capacity} bytes; it must be 255 at least")));
        }
        let now = half.clock.at(now)?;
        half.word.clear();
        half.half.write(now, &mut half.word);
        assert!(half.word.len() <= capacity, "a half writes 255 bytes at most");
        // SAFETY: the host promises room for `capacity` bytes and a length, and there are no more.
        unsafe {
            out.copy_from_nonoverlapping(half.word.as_ptr(), half.word.len());
            length.write(half.word.len());
        }
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(half, work) }
}
