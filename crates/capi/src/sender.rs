//! A sender whose pictures the host captures and codes.

use std::ffi::c_char;

use bytes::Bytes;
use media::{Ask, Coded};
use session::{Sender, SenderBuilder};
use units::{Rate, Span};
use wire::{Endpoint, Media};

use crate::driven::{Driven, instant, rates};
use crate::encoder::Encoding;
use crate::guard::{Handle, Refusal, create, enter, free, given, slice, text, wrong};
use crate::sized::{self, Growing};
use crate::{FW_NO_LIMIT, FW_UNKNOWN, fw_result};

/// How a sender is made. What is zero or null has a default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fw_sender_options {
    /// sizeof this struct.
    pub size: u32,
    /// Session number, which both ends agree on. Default: 1.
    pub session: u32,
    /// Congestion controller with options, or a preset: "gcc", "copa:delta=0.5". Default: the preset
    /// "default".
    pub controller: *const c_char,
    /// Rate policy with options. Default: what the preset says, or "live".
    pub rate: *const c_char,
    /// Recovery policy. Default: what the preset says, or "retransmit".
    pub recovery: *const c_char,
    /// Strategy with options, one that takes a single encoder. Default: "live".
    pub strategy: *const c_char,
    /// Lowest rate, in bit/s of datagrams. Default: the preset's, or 0.3 Mbit/s.
    pub least_bps: u64,
    /// The rate to start at, in bit/s. Default: 2 Mbit/s.
    pub initial_bps: u64,
    /// Highest rate, in bit/s. Default: 100 Mbit/s.
    pub most_bps: u64,
    /// Time between pictures, in ns. Default: 60 a second.
    pub interval_ns: i64,
    /// How long after its capture a frame is worth showing, in ns. Default: what suits the path, 400 ms or
    /// more.
    pub deadline_ns: i64,
    /// Seed of what is random. Default: the session number.
    pub seed: u64,
    /// Largest datagram (UDP payload), 128 to 1472 bytes. Default: 1200.
    pub mtu: u32,
    /// Width of pictures in pixels, announced to the receiver. With it and the height, a rate policy may
    /// ask for fewer rows (`fw_plan.rows`). Default: not announced.
    pub width: u16,
    /// Height of pictures in pixels.
    pub height: u16,
}

/// What is to be coded.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct fw_plan {
    /// sizeof this struct.
    pub size: u32,
    /// Which picture, as `fw_sender_capture` numbered it: the one just captured, or one shortly before it.
    pub frame: u32,
    /// Bitrate to code at from here on, in bit/s of coded picture.
    pub bitrate_bps: u64,
    /// What that makes for this frame, in bytes.
    pub budget_bytes: u64,
    /// The most it should have if it is predicted from nothing, in bytes; `FW_NO_LIMIT`.
    pub largest_bytes: u64,
    /// Not 0: a key frame is needed, which decodes without any earlier frame.
    pub key: u32,
    /// Rows to code the picture with; 0: as many as it has.
    pub rows: u32,
}

/// A frame that the host has coded.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fw_coded {
    /// sizeof this struct.
    pub size: u32,
    /// Which: `fw_plan.frame`.
    pub frame: u32,
    /// Its bytes, which are copied. None, with a length of 0: the frame was not coded after all.
    pub data: *const u8,
    /// Length of `data` in bytes; 0 for a frame that was not coded.
    pub length: usize,
    /// Where pieces end that decode without the rest of the frame (slices), in bytes from its start,
    /// rising, the last one at its end. Null: there are none.
    pub pieces: *const u32,
    /// How many pieces.
    pub piece_count: usize,
    /// Not 0: it decodes without any earlier frame.
    pub key: u32,
    /// Zero, for what may come.
    pub reserved: u32,
}

/// How a sender is doing; counts are since its start.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct fw_sender_stats {
    /// sizeof this struct.
    pub size: u32,
    /// Not 0: everything was sent after `fw_sender_end`, and the receiver has been told.
    pub finished: u32,
    /// Smoothed round-trip time in ns; `FW_UNKNOWN` before the first answer.
    pub srtt_ns: i64,
    /// How far it lies above the smallest one, in ns: what waits in queues. `FW_UNKNOWN` as above.
    pub queue_delay_ns: i64,
    /// What the latest frame was planned with, in bit/s of datagrams; `FW_NO_LIMIT` before the first.
    pub target_bps: u64,
    /// The controller's advice for media, in bit/s; `FW_NO_LIMIT` if it gives none.
    pub media_bps: u64,
    /// The rate at which packets leave, in bit/s; `FW_NO_LIMIT`.
    pub pacing_bps: u64,
    /// The most bytes in flight; `FW_NO_LIMIT`.
    pub window_bytes: u64,
    /// Datagrams of media and padding sent, ...
    pub packets: u64,
    /// ... and their bytes.
    pub bytes: u64,
    /// Packets of frames sent again.
    pub retransmissions: u64,
    /// Packets given up as lost, ...
    pub lost: u64,
    /// ... of which arrived after all.
    pub spurious: u64,
    /// Probes sent because nothing was heard.
    pub timeouts: u64,
    /// Pictures captured, ...
    pub captured: u64,
    /// ... not coded, because the sender was behind or the host left them out, ...
    pub skipped: u64,
    /// ... and coded.
    pub encoded: u64,
    /// Coded frames dropped unsent or half sent: they had waited too long.
    pub expired: u64,
    /// Datagrams refused because they do not decode, ...
    pub malformed: u64,
    /// ... are of another session or kind, ...
    pub foreign: u64,
    /// ... or report packets that were never sent.
    pub implausible: u64,
}

// SAFETY: integers and pointers, of which the first is the size; no padding at the end.
unsafe impl Growing for fw_sender_options {}
// SAFETY: as above.
unsafe impl Growing for fw_plan {}
// SAFETY: as above.
unsafe impl Growing for fw_coded {}
// SAFETY: as above.
unsafe impl Growing for fw_sender_stats {}

/// A sender: what the host captures and codes goes out as fast as a congestion controller allows, lost
/// packets are sent again while they are of use.
pub struct fw_sender {
    driven: Driven<Sender>,
    encoding: Encoding,
    poisoned: bool,
}

impl Handle for fw_sender {
    fn poisoned(&mut self) -> &mut bool {
        &mut self.poisoned
    }
}

/// The shortest and the longest time between pictures: a thousand a second, one in ten seconds.
const INTERVALS: [Span; 2] = [Span::from_millis(1), Span::from_secs(10)];
/// Deadlines as a packet's header can say them (`docs/wire.md`).
const DEADLINES: [Span; 2] = [Span::from_millis(1), Span::from_secs(65)];
/// Packets that a receiver takes of one frame (`docs/wire.md`).
const PACKETS: usize = 8192;

/// A length of time within `range`; `None` if it is not given.
pub(crate) fn span(what: &str, ns: i64, range: [Span; 2]) -> Result<Option<Span>, Refusal> {
    let span = Span::from_nanos(ns);
    if ns != 0 && !(range[0]..=range[1]).contains(&span) {
        return Err(wrong(format!("{what} is {span}; it must be 0 or {} to {}", range[0], range[1])));
    }
    Ok(Some(span).filter(|_| ns != 0))
}

/// As [`span`], of the time between pictures; 60 a second if it is not given.
pub(crate) fn interval(ns: i64) -> Result<Span, Refusal> {
    Ok(span("interval_ns", ns, INTERVALS)?.unwrap_or(cc::Setup::default().frame_interval))
}

/// # Safety
/// Texts end with a NUL.
unsafe fn built(options: &fw_sender_options) -> Result<fw_sender, Refusal> {
    let (least, initial, most) =
        rates([options.least_bps, options.initial_bps, options.most_bps], &cc::Setup::default())?;
    let mtu = if options.mtu == 0 { 1200 } else { options.mtu as usize };
    if !(128..=1472).contains(&mtu) {
        return Err(wrong(format!("mtu is {mtu}; it must be 0 or 128 to 1472 bytes")));
    }
    let encoding = Encoding::default();
    let mut builder = SenderBuilder::default().mtu(mtu).picture(options.width, options.height);
    builder = match least {
        Some(least) => builder.rates(least, initial, most),
        None => builder.starting_at(initial, most),
    };
    builder = builder.session(if options.session == 0 { 1 } else { options.session });
    if options.seed != 0 {
        builder = builder.seed(options.seed);
    }
    if let Some(deadline) = span("deadline_ns", options.deadline_ns, DEADLINES)? {
        builder = builder.deadline(deadline);
    }
    // SAFETY: as the caller promises.
    let name = |what, pointer| unsafe { text(what, pointer) };
    if let Some(controller) = name("controller", options.controller)? {
        builder = builder.controller(controller);
    }
    if let Some(rate) = name("rate", options.rate)? {
        builder = builder.rate(rate);
    }
    if let Some(recovery) = name("recovery", options.recovery)? {
        builder = builder.recovery(recovery);
    }
    if let Some(strategy) = name("strategy", options.strategy)? {
        builder = builder.strategy(strategy);
    }
    let video = encoding.video(interval(options.interval_ns)?);
    let sender = builder.video(video).build().map_err(|error| wrong(error.to_string()))?;
    Ok(fw_sender { driven: Driven::new(sender), encoding, poisoned: false })
}

/// Makes a sender and leaves it at `out`. It is yours: free it with `fw_sender_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_new(
    options: *const fw_sender_options,
    out: *mut *mut fw_sender,
) -> fw_result {
    // SAFETY: what a host promises of options and pointers.
    unsafe {
        create(out, || {
            let options = sized::read("options", options)?;
            built(&options)
        })
    }
}

/// Frees a sender; of a null one, does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_free(sender: *mut fw_sender) {
    // SAFETY: what a host promises of handles.
    unsafe { free(sender) }
}

/// A picture is there, captured at `captured_ns`, which is `now` or before. Leaves its number at `frame`,
/// which may be null. Ask `fw_sender_next_frame` next. `FW_NONE` after `fw_sender_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_capture(
    sender: *mut fw_sender,
    now: i64,
    captured_ns: i64,
    frame: *mut u32,
) -> fw_result {
    let work = |sender: &mut fw_sender| {
        let (now, captured) = (sender.driven.at(now)?, instant("captured_ns", captured_ns)?);
        if captured > now {
            return Err(wrong("captured_ns lies after now"));
        }
        let number = sender.encoding.capture(&mut sender.driven.endpoint, now, captured);
        let Some(number) = number else { return Ok(fw_result::FW_NONE) };
        if !frame.is_null() {
            // SAFETY: the host promises room for a number.
            unsafe { frame.write(number) };
        }
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(sender, work) }
}

/// Says what is to be coded next, until `FW_NONE`: the picture just captured, nothing where the path is
/// behind, and maybe a picture after all that was left out a moment ago. Ask after each `fw_sender_capture`
/// and `fw_sender_wake`. Answer each plan with `fw_sender_frame`: with several unanswered, pictures are
/// left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_next_frame(sender: *mut fw_sender, plan: *mut fw_plan) -> fw_result {
    let work = |sender: &mut fw_sender| {
        sized::has_room("plan", plan)?;
        let Some(ask) = sender.encoding.take_ask() else { return Ok(fw_result::FW_NONE) };
        let Ask { frame, bitrate, interval, key, largest, height, .. } = ask;
        let planned = fw_plan {
            size: 0,
            frame,
            bitrate_bps: bitrate.as_bps(),
            budget_bytes: bitrate.bytes_in(interval).get(),
            largest_bytes: largest.map_or(FW_NO_LIMIT, |largest| largest.get()),
            key: u32::from(key),
            rows: height.map_or(0, u32::from),
        };
        // SAFETY: what a host promises of structs with a size.
        unsafe { sized::write("plan", plan, &planned) }?;
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(sender, work) }
}

/// Where a frame's pieces end, as the host says.
fn checked_pieces(pieces: &[u32], length: usize) -> Result<Vec<u32>, Refusal> {
    let rising = pieces.first().is_none_or(|&first| first > 0) && pieces.is_sorted_by(|a, b| a < b);
    if !rising || pieces.last().is_some_and(|&last| last as usize != length) {
        return Err(wrong(format!(
            "pieces must rise, and the last one end with the frame, at {length} bytes"
        )));
    }
    Ok(pieces.to_vec())
}

/// Takes a frame that the host has coded. One that was asked for before it and is not there yet counts as
/// failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_frame(
    sender: *mut fw_sender,
    now: i64,
    coded: *const fw_coded,
) -> fw_result {
    let work = |sender: &mut fw_sender| {
        // SAFETY: what a host promises of structs with a size.
        let coded = unsafe { sized::read("coded", coded) }?;
        let fw_coded { frame, data, length, pieces, piece_count, key, .. } = coded;
        let most = PACKETS * (sender.driven.endpoint.mtu() - Media::LEN);
        if length > most {
            return Err(wrong(format!(
                "a frame of {length} bytes; no receiver takes more than {most} of one"
            )));
        }
        // SAFETY: the host promises so many bytes and pieces.
        let (data, pieces) = unsafe { (slice("data", data, length)?, slice("pieces", pieces, piece_count)?) };
        let pieces = checked_pieces(pieces, length)?;
        let now = sender.driven.at(now)?;
        let ask = sender.encoding.finish(frame);
        let ask =
            ask.ok_or_else(|| wrong(format!("frame {frame} was not asked for, or is there already")))?;
        // A key frame that was left out is still wanted.
        let key = if length == 0 { ask.key } else { key != 0 };
        let payload = Some(Bytes::copy_from_slice(data));
        sender.encoding.give(Coded { payload, key, pieces, ..Coded::of_size(&ask, length as u32) });
        sender.driven.endpoint.wake(now);
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(sender, work) }
}

/// A datagram of `length` bytes came from the receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_receive(
    sender: *mut fw_sender,
    now: i64,
    data: *const u8,
    length: usize,
) -> fw_result {
    // SAFETY: what a host promises of handles and bytes.
    unsafe { enter(sender, |sender| sender.driven.receive(now, data, length)) }
}

/// Time has passed. Early or often does no harm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_wake(sender: *mut fw_sender, now: i64) -> fw_result {
    // SAFETY: what a host promises of handles.
    unsafe { enter(sender, |sender| sender.driven.wake(now)) }
}

/// Leaves at `at` when `fw_sender_wake` is wanted next; what lies in the past is wanted at once. `FW_NONE`:
/// no time brings anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_next_wake(sender: *mut fw_sender, at: *mut i64) -> fw_result {
    // SAFETY: what a host promises of handles and pointers.
    unsafe { enter(sender, |sender| sender.driven.next_wake(at)) }
}

/// Writes the next datagram for the receiver to `out` and its length to `length`; `FW_NONE` if none may
/// leave now. Ask until then after every other call. `capacity` says how long a datagram may be at present:
/// `FW_LEAST_DATAGRAM` at least, best `FW_MAX_DATAGRAM` where the host does not know its path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_transmit(
    sender: *mut fw_sender,
    now: i64,
    out: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> fw_result {
    // SAFETY: what a host promises of handles and of room.
    unsafe { enter(sender, |sender| sender.driven.transmit(now, out, capacity, length)) }
}

/// Holds media to `bps` bit/s from here on, whatever the controller advises, but not below the lowest rate.
/// `FW_NO_LIMIT`: no longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_set_most(sender: *mut fw_sender, bps: u64) -> fw_result {
    let work = |sender: &mut fw_sender| {
        sender.driven.endpoint.set_max(Rate::from_bps(bps));
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(sender, work) }
}

/// Captures nothing more; what was captured is still sent, and the receiver told.
/// `fw_sender_stats.finished` says when that is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_end(sender: *mut fw_sender) -> fw_result {
    let work = |sender: &mut fw_sender| {
        sender.driven.endpoint.end();
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(sender, work) }
}

fn figures(sender: &Sender) -> fw_sender_stats {
    let (counted, decision) = (sender.counters(), sender.decision());
    let measured = sender.measured_srtt();
    let bps = |rate: Option<Rate>| rate.map_or(FW_NO_LIMIT, Rate::as_bps);
    fw_sender_stats {
        size: 0,
        finished: u32::from(sender.is_finished()),
        srtt_ns: measured.map_or(FW_UNKNOWN, Span::as_nanos),
        queue_delay_ns: measured.map_or(FW_UNKNOWN, |_| sender.queue_delay().as_nanos()),
        target_bps: bps(sender.target()),
        media_bps: bps(decision.media),
        pacing_bps: bps(decision.pacing),
        window_bytes: decision.window.map_or(FW_NO_LIMIT, |window| window.get()),
        packets: counted.packets,
        bytes: counted.bytes,
        retransmissions: counted.retransmissions,
        lost: counted.lost,
        spurious: counted.spurious,
        timeouts: counted.timeouts,
        captured: counted.captured,
        skipped: counted.skipped,
        encoded: counted.encoded,
        expired: counted.expired,
        malformed: counted.malformed,
        foreign: counted.foreign,
        implausible: counted.implausible,
    }
}

/// Writes how the sender is doing to `stats`, whose size the host has set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_sender_get_stats(
    sender: *mut fw_sender,
    stats: *mut fw_sender_stats,
) -> fw_result {
    let work = |sender: &mut fw_sender| {
        given("stats", stats)?;
        // SAFETY: what a host promises of structs with a size.
        unsafe { sized::write("stats", stats, &figures(&sender.driven.endpoint)) }?;
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(sender, work) }
}
