//! A packet as links see it, and the slab that keeps the datagrams' bytes meanwhile.
//!
//! ```text
//! queues and delay lines:  Packet Packet Packet        32 bytes each, copied freely
//!                             |id
//! Datagrams (one slab):    [head bytes | length | payload handle | holders]   reused, never moved
//! ```

use bytes::Bytes;

use units::{Ecn, Time, fetch_line};
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

/// Heads up to so many bytes lie in the slab itself: those of media and most feedback.
const SMALL: usize = 52;
/// Room of a longer one, up to so many bytes: feedback that lists the gaps of a lossy path.
const MEDIUM: usize = 256;
/// Datagrams that there is room for at first.
const SLOTS: usize = 16;
/// Bytes of buffer that a head of each class needs.
const BUFFERS: [usize; 3] = [0, MEDIUM, MAX_DATAGRAM];

/// One datagram in flight: two cache lines. With a short head and no payload, only the first line is used.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Datagram {
    /// The first bytes of its head; those beyond the head mean nothing.
    small: [u8; SMALL],
    /// How many packets stand for it (a duplicating link makes more).
    holders: u32,
    /// Bytes of its head.
    head: u16,
    /// Its full length in bytes (UDP payload).
    length: u16,
    /// Whether `payload` holds one; kept here because that lies in the second cache line.
    carries: bool,
    /// All of a head that is longer; its buffer is reused.
    large: Vec<u8>,
    /// The bytes after the head, where they are real.
    payload: Option<Bytes>,
}

impl Datagram {
    /// Its header bytes.
    #[inline]
    pub fn head(&self) -> &[u8] {
        let length = usize::from(self.head);
        match self.small.get(..length) {
            Some(head) => head,
            None => self.long_head(),
        }
    }

    // Apart, so that the second cache line is not read for the first's sake.
    #[cold]
    fn long_head(&self) -> &[u8] {
        &self.large
    }

    /// Its full length in bytes (UDP payload).
    #[inline]
    pub fn length(&self) -> usize {
        usize::from(self.length)
    }

    /// The payload for a receiver: moved out for the last holder, shared with the others otherwise.
    #[inline]
    pub fn take_payload(&mut self) -> Option<Bytes> {
        match (self.carries, self.holders) {
            (false, _) => None,
            (true, 1) => {
                self.carries = false;
                self.payload.take()
            }
            (true, _) => self.payload.clone(),
        }
    }
}

/// The datagrams in flight. Grows to the most that were ever in flight at once and then reuses its buffers.
///
/// A buffer is only reused for heads of its class, so that none ever grows and a run settles into allocating
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    slots: Vec<Datagram>,
    /// Those of each class of heads.
    free: [Vec<u32>; BUFFERS.len()],
}

impl Datagrams {
    /// Stores a datagram held by one packet, whose head is the first `head` bytes of `out`, and returns its
    /// key.
    // Inlined, a packet takes 9 % longer: its caller runs out of registers.
    #[inline(never)]
    pub fn insert(&mut self, out: &[u8], head: usize, length: usize, payload: Option<Bytes>) -> u32 {
        let class = class_of(head);
        let id = self.free[class].pop().unwrap_or_else(|| self.grow(class));
        let slot = &mut self.slots[id as usize];
        match out.first_chunk() {
            // A copy of known length is a few instructions, whatever of it means something.
            Some(small) if class == 0 => slot.small = *small,
            _ => slot.keep(&out[..head]),
        }
        (slot.head, slot.length) = (bytes_of(head), bytes_of(length));
        (slot.holders, slot.carries) = (1, payload.is_some());
        if slot.carries {
            slot.payload = payload;
        }
        id
    }

    #[cold]
    fn grow(&mut self, class: usize) -> u32 {
        let id = u32::try_from(self.slots.len()).expect("fewer than 2^32 datagrams in flight");
        if self.slots.len() == self.slots.capacity() {
            // By a quarter: what is in flight is most of what many flows share.
            self.slots.reserve_exact((self.slots.len() / 4).max(SLOTS));
        }
        let large = Vec::with_capacity(BUFFERS[class]);
        let (small, payload) = ([0; SMALL], None);
        self.slots.push(Datagram { small, holders: 0, head: 0, length: 0, carries: false, large, payload });
        // Room for every slot, so that freeing never allocates.
        let wanted = self.slots.capacity() - self.free[class].len();
        self.free[class].reserve(wanted);
        id
    }

    /// The datagram `id` stands for.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut Datagram {
        &mut self.slots[id as usize]
    }

    /// Has the datagram `id` stands for brought into the caches.
    #[inline]
    pub fn fetch(&self, id: u32) {
        if let Some(slot) = self.slots.get(id as usize) {
            fetch_line(slot);
        }
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
                slot.payload = None;
            }
            self.free[class_of(usize::from(slot.head))].push(id);
        }
    }

    /// How many datagrams are in flight.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.iter().map(Vec::len).sum::<usize>()
    }
}

impl Datagram {
    /// Keeps a head that is long, or shorter than what it came in.
    #[cold]
    fn keep(&mut self, head: &[u8]) {
        match self.small.get_mut(..head.len()) {
            Some(small) => small.copy_from_slice(head),
            None => {
                self.large.clear();
                self.large.extend_from_slice(head);
            }
        }
    }
}

/// A length as slots keep it.
#[inline(always)]
fn bytes_of(length: usize) -> u16 {
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
        let a = datagrams.insert(b"abc", 3, 3, Some(Bytes::from_static(b"xyz")));
        datagrams.hold(a);
        assert_eq!(datagrams.get_mut(a).take_payload(), Some(Bytes::from_static(b"xyz")));
        datagrams.release(a);
        assert_eq!(datagrams.in_flight(), 1);
        assert_eq!(datagrams.get_mut(a).take_payload(), Some(Bytes::from_static(b"xyz")));
        datagrams.release(a);
        assert_eq!(datagrams.in_flight(), 0);
        assert_eq!(datagrams.insert(b"d", 1, 1, None), a);
        assert_eq!(datagrams.get_mut(a).head(), b"d");
    }

    #[test]
    fn heads_of_every_length_come_back_and_buffers_never_grow() {
        let mut datagrams = Datagrams::default();
        let out: Vec<u8> = (0..MAX_DATAGRAM).map(|at| at as u8).collect();
        for head in [10, 1200, SMALL, SMALL + 1, 30, 1500, MEDIUM, MEDIUM + 1] {
            let ids = [1, head].map(|head| datagrams.insert(&out, head, head, None));
            assert_eq!(datagrams.get_mut(ids[1]).head(), &out[..head]);
            ids.iter().for_each(|&id| datagrams.release(id));
        }
        let buffers: Vec<_> = datagrams.slots.iter().map(|slot| slot.large.capacity()).collect();
        assert_eq!(buffers, [0, 0, MAX_DATAGRAM, MEDIUM]);
    }

    #[test]
    fn packets_and_datagrams_stay_small() {
        assert!(size_of::<Packet>() <= 32);
        assert_eq!((size_of::<Datagram>(), std::mem::offset_of!(Datagram, large)), (128, 64));
    }
}
