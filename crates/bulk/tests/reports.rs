//! What a controller is told is consistent, whatever the path does.
#![allow(missing_docs, reason = "tests")]

mod path;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cc::{Controller, Decision, Report, Sent};
use framewire_bulk::{Attribution, Detection, Receiver, ReceiverConfig, Sender, SenderConfig, Workload};
use netsim::{HostConfig, Impairments, LinkConfig, Loss, Reorder, World};
use proptest::prelude::*;
use record::Tap;
use units::{Bytes, Rng, Span, Time};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Sent(Time, u32),
    Acked,
    Lost,
    Late,
}

/// What became of each transmission.
#[derive(Default)]
struct Book {
    fates: BTreeMap<u64, Fate>,
    reports: u64,
}

/// Grows by a datagram a report, halves at each loss, and checks everything.
struct Auditor {
    book: Arc<Mutex<Book>>,
    own_snapshots: bool,
    window: u64,
    delivered: u64,
    lost: u64,
    now: Time,
}

impl Controller for Auditor {
    fn on_sent(&mut self, sent: &Sent) {
        let mut book = self.book.lock().unwrap();
        let before = book.fates.insert(sent.packet, Fate::Sent(sent.now, sent.size));
        assert!(before.is_none() && sent.now >= self.now);
        assert!(sent.in_flight.get() >= u64::from(sent.size));
        self.now = sent.now;
    }

    fn on_feedback(&mut self, report: &Report<'_>) {
        let mut book = self.book.lock().unwrap();
        book.reports += 1;
        assert!(report.now >= self.now && report.srtt > Span::ZERO && report.min_rtt > Span::ZERO);
        assert!(report.delivered >= self.delivered && report.lost_bytes >= self.lost);
        assert!(report.acked.windows(2).all(|pair| pair[0].packet < pair[1].packet));
        assert!(report.lost.windows(2).all(|pair| pair[0].packet < pair[1].packet));
        assert!(report.latest_rtt.is_none_or(|rtt| rtt >= Span::from_millis(40)), "{:?}", report.latest_rtt);
        for acked in report.acked {
            let fate = book.fates.insert(acked.packet, Fate::Acked).unwrap();
            let late = report.spurious.contains(&acked.packet);
            match fate {
                Fate::Sent(at, size) => assert_eq!((at, size, late), (acked.sent_at, acked.size, false)),
                Fate::Lost => assert!(late, "acknowledged after it was given up"),
                fate => panic!("{} was {fate:?} and is acknowledged", acked.packet),
            }
            assert!(
                acked.delivery.delivered <= report.delivered && acked.delivery.first_sent_at <= report.now
            );
            assert!(!self.own_snapshots || report.now - acked.sent_at >= Span::from_millis(40));
        }
        for lost in report.lost {
            let fate = book.fates.insert(lost.packet, Fate::Lost).unwrap();
            // A timeout that was taken back may give the same up again.
            assert!(matches!(fate, Fate::Sent(..) | Fate::Lost), "{} was {fate:?} and is lost", lost.packet);
        }
        for packet in report.spurious {
            let fate = book.fates.insert(*packet, Fate::Late).unwrap();
            assert!(matches!(fate, Fate::Lost | Fate::Acked));
        }
        (self.delivered, self.lost, self.now) = (report.delivered, report.lost_bytes, report.now);
        self.window = (self.window + 1472).min(60 * 1472);
        if !report.lost.is_empty() {
            self.window = (self.window / 2).max(2 * 1472);
        }
    }

    fn decision(&self) -> Decision {
        Decision { window: Some(Bytes::new(self.window)), ..Decision::default() }
    }
}

proptest! {
    #[test]
    fn every_transmission_has_one_fate(
        seed: u64, loss in 0.0..0.15, back_loss in 0.0..0.3, duplicate in 0.0..0.1,
        reorder in 0.0..0.2, later_ms in 0i64..60, queue in 5u64..80, (rack, own_snapshots, undo) in any::<(bool, bool, bool)>(),
        blackout_ms in 0u64..1300
    ) {
        let config = SenderConfig {
            detection: if rack { Detection::RackTlp } else { Detection::Sack },
            attribution: if own_snapshots { Attribution::Transmission } else { Attribution::Segment },
            undo,
            ..SenderConfig::default()
        };
        let book = Arc::new(Mutex::new(Book::default()));
        let auditor = Auditor {
            book: book.clone(),
            own_snapshots,
            window: 10 * 1472,
            delivered: 0,
            lost: 0,
            now: Time::ZERO,
        };
        let begin = Time::from_millis(900);
        let impairments = Impairments {
            loss: Loss::Bernoulli(loss),
            duplicate,
            blackouts: vec![(begin, begin + Span::from_millis(blackout_ms as i64))],
            ..Impairments::default()
        };
        let reorder = Some(Reorder { probability: reorder, extra: Span::from_millis(later_ms) });
        let forward = LinkConfig { impairments, reorder, ..path::link(12, &format!("droptail:{queue}p")) };
        let impairments = Impairments { loss: Loss::Bernoulli(back_loss), ..Impairments::default() };
        let back = LinkConfig { impairments, reorder, ..LinkConfig::delay(Span::from_millis(20)) };
        let mut world = World::new(seed, None);
        let (forward, back) = (world.add_link("forward", forward), world.add_link("back", back));
        let rng = Rng::stream(seed, "flow");
        let sender = Sender::new(config, Box::new(auditor), Workload::Transfer(400_000), rng, Tap::default());
        let from = world.add_host(HostConfig::new("sender"), sender);
        let to = world.add_host(HostConfig::new("receiver"), Receiver::new(ReceiverConfig::default(), Tap::default()));
        world.connect(from, 0, &[forward], to);
        world.connect(to, 0, &[back], from);
        world.run_until(Time::from_secs(600));
        prop_assert!(world.endpoint::<Sender>(from).is_finished());
        let counters = world.endpoint::<Sender>(from).counters();
        let book = book.lock().unwrap();
        prop_assert_eq!(book.fates.len() as u64, counters.packets);
        let settled = book.fates.values().filter(|fate| !matches!(fate, Fate::Sent(..))).count() as u64;
        // All but second copies whose segments arrived otherwise.
        prop_assert!(settled + counters.retransmissions >= counters.packets);
    }
}
