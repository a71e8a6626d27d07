//! The transport core alone: what a controller needs inside a transport of the host's own.

use std::collections::VecDeque;
use std::ffi::c_char;

use cc::{FrameTag, Options, Setup};
use record::Tap;
use session::preset::Choice;
use transport::{Arrival, Config, Core, Heard, Pace};
use units::{Ecn, Rate, RemoteTime, Span};

use crate::driven::{HostTime, leave, rates};
use crate::guard::{Handle, Refusal, create, enter, free, given, slice, text, wrong};
use crate::sender::interval;
use crate::sized::{self, Growing};
use crate::{FW_NO_LIMIT, FW_UNKNOWN, fw_result};

/// How a core is made, and the half of its controller at the receiver. What is zero or null has a default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fw_core_options {
    /// sizeof this struct.
    pub size: u32,
    /// Largest datagram (UDP payload), 128 to 9000 bytes: what controllers count in. Default: 1200.
    pub mtu: u32,
    /// Congestion controller with options: "gcc", "copa:delta=0.5". Default: that of the preset "default".
    pub controller: *const c_char,
    /// Lowest rate, in bit/s of datagrams. Default: 0.3 Mbit/s.
    pub least_bps: u64,
    /// The rate to start at, in bit/s. Default: 2 Mbit/s.
    pub initial_bps: u64,
    /// Highest rate, in bit/s. Default: 100 Mbit/s.
    pub most_bps: u64,
    /// Time between pictures, in ns. Default: 60 a second.
    pub interval_ns: i64,
    /// Seed of what is random. Default: 1.
    pub seed: u64,
    /// Not 0: there is always something to send, a file say, so that packets leave at the media rate.
    /// Otherwise they come in bursts, one a picture, and each burst leaves as fast as the controller lets
    /// it.
    pub bulk: u32,
    /// Zero, for what may come.
    pub reserved: u32,
}

/// A packet that leaves.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fw_packet {
    /// sizeof this struct.
    pub size: u32,
    /// Its length in bytes (UDP payload), 1 to 65535.
    pub bytes: u32,
    /// The picture whose bytes it carries. Controllers that learn from frames' bursts (SQP) need it.
    pub frame: u32,
    /// Which packet of the frame, from 0.
    pub index: u16,
    /// How many the frame has; 0: the packet carries no frame's bytes.
    pub count: u16,
    /// Not 0: what it carries was sent before.
    pub retransmission: u32,
    /// Not 0: the host has nothing more to send after it at present.
    pub last: u32,
}

/// A packet that arrived. Never grows: hosts hand in arrays of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct fw_arrival {
    /// The number that `fw_core_sent` gave it.
    pub packet: u64,
    /// When it arrived, in ns on the receiver's clock, whatever its zero.
    pub arrived_ns: i64,
    /// The ECN bits it arrived with, 0 to 3 (RFC 3168); 3 is "congestion experienced".
    pub ecn: u32,
    /// Zero, for what may come.
    pub reserved: u32,
}

/// What the receiver says in one report.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fw_report {
    /// sizeof this struct.
    pub size: u32,
    /// Zero, for what may come.
    pub reserved: u32,
    /// Packets that arrived, in any order. Those told before are passed over.
    pub arrivals: *const fw_arrival,
    /// Entries of `arrivals`; 0 where nothing arrived.
    pub arrival_count: usize,
    /// When the receiver sent the report, in ns on its clock: what lies between the last arrival and this
    /// is no part of a round trip.
    pub sent_ns: i64,
    /// What `fw_half_write` wrote at the receiver; null where the controller has no half there.
    pub blob: *const u8,
    /// How many bytes, at most 255.
    pub blob_length: usize,
}

/// What the controller wants, and what is known of the path.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct fw_decision {
    /// sizeof this struct.
    pub size: u32,
    /// Not 0: a packet should leave for the sake of an answer, whatever the window (`fw_core_take_probe`).
    pub probe: u32,
    /// The most bytes in flight; `FW_NO_LIMIT`.
    pub window_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// The rate at which packets leave, in bit/s; `FW_NO_LIMIT`.
    pub pacing_bps: u64,
    /// The rate to code at, headers and repairs included, in bit/s: the controller's advice, or its window
    /// over the round trip, or its pacing rate. `FW_NO_LIMIT` of a controller that limits nothing.
    pub media_bps: u64,
    /// Padding that the controller's probe of the path still wants, in bytes (`fw_core_padded`).
    pub padding_bytes: u64,
    /// Smoothed round-trip time in ns; `FW_UNKNOWN` before the first report.
    pub srtt_ns: i64,
    /// The smallest round-trip time in ns; `FW_UNKNOWN` as above.
    pub min_rtt_ns: i64,
    /// Packets sent, ...
    pub packets: u64,
    /// ... and their bytes.
    pub bytes: u64,
    /// Packets given up as lost, ...
    pub lost: u64,
    /// ... of which arrived after all.
    pub spurious: u64,
    /// Probes for an answer that became due.
    pub timeouts: u64,
}

// SAFETY: integers and pointers, of which the first is the size; no padding at the end.
unsafe impl Growing for fw_core_options {}
// SAFETY: as above.
unsafe impl Growing for fw_packet {}
// SAFETY: as above.
unsafe impl Growing for fw_report {}
// SAFETY: as above.
unsafe impl Growing for fw_decision {}

/// Lost packets that the host has not asked for, at most: as many as the core remembers packets. Beyond
/// that the oldest are forgotten.
const LOST: usize = 1 << 16;

/// What every sender under a congestion controller keeps, without media and without a wire format: packets
/// in flight, round trips, losses, pacing, window.
pub struct fw_core {
    core: Core<Option<FrameTag>>,
    clock: HostTime,
    /// Of one report, by number; kept for its room.
    arrivals: Vec<Arrival>,
    lost: VecDeque<u64>,
    poisoned: bool,
}

impl Handle for fw_core {
    fn poisoned(&mut self) -> &mut bool {
        &mut self.poisoned
    }
}

impl fw_core {
    /// Keeps what was just given up for the host to ask for.
    fn keep_lost(&mut self) {
        self.lost.extend(self.core.settled().lost.iter().map(|lost| lost.packet));
        let over = self.lost.len().saturating_sub(LOST);
        self.lost.drain(..over);
        self.core.seen();
    }
}

/// The controller by name, and what it is built with.
///
/// # Safety
/// The text ends with a NUL.
pub(crate) unsafe fn controller(options: &fw_core_options) -> Result<(Options, Setup), Refusal> {
    let usual = Setup::default();
    let (least, initial, max) = rates([options.least_bps, options.initial_bps, options.most_bps], &usual)?;
    let mtu = if options.mtu == 0 { usual.mtu } else { options.mtu };
    if !(128..=9000).contains(&mtu) {
        return Err(wrong(format!("mtu is {mtu}; it must be 0 or 128 to 9000 bytes")));
    }
    let setup = Setup {
        mtu,
        initial,
        min: least.unwrap_or(usual.min).min(initial),
        max,
        frame_interval: interval(options.interval_ns)?,
        seed: if options.seed == 0 { usual.seed } else { options.seed },
    };
    // SAFETY: as the caller promises.
    let name = unsafe { text("controller", options.controller) }?;
    let named = Choice::of(name, None, None).controller;
    Ok((named.parse().map_err(|error: cc::OptionError| wrong(error.to_string()))?, setup))
}

/// # Safety
/// As [`controller`].
unsafe fn built(options: &fw_core_options) -> Result<fw_core, Refusal> {
    // SAFETY: as the caller promises.
    let (name, setup) = unsafe { controller(options) }?;
    let controller = cc::build(&name, &setup).map_err(|error| wrong(error.to_string()))?;
    let pace = if options.bulk == 0 { Pace::Decided } else { Pace::Bulk };
    let config = Config { mtu: setup.mtu as usize, pace, least: setup.min, ..Config::default() };
    Ok(fw_core {
        core: Core::new(config, controller, Tap::default()),
        clock: HostTime::default(),
        arrivals: Vec::new(),
        lost: VecDeque::new(),
        poisoned: false,
    })
}

/// Makes a core and leaves it at `out`. It is yours: free it with `fw_core_free`. A controller of which a
/// half lives at the receiver is blind without that: see `fw_half_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_new(options: *const fw_core_options, out: *mut *mut fw_core) -> fw_result {
    // SAFETY: what a host promises of options and pointers.
    unsafe {
        create(out, || {
            let options = sized::read("options", options)?;
            built(&options)
        })
    }
}

/// Frees a core; of a null one, does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_free(core: *mut fw_core) {
    // SAFETY: what a host promises of handles.
    unsafe { free(core) }
}

/// Something waits to be sent: leaves at `at` when the next packet may leave, which is now if it lies in
/// the past. `FW_NONE` while the window is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_next_send(core: *mut fw_core, now: i64, at: *mut i64) -> fw_result {
    let work = |core: &mut fw_core| {
        given("at", at)?;
        core.core.watch_window(core.clock.at(now)?);
        let next = core.core.next_send();
        if next.is_none() {
            core.core.hold_back();
        }
        // SAFETY: the host promises room for a time.
        unsafe { leave(next, at) }
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(core, work) }
}

fn tag(packet: &fw_packet) -> Result<Option<FrameTag>, Refusal> {
    let &fw_packet { frame, index, count, retransmission, .. } = packet;
    if count > 0 && index >= count {
        return Err(wrong(format!("packet.index is {index} in a frame of {count} packets")));
    }
    let retransmission = retransmission != 0;
    Ok((count > 0).then_some(FrameTag { stream: 0, frame, version: 0, index, count, retransmission }))
}

/// A packet leaves now. Leaves the number that it gets at `number`: 0, 1, 2 and so on. The receiver must be
/// able to tell it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_sent(
    core: *mut fw_core,
    now: i64,
    packet: *const fw_packet,
    number: *mut u64,
) -> fw_result {
    let work = |core: &mut fw_core| {
        given("number", number)?;
        // SAFETY: what a host promises of structs with a size.
        let packet = unsafe { sized::read("packet", packet) }?;
        if !(1..=65_535).contains(&packet.bytes) {
            return Err(wrong(format!("packet.bytes is {}; it must be 1 to 65535", packet.bytes)));
        }
        let (now, tag) = (core.clock.at(now)?, tag(&packet)?);
        let given = core.core.sent(now, packet.bytes, tag, packet.last != 0);
        if packet.last != 0 {
            core.core.pause();
        }
        // SAFETY: the host promises room for a number.
        unsafe { number.write(given) };
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(core, work) }
}

fn read_arrivals(arrivals: &[fw_arrival], into: &mut Vec<Arrival>) -> Result<(), Refusal> {
    into.clear();
    for &fw_arrival { packet, arrived_ns, ecn, .. } in arrivals {
        if ecn > 3 {
            return Err(wrong(format!("ecn of packet {packet} is {ecn}; it must be 0 to 3")));
        }
        let at = RemoteTime::from_nanos(arrived_ns);
        into.push(Arrival { packet, at, ecn: Ecn::from_bits(ecn as u8) });
    }
    into.sort_by_key(|arrival| arrival.packet);
    Ok(())
}

/// A report came from the receiver. Afterwards `fw_core_next_lost` says what was lost, and `fw_core_decide`
/// what the controller makes of it. An error if it names a packet that was never sent; nothing has changed
/// then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_heard(core: *mut fw_core, now: i64, report: *const fw_report) -> fw_result {
    let work = |core: &mut fw_core| {
        // SAFETY: what a host promises of structs with a size.
        let report = unsafe { sized::read("report", report) }?;
        let fw_report { arrivals, arrival_count, sent_ns, blob, blob_length, .. } = report;
        // SAFETY: the host promises so many arrivals and bytes.
        let (arrivals, blob) =
            unsafe { (slice("arrivals", arrivals, arrival_count)?, slice("blob", blob, blob_length)?) };
        if blob.len() > 255 {
            return Err(wrong(format!("a blob of {blob_length} bytes; no half writes more than 255")));
        }
        let now = core.clock.at(now)?;
        read_arrivals(arrivals, &mut core.arrivals)?;
        let newest = core.arrivals.last().map(|arrival| arrival.packet);
        let (arrivals, ranges) = (core.arrivals.iter().copied(), std::iter::empty());
        let sent = RemoteTime::from_nanos(sent_ns);
        let heard = Heard { arrivals, ranges, newest, gap: false, sent, blob };
        let never = |_| wrong(format!("packet {} was never sent", newest.unwrap_or_default()));
        core.core.heard(now, heard).map_err(never)?;
        core.keep_lost();
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(core, work) }
}

/// Leaves the number of the next packet that was given up as lost at `number`, until `FW_NONE`. Each is
/// told once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_next_lost(core: *mut fw_core, number: *mut u64) -> fw_result {
    let work = |core: &mut fw_core| {
        given("number", number)?;
        let Some(lost) = core.lost.pop_front() else { return Ok(fw_result::FW_NONE) };
        // SAFETY: the host promises room for a number.
        unsafe { number.write(lost) };
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(core, work) }
}

/// Time has passed: packets may be lost, a probe may be due, the controller has timers. Early or often does
/// no harm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_wake(core: *mut fw_core, now: i64) -> fw_result {
    let work = |core: &mut fw_core| {
        let now = core.clock.at(now)?;
        if core.core.find_losses(now) {
            core.keep_lost();
        }
        core.core.wake(now);
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(core, work) }
}

/// Leaves at `at` when `fw_core_wake` is wanted next; `FW_NONE`: no time brings anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_next_wake(core: *mut fw_core, at: *mut i64) -> fw_result {
    let work = |core: &mut fw_core| {
        given("at", at)?;
        // SAFETY: the host promises room for a time.
        unsafe { leave(core.core.next_wake(), at) }
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(core, work) }
}

/// Takes up that a packet should leave for the sake of an answer: `FW_OK`, and the host sends one now,
/// whatever the window; `FW_NONE` if none is wanted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_take_probe(core: *mut fw_core) -> fw_result {
    let work =
        |core: &mut fw_core| Ok(if core.core.take_probe() { fw_result::FW_OK } else { fw_result::FW_NONE });
    // SAFETY: what a host promises of handles.
    unsafe { enter(core, work) }
}

/// Of the padding that the controller's probe wants (`fw_decision.padding_bytes`), so many bytes leave now.
/// Enter their packets with `fw_core_sent`, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_padded(core: *mut fw_core, bytes: usize) -> fw_result {
    let work = |core: &mut fw_core| {
        core.core.padded(bytes);
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(core, work) }
}

fn told(core: &Core<Option<FrameTag>>) -> fw_decision {
    let (decision, counts) = (core.decision(), core.counts());
    let bps = |rate: Option<Rate>| rate.map_or(FW_NO_LIMIT, Rate::as_bps);
    let measured = |span: Span| core.rtt().latest().map_or(FW_UNKNOWN, |_| span.as_nanos());
    fw_decision {
        size: 0,
        probe: u32::from(core.probe_is_due()),
        window_bytes: decision.window.map_or(FW_NO_LIMIT, |window| window.get()),
        in_flight_bytes: core.in_flight().get(),
        pacing_bps: bps(core.pacing()),
        media_bps: bps(core.cc_rate()),
        padding_bytes: core.padding(),
        srtt_ns: measured(core.rtt().smoothed()),
        min_rtt_ns: measured(core.rtt().min()),
        packets: counts.packets,
        bytes: counts.bytes,
        lost: counts.lost,
        spurious: counts.spurious,
        timeouts: counts.timeouts,
    }
}

/// Writes what the controller wants now to `decision`, whose size the host has set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_core_decide(core: *mut fw_core, decision: *mut fw_decision) -> fw_result {
    let work = |core: &mut fw_core| {
        // SAFETY: what a host promises of structs with a size.
        unsafe { sized::write("decision", decision, &told(&core.core)) }?;
        Ok(fw_result::FW_OK)
    };
    // SAFETY: what a host promises of handles.
    unsafe { enter(core, work) }
}
