//! What a controller is told when a timeout was spurious: the two ways of keeping snapshots (CC-Fuzz's
//! finding on BBR).
#![allow(missing_docs, reason = "tests")]

mod path;

use std::sync::{Arc, Mutex};

use cc::{Controller, Decision, Report, Sent};
use framewire_bulk::{Receiver, ReceiverConfig, Sender, SenderConfig, Workload};
use netsim::{Delay, HostConfig, Impairments, LinkConfig, World};
use record::Tap;
use units::{Bytes, Rng, Span, Time};

/// Reports of the shortest round trip that acknowledged packets seem to have had, and what else is told.
#[derive(Default)]
struct Seen {
    shortest: Option<Span>,
    /// Acknowledged within less than the path's 40 ms.
    impossible: usize,
    /// Of those, snapshots that say more had been delivered than when the original left.
    ahead: usize,
    timeouts: usize,
    spurious: usize,
}

/// A full window: half of what the path holds, so that there is no queue.
const WINDOW: u64 = 20;

/// A window of 20 datagrams; of one after a timeout, and one more with each acknowledgement.
struct Scribe {
    seen: Arc<Mutex<Seen>>,
    window: u64,
    /// What had been delivered at the timeout: originals left before it.
    delivered: u64,
}

impl Controller for Scribe {
    fn on_sent(&mut self, _: &Sent) {}
    fn on_feedback(&mut self, report: &Report<'_>) {
        let mut seen = self.seen.lock().unwrap();
        seen.timeouts += usize::from(report.persistent_congestion);
        seen.spurious += report.spurious.len();
        self.window = (self.window + 1).min(WINDOW);
        if report.persistent_congestion {
            (self.delivered, self.window) = (report.delivered, 1);
        }
        for acked in report.acked {
            let took = report.now - acked.sent_at;
            seen.shortest = Some(seen.shortest.map_or(took, |least| least.min(took)));
            if took < Span::from_millis(40) {
                seen.impossible += 1;
                seen.ahead += usize::from(acked.delivery.delivered >= self.delivered);
            }
        }
    }
    fn decision(&self) -> Decision {
        Decision { window: Some(Bytes::new(self.window * 1472)), ..Decision::default() }
    }
}

/// 20 ms each way, but for 900 ms from 5 s on: 1.2 s. Acknowledgements stay away for longer than the timeout
/// of a second.
fn slow_for_a_while() -> LinkConfig {
    let (short, long) = (Span::from_millis(20), Span::from_millis(1200));
    let steps = vec![(Time::ZERO, short), (Time::from_secs(5), long), (Time::from_millis(5900), short)];
    LinkConfig { delay: Delay::steps(steps).unwrap(), ..path::link(12, "droptail:100p") }
}

/// A segment is lost at 5 s, and its retransmission 41 ms later with what leaves beside it.
fn twice_lost() -> LinkConfig {
    let at = |us: u64| Time::from_micros(5_000_000 + us);
    let impairments =
        Impairments { blackouts: vec![(at(0), at(900)), (at(42_000), at(48_000))], ..Impairments::default() };
    LinkConfig { impairments, ..path::link(12, "droptail:100p") }
}

fn run(
    config: SenderConfig,
    forward: LinkConfig,
) -> (Seen, framewire_bulk::SenderCounters, framewire_bulk::ReceiverCounters) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let scribe = Scribe { seen: seen.clone(), window: WINDOW, delivered: 0 };
    let mut world = World::new(1, None);
    let forward = world.add_link("forward", forward);
    let back = world.add_link("back", LinkConfig::delay(Span::from_millis(20)));
    let sender =
        Sender::new(config, Box::new(scribe), Workload::Endless, Rng::stream(1, "flow"), Tap::default());
    let from = world.add_host(HostConfig::new("sender"), sender);
    let receiver = Receiver::new(ReceiverConfig::default(), Tap::default());
    let to = world.add_host(HostConfig::new("receiver"), receiver);
    world.connect(from, 0, &[forward], to);
    world.connect(to, 0, &[back], from);
    world.run_until(Time::from_secs(10));
    let sent = world.endpoint::<Sender>(from).counters();
    let got = world.endpoint::<Receiver>(to).counters();
    drop(world);
    (Arc::into_inner(seen).unwrap().into_inner().unwrap(), sent, got)
}

#[test]
fn an_overwritten_snapshot_gives_impossible_samples() {
    let (seen, sent, got) = run(SenderConfig::ns3(), slow_for_a_while());
    println!("ns-3: {} impossible of {:?}, {sent:?}", seen.impossible, seen.shortest);
    assert!(seen.timeouts > 0 && seen.impossible >= 10, "{}", seen.impossible);
    assert_eq!(seen.ahead, seen.impossible, "each would end a round of BBR's at once");
    assert!(got.duplicates >= 10 && sent.dsacks >= 10);
}

#[test]
fn a_snapshot_for_each_transmission_does_not() {
    let config = SenderConfig { attribution: SenderConfig::default().attribution, ..SenderConfig::ns3() };
    let (seen, sent, _) = run(config, slow_for_a_while());
    println!("each its own: {} impossible, {} spurious, {sent:?}", seen.impossible, seen.spurious);
    assert!(seen.timeouts > 0 && seen.spurious >= 10, "{}", seen.spurious);
    assert_eq!((seen.impossible, seen.shortest.unwrap() >= Span::from_millis(40)), (0, true));
}

#[test]
fn undoing_a_spurious_timeout_saves_the_repairs() {
    let (_, plain, _) = run(SenderConfig::ns3(), slow_for_a_while());
    let (seen, undone, _) = run(SenderConfig { undo: true, ..SenderConfig::ns3() }, slow_for_a_while());
    println!("undone: {undone:?}");
    assert!(undone.undone > 0 && seen.timeouts > 0);
    assert!(undone.retransmissions * 2 < plain.retransmissions, "{undone:?} {plain:?}");
}

#[test]
fn the_chain_of_cc_fuzz() {
    let config = SenderConfig { attribution: SenderConfig::default().attribution, ..SenderConfig::ns3() };
    for (config, overwritten) in [(SenderConfig::ns3(), true), (config, false)] {
        let (seen, sent, got) = run(config, twice_lost());
        println!("overwritten {overwritten}: {} impossible, {} ahead, {sent:?}", seen.impossible, seen.ahead);
        assert_eq!(seen.timeouts, 1);
        assert!(got.duplicates >= 10, "sent again, though the originals were on their way: {got:?}");
        assert_eq!((seen.impossible >= 10, seen.ahead >= 10), (overwritten, overwritten));
    }
    // RACK finds the lost retransmission without a timeout.
    let (seen, sent, _) = run(SenderConfig::linux(), twice_lost());
    println!("linux: {sent:?}");
    assert_eq!((seen.timeouts, seen.impossible), (0, 0));
}
