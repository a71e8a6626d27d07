//! Links against oracles that know nothing of events: Mahimahi's algorithm written out opportunity by
//! opportunity, and Lindley's recursion for a queue with one server.

use std::collections::VecDeque;
use std::sync::Arc;

use framewire_netsim::{Link, LinkConfig, MahimahiTrace, Notice, Opportunities, Packet, RateProcess};
use proptest::prelude::*;
use record::Tap;
use units::{Bytes, Rate, Span, Time};

/// What came out (id, when) and which ids were dropped.
type Outcome = (Vec<(u32, Time)>, Vec<u32>);

/// Offers (when, bytes) to a link and takes out what comes, as a driver would.
fn drive(config: LinkConfig, arrivals: &[(Time, u32)], until: Time) -> Outcome {
    let mut link = Link::new(config, 1, "link", Tap::default());
    let (mut out, mut dropped) = (Vec::new(), Vec::new());
    let take = |link: &mut Link, until: Time, strictly: bool, out: &mut Vec<(u32, Time)>| {
        let due = |at: Time| if strictly { at < until } else { at <= until };
        while let Some(at) = link.next_event().filter(|&at| due(at)) {
            out.extend(std::iter::from_fn(|| link.deliver(at)).map(|packet| (packet.id, at)));
        }
    };
    for (id, &(at, size)) in arrivals.iter().enumerate() {
        take(&mut link, at, true, &mut out);
        link.offer(at, Packet { id: id as u32, ..Packet::bare(0, size, at) });
        dropped.extend(link.notices().filter_map(|notice| match notice {
            Notice::Dropped(packet, _) => Some(packet.id),
            Notice::Duplicated(_) => None,
        }));
    }
    take(&mut link, until, false, &mut out);
    (out, dropped)
}

/// Mahimahi's `link_queue.cc`, step by step; times in milliseconds.
fn mahimahi(trace: &[u32], arrivals: &[(Time, u32)], limit: usize, until: u32) -> Outcome {
    let (mut queue, mut out, mut dropped) = (VecDeque::new(), Vec::new(), Vec::new());
    let (mut index, mut base, mut transit) = (0, 0, None);
    let mut pass = |now: Time, queue: &mut VecDeque<(u32, u32)>, out: &mut Vec<(u32, Time)>| {
        while Time::from_millis((base + trace[index]).into()) <= now {
            let at = Time::from_millis((base + trace[index]).into());
            index += 1;
            if index == trace.len() {
                (index, base) = (0, base + trace[trace.len() - 1]);
            }
            let mut budget = 1504;
            while budget > 0 {
                let Some((id, left)) = transit.take().or_else(|| queue.pop_front()) else { break };
                let sent = budget.min(left);
                budget -= sent;
                if left == sent { out.push((id, at)) } else { transit = Some((id, left - sent)) }
            }
        }
    };
    for (id, &(at, size)) in arrivals.iter().enumerate() {
        pass(at, &mut queue, &mut out);
        if queue.len() < limit { queue.push_back((id as u32, size)) } else { dropped.push(id as u32) }
    }
    pass(Time::from_millis(until.into()), &mut queue, &mut out);
    (out, dropped)
}

/// `start = max(arrival, finish of the one before)`; at an arrival, those that have not started are waiting.
fn lindley(rate: Rate, delay: Span, arrivals: &[(Time, u32)], limit: usize) -> Outcome {
    let (mut accepted, mut dropped) = (Vec::<(u32, Time, Time)>::new(), Vec::new());
    for (id, &(at, size)) in arrivals.iter().enumerate() {
        // Waiting are those that found the server busy and start now or later: an arrival comes before a
        // departure of the same instant.
        let waits = |&&(id, start, _): &&(u32, Time, Time)| start >= at && start > arrivals[id as usize].0;
        let waiting = accepted.iter().filter(waits).count();
        if waiting >= limit {
            dropped.push(id as u32);
            continue;
        }
        let start = accepted.last().map_or(at, |&(.., finish)| finish.max(at));
        accepted.push((id as u32, start, start + rate.time_to_send(Bytes::new(size.into()))));
    }
    (accepted.into_iter().map(|(id, _, finish)| (id, finish + delay)).collect(), dropped)
}

/// Gaps in steps of half a millisecond, so that arrivals often fall on opportunities.
fn arrivals(sizes: std::ops::Range<u32>) -> impl Strategy<Value = Vec<(Time, u32)>> {
    prop::collection::vec((0i64..8, sizes), 1..200).prop_map(|steps| {
        let mut now = Time::ZERO;
        let arrive = |(gap, size)| {
            now += Span::from_micros(500 * gap);
            (now, size)
        };
        steps.into_iter().map(arrive).collect()
    })
}

proptest! {
    #[test]
    fn a_trace_link_is_mahimahis(
        mut trace in prop::collection::vec(0u32..60, 1..60), arrivals in arrivals(40..1505), limit in 1usize..20
    ) {
        trace.sort_unstable();
        trace.push(61);
        let expected = mahimahi(&trace, &arrivals, limit, 2_000);
        let trace = Arc::new(MahimahiTrace::from_millis(trace).unwrap());
        let rate = RateProcess::Trace(Opportunities { trace, once: false, framing: 0 });
        let queue = format!("droptail:{limit}p").parse().unwrap();
        let config = LinkConfig::bottleneck(rate, queue, Span::ZERO);
        prop_assert_eq!(drive(config, &arrivals, Time::from_secs(2)), expected);
    }

    #[test]
    fn a_constant_link_is_lindleys(
        arrivals in arrivals(40..1500), limit in 1usize..20, kbps in 500u64..20_000, delay in 0i64..30
    ) {
        let (rate, delay) = (Rate::from_kbps(kbps), Span::from_millis(delay));
        let expected = lindley(rate, delay, &arrivals, limit);
        let queue = format!("droptail:{limit}p").parse().unwrap();
        let config = LinkConfig::bottleneck(RateProcess::Constant(rate), queue, delay);
        prop_assert_eq!(drive(config, &arrivals, Time::from_secs(60)), expected);
    }

    #[test]
    fn a_link_of_one_step_is_a_constant_one(arrivals in arrivals(40..1500), mbps in 1u64..20) {
        let config = |rate| LinkConfig::bottleneck(rate, "droptail:5p".parse().unwrap(), Span::from_millis(3));
        let steps = [(0, mbps), (40, mbps), (50, mbps)].map(|(at, m)| (Time::from_millis(at), Rate::from_mbps(m)));
        let constant = drive(config(RateProcess::Constant(Rate::from_mbps(mbps))), &arrivals, Time::from_secs(9));
        let stepped = drive(config(RateProcess::steps(steps.to_vec()).unwrap()), &arrivals, Time::from_secs(9));
        prop_assert_eq!(constant, stepped);
    }
}
