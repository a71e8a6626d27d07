//! Builds the world of a scenario.
//!
//! ```text
//! sender i --[access i]--> bottleneck --------------------> receiver i        hosts 2i and 2i+1, flow i
//!    '<------------------[feedback i]<--------------------------'
//! cross j -----------------^ (vanishes behind the bottleneck)                 flow (flows + j)
//! ```
//!
//! Where there are several links, each flow and each source of cross traffic passes those of its path.

use std::path::Path;
use std::sync::Arc;

use cc::{OptionError, Options, ReceiverHalf};
use netsim::{
    CrossTraffic, Delay, HostConfig, HostId, Impairments, Instants, LinkConfig, LinkId, MahimahiTrace,
    Pattern, Policer, QueueSpec, RateProcess, Reorder, Shaper, SourceId, World,
};
use record::Tap;
use session::{Policies, Receiver, ReceiverConfig, Screen, Sender, SenderConfig};
use units::{HostClock, Rate, Rng, Span, Time};

use super::meter::Overlay;
use super::pauses::Pausing;
#[cfg(feature = "vixnn")]
use super::pictures::Reader;
use super::pictures::{Judge, Originals};
use super::supply::{self, Look, Pictures, Prepared};
use super::{quic, smoltcp, tcp, traces};
use crate::collect::Layout;
use crate::scenario::{Cross, CrossKind, Flow, Link, Police, Scenario, ScenarioError, Session, Source};

/// A world ready to run, and what is needed to make sense of its events.
pub(super) struct Built {
    /// Hosts, links and routes, before anything has happened.
    pub world: World,
    /// The links flows share, in the scenario's order.
    pub links: Vec<LinkId>,
    /// Each flow's sender and receiver.
    pub hosts: Vec<(HostId, HostId)>,
    /// The rate of each link.
    pub rates: Vec<RateProcess>,
    /// Each flow's time between frames.
    pub intervals: Vec<Span>,
    /// Originals of flows with real pictures, with the flow's number.
    pub originals: Vec<(usize, Originals)>,
    /// The overlay's cross traffic, where it has some.
    pub varied: Option<SourceId>,
}

impl Built {
    /// The link all flows share, of a scenario of one link.
    pub fn bottleneck(&self) -> LinkId {
        self.links[0]
    }

    /// How fast it sends.
    pub fn rate(&self) -> &RateProcess {
        &self.rates[0]
    }
}

/// The nodes of a scenario's world.
pub(super) fn layout(scenario: &Scenario) -> Layout {
    let host = |index: usize| record::NodeId(index as u16);
    let names = scenario.link.names().into_iter().chain([String::new()]);
    let links = (netsim::FIRST_LINK_NODE..).map(record::NodeId).zip(names);
    Layout {
        flows: (0..scenario.flows.len()).map(|i| (host(2 * i), host(2 * i + 1))).collect(),
        links: links.take(scenario.link.iter().len()).collect(),
    }
}

/// Fills an empty `world` with what `scenario` says, but for what `overlay` says otherwise.
pub(super) fn build(
    scenario: &Scenario,
    mut world: World,
    overlay: &Overlay,
) -> Result<Built, ScenarioError> {
    let (links, rates) = add_links(&mut world, scenario, overlay)?;
    let back = feedback_config(scenario)?;
    let mut built =
        Built { world, links, rates, hosts: vec![], intervals: vec![], originals: vec![], varied: None };
    for index in 0..scenario.flows.len() {
        add_flow(&mut built, scenario, index, &back)?;
    }
    for (index, cross) in scenario.cross.iter().enumerate() {
        let flow = (scenario.flows.len() + index) as u16;
        let path = scenario.link.on(cross.path.as_deref());
        let path: Vec<LinkId> = path.into_iter().map(|link| built.links[link]).collect();
        match &cross.instants {
            Some(file) => {
                let listed = instants(scenario, file, &format!("cross[{}]", index + 1))?;
                built.world.add_listed(listed, cross.size.get() as u32, flow, &path);
            }
            None => built.world.add_cross(cross_traffic(cross), flow, &path),
        }
    }
    if let Some(listed) = &overlay.cross {
        let flow = (scenario.flows.len() + scenario.cross.len()) as u16;
        let source = built.world.add_listed(listed.clone(), netsim::DEFAULT_SIZE, flow, &built.links[..1]);
        built.varied = Some(source);
    }
    Ok(built)
}

/// Adds the links that flows share, before all others: their nodes are [`netsim::FIRST_LINK_NODE`] and those
/// after it. The overlay is the first link's; whoever has one refuses several links.
fn add_links(
    world: &mut World,
    scenario: &Scenario,
    overlay: &Overlay,
) -> Result<(Vec<LinkId>, Vec<RateProcess>), ScenarioError> {
    let (mut links, mut rates) = (Vec::new(), Vec::new());
    for (index, link) in scenario.link.iter().enumerate() {
        let mut config = link_config(scenario, link, &scenario.link.field(index))?;
        if index == 0 {
            if let Some(service) = &overlay.service {
                config.rate = RateProcess::trace(service.clone());
            }
            config.impairments.blackouts.extend_from_slice(&overlay.outages);
        }
        rates.push(config.rate.clone());
        let several = scenario.link.are_several();
        let name = if several { format!("link/{}", link.name) } else { "bottleneck".to_owned() };
        links.push(world.add_link(&name, config));
    }
    Ok((links, rates))
}

fn instants(scenario: &Scenario, path: &Path, at: &str) -> Result<Arc<Instants>, ScenarioError> {
    let listed = Instants::open(&scenario.beside(path));
    listed.map(Arc::new).map_err(|error| scenario.error(format!("{at}.instants"), error.to_string()))
}

fn time(span: Span) -> Time {
    Time::ZERO + span
}

/// The link that the scenario's flows share; `what` names who needs to know, such as "the grid".
///
/// # Errors
/// [`ScenarioError`] if it names a trace that can't be read, or if there are several links.
pub fn bottleneck(scenario: &Scenario, what: &str) -> Result<LinkConfig, ScenarioError> {
    scenario.require_one_link(what)?;
    link_config(scenario, &scenario.link, &scenario.link.field(0))
}

fn link_config(scenario: &Scenario, link: &Link, at: &str) -> Result<LinkConfig, ScenarioError> {
    let rate = rate_process(scenario, link, at)?;
    // A queue's limit in time refers to the rate that is played, not to the mean of its opportunities.
    let played = || link.rate.into_iter().chain(link.steps.iter().map(|step| step.1)).max();
    Ok(LinkConfig {
        rate,
        reference: if link.mahimahi { played() } else { None },
        queue: queue_of(link),
        delay: Delay::constant(link.delay.unwrap_or_default()),
        jitter: link.jitter,
        reorder: link.reorder.map(|r| Reorder { probability: r.share.0, extra: r.delay }),
        impairments: Impairments {
            loss: link.loss.0,
            duplicate: link.duplicate.0,
            blackouts: link.blackout.iter().map(|&(from, to)| (time(from), time(to))).collect(),
            mtu: link.mtu.0.iter().map(|&(at, size)| (time(at), size.get() as u32)).collect(),
            police: link.police.map(|Police { rate, burst }| Policer { rate, burst }),
        },
        ..LinkConfig::default()
    })
}

/// The queue of a link, as it says or by default.
pub fn queue_of(link: &Link) -> QueueSpec {
    // SQP, arXiv 2207.11857, section 6.1 (120 ms) and figures 9 and 10 (200 packets of a trace).
    let default = match (&link.trace, link.rate.is_some() || !link.steps.is_empty()) {
        (Some(_), _) => "droptail:200p",
        (None, true) => "droptail:120ms",
        (None, false) => return link.queue.clone().unwrap_or_else(QueueSpec::infinite),
    };
    link.queue.clone().unwrap_or_else(|| default.parse().expect("the default is a queue"))
}

fn rate_process(scenario: &Scenario, link: &Link, at: &str) -> Result<RateProcess, ScenarioError> {
    let steps: Vec<_> = link.steps.iter().map(|&(at, rate)| (time(at), rate)).collect();
    Ok(match (&link.trace, link.rate) {
        (Some(path), _) => RateProcess::trace(trace(scenario, path, at)?),
        (None, Some(rate)) if link.mahimahi => opportunities(scenario, &[(Time::ZERO, rate)], at)?,
        (None, Some(rate)) => match link.burst {
            Some(burst) => RateProcess::Shaper(Shaper { rate, burst, peak: link.peak }),
            None => RateProcess::Constant(rate),
        },
        (None, None) if steps.is_empty() => RateProcess::Infinite,
        (None, None) if link.mahimahi => opportunities(scenario, &steps, at)?,
        (None, None) => {
            RateProcess::steps(steps).map_err(|e| scenario.error(format!("{at}.steps"), e.to_string()))?
        }
    })
}

/// Rates as opportunities; one pass of the trace is as long as the run.
fn opportunities(
    scenario: &Scenario,
    rates: &[(Time, Rate)],
    at: &str,
) -> Result<RateProcess, ScenarioError> {
    let trace = MahimahiTrace::of_rates(rates, time(scenario.duration));
    let trouble = "its opportunities would be none, or more than a trace may hold".to_owned();
    let trace = trace.ok_or_else(|| scenario.error(format!("{at}.mahimahi"), trouble))?;
    Ok(RateProcess::trace(Arc::new(trace)))
}

fn trace(scenario: &Scenario, path: &Path, at: &str) -> Result<Arc<MahimahiTrace>, ScenarioError> {
    let trace = traces::open(&scenario.beside(path));
    trace.map_err(|error| scenario.error(format!("{at}.trace"), error.to_string()))
}

/// The way back, but for its delay: by default a wire.
fn feedback_config(scenario: &Scenario) -> Result<LinkConfig, ScenarioError> {
    let config = match &scenario.feedback {
        Some(link) => link_config(scenario, link, "feedback")?,
        None => LinkConfig::default(),
    };
    Ok(LinkConfig { recorded: false, ..config })
}

fn add_flow(
    built: &mut Built,
    scenario: &Scenario,
    index: usize,
    back: &LinkConfig,
) -> Result<(), ScenarioError> {
    let world = &mut built.world;
    let (hosts, interval) = match &scenario.flows[index].source {
        Source::Tcp(tcp) => (tcp::add(world, scenario, index, tcp)?, tcp::INTERVAL),
        Source::Quic(quic) => (quic::add(world, scenario, index, quic)?, tcp::INTERVAL),
        Source::Smoltcp(smoltcp) => (smoltcp::add(world, scenario, index, smoltcp)?, tcp::INTERVAL),
        Source::Video(_) | Source::Backlog(_) => add_session(built, scenario, index)?,
    };
    connect(built, scenario, index, back, hosts);
    built.intervals.push(interval);
    built.hosts.push(hosts);
    Ok(())
}

/// The two ends of a flow of this project's own protocol.
pub struct Endpoints {
    /// The end that has something to send.
    pub sender: Sender,
    /// Receives and shows.
    pub receiver: Receiver,
    /// Time between frames; of a backlogged flow, what its controller is told.
    pub interval: Span,
    /// Where there are real pictures, what they should look like.
    originals: Option<Originals>,
}

/// Builds both ends of flow number `index` (from 0), which reports to these taps. The scenario's world is one
/// place to run them; a real network is another.
///
/// # Errors
/// [`ScenarioError`] if something the flow names can't be opened or built.
pub fn endpoints(scenario: &Scenario, index: usize, near: Tap, far: Tap) -> Result<Endpoints, ScenarioError> {
    let Some(session) = scenario.flows[index].source.session() else {
        let what = "only \"video\" and \"backlog\" are sent over a session";
        return Err(scenario.error(format!("flow[{}].source", index + 1), what));
    };
    let Prepared { supply, interval, picture, pictures } = supply::prepare(scenario, index)?;
    let (setup, options) = controller_of(scenario, index, session.mtu.get() as u32, interval)?;
    let refuse = |error: OptionError| refuse_cc(scenario, index, &error);
    let controller = cc::build(&options, &setup).map_err(refuse)?;
    let half = cc::build_receiver(&options, &setup).map_err(refuse)?;
    let rng = Rng::stream(scenario.seed, &format!("flow{index}/sender"));
    let config = sender_config(scenario, index, session, picture);
    let policies = policies(scenario, index)?;
    let sender = Sender::new(config, &setup, controller, policies, vec![supply], rng, near);
    let originals = match &pictures {
        Some((_, Look::Measured(originals))) => Some(originals.clone()),
        _ => None,
    };
    Ok(Endpoints {
        sender,
        receiver: receiver(scenario, index, session, pictures, half, far),
        interval,
        originals,
    })
}

/// Adds a flow of this project's own protocol; its hosts, and its time between frames.
fn add_session(
    built: &mut Built,
    scenario: &Scenario,
    index: usize,
) -> Result<((HostId, HostId), Span), ScenarioError> {
    let flow = &scenario.flows[index];
    let world = &mut built.world;
    let far = receiver_host(flow);
    let taps = (world.next_host_tap(HostClock::default()), world.later_host_tap(1, far.clock));
    let Endpoints { sender, receiver, interval, originals } = endpoints(scenario, index, taps.0, taps.1)?;
    let (sender, receiver) = (sender.handing_over(), receiver.handing_over());
    let sender = match flow.video() {
        Some(video) if !video.pause.is_empty() => {
            world.add_host(sender_host(flow), Pausing::new(sender, &video.pause))
        }
        _ => world.add_host(sender_host(flow), sender),
    };
    let receiver = world.add_host(far, receiver);
    built.originals.extend(originals.map(|originals| (index, originals)));
    Ok(((sender, receiver), interval))
}

/// What stands between flow number `index`'s controller and its encoder, and what is done about its losses.
fn policies(scenario: &Scenario, index: usize) -> Result<Policies, ScenarioError> {
    let choice = scenario.flows[index].choice();
    let refuse = |field: &str, error: OptionError| {
        scenario.error(format!("flow[{}].{field}", index + 1), error.to_string())
    };
    let rate = choice.rate.parse().and_then(|options| session::rate::build(&options));
    let rate = rate.map_err(|error| refuse("rate", error))?;
    let strategy = session::strategy::build(&choice.strategy, &choice.recovery);
    let strategy = strategy.map_err(|error| refuse("strategy", error))?;
    Ok(Policies { rate, strategy })
}

/// What flow number `index`'s controller is built from.
pub(super) fn controller_of(
    scenario: &Scenario,
    index: usize,
    mtu: u32,
    frame_interval: Span,
) -> Result<(cc::Setup, Options), ScenarioError> {
    let flow = &scenario.flows[index];
    let options = flow.choice().controller.parse().map_err(|error| refuse_cc(scenario, index, &error))?;
    let setup = cc::Setup {
        mtu,
        initial: flow.initial,
        min: flow.least(),
        max: flow.max,
        frame_interval,
        seed: Rng::stream(scenario.seed, &format!("flow{index}/cc")).next_u64(),
    };
    Ok((setup, options))
}

pub(super) fn refuse_cc(scenario: &Scenario, index: usize, error: &OptionError) -> ScenarioError {
    scenario.error(format!("flow[{}].cc", index + 1), error.to_string())
}

/// Where a flow's sender lives, and when it is on.
pub(super) fn sender_host(flow: &Flow) -> HostConfig {
    let (start, stop) = (time(flow.start), flow.stop.map_or(Time::MAX, time));
    HostConfig { start, stop, ..HostConfig::new(&format!("{} sender", flow.name)) }
}

/// Where a flow's receiver lives, with a clock of its own.
pub(super) fn receiver_host(flow: &Flow) -> HostConfig {
    let clock = HostClock::new(flow.clock_offset, flow.clock_drift_ppm);
    HostConfig { clock, ..HostConfig::new(&format!("{} receiver", flow.name)) }
}

fn sender_config(scenario: &Scenario, index: usize, session: &Session, picture: (u16, u16)) -> SenderConfig {
    let defaults = SenderConfig::default();
    let video = scenario.flows[index].video();
    SenderConfig {
        session: session_of(index),
        mtu: session.mtu.get() as usize,
        deadline: video.and_then(|video| video.deadline),
        patience: video.and_then(|video| video.patience).unwrap_or(defaults.patience),
        picture,
        bunch: session.bunch,
        ..defaults
    }
}

fn receiver(
    scenario: &Scenario,
    index: usize,
    session: &Session,
    pictures: Option<Pictures>,
    half: Option<Box<dyn ReceiverHalf>>,
    tap: Tap,
) -> Receiver {
    let judge = |look| -> Box<dyn Screen> {
        match look {
            Look::Measured(originals) => Box::new(Judge::new(originals, tap.clone())),
            #[cfg(feature = "vixnn")]
            Look::Modelled(looks) => Box::new(Reader::new(looks, tap.clone())),
        }
    };
    let (decoders, screen) = pictures.map(|(decoders, look)| (decoders, judge(look))).unzip();
    let defaults = ReceiverConfig::default();
    let config = ReceiverConfig {
        session: Some(session_of(index)),
        feedback_padding: session.feedback_padding.unwrap_or(defaults.feedback_padding),
        ..defaults
    };
    let receiver = |config| match decoders {
        Some(decoders) => Receiver::new(config, None, screen, tap.clone()).with_decoders(decoders),
        None => Receiver::new(config, None, screen, tap.clone()),
    };
    let Some(video) = scenario.flows[index].video() else { return receiver(config).with_half(half) };
    let config = ReceiverConfig {
        nack: video.nack,
        conceal: video.conceal,
        decode_time: video.decode_time,
        feedback_packets: video.feedback_packets.unwrap_or(config.feedback_packets),
        ..config
    };
    let playout = video.playout.parse().and_then(|options| session::playout::build(&options));
    let playout = playout.expect("a checked scenario names a playout policy");
    receiver(config).with_half(half).with_playout(playout)
}

/// Each flow is a session of its own; zero is left free.
pub(super) fn session_of(index: usize) -> u32 {
    index as u32 + 1
}

fn connect(
    built: &mut Built,
    scenario: &Scenario,
    index: usize,
    back: &LinkConfig,
    (sender, receiver): (HostId, HostId),
) {
    let extra = scenario.flows[index].extra_delay;
    let mut ahead: Vec<LinkId> = scenario.path_of(index).into_iter().map(|link| built.links[link]).collect();
    let world = &mut built.world;
    let back = LinkConfig { delay: Delay::constant(scenario.delay_back(index)), ..back.clone() };
    let mut back = vec![world.add_link(&format!("flow{index}/feedback"), back)];
    if extra.is_positive() {
        let access = LinkConfig { recorded: false, ..LinkConfig::delay(extra) };
        ahead.insert(0, world.add_link(&format!("flow{index}/access"), access.clone()));
        back.push(world.add_link(&format!("flow{index}/return"), access));
    }
    world.connect(sender, index as u16, &ahead, receiver);
    world.connect(receiver, index as u16, &back, sender);
}

fn cross_traffic(cross: &Cross) -> CrossTraffic {
    let pattern = match cross.kind {
        CrossKind::Cbr | CrossKind::Listed => Pattern::Constant,
        CrossKind::Poisson => Pattern::Poisson,
        CrossKind::OnOff => Pattern::OnOff { on: cross.on, off: cross.off, exponential: true },
    };
    CrossTraffic {
        pattern,
        rate: cross.rate.unwrap_or_default(),
        size: cross.size.get() as u32,
        start: time(cross.start),
        stop: cross.stop.map_or(Time::MAX, time),
    }
}
