use super::*;
use cc::{FrameTag, Lost};

/// A core under a controller without window or pacing, whose packet `n` left at `n` ms.
fn core_of(packets: u64) -> Core<Option<FrameTag>> {
    let controller = cc::build(&"fixed".parse().unwrap(), &cc::Setup::default()).unwrap();
    let mut core = Core::new(Config::default(), controller, Tap::default());
    (0..packets).for_each(|_| _ = send(&mut core));
    core
}

fn send(core: &mut Core<Option<FrameTag>>) -> u64 {
    let now = Time::from_millis(core.next_packet());
    core.sent(now, 1000, None, false)
}

/// Hears a report of `timed` packets that arrived 20 ms after they left, and of `ranges`, at `now` ms.
fn hear(core: &mut Core<Option<FrameTag>>, now: u64, timed: &[u64], ranges: &[(u64, u64)]) {
    let at = |packet: u64| Time::from_millis(packet + 20).on_wire();
    let heard = Heard {
        arrivals: timed.iter().map(|&packet| Arrival { packet, at: at(packet), ecn: Ecn::NotEct }),
        ranges: ranges.iter().copied(),
        newest: timed.iter().copied().chain(ranges.iter().map(|&(_, high)| high)).max(),
        gap: true,
        sent: Time::from_millis(now - 20).on_wire(),
        blob: &[],
    };
    core.heard(Time::from_millis(now), heard).unwrap();
}

fn numbers(lost: &[Lost]) -> Vec<u64> {
    lost.iter().map(|lost| lost.packet).collect()
}

#[test]
fn three_later_arrivals_make_a_loss() {
    let mut core = core_of(8);
    hear(&mut core, 50, &[0, 2, 3], &[(2, 3), (0, 0)]);
    assert_eq!((core.settled().acked.len(), numbers(&core.settled().lost)), (3, vec![]));
    hear(&mut core, 51, &[4], &[(2, 4), (0, 0)]);
    assert_eq!((core.settled().acked.len(), numbers(&core.settled().lost)), (1, vec![1]));
    assert_eq!(core.in_flight(), Bytes::new(3000));
}

#[test]
fn time_makes_a_loss_and_the_timer_says_when() {
    let mut core = core_of(3);
    hear(&mut core, 42, &[0, 2], &[(2, 2), (0, 0)]);
    assert!(core.settled().lost.is_empty());
    // Sample 40 ms: 9/8 of it after packet 1 left at 1 ms.
    assert_eq!(core.next_wake(), Some(Time::from_millis(46)));
    assert!(!core.find_losses(Time::from_millis(45)));
    assert!(core.find_losses(Time::from_millis(46)));
    assert_eq!(numbers(&core.settled().lost), [1]);
    assert_eq!((core.next_wake(), core.in_flight()), (None, Bytes::ZERO));
}

#[test]
fn a_spurious_loss_widens_the_thresholds() {
    let mut core = core_of(20);
    hear(&mut core, 50, &[0, 6], &[(6, 6), (0, 0)]);
    assert_eq!(numbers(&core.settled().lost), [1, 2, 3]);
    hear(&mut core, 51, &[1], &[(6, 6), (0, 1)]);
    assert_eq!(core.settled().spurious, [1]);
    hear(&mut core, 52, &[10], &[(10, 10)]);
    assert_eq!(numbers(&core.settled().lost), [4], "5 and 7 to 9 are within the reordering seen");
    assert_eq!((core.counts().lost, core.counts().spurious), (4, 1));
}

#[test]
fn ranges_settle_what_lost_reports_would_have_timed() {
    let mut core = core_of(10);
    hear(&mut core, 50, &[9], &[(0, 9)]);
    let acked = &core.settled().acked;
    assert_eq!(acked.len(), 10);
    assert_eq!(acked.iter().filter(|acked| acked.arrived_at.is_some()).count(), 1);
    assert!(acked.is_sorted_by_key(|acked| acked.packet));
    assert_eq!(core.in_flight(), Bytes::ZERO);
}

#[test]
fn a_report_of_what_was_never_sent_changes_nothing() {
    let mut core = core_of(4);
    let arrival = Arrival { packet: 9, at: RemoteTime::from_nanos(0), ecn: Ecn::NotEct };
    let heard = Heard {
        arrivals: [arrival].into_iter(),
        ranges: [(0, 9)].into_iter(),
        newest: Some(9),
        gap: true,
        sent: RemoteTime::from_nanos(0),
        blob: &[],
    };
    assert_eq!(core.heard(Time::ZERO, heard), Err(NeverSent));
    assert_eq!((core.in_flight(), core.settled().is_empty()), (Bytes::new(4000), true));
}

#[test]
fn a_long_unbroken_run_of_losses_is_persistent_congestion() {
    let mut core = core_of(1000);
    hear(&mut core, 40, &[0], &[(0, 0)]);
    hear(&mut core, 1050, &[990], &[(990, 990), (0, 0)]);
    assert!(core.settled().persistent_congestion && core.settled().lost.len() > 900);
}

#[test]
fn memory_is_bounded_without_feedback() {
    let mut core = core_of(3 * CAPACITY as u64);
    assert_eq!(core.ledger.next_packet() - core.ledger.oldest(), CAPACITY as u64);
    assert_eq!(core.in_flight(), Bytes::new(CAPACITY as u64 * 1000));
    assert!(core.could_be(Some(3 * CAPACITY as u64 - 1)));
    hear(&mut core, 200_000, &[5], &[]);
    assert!(core.settled().acked.is_empty(), "forgotten, and sent all the same");
}

#[test]
fn silence_asks_for_an_answer_and_doubles_its_patience() {
    let mut core = core_of(1);
    let first = core.next_wake().unwrap();
    core.wake(first);
    assert!(core.probe_is_due() && core.take_probe() && !core.probe_is_due());
    let second = core.next_wake().unwrap();
    // 100 ms smoothed, 4 x 50 ms of deviation, 25 ms of acknowledgement delay (RFC 9002 section 6.2.1).
    assert_eq!((first, second), (Time::from_millis(325), Time::from_millis(500)), "at most 500 ms");
    assert_eq!(core.counts().timeouts, 1);
}

#[test]
fn advice_counts_before_the_window_and_the_window_before_pacing() {
    let srtt = Span::from_millis(40);
    let pacing = Decision { pacing: Some(Rate::from_mbps(9)), ..Decision::default() };
    let window = Decision { window: Some(Bytes::new(50_000)), ..pacing };
    let media = Decision { media: Some(Rate::from_mbps(5)), ..window };
    let mbps = |decision| {
        cc_rate(&decision, srtt, Rate::from_mbps(1), Rate::ZERO).map(|rate| rate.as_bps() / 1_000_000)
    };
    assert_eq!([pacing, window, media].map(mbps), [Some(9), Some(10), Some(5)]);
    assert_eq!(mbps(Decision::default()), None);
    assert_eq!(mbps(Decision { pacing: Some(Rate::from_kbps(9)), ..Decision::default() }), Some(1));
}

#[test]
fn the_floor_is_for_windows() {
    let (srtt, least, floor) = (Span::from_secs(5), Rate::from_kbps(30), Rate::from_kbps(100));
    let kbps = |decision| cc_rate(&decision, srtt, least, floor).map(|rate| rate.as_bps() / 1_000);
    let window = Decision { window: Some(Bytes::new(2_400)), ..Decision::default() };
    let media = Decision { media: Some(Rate::from_kbps(50)), ..window };
    assert_eq!([window, media].map(kbps), [Some(100), Some(50)]);
}

#[test]
fn the_controller_hears_of_another_mtu_once() {
    let controller = cc::build(&"newreno".parse().unwrap(), &cc::Setup::default()).unwrap();
    let mut core: Core<Option<FrameTag>> = Core::new(Config::default(), controller, Tap::default());
    let burst = |core: &Core<Option<FrameTag>>| core.decision().burst.get();
    assert_eq!(burst(&core), 2 * 1200);
    assert!(core.fit(Time::ZERO, 1160, true), "shorter than before");
    assert_eq!((core.mtu(), burst(&core)), (1160, 2 * 1160));
    assert!(!core.fit(Time::ZERO, 1160, true), "as before");
    assert!(!core.fit(Time::ZERO, 9000, true), "longer");
    assert_eq!((core.mtu(), burst(&core)), (1200, 2 * 1200), "as configured at most");
}

#[test]
fn cores_of_a_thread_share_lists_once_they_have_been_seen() {
    let (mut first, mut second) = (core_of(8), core_of(8));
    hear(&mut first, 50, &[0, 2, 3, 4], &[(2, 4), (0, 0)]);
    let lists = first.settled().acked.as_ptr();
    assert_eq!((first.settled().acked.len(), numbers(&first.settled().lost)), (4, vec![1]));
    first.seen();
    assert!(first.settled().is_empty() && !first.settled().persistent_congestion);
    hear(&mut second, 50, &[0, 1], &[(0, 1)]);
    assert_eq!((second.settled().acked.len(), second.settled().acked.as_ptr()), (2, lists));
    assert!(second.settled().lost.is_empty(), "what the first heard is gone");
    // What was not given back stays while another core hears.
    hear(&mut first, 51, &[5], &[(2, 5), (0, 0)]);
    assert_eq!((first.settled().acked[0].packet, second.settled().acked.len()), (5, 2));
    assert_ne!(first.settled().acked.as_ptr(), lists);
}
