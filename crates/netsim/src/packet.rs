//! A packet as links see it, and where the datagrams' bytes are meanwhile.
//!
//! ```text
//! links that are one ring: [Packet | head] [Packet | head]   short heads lie beside their packets
//!
//! queues and delay lines:  Packet Packet Packet        32 bytes each, copied freely
//!                             |id
//! Datagrams (one slab):    [head bytes | length | holders]   a cache line, reused, never moved
//!                             |rest, of those that have one
//!                          [long head | payload handle]
//! ```

use bytes::Bytes;

use units::{Ecn, Sparing, Time, likely};
use wire::MAX_DATAGRAM;

/// Bytes of IPv4 (20, RFC 791) and UDP (8, RFC 768) header that every datagram travels with.
pub const IP_UDP_OVERHEAD: u32 = 28;

/// One packet on its way. Small and `Copy`: the bytes it stands for stay with whoever drives
/// the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Key of its datagram in the world's slab, or [`Packet::NO_DATAGRAM`].
    pub id: u32,
    /// Bytes of its IP packet: datagram and [`IP_UDP_OVERHEAD`].
    pub size: u32,
    /// The flow it belongs to; data and feedback of one conversation carry the same number.
    pub flow: u16,
    /// The route it follows, numbered by the world.
    pub route: u16,
    /// How many links of its route lie behind it.
    pub hop: u16,
    /// Its ECN bits.
    pub ecn: Ecn,
    /// World time at which its sender handed it over.
    pub sent: Time,
    /// World time at which it arrived at the link it is in; set by [`Link::offer`](crate::Link::offer).
    pub entered: Time,
}

impl Packet {
    /// The id of a packet that stands for no bytes at all, as cross traffic does.
    pub const NO_DATAGRAM: u32 = u32::MAX;

    /// A packet of `size` bytes on the wire that belongs to `flow`, was sent at `sent` and stands for no
    /// bytes.
    pub fn bare(flow: u16, size: u32, sent: Time) -> Packet {
        Packet {
            id: Packet::NO_DATAGRAM,
            size,
            flow,
            route: 0,
            hop: 0,
            ecn: Ecn::NotEct,
            sent,
            entered: sent,
        }
    }
}

/// Heads up to so many bytes lie beside their packets, or in the slab itself. Those of media and of most
/// feedback are as short.
const SMALL: usize = 51;
/// Room of a longer one, up to so many bytes: feedback that lists the gaps of a lossy path.
const MEDIUM: usize = 256;
/// Datagrams that there is room for at first.
const SLOTS: usize = 16;
/// Bytes of buffer that a head of each class needs.
const BUFFERS: [usize; 3] = [0, MEDIUM, MAX_DATAGRAM];
/// In place of a number, of a slot that has no [`Rest`].
const NONE: u32 = u32::MAX;

/// All there is of a datagram but its length, which its packet's says: its head, where that is short.
///
/// A link that is one ring keeps it beside the packet, where it is found again without being looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    bytes: [u8; SMALL],
    /// How many of them mean something; none where the packet stands for a datagram of the slab, or nothing.
    length: u8,
}

impl Default for Head {
    fn default() -> Head {
        Head { bytes: [0; SMALL], length: 0 }
    }
}

impl Head {
    /// Takes what was written.
    #[inline(always)]
    pub fn take(&mut self, written: Written<'_>) {
        self.bytes = *written.bytes;
        self.length = written.length;
    }

    /// Whether there is one.
    #[inline(always)]
    pub fn is_some(&self) -> bool {
        self.length > 0
    }

    /// What was written.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A [`Head`] where it was written: to be copied once, to where it is kept.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    bytes: &'a [u8; SMALL],
    length: u8,
}

impl Written<'_> {
    /// None was: the packet has its bytes elsewhere, or stands for none.
    pub const NOTHING: Written<'static> = Written { bytes: &[0; SMALL], length: 0 };

    /// The first `length` bytes of `out`, unless they are too many or none.
    #[inline(always)]
    pub fn first_of(out: &[u8], length: usize) -> Option<Written<'_>> {
        let bytes = out.first_chunk().filter(|_| likely((1..=SMALL).contains(&length)))?;
        Some(Written { bytes, length: length as u8 })
    }
}

impl<'a> From<&'a Head> for Written<'a> {
    #[inline(always)]
    fn from(head: &'a Head) -> Written<'a> {
        Written { bytes: &head.bytes, length: head.length }
    }
}

/// One datagram in flight, a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Datagram {
    /// The first bytes of its head; those beyond the head mean nothing.
    small: [u8; SMALL],
    /// Whether its rest has a payload.
    carries: bool,
    /// How many packets stand for it (a duplicating link makes more).
    holders: u32,
    /// Bytes of its head.
    head: u16,
    /// Its full length in bytes (UDP payload).
    length: u16,
    /// The number of its rest, if it ever had one.
    rest: u32,
}

/// What most datagrams lack.
#[derive(Clone, Debug, Default)]
struct Rest {
    /// All of a head that is longer; its buffer is reused.
    large: Vec<u8>,
    /// The bytes after the head, where they are real.
    payload: Option<Bytes>,
}

/// The datagrams in flight that don't lie beside their packets. Grows to the most that there ever were at
/// once and then reuses its buffers.
///
/// A buffer is only reused for heads of its class, so that none ever grows and a run comes to the point where
/// it allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Datagrams {
    slots: Vec<Datagram>,
    rests: Vec<Rest>,
    /// Slots that are free, those of each class of heads, ...
    free: [Vec<u32>; BUFFERS.len()],
    /// ... and how many slots it has.
    made: [usize; BUFFERS.len()],
}

impl Datagrams {
    /// Stores a datagram of `length` bytes held by one packet, whose head is the first `head` bytes of `out`,
    /// and returns its key.
    pub fn insert(&mut self, out: &[u8], head: usize, length: usize) -> u32 {
        let class = class_of(head);
        let id = self.free[class].pop().unwrap_or_else(|| self.grow(class));
        let slot = &mut self.slots[id as usize];
        (slot.head, slot.length) = (bytes_of(head), bytes_of(length));
        (slot.holders, slot.carries) = (1, false);
        match slot.small.get_mut(..head) {
            Some(small) => small.copy_from_slice(&out[..head]),
            None => {
                let large = &mut self.rest(id).large;
                large.clear();
                large.extend_from_slice(&out[..head]);
            }
        }
        id
    }

    /// Moves to a datagram that was just stored the bytes that follow its head.
    #[inline(never)]
    pub fn attach(&mut self, id: u32, payload: &mut Option<Bytes>) {
        self.slots[id as usize].carries = payload.is_some();
        self.rest(id).payload = payload.take();
    }

    /// The rest of a slot, which may be its first.
    fn rest(&mut self, id: u32) -> &mut Rest {
        let slot = &mut self.slots[id as usize];
        if slot.rest == NONE {
            slot.rest = number_of(self.rests.len());
            self.rests.room_for_one(1);
            self.rests.push(Rest::default());
        }
        &mut self.rests[slot.rest as usize]
    }

    #[cold]
    fn grow(&mut self, class: usize) -> u32 {
        let id = number_of(self.slots.len());
        // What is in flight is most of what many flows share.
        self.slots.room_for_one(SLOTS);
        let small = [0; SMALL];
        self.slots.push(Datagram { small, carries: false, holders: 0, head: 0, length: 0, rest: NONE });
        if BUFFERS[class] > 0 {
            self.rest(id).large = Vec::with_capacity(BUFFERS[class]);
        }
        self.made[class] += 1;
        // Room for every slot of its class, all of which are taken: freeing never allocates.
        if self.free[class].capacity() < self.made[class] {
            self.free[class].reserve_exact(self.made[class] + self.made[class] / 4);
        }
        id
    }

    /// The datagram that `id` stands for: its header bytes, its full length in bytes (UDP payload), and what
    /// follows the header, where that is real. One packet fewer stands for it; the last one's is freed,
    /// though its header can be read until the next one is stored.
    pub fn take(&mut self, id: u32) -> (&[u8], usize, Option<Bytes>) {
        let slot = &mut self.slots[id as usize];
        slot.holders -= 1;
        let is_last = slot.holders == 0;
        if is_last {
            self.free[class_of(usize::from(slot.head))].push(id);
        }
        // Moved out for the last holder, shared with the others.
        let payload = match (slot.carries, is_last) {
            (false, _) => None,
            (true, true) => self.rests[slot.rest as usize].payload.take(),
            (true, false) => self.rests[slot.rest as usize].payload.clone(),
        };
        slot.carries &= !is_last;
        let head = match slot.small.get(..usize::from(slot.head)) {
            Some(small) => small,
            None => &self.rests[slot.rest as usize].large,
        };
        (head, usize::from(slot.length), payload)
    }

    /// One more packet stands for the datagram.
    pub fn hold(&mut self, id: u32) {
        if id != Packet::NO_DATAGRAM {
            self.slots[id as usize].holders += 1;
        }
    }

    /// One packet fewer stands for the datagram; the last one frees it.
    #[inline]
    pub fn release(&mut self, id: u32) {
        if id == Packet::NO_DATAGRAM {
            return;
        }
        let slot = &mut self.slots[id as usize];
        slot.holders -= 1;
        if slot.holders == 0 {
            if slot.carries {
                self.rests[slot.rest as usize].payload = None;
            }
            self.free[class_of(usize::from(slot.head))].push(id);
        }
    }

    /// How many datagrams are kept here.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.iter().map(Vec::len).sum::<usize>()
    }
}

/// A key or number as slots keep it.
fn number_of(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 datagrams in flight")
}

/// The length of a datagram or its head, as slots keep it.
#[inline(always)]
pub(crate) fn bytes_of(length: usize) -> u16 {
    u16::try_from(length).expect("a datagram has at most 65535 bytes (RFC 768)")
}

fn class_of(head: usize) -> usize {
    usize::from(head > SMALL) + usize::from(head > MEDIUM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_copies_counted() {
        let mut datagrams = Datagrams::default();
        let a = datagrams.insert(b"abc", 3, 3);
        datagrams.attach(a, &mut Some(Bytes::from_static(b"xyz")));
        datagrams.hold(a);
        datagrams.hold(a);
        datagrams.release(a);
        for left in [1, 0] {
            assert_eq!(datagrams.take(a), (&b"abc"[..], 3, Some(Bytes::from_static(b"xyz"))));
            assert_eq!(datagrams.in_flight(), left);
        }
        let out = [b'd'; 64];
        assert_eq!(datagrams.insert(&out, 1, 1), a);
        assert_eq!(datagrams.take(a), (&b"d"[..], 1, None));
    }

    #[test]
    fn heads_of_every_length_come_back_and_buffers_never_grow() {
        let mut datagrams = Datagrams::default();
        let out: Vec<u8> = (0..MAX_DATAGRAM).map(|at| at as u8).collect();
        for head in [10, 1200, SMALL, SMALL + 1, 30, 1500, MEDIUM, MEDIUM + 1] {
            let ids = [1, head].map(|head| datagrams.insert(&out, head, head));
            assert_eq!(datagrams.take(ids[1]).0, &out[..head]);
            datagrams.release(ids[0]);
        }
        let buffers: Vec<_> = datagrams.rests.iter().map(|rest| rest.large.capacity()).collect();
        assert_eq!((datagrams.slots.len(), buffers), (4, vec![MAX_DATAGRAM, MEDIUM]));
    }

    #[test]
    fn packets_and_datagrams_stay_small() {
        assert!(size_of::<Packet>() <= 32);
        assert_eq!(size_of::<Datagram>(), 64);
    }
}
