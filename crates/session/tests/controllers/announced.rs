//! Receiver halves built from what the sender announces.

use framewire_session::{Receiver, ReceiverConfig};
use netsim::LinkConfig;
use proptest::prelude::*;
use record::Tap;
use units::{Rate, Span, Time};
use wire::{Announcement, Control, Endpoint, Media, RxMeta};

use crate::path::{self, Flow, Half, Sent};

/// What the flow sends in five seconds where nothing limits it but its controller: the hello's size makes no
/// difference there.
fn sent(cc: &'static str, half: Half) -> Vec<Sent> {
    let (initial, interval) = (Rate::from_mbps(5), Span::from_millis(40));
    let flow = Flow { half, initial, interval, ..Flow::video(cc) };
    let delay = || LinkConfig::delay(Span::from_millis(20));
    let mut path = path::build(delay(), delay(), vec![flow], true);
    path.world.run_until(Time::from_secs(5));
    path.sent(0)
}

#[test]
fn an_announced_half_is_the_senders_own() {
    for cc in ["sprout", "sprout-cumulative:confidence=50", "gcc-rmcat-02", "gcc-legacy", "gcc-carlucci"] {
        let built = sent(cc, Half::Built);
        assert!(built.len() > 100 && built == sent(cc, Half::Announced), "{cc}");
        assert!(
            built != sent(cc, Half::Missing),
            "{cc} does without a half, and the comparison shows nothing"
        );
    }
}

fn hello(announcement: Announcement<'_>, interval_us: u32) -> Vec<u8> {
    let announcement = Some(announcement);
    let hello = Control::Hello { session: 7, width: 0, height: 0, interval_us, announcement };
    let mut out = vec![0; Control::MAX_LEN];
    let length = hello.encode(&mut out);
    out.truncate(length);
    out
}

/// A receiver that has heard a hello and a few packets, and had to answer; how often it did.
fn answers(announcement: Announcement<'_>, interval_us: u32) -> (Receiver, usize) {
    let mut receiver = Receiver::new(ReceiverConfig::default(), None, None, Tap::default()).following();
    receiver.receive(Time::from_millis(1), &hello(announcement, interval_us), RxMeta::default());
    let (mut out, mut count) = ([0; 1500], 0);
    for packet in 0..100u64 {
        let now = Time::from_millis(2 + 7 * packet);
        let length = Media::padding(7, packet, now.on_wire(), packet as u32 / 2).encode(&mut out);
        receiver.receive(now, &out[..length], RxMeta { length: 1200, ..RxMeta::default() });
        receiver.wake(now);
        while receiver.transmit(now, &mut out).is_some() {
            count += 1;
        }
    }
    (receiver, count)
}

#[test]
fn a_controller_that_is_not_known_gets_no_answer() {
    let announcement = |controller| Announcement {
        controller,
        initial_bps: 1_000_000,
        min_bps: 300_000,
        max_bps: 5_000_000,
    };
    let (receiver, count) = answers(announcement("bbr9:x=1"), 16_667);
    assert!(receiver.trouble().is_some_and(|error| error.to_string().contains("bbr9")));
    assert_eq!((count, receiver.counters().foreign), (0, 100));
    let (receiver, count) = answers(announcement("sprout"), 16_667);
    assert!(receiver.trouble().is_none() && count > 40, "{count}");
    let (receiver, _) = answers(announcement("sprout:confidence=lots"), 16_667);
    assert!(receiver.trouble().is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_announced_breaks_nothing(
        entry in 0..cc::REGISTRY.len(), rates: [u64; 3], small in any::<[bool; 3]>(), interval_us: u32, tail in "(:[a-z]{1,8}=[0-9a-z.-]{0,9})?"
    ) {
        let mut rates = rates;
        rates.iter_mut().zip(small).filter(|(_, small)| *small).for_each(|(rate, _)| *rate %= 1_000);
        let [initial_bps, min_bps, max_bps] = rates;
        let controller = format!("{}{tail}", cc::REGISTRY[entry].name);
        let announcement = Announcement { controller: &controller, initial_bps, min_bps, max_bps };
        answers(announcement, interval_us);
    }
}
