//! No heap allocation per packet once a run has reached its steady state.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use framewire_netsim::{
    CrossTraffic, HostConfig, Impairments, LinkConfig, LinkId, Loss, MahimahiTrace, Pattern, Policer,
    RateProcess, Reorder, Shaper, World, queue,
};
use units::{Bytes, Rate, Span, Time};
use wire::{Endpoint, RxMeta, TxMeta};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the system's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` through `alloc` or `realloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as `dealloc`, and the caller keeps `realloc`'s contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sends one datagram a millisecond, or answers each it receives.
struct Toy {
    paced: bool,
    next: Time,
    due: u64,
    received: u64,
}

impl Endpoint for Toy {
    fn receive(&mut self, _now: Time, _datagram: &[u8], _meta: RxMeta) {
        self.received += 1;
        self.due += u64::from(!self.paced);
    }
    fn wake(&mut self, now: Time) {
        if now >= self.next {
            self.next = now + Span::from_millis(1);
            self.due += 1;
        }
    }
    fn next_wake(&self) -> Option<Time> {
        self.paced.then_some(self.next)
    }
    fn transmit(&mut self, _now: Time, out: &mut [u8]) -> Option<TxMeta> {
        self.due = self.due.checked_sub(1)?;
        out[..40].fill(self.due as u8);
        Some(TxMeta { head: 40, length: 1200, ..TxMeta::default() })
    }
}

/// 12.5 Mbit/s of datagrams and cross traffic into 12 Mbit/s, so that queues fill and drop.
fn world(queue: &str) -> (World, LinkId) {
    let mut world = World::new(1, None);
    let trace = MahimahiTrace::from_millis((1..=1000).collect()).unwrap();
    let forward = LinkConfig {
        jitter: Span::from_millis(2),
        reorder: Some(Reorder { probability: 0.05, extra: Span::from_millis(8) }),
        impairments: Impairments {
            loss: Loss::Bernoulli(0.01),
            duplicate: 0.01,
            police: Some(Policer { rate: Rate::from_mbps(40), burst: Bytes::new(4_000) }),
            ..Impairments::default()
        },
        ..LinkConfig::bottleneck(
            RateProcess::trace(trace.into()),
            queue.parse().unwrap(),
            Span::from_millis(20),
        )
    };
    let forward = world.add_link("forward", forward);
    let shaper = Shaper { rate: Rate::from_mbps(12), burst: Bytes::new(3_000), peak: None };
    let backward = LinkConfig::bottleneck(
        RateProcess::Shaper(shaper),
        "infinite".parse().unwrap(),
        Span::from_millis(20),
    );
    let backward = world.add_link("backward", backward);
    let toy = |paced| Toy { paced, next: Time::ZERO, due: 0, received: 0 };
    let sender = world.add_host(HostConfig::new("sender"), toy(true));
    let receiver = world.add_host(HostConfig::new("receiver"), toy(false));
    world.connect(sender, 0, &[forward], receiver);
    world.connect(receiver, 0, &[backward], sender);
    for flow in 1..4 {
        // All packets are of one size, so that a limit in bytes does not make their number drift.
        let cross = CrossTraffic { size: 1228, ..CrossTraffic::new(Pattern::Poisson, Rate::from_kbps(900)) };
        world.add_cross(cross, flow, &[forward]);
    }
    (world, forward)
}

#[test]
fn nothing_is_allocated_per_packet() {
    let queues: Vec<_> = queue::REGISTRY.iter().flat_map(queue::Entry::examples).collect();
    // One without a limit would grow for ever; one that shrinks with its link drops many at once, and the
    // list of them grows to the largest such number.
    let steady = |queue: &&str| *queue != "infinite" && !queue.contains("follow");
    for queue in queues.into_iter().filter(steady) {
        let (mut world, forward) = world(queue);
        world.run_until(Time::from_secs(20));
        let (before, warm) = (world.counters(), ALLOCATIONS.load(Ordering::Relaxed));
        world.run_until(Time::from_secs(40));
        let allocated = ALLOCATIONS.load(Ordering::Relaxed) - warm;
        let delivered = world.counters().delivered - before.delivered;
        assert!(delivered > 30_000, "{queue}: {delivered}");
        assert!(world.link(forward).stats().total().dropped.packets > 100, "{queue}");
        assert_eq!(allocated, 0, "{queue}: {allocated} allocations for {delivered} packets");
    }
}
