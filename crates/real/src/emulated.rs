//! A link on the real clock, and the bytes its packets stand for: what every emulator of ours is made of.
//!
//! ```text
//! offer(now, bytes, ..) --> [ netsim::Link: packets of 32 bytes ] --> deliver(now) --> bytes
//!         |                                                              ^
//!         +---------------> [ shelf: the bytes, by packet id ] ----------+
//! ```

use netsim::{Link, Notice, Packet};
use record::Dropped;
use units::Time;

/// Most packets one link holds: 4 s of 1200-byte packets at 150 Mbit/s.
const MOST_HELD: usize = 1 << 16;
/// Most bytes one link holds, whatever its packets' size.
const MOST_BYTES: usize = 128 << 20;

/// A link, and for each packet in it the bytes it stands for and a note `N` of the driver's.
pub(crate) struct Emulated<N> {
    link: Link,
    shelf: Shelf<N>,
    /// The latest time the link was told: it must not see an earlier one.
    told: Time,
}

/// What stands on the shelf for a packet.
#[derive(Default)]
pub(crate) struct Held<N> {
    pub bytes: Vec<u8>,
    pub note: N,
    /// How many packets stand for it (a duplicating link makes more).
    holders: u32,
}

/// The bytes of packets that are inside; their buffers are reused.
struct Shelf<N> {
    held: Vec<Held<N>>,
    free: Vec<u32>,
    most: usize,
}

/// What happened to packets that will not come out.
pub(crate) type Lost<'a, N> = &'a mut dyn FnMut(&Packet, Dropped, &Held<N>);

impl<N: Default> Shelf<N> {
    fn hold(&mut self, bytes: &[u8], note: N) -> Option<u32> {
        if self.free.is_empty() && self.held.len() < self.most {
            self.held.push(Held::default());
            self.free.push(self.held.len() as u32 - 1);
        }
        let id = self.free.pop()?;
        let held = &mut self.held[id as usize];
        held.bytes.clear();
        held.bytes.extend_from_slice(bytes);
        held.note = note;
        held.holders = 1;
        Some(id)
    }

    fn release(&mut self, id: u32) {
        let held = &mut self.held[id as usize];
        held.holders -= 1;
        if held.holders == 0 {
            self.free.push(id);
        }
    }
}

impl<N: Default> Emulated<N> {
    /// Emulates `link`, whose packets have at most `largest` bytes.
    pub fn new(link: Link, largest: usize) -> Emulated<N> {
        let most = MOST_HELD.min(MOST_BYTES / largest.max(1));
        Emulated { link, shelf: Shelf { held: Vec::new(), free: Vec::new(), most }, told: Time::ZERO }
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    #[cfg(target_os = "linux")]
    pub fn into_link(self) -> Link {
        self.link
    }

    /// Works out every departure until `now`.
    pub fn settle(&mut self, now: Time) {
        self.told = self.told.max(now);
        self.link.settle(self.told);
    }

    /// `bytes` arrive, as a packet with the flow, size and ECN bits of `like`. False if there is no room for
    /// them: they were not even offered.
    pub fn offer(&mut self, now: Time, bytes: &[u8], note: N, like: Packet, lost: Lost<'_, N>) -> bool {
        let Some(id) = self.shelf.hold(bytes, note) else { return false };
        self.told = self.told.max(now);
        self.link.offer(self.told, Packet { id, sent: self.told, ..like });
        self.keep_books(lost);
        true
    }

    /// The next packet that has come out by `now`, and when it did. The caller
    /// [`release`](Emulated::release)s it.
    pub fn deliver(&mut self, now: Time, lost: Lost<'_, N>) -> Option<(Time, Packet)> {
        self.told = self.told.max(now);
        let out = self.link.deliver_dated(self.told);
        self.keep_books(lost);
        out
    }

    /// What a packet stands for.
    pub fn held(&mut self, packet: &Packet) -> &mut Held<N> {
        &mut self.shelf.held[packet.id as usize]
    }

    /// The driver is done with a packet.
    pub fn release(&mut self, packet: &Packet) {
        self.shelf.release(packet.id);
    }

    fn keep_books(&mut self, lost: Lost<'_, N>) {
        let Emulated { link, shelf, .. } = self;
        for notice in link.notices() {
            match notice {
                Notice::Dropped(packet, cause) => {
                    lost(&packet, cause, &shelf.held[packet.id as usize]);
                    shelf.release(packet.id);
                }
                Notice::Duplicated(packet) => shelf.held[packet.id as usize].holders += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netsim::{Impairments, LinkConfig, RateProcess};
    use units::{Rate, Span};

    fn emulated(config: LinkConfig, largest: usize) -> Emulated<u32> {
        Emulated::new(Link::new(config, 1, "link", record::Tap::default()), largest)
    }

    fn packet(size: u32) -> Packet {
        Packet::bare(0, size, Time::ZERO)
    }

    #[test]
    fn bytes_come_out_with_their_packet_and_room_is_reused() {
        let mut emulated = emulated(LinkConfig::delay(Span::from_millis(5)), 1500);
        for round in 0..100u32 {
            let now = Time::from_millis(u64::from(round) * 10);
            assert!(emulated.offer(
                now,
                &round.to_be_bytes(),
                round,
                packet(4),
                &mut |_, _, _| unreachable!()
            ));
            assert!(emulated.deliver(now, &mut |_, _, _| ()).is_none());
            let later = now + Span::from_millis(7);
            let (due, out) = emulated.deliver(later, &mut |_, _, _| ()).unwrap();
            assert_eq!(due, now + Span::from_millis(5));
            let held = emulated.held(&out);
            assert_eq!((held.bytes.as_slice(), held.note), (&round.to_be_bytes()[..], round));
            emulated.release(&out);
        }
        assert_eq!(emulated.shelf.held.len(), 1);
    }

    #[test]
    fn what_is_dropped_is_told_and_what_is_doubled_is_held_twice() {
        let rate = RateProcess::Constant(Rate::from_kbps(8));
        let mut slow =
            emulated(LinkConfig::bottleneck(rate, "droptail:1p".parse().unwrap(), Span::ZERO), 1500);
        let mut dropped = Vec::new();
        for note in 0..4 {
            slow.offer(Time::ZERO, b"x", note, packet(1000), &mut |_, cause, held| {
                dropped.push((cause, held.note))
            });
        }
        assert_eq!(dropped, [(Dropped::QueueFull, 2), (Dropped::QueueFull, 3)]);
        assert_eq!(slow.shelf.free.len(), 1, "one buffer served both");

        let impairments = Impairments { duplicate: 1.0, ..Impairments::default() };
        let mut twice = emulated(LinkConfig { impairments, ..LinkConfig::default() }, 1500);
        twice.offer(Time::ZERO, b"x", 7, packet(1), &mut |_, _, _| ());
        for free in [0, 1] {
            let (_, out) = twice.deliver(Time::ZERO, &mut |_, _, _| ()).unwrap();
            assert_eq!(twice.held(&out).note, 7);
            twice.release(&out);
            assert_eq!(twice.shelf.free.len(), free);
        }
    }

    #[test]
    fn memory_is_bounded_in_bytes() {
        let mut emulated = emulated(LinkConfig::delay(Span::from_secs(1)), MOST_BYTES / 10);
        let taken =
            (0..20).filter(|_| emulated.offer(Time::ZERO, b"x", 0, packet(1), &mut |_, _, _| ())).count();
        assert_eq!(taken, 10);
    }
}
