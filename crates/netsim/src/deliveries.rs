//! Deliveries on their way into the record.

use record::{Event, NodeId, Shared};
use units::Time;

use crate::Packet;

/// Told together at most where nothing else is recorded: so few lie in the nearest cache.
const TOGETHER: usize = 64;

/// What has been delivered and not yet recorded. A recorder stands behind a lock, which costs more than what
/// most of them do with a delivery; so where deliveries alone are recorded, many are told at a time.
pub(crate) struct Deliveries {
    recorder: Option<Shared>,
    waiting: Vec<(Time, NodeId, Event)>,
    together: usize,
}

impl Deliveries {
    /// Tells each delivery at once: what else is recorded comes before or after it.
    pub fn new(recorder: Option<Shared>) -> Deliveries {
        Deliveries { recorder, waiting: Vec::new(), together: 1 }
    }

    /// From now on nothing but deliveries is recorded.
    pub fn are_alone(&mut self) {
        self.together = TOGETHER;
    }

    /// `packet` has come out at `node`.
    #[inline]
    pub fn record(&mut self, now: Time, node: NodeId, packet: &Packet) {
        if self.recorder.is_some() {
            let delay = now - packet.sent;
            self.waiting.push((now, node, Event::Delivered { flow: packet.flow, size: packet.size, delay }));
            if self.waiting.len() >= self.together {
                self.tell();
            }
        }
    }

    /// Tells the recorder of those that wait, in order.
    #[cold]
    pub fn tell(&mut self) {
        if let Some(recorder) = self.recorder.as_ref().filter(|_| !self.waiting.is_empty()) {
            let mut recorder = recorder.lock().expect("a recorder panicked earlier");
            self.waiting.drain(..).for_each(|(at, node, event)| recorder.record(at, node, &event));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use record::Memory;

    use super::*;

    #[test]
    fn they_are_told_in_order_sooner_or_later() {
        for (alone, at_once) in [(false, 100), (true, 64)] {
            let memory = Arc::new(Mutex::new(Memory::default()));
            let mut deliveries = Deliveries::new(Some(memory.clone()));
            if alone {
                deliveries.are_alone();
            }
            for ms in 0..100 {
                let packet = Packet::bare(1, 1500, Time::ZERO);
                deliveries.record(Time::from_millis(ms), NodeId(3), &packet);
            }
            assert_eq!(memory.lock().unwrap().events.len(), at_once);
            deliveries.tell();
            let events = &memory.lock().unwrap().events;
            let times: Vec<Time> = events.iter().map(|event| event.0).collect();
            assert_eq!(times, (0..100).map(Time::from_millis).collect::<Vec<_>>());
        }
    }
}
