//! A wake that only paces leaves out what nothing is due of. Waking twice never does: the second wake looks
//! at everything. So a sender that is always woken twice, and is asked for more also where it says that
//! nothing follows, must send what one that is woken and asked once sends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cc::{Options, Setup};
use framewire_session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video};
use media::{Ask, CodecError, Coded, Encoder, EncoderModel, ModelConfig, RawFrame, Table};
use netsim::{Counters, HostConfig, LinkConfig, Loss, RateProcess, World};
use proptest::prelude::*;
use record::Tap;
use units::{Rate, Rng, Span, Time};
use wire::{Endpoint, MAX_DATAGRAM, RxMeta, TxMeta};

/// A sender that may be woken twice, and asked for more than it has.
struct Woken {
    sender: Sender,
    twice: bool,
}

impl Endpoint for Woken {
    fn receive(&mut self, now: Time, datagram: &[u8], meta: RxMeta) {
        self.sender.receive(now, datagram, meta);
    }
    fn wake(&mut self, now: Time) {
        self.sender.wake(now);
        if self.twice {
            self.sender.wake(now);
        }
    }
    fn next_wake(&self) -> Option<Time> {
        self.sender.next_wake()
    }
    fn transmit(&mut self, now: Time, out: &mut [u8]) -> Option<TxMeta> {
        let meta = self.sender.transmit(now, out)?;
        let last = meta.last && !self.twice;
        Some(TxMeta { last, ..meta })
    }
}

/// A network and what is sent through it.
#[derive(Clone, Debug)]
struct Case {
    cc: &'static str,
    rate: &'static str,
    kbps: u64,
    delay_ms: i64,
    loss: f64,
    fps: i64,
    deadline_ms: Option<i64>,
}

fn seen(case: &Case, twice: bool) -> impl PartialEq + std::fmt::Debug + use<> {
    let setup = Setup { frame_interval: Span::from_secs(1) / case.fps, ..Setup::default() };
    let options: Options = case.cc.parse().unwrap();
    let encoder = Box::new(EncoderModel::new(ModelConfig::recorded(Table::big_buck_bunny(), 1)).unwrap());
    let video = Video { encoder, source: None, interval: setup.frame_interval };
    let config =
        SenderConfig { deadline: case.deadline_ms.map(Span::from_millis), ..SenderConfig::default() };
    let policies = Policies {
        rate: framewire_session::rate::build(&case.rate.parse().unwrap()).unwrap(),
        ..Policies::default()
    };
    let controller = cc::build(&options, &setup).unwrap();
    let rng = Rng::stream(1, "sender");
    let sender =
        Sender::new(config, &setup, controller, policies, vec![Supply::Video(video)], rng, Tap::default());
    let receiver = Receiver::new(ReceiverConfig::default(), None, None, Tap::default())
        .with_half(cc::build_receiver(&options, &setup).unwrap());
    let mut world = World::new(7, None);
    let rate = RateProcess::Constant(Rate::from_kbps(case.kbps));
    let mut there =
        LinkConfig::bottleneck(rate, "droptail:100ms".parse().unwrap(), Span::from_millis(case.delay_ms));
    there.impairments.loss = Loss::Bernoulli(case.loss);
    let back = LinkConfig::delay(Span::from_millis(case.delay_ms));
    let near = world.add_host(HostConfig::new("near"), Woken { sender, twice });
    let far = world.add_host(HostConfig::new("far"), receiver);
    let (there, back) = (world.add_link("there", there), world.add_link("back", back));
    world.connect(near, 0, &[there], far);
    world.connect(far, 0, &[back], near);
    world.run_until(Time::from_secs(8));
    let Counters { events, wakes, sent, delivered, .. } = world.counters();
    let sender = &world.endpoint::<Woken>(near).sender;
    (events, wakes, sent, delivered, sender.counters(), world.endpoint::<Receiver>(far).counters())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_wake_that_only_paces_leaves_nothing_out(
        cc in prop::sample::select(vec!["sqp", "sqp-robust", "gcc", "copa", "bbr", "scream", "ledbat"]),
        rate in prop::sample::select(vec!["live", "vidaptive", "budget"]),
        kbps in 200_u64..20_000,
        delay_ms in 1_i64..150,
        loss in prop_oneof![Just(0.0), 0.0..0.2],
        fps in prop::sample::select(vec![5_i64, 24, 60, 120]),
        deadline_ms in prop::option::of(20_i64..3_000),
    ) {
        let case = Case { cc, rate, kbps, delay_ms, loss, fps, deadline_ms };
        prop_assert_eq!(seen(&case, false), seen(&case, true));
    }
}

/// Codes on a thread of its own, which is done with as many frames as the counter says.
struct Elsewhere {
    submitted: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
    taken: usize,
    frames: VecDeque<Coded>,
}

impl Elsewhere {
    fn has_more(&self) -> bool {
        self.taken < self.done.load(Ordering::Relaxed)
    }
}

impl Encoder for Elsewhere {
    fn submit(&mut self, _: Time, _: Option<&Arc<RawFrame>>, ask: &Ask) -> Result<(), CodecError> {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        self.frames.push_back(Coded::of_size(ask, 100_000));
        Ok(())
    }
    fn poll(&mut self, _: Time) -> Option<Coded> {
        let coded = if self.has_more() { self.frames.pop_front() } else { None };
        self.taken += usize::from(coded.is_some());
        coded
    }
    fn next_ready(&self) -> Option<Time> {
        let front = self.frames.front();
        front.map(|_| if self.has_more() { Time::ZERO } else { Time::MAX })
    }
}

#[test]
fn an_encoder_that_is_done_while_packets_leave_is_heard_of() {
    let (submitted, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(1)));
    let encoder =
        Elsewhere { submitted: submitted.clone(), done: done.clone(), taken: 0, frames: VecDeque::new() };
    let setup = Setup::default();
    let video = Video { encoder: Box::new(encoder), source: None, interval: setup.frame_interval };
    let controller = cc::build(&"fixed:rate=10mbit,pace=1".parse().unwrap(), &setup).unwrap();
    let (policies, supplies) = (Policies::default(), vec![Supply::Video(video)]);
    let config = SenderConfig::default();
    let mut sender =
        Sender::new(config, &setup, controller, policies, supplies, Rng::stream(1, "sender"), Tap::default());
    let mut out = [0; MAX_DATAGRAM];
    let mut now = Time::ZERO;
    // The first frame takes 80 ms to leave; the second is given to the encoder meanwhile.
    let mut steps = 0;
    loop {
        sender.wake(now);
        let left = sender.transmit(now, &mut out).is_some();
        let next = sender.next_wake().expect("a frame waits, or is captured").max(now);
        if left && submitted.load(Ordering::Relaxed) == 2 && next > now {
            break;
        }
        (now, steps) = (next, steps + 1);
        assert!(steps < 1_000, "no packet leaves while the second frame is coded");
    }
    done.store(2, Ordering::Relaxed);
    assert!(sender.next_wake().is_some_and(|at| at <= now), "it has to be taken at once");
}
