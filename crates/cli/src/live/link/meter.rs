//! What passes a link, counted for metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use prometheus_client::registry::Unit;
use real::link::{End, Log, Passage};
use units::Time;

use crate::operations::Exposition;

/// One direction's counts.
#[derive(Clone, Debug, Default)]
struct Counts {
    arrived: u64,
    passed: u64,
    passed_bytes: u64,
    marked: u64,
    /// By cause; there are about ten.
    dropped: BTreeMap<&'static str, u64>,
    /// Seconds that packets spent in the link, and seconds that the machine added.
    delay: f64,
    late: f64,
}

/// What was counted, by direction.
#[derive(Clone, Debug, Default)]
pub struct Meters(Vec<(&'static str, Arc<Mutex<Counts>>)>);

struct Meter(Arc<Mutex<Counts>>);

impl Meters {
    /// Follows the packets of one direction.
    pub fn meter(&mut self, direction: &'static str) -> Box<dyn Log> {
        let counts = Arc::new(Mutex::default());
        self.0.push((direction, Arc::clone(&counts)));
        Box::new(Meter(counts))
    }

    /// Shows what passed so far.
    pub fn show(&self, out: &mut Exposition<'_>) {
        // Copied first: packets are not to wait for text that is written.
        let copy =
            |counts: &Mutex<Counts>| counts.lock().expect("nothing panics while it holds this").clone();
        let counts: Vec<(&str, Counts)> =
            self.0.iter().map(|(direction, counts)| (*direction, copy(counts))).collect();
        let labels = |direction: &str| vec![("direction", direction.to_owned())];
        let each = |value: fn(&Counts) -> u64| {
            counts.iter().map(|(direction, counts)| (labels(direction), value(counts))).collect::<Vec<_>>()
        };
        let seconds = |value: fn(&Counts) -> f64| {
            counts.iter().map(|(direction, counts)| (labels(direction), value(counts))).collect::<Vec<_>>()
        };
        let help = "IP packets that came to the link";
        out.counter("framewire_link_packets_arrived", help, None, each(|counts| counts.arrived));
        let help = "IP packets that left it";
        out.counter("framewire_link_packets_passed", help, None, each(|counts| counts.passed));
        let bytes = each(|counts| counts.passed_bytes);
        out.counter("framewire_link_passed", "Bytes of them", Some(Unit::Bytes), bytes);
        let help = "Packets that left with an ECN mark they had not come with";
        out.counter("framewire_link_packets_marked", help, None, each(|counts| counts.marked));
        let dropped = counts.iter().flat_map(|(direction, counts)| {
            let causes = counts.dropped.iter();
            causes.map(|(cause, count)| {
                (vec![("direction", (*direction).to_owned()), ("reason", (*cause).to_owned())], *count)
            })
        });
        out.counter("framewire_link_packets_dropped", "Packets dropped", None, dropped.collect::<Vec<_>>());
        let help = "Sum of the times that packets spent in the link; over those passed it is the mean delay";
        out.seconds("framewire_link_delay", help, seconds(|counts| counts.delay));
        let help = "Sum of what the machine added to their delays";
        out.seconds("framewire_link_late", help, seconds(|counts| counts.late));
    }
}

impl Meter {
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().expect("nothing panics while it holds this"));
    }
}

impl Log for Meter {
    fn arrives(&mut self, _at: Time, _size: u32) {
        self.count(|counts| counts.arrived += 1);
    }

    fn ends(&mut self, passage: &Passage) {
        self.count(|counts| match passage.end {
            End::Passed { due, left, ecn } => {
                counts.passed += 1;
                counts.passed_bytes += u64::from(passage.size);
                counts.marked += u64::from(ecn != passage.ecn);
                counts.delay += (left - passage.arrived).as_secs_f64();
                counts.late += (left - due).as_secs_f64();
            }
            End::Dropped { cause, .. } => {
                *counts.dropped.entry(super::parquet::cause_name(cause)).or_default() += 1
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Board;
    use real::link::Flow;
    use record::Dropped;
    use units::Ecn;

    #[test]
    fn what_passes_is_counted_by_direction_and_cause() {
        let mut meters = Meters::default();
        let mut down = meters.meter("down");
        let at = Time::from_millis;
        let ends = [
            End::Passed { due: at(30), left: at(31), ecn: Ecn::Ce },
            End::Dropped { at: at(40), cause: Dropped::QueueFull },
        ];
        for (number, end) in ends.into_iter().enumerate() {
            down.arrives(at(10), 1_500);
            let (arrived, flow, ecn) = (at(10), Flow::default(), Ecn::Ect0);
            down.ends(&Passage { number: number as u64, arrived, size: 1_500, flow, ecn, end });
        }
        let board = Board::default();
        board.show(move |out| meters.show(out));
        let text = board.text();
        for line in [
            "framewire_link_packets_arrived_total{direction=\"down\"} 2\n",
            "framewire_link_passed_bytes_total{direction=\"down\"} 1500\n",
            "framewire_link_packets_marked_total{direction=\"down\"} 1\n",
            "framewire_link_packets_dropped_total{direction=\"down\",reason=\"queue_full\"} 1\n",
            "framewire_link_delay_seconds_total{direction=\"down\"} 0.021\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
