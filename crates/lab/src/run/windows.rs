//! Runs that keep what a loss predictor of the first flow's sender would see, every 10 ms, and which packets
//! were lost: what predictors are trained on and judged by.

use std::sync::Arc;

use netsim::World;
use predict::{Features, Passage, Row, STRIDE};
use record::{Event, NodeId, Recorder, Reentrant, Shared, Topic, Topics};
use units::Time;

use super::LabError;
use super::build;
use super::meter::Overlay;
use crate::scenario::Scenario;

/// The first flow's sender and receiver.
const SENDER: NodeId = NodeId(0);
const RECEIVER: NodeId = NodeId(1);

/// What became of the packets sent within one stride.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Packets sent.
    pub sent: u32,
    /// Of those, packets that the sender gave up later.
    pub lost: u32,
}

/// A run as a predictor sees it. `rows[k]` is the window that ends when stride `k` does, and holds nothing of
/// what the sender learnt later; `fates[k]` is what became of the packets sent in stride `k`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Windows {
    /// The windows, one a stride.
    pub rows: Vec<Row>,
    /// The packets, by the stride in which they were sent.
    pub fates: Vec<Fate>,
    /// Packets that were given up and had arrived after all.
    pub spurious: u64,
}

/// Replays the ledger of the first flow's sender from what is recorded.
#[derive(Default)]
struct Replay {
    features: Features,
    seen: Windows,
    /// By packet number: when it left, and when it arrived.
    packets: Vec<(Time, Option<Time>)>,
    /// Acknowledged since the last report's end.
    acked: Vec<Passage>,
}

fn stride(at: Time) -> usize {
    (at.as_nanos() / STRIDE.as_nanos() as u64) as usize
}

impl Replay {
    fn advance(&mut self, at: Time) {
        while self.seen.rows.len() < stride(at) {
            let ended = Time::ZERO + STRIDE * (self.seen.rows.len() as i64 + 1);
            let input = self.features.input(ended);
            self.seen.rows.push(input.0[predict::WINDOWS - 1]);
        }
    }

    fn fate(&mut self, sent_at: Time) -> &mut Fate {
        let stride = stride(sent_at);
        if self.seen.fates.len() <= stride {
            self.seen.fates.resize(stride + 1, Fate::default());
        }
        &mut self.seen.fates[stride]
    }

    fn of_sender(&mut self, at: Time, event: &Event) {
        self.advance(at);
        match *event {
            Event::PacketSent { packet, .. } => {
                assert_eq!(packet, self.packets.len() as u64, "packets are numbered as they leave");
                self.packets.push((at, None));
                self.features.sent(at);
                self.fate(at).sent += 1;
            }
            Event::PacketAcked { packet, .. } => {
                let (sent_at, arrived) = self.packets[packet as usize];
                let arrived_at = arrived.expect("what is acknowledged has arrived").on_wire();
                self.acked.push(Passage { sent_at, arrived_at });
            }
            Event::Rtt { latest, .. } => {
                self.features.heard(at, latest, self.acked.iter().copied());
                self.acked.clear();
            }
            Event::PacketLost { packet, .. } => {
                self.features.lost(at);
                let sent_at = self.packets[packet as usize].0;
                self.fate(sent_at).lost += 1;
            }
            Event::LossSpurious { .. } => self.seen.spurious += 1,
            _ => {}
        }
    }
}

impl Recorder for Replay {
    fn record(&mut self, at: Time, node: NodeId, event: &Event) {
        match *event {
            Event::PacketReceived { packet, .. } if node == RECEIVER => {
                self.packets[packet as usize].1.get_or_insert(at);
            }
            _ if node == SENDER => self.of_sender(at, event),
            _ => {}
        }
    }

    fn wants(&self, node: NodeId) -> Topics {
        let packets = Topics::only(Topic::Packets);
        match node {
            SENDER => packets | Topics::only(Topic::Fates) | Topics::only(Topic::RoundTrips),
            RECEIVER => packets,
            _ => Topics::NONE,
        }
    }
}

/// Runs `scenario` and keeps the windows of its first flow, which must be of this project's own protocol.
///
/// # Errors
/// [`LabError::Scenario`] if something the scenario names can't be opened or built.
pub fn windows(scenario: &Scenario) -> Result<Windows, LabError> {
    let recorder = Arc::new(Reentrant::new(Replay::default()));
    let shared: Shared = recorder.clone();
    let world = World::new(scenario.seed, Some(shared));
    let mut built = build::build(scenario, world, &Overlay::default())?;
    let end = Time::ZERO + scenario.duration;
    built.world.run_until(end);
    let mut replay = recorder.with(std::mem::take);
    replay.advance(end);
    let strides = replay.seen.rows.len();
    replay.seen.fates.resize(strides, Fate::default());
    Ok(replay.seen)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn seen(loss: &str) -> Windows {
        let text = format!(
            "duration = \"6s\"\n[link]\nrate = \"8mbit\"\ndelay = \"20ms\"\nqueue = \"droptail:100ms\"\n{loss}\n\
             [[flow]]\ncc = \"fixed\"\ninitial = \"4mbit\"\nmax = \"4mbit\"\n"
        );
        windows(&Scenario::parse(&text, Path::new("x.toml")).unwrap()).unwrap()
    }

    #[test]
    fn a_quiet_link_is_seen_as_one() {
        let seen = seen("");
        assert_eq!((seen.rows.len(), seen.fates.len(), seen.spurious), (600, 600, 0));
        assert!(seen.fates.iter().all(|fate| fate.lost == 0));
        // Each round trip is 40 ms, and up to a frame's time at the link longer; the wait for reports is not
        // in it.
        let steady = &seen.rows[100..];
        assert!(steady.iter().all(|row| row[7] == 0.0 && row[1] < 1.4 && row[6] == 0.0), "{steady:?}");
        assert!(steady.iter().all(|row| row[5] > 0.0));
        let sent: u32 = seen.fates.iter().map(|fate| fate.sent).sum();
        assert!(sent > 1_500, "{sent}");
    }

    #[test]
    fn a_loss_belongs_to_when_the_packet_was_sent_and_is_seen_a_round_trip_later() {
        let seen = seen("blackout = [[\"3s\", \"3.1s\"]]");
        let lost: Vec<usize> = (0..600).filter(|&k| seen.fates[k].lost > 0).collect();
        // 3 s by the link's clock, which every packet reaches at once.
        assert!(!lost.is_empty() && lost.iter().all(|k| (300..=310).contains(k)), "{lost:?}");
        let first = seen.rows.iter().position(|row| row[6] > 0.0).unwrap();
        assert!((304..320).contains(&first), "{first}");
        let total: u32 = seen.fates.iter().map(|fate| fate.lost).sum();
        // Each loss is in five windows.
        assert_eq!(seen.rows.iter().map(|row| row[6]).sum::<f32>(), 5.0 * total as f32);
    }
}
