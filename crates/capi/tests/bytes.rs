//! Whatever arrives, and whatever a host hands in: a result, never a crash, and no more memory than in Rust.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use framewire_c::*;
use fw_result::*;
use proptest::prelude::*;

/// Bytes in use at present, over all threads.
static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator; what is counted beside it neither
// allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A sender and a receiver, as a host has them.
struct Pair {
    sender: *mut fw_sender,
    receiver: *mut fw_receiver,
    now: i64,
}

const MS: i64 = 1_000_000;

/// Zeros, but for the size: what a C program's `{ .size = sizeof x }` is.
fn sized<T: Copy>() -> T {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: each of the header's structs begins with a 32-bit size, and zeros are a value of it.
    unsafe {
        value.as_mut_ptr().cast::<u32>().write(size_of::<T>() as u32);
        value.assume_init()
    }
}

impl Pair {
    fn new() -> Pair {
        let (mut sender, mut receiver) = (null_mut(), null_mut());
        // SAFETY: options as a C program writes them.
        unsafe {
            assert_eq!(fw_sender_new(&sized(), &raw mut sender), FW_OK);
            assert_eq!(fw_receiver_new(&sized(), &raw mut receiver), FW_OK);
        }
        Pair { sender, receiver, now: 0 }
    }

    /// Hands a datagram to both, as if it had arrived.
    fn receive(&mut self, datagram: &[u8]) {
        // SAFETY: the handles are in use by this thread alone, and so many bytes are there.
        unsafe {
            for result in [
                fw_sender_receive(self.sender, self.now, datagram.as_ptr(), datagram.len()),
                fw_receiver_receive(self.receiver, self.now, datagram.as_ptr(), datagram.len()),
            ] {
                assert_eq!(result, FW_OK);
            }
        }
    }

    /// What leaves the one (`of_sender`) or the other, until there is nothing more.
    fn transmit(&mut self, of_sender: bool) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        let (mut out, mut length) = ([0; FW_MAX_DATAGRAM], 0);
        loop {
            let (at, room) = (out.as_mut_ptr(), out.len());
            // SAFETY: as above, and there is so much room.
            let result = unsafe {
                match of_sender {
                    true => fw_sender_transmit(self.sender, self.now, at, room, &raw mut length),
                    false => fw_receiver_transmit(self.receiver, self.now, at, room, &raw mut length),
                }
            };
            match result {
                FW_OK => datagrams.push(out[..length].to_vec()),
                result => {
                    assert_eq!(result, FW_NONE);
                    return datagrams;
                }
            }
        }
    }

    /// Captures a picture and codes what is asked for in `size` bytes.
    fn film(&mut self, size: usize) {
        let (mut plan, bytes) = (sized::<fw_plan>(), vec![7; size]);
        // SAFETY: as above.
        unsafe {
            assert_eq!(fw_sender_capture(self.sender, self.now, self.now, null_mut()), FW_OK);
            while fw_sender_next_frame(self.sender, &raw mut plan) == FW_OK {
                let fw_plan { frame, key, .. } = plan;
                let coded = fw_coded { frame, key, data: bytes.as_ptr(), length: size, ..sized() };
                assert_eq!(fw_sender_frame(self.sender, self.now, &coded), FW_OK);
            }
        }
    }

    /// Time passes; what there is to decode is taken, and all of it read.
    fn pass(&mut self, ns: i64) {
        self.now += ns;
        let (mut frame, mut shown) = (sized::<fw_frame>(), sized::<fw_shown>());
        // SAFETY: as above.
        unsafe {
            assert_eq!(fw_sender_wake(self.sender, self.now), FW_OK);
            assert_eq!(fw_receiver_wake(self.receiver, self.now), FW_OK);
            while fw_receiver_next_frame(self.receiver, self.now, &raw mut frame) == FW_OK {
                if frame.length > 0 {
                    let bytes = std::slice::from_raw_parts(frame.data, frame.length);
                    std::hint::black_box(bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>());
                }
            }
            while fw_receiver_next_shown(self.receiver, &raw mut shown) == FW_OK {}
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: they were made in `new`, and are of no more use.
        unsafe {
            fw_sender_free(self.sender);
            fw_receiver_free(self.receiver);
        }
    }
}

/// A datagram of a conversation, spoilt: which, where, and with what.
fn spoil(datagrams: &[Vec<u8>], which: prop::sample::Index, at: prop::sample::Index, with: &[u8]) -> Vec<u8> {
    if datagrams.is_empty() {
        return with.to_vec();
    }
    let mut datagram = datagrams[which.index(datagrams.len())].clone();
    let from = at.index(datagram.len().max(1));
    for (byte, with) in datagram.iter_mut().skip(from).zip(with) {
        *byte = *with;
    }
    datagram
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes of chance, and real datagrams spoilt or repeated, at any times.
    #[test]
    fn whatever_arrives_comes_to_a_result(
        steps in prop::collection::vec(
            (0u8..8, any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..60), 0i64..1 << 36),
            1..80,
        ),
    ) {
        let (mut pair, mut heard) = (Pair::new(), Vec::new());
        for (step, which, at, bytes, ns) in steps {
            match step {
                0 => pair.receive(&bytes),
                1..=3 => pair.receive(&spoil(&heard, which, at, &bytes)),
                4 => pair.film(bytes.len() * 100),
                5 => pair.pass(ns),
                _ => pair.pass(ns >> 10),
            }
            for of_sender in [true, false] {
                heard.extend(pair.transmit(of_sender));
            }
        }
        let mut stats = sized::<fw_sender_stats>();
        // SAFETY: the handle is in use by this thread alone.
        prop_assert_eq!(unsafe { fw_sender_get_stats(pair.sender, &raw mut stats) }, FW_OK);
    }

    /// Options of chance are taken or refused with a text.
    #[test]
    fn whatever_the_options_say(
        numbers in prop::array::uniform6(prop_oneof![Just(0u64), 1u64..2_000_000, any::<u64>()]),
        small in (any::<u32>(), 0u32..2_000, any::<u16>(), any::<u16>()),
        name in "[a-z:=,0-9.-]{0,12}",
    ) {
        let [least_bps, initial_bps, most_bps, interval_ns, deadline_ns, seed] = numbers;
        let (session, mtu, width, height) = small;
        let name = std::ffi::CString::new(name).unwrap();
        let options = fw_sender_options {
            session, least_bps, initial_bps, most_bps, seed, mtu, width, height,
            interval_ns: interval_ns as i64,
            deadline_ns: deadline_ns as i64,
            rate: name.as_ptr(),
            ..sized()
        };
        let mut sender = null_mut();
        // SAFETY: texts end with a NUL; the handle is freed once.
        unsafe {
            let result = fw_sender_new(&options, &raw mut sender);
            prop_assert!(result == FW_OK && !sender.is_null() || result == FW_ERR_ARGUMENT && sender.is_null());
            fw_sender_free(sender);
        }
    }

    /// A core that is told anything in any order.
    #[test]
    fn whatever_a_core_is_told(
        controller in prop::sample::select(cc::REGISTRY.iter().map(|entry| entry.name).collect::<Vec<_>>()),
        steps in prop::collection::vec((0u8..6, any::<u64>(), any::<i64>(), 0i64..1 << 32), 1..120),
    ) {
        let controller = std::ffi::CString::new(controller).unwrap();
        let options = fw_core_options { controller: controller.as_ptr(), ..sized() };
        let (mut core, mut now, mut sent, mut at) = (null_mut(), 0, 0, 0);
        // SAFETY: structs and arrays are as long as they are said to be; the handle is freed once.
        unsafe {
            prop_assert_eq!(fw_core_new(&options, &raw mut core), FW_OK);
            for (step, number, remote, ns) in steps {
                now += ns;
                let result = match step {
                    0 | 1 => {
                        let (bytes, last) = (1 + (number % 1500) as u32, (number >> 20 & 1) as u32);
                        fw_core_sent(core, now, &fw_packet { bytes, last, ..sized() }, &raw mut sent)
                    }
                    2 | 3 => {
                        let arrival = |packet| fw_arrival { packet, arrived_ns: remote, ecn: (number & 3) as u32, reserved: 0 };
                        let arrivals = [arrival(sent), arrival(number % (sent + 2)), arrival(0)];
                        let (arrivals, arrival_count) = (arrivals.as_ptr(), (number % 4) as usize);
                        fw_core_heard(core, now, &fw_report { arrivals, arrival_count, sent_ns: remote, ..sized() })
                    }
                    4 => fw_core_wake(core, now),
                    _ => fw_core_next_send(core, now, &raw mut at),
                };
                prop_assert!(matches!(result, FW_OK | FW_NONE | FW_ERR_ARGUMENT), "{:?}", result);
                while fw_core_next_lost(core, &raw mut sent) == FW_OK {}
            }
            fw_core_free(core);
        }
    }
}

#[test]
fn frames_that_never_end_fill_no_more_than_a_receiver_holds() {
    let mut pair = Pair::new();
    pair.film(3_000);
    let first = pair.transmit(true).pop().expect("a packet of the first frame");
    let before = HELD.load(Relaxed);
    // Packets of frames of 8,000 packets each, of which one in eight comes: 400 MB in all.
    for number in 0..300_000u64 {
        let (frame, index) = (1 + number / 1_000, (number % 1_000) as u16 * 8);
        let mut datagram = vec![0; 1_400];
        datagram[..first.len().min(40)].copy_from_slice(&first[..40]);
        datagram[6..11].copy_from_slice(&(number + 10).to_be_bytes()[3..]);
        datagram[22..26].copy_from_slice(&(frame as u32).to_be_bytes());
        datagram[26..28].copy_from_slice(&index.to_be_bytes());
        datagram[28..30].copy_from_slice(&8_000u16.to_be_bytes());
        pair.receive(&datagram);
    }
    let held = HELD.load(Relaxed) - before;
    let mut stats = sized::<fw_receiver_stats>();
    // SAFETY: the handle is in use by this thread alone.
    assert_eq!(unsafe { fw_receiver_get_stats(pair.receiver, &raw mut stats) }, FW_OK);
    assert!(stats.packets > 299_000 && stats.abandoned > 100, "{} {}", stats.packets, stats.abandoned);
    // 64 MB of payloads and their accounts (crates/session/src/assembly), and what other tests hold
    // meanwhile.
    assert!((32 << 20..96 << 20).contains(&held), "{held} bytes");
}

#[test]
fn what_a_host_gets_wrong_is_said() {
    let pair = Pair::new();
    let (sender, receiver) = (pair.sender, pair.receiver);
    let (mut at, mut plan, mut stats) = (0, sized::<fw_plan>(), fw_sender_stats::default());
    let last = || {
        // SAFETY: it is a text until the next error.
        unsafe { std::ffi::CStr::from_ptr(fw_last_error()) }.to_str().unwrap().to_owned()
    };
    // SAFETY: what is wrong here is looked at before it is used.
    unsafe {
        let null_data = fw_sender_receive(sender, 0, std::ptr::null(), 5);
        assert_eq!((null_data, last().as_str()), (FW_ERR_NULL, "data is null"));
        assert_eq!(fw_sender_receive(sender, 0, std::ptr::null(), 0), FW_OK);
        assert_eq!(fw_sender_wake(null_mut(), 0), FW_ERR_NULL);
        assert_eq!(fw_sender_wake(sender, -1), FW_ERR_ARGUMENT);
        assert_eq!(fw_receiver_next_wake(receiver, null_mut()), FW_ERR_NULL);
        assert_eq!(fw_sender_next_wake(sender, &raw mut at), FW_OK);
        let coded = fw_coded { frame: 9, ..sized() };
        assert_eq!(fw_sender_frame(sender, 0, &coded), FW_ERR_ARGUMENT);
        assert_eq!(last(), "frame 9 was not asked for, or is there already");
        assert_eq!(fw_sender_get_stats(sender, &raw mut stats), FW_ERR_ARGUMENT);
        assert!(last().starts_with("stats.size is 0: set it to sizeof"), "{}", last());
        assert_eq!(fw_sender_capture(sender, 5, 6, null_mut()), FW_ERR_ARGUMENT);
        assert_eq!(fw_sender_capture(sender, 5, 5, null_mut()), FW_OK);
        assert_eq!(fw_sender_next_frame(sender, &raw mut plan), FW_OK);
        let pieces = [3u32, 2];
        let (data, pieces, piece_count) = ([1u8, 2].as_ptr(), pieces.as_ptr(), 2);
        let coded = fw_coded { frame: plan.frame, data, length: 2, pieces, piece_count, ..sized() };
        assert_eq!(fw_sender_frame(sender, 5, &coded), FW_ERR_ARGUMENT);
        assert!(last().starts_with("pieces must rise"), "{}", last());
        let mut out = [0; 100];
        let mut length = 0;
        assert_eq!(fw_sender_transmit(sender, 5, out.as_mut_ptr(), 100, &raw mut length), FW_ERR_ARGUMENT);
        assert!(last().contains("1150"), "{}", last());
        let options = fw_receiver_options { playout: c"adaptve".as_ptr(), ..sized() };
        let mut none = receiver;
        assert_eq!(fw_receiver_new(&options, &raw mut none), FW_ERR_ARGUMENT);
        assert!(none.is_null() && last().contains("adaptive"), "{}", last());
    }
}

#[test]
fn frames_cross_and_a_failed_decoder_asks_for_a_key_frame() {
    let mut pair = Pair::new();
    let mut frame = sized::<fw_frame>();
    let (mut failed, mut keys) = (false, Vec::new());
    for step in 0..600 {
        if step % 16 == 0 {
            pair.film(1_500);
        }
        pair.now += MS;
        for of_sender in [true, false] {
            pair.transmit(of_sender).iter().for_each(|datagram| {
                let (now, at, length) = (pair.now, datagram.as_ptr(), datagram.len());
                // SAFETY: the handles are in use by this thread alone, and so many bytes are there.
                let result = unsafe {
                    if of_sender {
                        fw_receiver_receive(pair.receiver, now, at, length)
                    } else {
                        fw_sender_receive(pair.sender, now, at, length)
                    }
                };
                assert_eq!(result, FW_OK);
            });
        }
        // SAFETY: as above.
        unsafe {
            while fw_receiver_next_frame(pair.receiver, pair.now, &raw mut frame) == FW_OK {
                assert_eq!((frame.length, frame.complete), (1_500, 1));
                assert!(frame.captured_ns <= pair.now && frame.captured_ns % (16 * MS) < MS);
                keys.extend((frame.key != 0).then_some(frame.frame));
                if frame.frame == 10 && !failed {
                    failed = true;
                    assert_eq!(fw_receiver_decoder_failed(pair.receiver), FW_OK);
                }
            }
            assert_eq!(fw_sender_wake(pair.sender, pair.now), FW_OK);
            assert_eq!(fw_receiver_wake(pair.receiver, pair.now), FW_OK);
        }
    }
    assert!(keys.len() == 2 && keys[0] == 0 && (11..16).contains(&keys[1]), "{keys:?}");
    assert!(frame.frame >= 36, "{}", frame.frame);
}
