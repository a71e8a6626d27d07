//! CoDel as Mahimahi has it: the right times, the wrong victims.
//!
//! Its `codel_packet_queue.cc` decides at the right instant, but shadows its result: the packet that should
//! be dropped is delivered, and the one after it is lost. Clocks are whole milliseconds, and a packet that
//! leaves nothing behind is never a candidate. For explaining figures measured with Mahimahi, not for use
//! (`codel_packet_queue.cc`).

use record::Dropped;
use units::{Span, Time};

use super::super::fifo::Fifo;
use super::super::{Backlog, Drops, Limit, Queue};
use crate::{OPPORTUNITY, Packet};

/// Mahimahi's CoDel. Times are whole milliseconds; zero of `first_above` means not above.
#[derive(Clone, Debug)]
pub(super) struct Codel {
    packets: Fifo,
    limit: Limit,
    target: u64,
    interval: u64,
    first_above: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

fn millis(span: Span) -> u64 {
    (span.as_nanos() / 1_000_000) as u64
}

impl Codel {
    pub fn new(limit: Limit, target: Span, interval: Span) -> Codel {
        Codel {
            packets: Fifo::default(),
            limit,
            target: millis(target),
            interval: millis(interval),
            first_above: 0,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// The next packet, and whether it would be right to drop it.
    fn next(&mut self, now: u64) -> Option<(Packet, bool)> {
        let packet = self.packets.pop()?;
        let sojourn = now - packet.entered.as_nanos() / 1_000_000;
        if self.packets.is_empty() || sojourn < self.target || self.packets.bytes() <= u64::from(OPPORTUNITY)
        {
            self.first_above = 0;
            return Some((packet, false));
        }
        if self.first_above == 0 {
            self.first_above = now + self.interval;
            return Some((packet, false));
        }
        Some((packet, now >= self.first_above))
    }

    fn law(&self, at: u64) -> u64 {
        at + (self.interval as f64 / f64::from(self.count).sqrt()) as u64
    }

    fn enter(&mut self, now: u64) {
        let recent = now < self.drop_next + 16 * self.interval;
        let since_last = self.count.saturating_sub(self.last_count);
        self.count = if since_last > 1 && recent { since_last } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.law(now);
        self.dropping = true;
    }

    /// Loses the packet after the one that is delivered; whether the one lost was one to drop.
    fn lose_next(&mut self, now: u64, drops: &mut Drops) -> bool {
        let Some((packet, drop)) = self.next(now) else { return false };
        drops.push((packet, Dropped::QueuePolicy));
        drop
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, _now: Time, packet: Packet, _drops: &mut Drops) -> Result<(), Dropped> {
        if !self.limit.admits(self.packets.backlog(), packet.size) {
            return Err(Dropped::QueueFull);
        }
        self.packets.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        let now = now.as_nanos() / 1_000_000;
        let (packet, drop) = self.next(now)?;
        if self.dropping {
            self.dropping = drop;
            while self.dropping && now >= self.drop_next {
                self.dropping = self.lose_next(now, drops);
                self.count = self.count.saturating_add(1);
                if self.dropping {
                    self.drop_next = self.law(self.drop_next);
                }
            }
        } else if drop {
            self.lose_next(now, drops);
            self.enter(now);
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }

    fn fork(&self) -> Option<Box<dyn Queue>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_the_packet_after_the_right_one_is_lost() {
        let mut queue = Codel::new(Limit::NONE, super::super::TARGET, super::super::INTERVAL);
        let mut drops = Drops::new();
        for id in 0..400 {
            queue
                .enqueue(Time::ZERO, Packet { id, ..Packet::bare(0, 1500, Time::ZERO) }, &mut drops)
                .unwrap();
        }
        let mut lost = Vec::new();
        for ms in 1..=330 {
            queue.dequeue(Time::from_millis(ms), &mut drops);
            lost.extend(drops.drain(..).map(|(packet, _)| (ms, packet.id)));
        }
        assert_eq!(lost, [(105, 105), (205, 206), (275, 277)]);
    }
}
