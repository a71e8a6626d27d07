//! A wake that only paces leaves out what nothing is due of. Waking twice never does: the second wake looks
//! at everything. So a sender that is always woken twice must send what one that is woken once sends.

use cc::{Options, Setup};
use framewire_session::{Policies, Receiver, ReceiverConfig, Sender, SenderConfig, Supply, Video};
use media::{EncoderModel, ModelConfig, Table};
use netsim::{Counters, HostConfig, LinkConfig, Loss, RateProcess, World};
use proptest::prelude::*;
use record::Tap;
use units::{Rate, Rng, Span, Time};
use wire::{Endpoint, RxMeta, TxMeta};

/// A sender that may be woken twice.
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
        self.sender.transmit(now, out)
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
