//! What the tests of several disciplines share.

use units::{Span, Time};

use super::{Drops, Queue};
use crate::Packet;

/// What became of the packets offered to a queue with one server.
#[derive(Default)]
pub(super) struct Outcome {
    /// Departures: when, and the packet.
    pub out: Vec<(Time, Packet)>,
    /// Drops and refusals: when, and the packet's id.
    pub drops: Vec<(Time, u32)>,
    /// Longest time from arrival to the start of service.
    pub most_waited: Span,
}

/// `count` packets of 1500 bytes, number k at k milliseconds.
pub(super) fn every_millisecond(count: u32) -> impl Iterator<Item = Packet> {
    (0..count).map(|id| {
        let now = Time::from_millis(id.into());
        Packet { id, ..Packet::bare(0, 1500, now) }
    })
}

/// Offers each packet when it entered to `queue`, before a server that takes `service` for each; an arrival
/// comes before a departure of the same instant.
pub(super) fn serve(queue: &mut dyn Queue, arrivals: impl Iterator<Item = Packet>, service: Span) -> Outcome {
    let mut outcome = Outcome::default();
    let mut arrivals = arrivals.peekable();
    let mut drops = Drops::new();
    let mut serving: Option<(Time, Packet)> = None;
    loop {
        let through = serving.map_or(Time::MAX, |serving| serving.0);
        let now = match arrivals.next_if(|packet| packet.entered <= through) {
            Some(packet) => {
                if let Err(cause) = queue.enqueue(packet.entered, packet, &mut drops) {
                    drops.push((packet, cause));
                }
                packet.entered
            }
            None => match serving.take() {
                Some(done) => {
                    outcome.out.push(done);
                    done.0
                }
                None => return outcome,
            },
        };
        if serving.is_none() {
            serving = queue.dequeue(now, &mut drops).map(|packet| {
                outcome.most_waited = outcome.most_waited.max(now - packet.entered);
                (now + service, packet)
            });
        }
        outcome.drops.extend(drops.drain(..).map(|(packet, _)| (now, packet.id)));
    }
}
