//! Datagrams and the packets that stand for them, between hosts and links.

use record::{Event, NodeId, Shared};
use units::{Time, apart, likely, unlikely};
use wire::{MAX_DATAGRAM, RxMeta, TxMeta};

use crate::link::{Link, Notice};
use crate::packet::{Datagrams, Head, IP_UDP_OVERHEAD, Packet, Written, bytes_of};
use crate::place::{Host, Way};
use crate::routes::End;

/// Turns without time going on after which something must be wrong: no host has reason to send a million
/// packets at once.
pub(super) const LIVELOCK: u32 = 1_000_000;

/// What a host did when it was asked to send all that it wants to.
#[derive(Clone, Copy)]
pub(super) struct SentAll {
    pub packets: u32,
    /// The link that they entered, and whether that may act at another time now.
    pub through: usize,
    pub replan: bool,
    /// When the host wants to be woken next.
    pub wake: Time,
}

impl Host {
    /// Takes everything the host wants to send to its first link. `local`: now, by its own clock. `PLAIN`:
    /// the host [is](Host::plain).
    #[inline(always)]
    pub(super) fn send_all<const PLAIN: bool>(
        &mut self,
        now: Time,
        local: Time,
        links: &mut [Link],
        datagrams: &mut Datagrams,
        out: &mut [u8; MAX_DATAGRAM],
    ) -> SentAll {
        let (mut packets, mut replan, through) = (0, false, self.way.first.index());
        if PLAIN || likely(self.way.is_known()) {
            let link = &mut links[through];
            loop {
                // Looked at where it was put: a processor waits long where it copies what was just written.
                let mut next = self.endpoint.transmit(local, &mut out[..]);
                let Some(meta) = &mut next else { break };
                if unlikely(stow(datagrams, &out[..], meta, self.way, now, link)) {
                    keep_books(link, datagrams);
                    replan = true;
                }
                packets += 1;
                let last = meta.last;
                debug_assert!(!last || self.endpoint.transmit(local, &mut out[..]).is_none());
                // Its payload has gone: nothing is left to be dropped.
                std::mem::forget(next);
                if likely(last) || unlikely(packets == LIVELOCK) {
                    break;
                }
            }
        }
        SentAll { packets, through, replan, wake: self.next_wake::<PLAIN>(now) }
    }
}

/// Hands a host the datagram that `packet` stands for: its `head`, where that is all there is, else what lies
/// in the slab.
#[inline(always)]
pub(super) fn hand_over(
    host: &mut Host,
    packet: Packet,
    head: Option<&Head>,
    datagrams: &mut Datagrams,
    local: Time,
) {
    let Some(head) = head else { return hand_over_from_slab(host, datagrams, packet, local) };
    let length = (packet.size - IP_UDP_OVERHEAD) as usize;
    host.endpoint.receive(local, head.bytes(), RxMeta { length, payload: None, ecn: packet.ecn });
}

#[inline(never)]
fn hand_over_from_slab(host: &mut Host, datagrams: &mut Datagrams, packet: Packet, local: Time) {
    let (head, length, payload) = datagrams.take(packet.id);
    host.endpoint.receive(local, head, RxMeta { length, payload, ecn: packet.ecn });
}

/// Offers `link` a packet that stands for what a host transmitted: that lies beside it where the link keeps
/// heads and there is nothing but one, else in the slab. Returns what [`Link::offer_with`] does.
#[inline(always)]
fn stow(
    datagrams: &mut Datagrams,
    out: &[u8],
    meta: &mut TxMeta,
    way: Way,
    now: Time,
    link: &mut Link,
) -> bool {
    let size = u32::from(bytes_of(meta.length)) + IP_UDP_OVERHEAD;
    let packet = Packet { route: way.route, ecn: meta.ecn, ..Packet::bare(way.flow, size, now) };
    match Written::first_of(out, meta.head) {
        Some(head) if likely(meta.payload.is_none() & link.keeps_heads()) => {
            link.offer_with(now, packet, head)
        }
        _ => stow_in_slab(datagrams, out, meta, apart(packet), link),
    }
}

#[inline(never)]
fn stow_in_slab(
    datagrams: &mut Datagrams,
    out: &[u8],
    meta: &mut TxMeta,
    packet: Packet,
    link: &mut Link,
) -> bool {
    let id = datagrams.insert(out, meta.head, meta.length);
    if meta.payload.is_some() {
        datagrams.attach(id, &mut meta.payload);
    }
    link.offer_with(packet.sent, Packet { id, ..packet }, Written::NOTHING)
}

/// Puts into the slab the head that has come beside `packet` so far, since the link that it enters would not
/// keep it, and returns its key there.
#[inline(never)]
pub(super) fn insert_head(datagrams: &mut Datagrams, head: &Head, packet: &Packet) -> u32 {
    datagrams.insert(head.bytes(), head.bytes().len(), (packet.size - IP_UDP_OVERHEAD) as usize)
}

/// Tells whoever counts deliveries of one.
#[inline(always)]
pub(super) fn note_delivery(recorder: &Option<Shared>, now: Time, packet: &Packet, end: End) {
    if unlikely(end.heard) {
        record_delivery(recorder, end.node, now, packet.flow, packet.size, packet.sent);
    }
}

// Apart, and told but what it records: most worlds have nobody who counts deliveries, a search counts each.
#[inline(never)]
fn record_delivery(recorder: &Option<Shared>, node: NodeId, now: Time, flow: u16, size: u32, sent: Time) {
    let delivered = Event::Delivered { flow, size, delay: now - sent };
    recorder.iter().for_each(|recorder| recorder.record(now, node, &delivered));
}

/// Frees or shares the datagrams of packets that a link dropped or duplicated.
#[inline]
pub(super) fn keep_books(link: &mut Link, datagrams: &mut Datagrams) {
    if unlikely(link.has_notices()) {
        link.notices().for_each(|notice| match notice {
            Notice::Dropped(packet, _) => datagrams.release(packet.id),
            Notice::Duplicated(packet) => datagrams.hold(packet.id),
        });
    }
}
