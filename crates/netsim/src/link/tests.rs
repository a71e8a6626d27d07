use std::sync::Arc;

use units::Rate;

use super::*;
use crate::impair::{Impairments, Policer};
use crate::rate::{Opportunities, Shaper};
use crate::trace::MahimahiTrace;

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn packet(id: u32, size: u32) -> Packet {
    Packet { id, ..Packet::bare(0, size, Time::ZERO) }
}

/// Offers `arrivals` (ms, id, bytes) and returns what came out (id, ms) up to `until` ms, and the ids
/// dropped.
fn run(config: LinkConfig, arrivals: &[(u64, u32, u32)], until: u64) -> (Vec<(u32, f64)>, Vec<u32>) {
    let mut link = Link::new(config, 1, "link", Tap::default());
    let (mut out, mut dropped) = (Vec::new(), Vec::new());
    let mut arrivals = arrivals.iter().peekable();
    loop {
        let arrival = arrivals.peek().map_or(Time::MAX, |arrival| ms(arrival.0));
        let event = link.next_event().unwrap_or(Time::MAX);
        let now = arrival.min(event);
        if now > ms(until) {
            return (out, dropped);
        }
        if arrival <= event {
            let (_, id, size) = *arrivals.next().unwrap();
            link.offer(now, packet(id, size));
        } else {
            out.extend(std::iter::from_fn(|| link.deliver(now)).map(|p| (p.id, now.as_millis_f64())));
        }
        dropped.extend(link.notices().map(|notice| match notice {
            Notice::Dropped(packet, _) | Notice::Duplicated(packet) => packet.id,
        }));
    }
}

fn mahimahi(trace: &[u32], queue: &str) -> LinkConfig {
    let trace = Arc::new(MahimahiTrace::from_millis(trace.to_vec()).unwrap());
    let rate = RateProcess::Trace(Opportunities { trace, once: false, framing: 0 });
    LinkConfig::bottleneck(rate, queue.parse().unwrap(), Span::ZERO)
}

const A: u32 = 0;
const B: u32 = 1;
const C: u32 = 2;
const D: u32 = 3;
const E: u32 = 4;

#[test]
fn mm_1_an_arrival_may_not_use_the_opportunity_of_its_instant() {
    let arrivals = [(0, A, 1504), (0, B, 1504), (2, C, 1504)];
    let (out, _) = run(mahimahi(&[1, 2, 3, 5], "infinite"), &arrivals, 12);
    assert_eq!(out, [(A, 1.0), (B, 2.0), (C, 3.0)]);
}

#[test]
fn mm_2_small_packets_share_and_straddle_opportunities() {
    let arrivals = [(0, A, 700), (0, B, 700), (0, C, 700), (0, D, 104)];
    let config = mahimahi(&[1, 2, 3, 4], "infinite");
    let (out, _) = run(config.clone(), &arrivals, 4);
    assert_eq!(out, [(A, 1.0), (B, 1.0), (C, 2.0), (D, 2.0)]);
    // 3812 B are wasted up to t = 4: what four opportunities carry less what was sent.
    let capacity = config.rate.capacity(ms(0), ms(4)).unwrap().get();
    assert_eq!(capacity - 2204, 3812);
}

#[test]
fn mm_3_full_packets_leave_once_a_millisecond_across_the_wrap() {
    let arrivals: Vec<_> = (0..12).map(|k| (0, k, 1500)).collect();
    let trace: Vec<u32> = (1..=10).collect();
    let (out, _) = run(mahimahi(&trace, "infinite"), &arrivals, 12);
    let expected: Vec<_> = (0..12).map(|k| (k, f64::from(k) + 1.0)).collect();
    assert_eq!(out, expected);
}

#[test]
fn mm_4_an_arrival_at_an_opportunity_waits_for_the_next() {
    let (out, _) = run(mahimahi(&[5, 10], "infinite"), &[(5, A, 1504)], 20);
    assert_eq!(out, [(A, 10.0)]);
}

#[test]
fn mm_5_a_trace_that_starts_at_zero_doubles_at_the_wrap() {
    let arrivals: Vec<_> = (0..7).map(|k| (0, k, 1504)).collect();
    let (out, _) = run(mahimahi(&[0, 0, 3], "infinite"), &arrivals, 9);
    let times: Vec<_> = out.iter().map(|(_, at)| *at).collect();
    assert_eq!(times, [3.0, 3.0, 3.0, 6.0, 6.0, 6.0, 9.0]);
}

#[test]
fn mm_6_droptail_of_two_packets() {
    let arrivals = [(0, A, 1504), (0, B, 1504), (0, C, 1504), (5, D, 1504), (5, E, 1504)];
    let (out, dropped) = run(mahimahi(&[4, 8, 12, 16, 20], "droptail:2p"), &arrivals, 20);
    assert_eq!(out, [(A, 4.0), (B, 8.0), (D, 12.0)]);
    assert_eq!(dropped, [C, E]);
}

#[test]
fn a_trace_run_once_ends_and_ip_packets_count_four_bytes_more() {
    let trace = Arc::new(MahimahiTrace::from_millis(vec![1, 2]).unwrap());
    let rate = RateProcess::Trace(Opportunities { trace, once: true, framing: crate::TUN_FRAMING });
    let config = LinkConfig { rate, ..LinkConfig::default() };
    // 1500 B fill an opportunity to the last byte: with 1 B more the packet straddles two.
    assert_eq!(run(config.clone(), &[(0, A, 1500), (0, B, 1500), (0, C, 1500)], 99).0, [(A, 1.0), (B, 2.0)]);
    assert_eq!(run(config, &[(0, A, 1501)], 99).0, [(A, 2.0)]);
}

#[test]
fn a_constant_link_holds_its_limit_and_one_more() {
    // 1500 B at 12 Mbit/s take 1 ms. Two wait behind the one being sent; at 1 ms an arrival comes before
    // the departure.
    let rate = RateProcess::Constant(Rate::from_mbps(12));
    let config = LinkConfig::bottleneck(rate, "droptail:2p".parse().unwrap(), Span::from_millis(10));
    let arrivals = [(0, A, 1500), (0, B, 1500), (0, C, 1500), (0, D, 1500), (1, E, 1500)];
    let (out, dropped) = run(config, &arrivals, 99);
    assert_eq!(out, [(A, 11.0), (B, 12.0), (C, 13.0)]);
    assert_eq!(dropped, [D, E]);
}

/// By hand: 1 MB/s, 3000 bytes, packets of 1500 at 0 to 5 ms and three at 20 ms.
const BUCKET: [(u64, u32, u32); 9] = [
    (0, 0, 1500),
    (1, 1, 1500),
    (2, 2, 1500),
    (3, 3, 1500),
    (4, 4, 1500),
    (5, 5, 1500),
    (20, 6, 1500),
    (20, 7, 1500),
    (20, 8, 1500),
];

fn shaper(peak: Option<Rate>) -> LinkConfig {
    let shaper = Shaper { rate: Rate::from_mbps(8), burst: Bytes::new(3_000), peak };
    LinkConfig::bottleneck(RateProcess::Shaper(shaper), "infinite".parse().unwrap(), Span::ZERO)
}

#[test]
fn a_shaper_waits_for_tokens() {
    let (out, dropped) = run(shaper(None), &BUCKET, 99);
    let expected = [0.0, 1.0, 2.0, 3.0, 4.5, 6.0, 20.0, 20.0, 21.5];
    let times = |out: &[(u32, f64)]| out.iter().map(|(_, ms)| *ms).collect::<Vec<_>>();
    assert_eq!(times(&out), expected);
    assert!(dropped.is_empty());
    // At a peak of 12 Mbit/s the second packet of a burst leaves a millisecond after the first.
    let (out, _) = run(shaper(Some(Rate::from_mbps(12))), &BUCKET, 99);
    assert_eq!(times(&out[6..]), [20.0, 21.0, 22.0]);
    // What exceeds the bucket could wait for ever.
    assert_eq!(run(shaper(None), &[(0, A, 3_001), (0, B, 3_000)], 99), (vec![(B, 0.0)], vec![A]));
}

#[test]
fn a_policer_drops_what_finds_too_few_tokens() {
    let police = Some(Policer { rate: Rate::from_mbps(8), burst: Bytes::new(3_000) });
    let impairments = Impairments { police, ..Impairments::default() };
    let config = LinkConfig { impairments, ..LinkConfig::default() };
    let (out, dropped) = run(config, &BUCKET, 99);
    let expected = [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0), (5, 5.0), (6, 20.0), (7, 20.0)];
    assert_eq!((out, dropped), (expected.to_vec(), vec![4, 8]));
}

#[test]
fn a_blackout_of_the_rate_keeps_packets_and_one_of_the_link_drops_them() {
    let steps = [(0, 12), (1, 0), (6, 12)].map(|(at, mbps)| (ms(at), Rate::from_mbps(mbps)));
    let config = LinkConfig { rate: RateProcess::steps(steps.to_vec()).unwrap(), ..LinkConfig::default() };
    assert_eq!(run(config, &[(0, A, 750), (0, B, 1500), (2, C, 1500)], 99).0, [(A, 0.5), (B, 6.5), (C, 7.5)]);
    let impairments = Impairments { blackouts: vec![(ms(1), ms(6))], ..Impairments::default() };
    let config = LinkConfig { impairments, ..LinkConfig::delay(Span::from_millis(1)) };
    let (out, dropped) = run(config, &[(0, A, 100), (2, B, 100), (6, C, 100)], 99);
    assert_eq!((out, dropped), (vec![(A, 1.0), (C, 7.0)], vec![B]));
}

#[test]
fn busy_time_and_capacity_give_utilisation() {
    let config = LinkConfig { rate: RateProcess::Constant(Rate::from_mbps(12)), ..LinkConfig::default() };
    let mut link = Link::new(config, 1, "link", Tap::default());
    (0..5).for_each(|k| link.offer(ms(2 * k), packet(0, 1500)));
    link.settle(ms(10));
    assert_eq!(link.busy_time(ms(10)), Span::from_millis(5));
    assert_eq!(link.capacity(ms(0), ms(10)), Some(Bytes::new(15_000)));
    assert_eq!(link.stats().total().departed.bytes, 7_500);
    link.offer(ms(20), packet(0, 1500));
    assert_eq!(link.busy_time(Time::from_micros(20_500)), Span::from_micros(5_500));
}
