//! No heap allocation per segment once a run has reached its steady state.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use framewire_bulk::{Receiver, ReceiverConfig, Sender, SenderConfig, Workload};
use netsim::{HostConfig, Impairments, LinkConfig, Loss, RateProcess, Reorder, World};
use record::Tap;
use units::{Rate, Rng, Span, Time};

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

/// A window of 120 datagrams.
struct Constant;

impl cc::Controller for Constant {
    fn on_sent(&mut self, _: &cc::Sent) {}
    fn on_feedback(&mut self, _: &cc::Report<'_>) {}
    fn decision(&self) -> cc::Decision {
        cc::Decision { window: Some(units::Bytes::new(120 * 1472)), ..cc::Decision::default() }
    }
}

#[test]
fn nothing_is_allocated_per_segment() {
    for config in [SenderConfig::default(), SenderConfig::linux(), SenderConfig::ns3()] {
        let mut world = World::new(1, None);
        let rate = RateProcess::Constant(Rate::from_mbps(12));
        let bottleneck =
            LinkConfig::bottleneck(rate, "droptail:100p".parse().unwrap(), Span::from_millis(20));
        let forward = LinkConfig {
            reorder: Some(Reorder { probability: 0.01, extra: Span::from_millis(8) }),
            impairments: Impairments {
                loss: Loss::Bernoulli(0.01),
                duplicate: 0.01,
                ..Impairments::default()
            },
            ..bottleneck
        };
        let forward = world.add_link("forward", forward);
        let back = world.add_link("back", LinkConfig::delay(Span::from_millis(20)));
        let rng = Rng::stream(1, "flow");
        let sender = Sender::new(config, Box::new(Constant), Workload::Endless, rng, Tap::default());
        let from = world.add_host(HostConfig::new("sender"), sender);
        let receiver = Receiver::new(ReceiverConfig::default(), Tap::default());
        let to = world.add_host(HostConfig::new("receiver"), receiver);
        world.connect(from, 0, &[forward], to);
        world.connect(to, 0, &[back], from);
        world.run_until(Time::from_secs(60));
        let warm = ALLOCATIONS.load(Ordering::Relaxed);
        let before = world.endpoint::<Receiver>(to).counters().packets;
        world.run_until(Time::from_secs(90));
        let allocated = ALLOCATIONS.load(Ordering::Relaxed) - warm;
        let packets = world.endpoint::<Receiver>(to).counters().packets - before;
        assert!(packets > 10_000 && world.endpoint::<Sender>(from).counters().lost > 300, "{packets}");
        assert_eq!(allocated, 0, "{allocated} allocations for {packets} segments");
    }
}
