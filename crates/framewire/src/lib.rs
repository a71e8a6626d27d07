//! Low-latency interactive video for programs that have a picture to send and a network to send it over.
//!
//! A [`Sender`] and a [`Receiver`] have no clock, no socket and no threads: a host calls them when a datagram
//! arrives and when time has passed, and sends what they write. So the same pair runs in a program's own loop
//! (`examples/embed.rs`: over two UDP sockets in sixty lines), under [`real::Driver`] (UDP and QUIC), and in
//! a simulated network:
//!
//! ```
//! use framewire::media::{EncoderModel, ModelConfig, Table};
//! use framewire::netsim::{HostConfig, LinkConfig, RateProcess, World};
//! use framewire::{Rate, Receiver, Sender, Span, Time, Video};
//!
//! let interval = Span::from_nanos(33_333_333);
//! let model = ModelConfig::recorded(Table::big_buck_bunny(), 1);
//! let encoder = Box::new(EncoderModel::new(model)?);
//! let sender = framewire::sender().video(Video { encoder, source: None, interval }).build()?;
//! let receiver = framewire::receiver().build()?;
//!
//! let mut world = World::new(1, None);
//! let (near, far) = (world.add_host(HostConfig::new("near"), sender), world.add_host(HostConfig::new("far"), receiver));
//! let rate = RateProcess::Constant(Rate::from_mbps(5));
//! let there = world.add_link("there", LinkConfig::bottleneck(rate, "droptail:100ms".parse()?, Span::from_millis(20)));
//! let back = world.add_link("back", LinkConfig::delay(Span::from_millis(20)));
//! world.connect(near, 0, &[there], far);
//! world.connect(far, 0, &[back], near);
//! world.run_until(Time::from_secs(10));
//!
//! assert!(world.endpoint::<Receiver>(far).counters().displayed > 290);
//! assert_eq!(world.endpoint::<Sender>(near).counters().malformed, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | begin with |
//! |---|---|
//! | send from an encoder and a socket of your own | [`sender`], [`receiver`], [`Endpoint`]; `examples/embed.rs` |
//! | send and receive over UDP or QUIC | [`real::Driver`] |
//! | put a controller into a transport of your own | [`transport::Core`] |
//! | run a controller by name, or write one | [`cc::build`], [`cc::Controller`] |
//! | bring an encoder | [`media::Encoder`] |
//! | try a network | [`netsim::World`] |
//! | send files beside, under any controller | [`bulk::Sender`] |
//! | see what happened | [`record::Recorder`], [`Tap`] |
//! | run under quinn | [`quic::Congestion`] |
//!
//! The command `framewire` (package `framewire-cli`) runs scenarios, sends and receives, and keeps the
//! papers' experiments.

pub use bulk;
pub use cc;
pub use media;
pub use netsim;
pub use quic;
pub use real;
pub use record;
pub use session;
pub use transport;
pub use units;
pub use wire;

pub use record::Tap;
pub use session::{
    BuildError, Receiver, ReceiverBuilder, ReceiverConfig, Screen, Sender, SenderBuilder, SenderConfig,
    Shown, Video,
};
pub use units::{Bytes, Rate, Span, Time};
pub use wire::{Endpoint, MAX_DATAGRAM, RxMeta, TxMeta};

/// What a sender is made of, with a default for everything but what it sends: the preset `"default"` (robust
/// SQP, a latency budget, retransmission), 1200-byte datagrams, from 2 Mbit/s.
///
/// ```
/// use framewire::media::{EncoderModel, ModelConfig, Table};
/// use framewire::{Span, Video};
///
/// let encoder = Box::new(EncoderModel::new(ModelConfig::recorded(Table::big_buck_bunny(), 1))?);
/// let video = Video { encoder, source: None, interval: Span::from_millis(20) };
/// let sender = framewire::sender().controller("gcc").rate("webrtc").video(video).build()?;
/// assert!(sender.decision().media.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sender() -> SenderBuilder {
    SenderBuilder::default()
}

/// What a receiver is made of. By default it takes the first session it hears, follows its sender's
/// controller, shows each frame as soon as it can, and has neither decoder nor screen: it counts.
///
/// ```
/// use framewire::media::Codec;
///
/// let receiver = framewire::receiver().playout("adaptive").decoder(Codec::H264.decoder()?).build()?;
/// assert!(!receiver.is_finished());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn receiver() -> ReceiverBuilder {
    ReceiverBuilder::default()
}
