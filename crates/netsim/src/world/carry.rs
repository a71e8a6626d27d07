//! Datagrams and the packets that stand for them, between hosts and links.

use bytes::Bytes;
use record::{Event, NodeId, Shared};
use units::{Ecn, Time, unlikely};
use wire::{RxMeta, TxMeta};

use crate::link::{Link, Notice};
use crate::packet::{Datagrams, IP_UDP_OVERHEAD, Packet};
use crate::place::{Host, Way};
use crate::routes::End;

/// Hands a host a datagram of which more was stored than the first bytes.
#[cold]
pub(super) fn hand_over(
    host: &mut Host,
    (head, length, payload): (&[u8], usize, Option<Bytes>),
    local: Time,
    ecn: Ecn,
) {
    host.endpoint.receive(local, head, RxMeta { length, payload, ecn });
}

/// Puts what a host transmitted into the slab and makes the packet that stands for it.
#[inline(always)]
pub(super) fn stow(datagrams: &mut Datagrams, out: &[u8], meta: &mut TxMeta, way: Way, now: Time) -> Packet {
    let size = meta.length as u32 + IP_UDP_OVERHEAD;
    let id = datagrams.insert(out, meta.head, meta.length);
    if unlikely(meta.payload.is_some()) {
        datagrams.attach(id, &mut meta.payload);
    }
    Packet { id, route: way.route, ecn: meta.ecn, ..Packet::bare(way.flow, size, now) }
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
