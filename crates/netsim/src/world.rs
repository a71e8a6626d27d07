//! The world: hosts, links and routes in one virtual time.
//!
//! ```text
//! host 0 --link 2-->\                        /--link 3--> host 1         any number of flows, each with its own
//!                    >--link 0 (bottleneck)-<                            access links (and so its own RTT), and
//! host 2 --link 4-->/                        \--link 5--> host 3         a way back: host 1 --link 1--> host 0
//! ```
//!
//! The loop takes the component that acts next from the agenda: a host that wakes, a source of cross traffic
//! that sends, a link whose packet comes out. A packet that comes out enters the next link of its route or is
//! received by a host, after which everything that host wants to transmit enters its first link, at the same
//! instant. At one instant hosts wake first, then cross traffic is sent, then links deliver; among equals the
//! one added first goes first.

mod ahead;
mod carry;
mod fork;

use std::any::Any;
use std::sync::Arc;

use record::{NodeId, Shared, Tap, Topic};
use units::{HostClock, Time, apart, likely, unlikely};
use wire::{Endpoint, MAX_DATAGRAM};

use crate::agenda::Agenda;
use crate::config::LinkConfig;
use crate::conveyor::Taken;
use crate::cross::{CrossTraffic, Drawn, Listed, Source};
use crate::instants::Instants;
use crate::link::Link;
use crate::packet::{Datagrams, Packet, Written};
use crate::place::{FIRST_LINK_NODE, Host, HostConfig, HostId, LinkId, Papers, SourceId, Way};
use crate::routes::{End, Routes};
use ahead::Ahead;
use carry::{LIVELOCK, SentAll, hand_over, insert_head, keep_books, note_delivery};

/// What the world has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Turns of the event loop.
    pub events: u64,
    /// Times a host was woken.
    pub wakes: u64,
    /// Datagrams hosts have sent.
    pub sent: u64,
    /// Datagrams handed to hosts.
    pub delivered: u64,
    /// Datagrams that arrived at hosts that had not started or had stopped.
    pub ignored: u64,
    /// Packets sent by sources of cross traffic.
    pub cross: u64,
}

/// A network in virtual time.
///
/// ```
/// use framewire_netsim::{HostConfig, LinkConfig, RateProcess, World};
/// use units::{Rate, Span, Time};
/// use wire::{Endpoint, RxMeta, TxMeta};
///
/// /// Sends 1000 bytes every 10 ms, and counts what it hears.
/// #[derive(Default)]
/// struct Chatter {
///     due: Time,
///     heard: u32,
/// }
///
/// impl Endpoint for Chatter {
///     fn receive(&mut self, _: Time, _: &[u8], _: RxMeta) {
///         self.heard += 1;
///     }
///     fn wake(&mut self, _: Time) {}
///     fn next_wake(&self) -> Option<Time> {
///         Some(self.due)
///     }
///     fn transmit(&mut self, now: Time, _: &mut [u8]) -> Option<TxMeta> {
///         if self.due > now {
///             return None;
///         }
///         self.due = now + Span::from_millis(10);
///         Some(TxMeta { length: 1000, ..TxMeta::default() })
///     }
/// }
///
/// let mut world = World::new(1, None);
/// let near = world.add_host(HostConfig::new("near"), Chatter::default());
/// let far = world.add_host(HostConfig::new("far"), Chatter::default());
/// let rate = RateProcess::Constant(Rate::from_kbps(400));
/// let slow = LinkConfig::bottleneck(rate, "droptail:100ms".parse()?, Span::from_millis(20));
/// let (there, back) = (world.add_link("there", slow), world.add_link("back", LinkConfig::delay(Span::ZERO)));
/// world.connect(near, 0, &[there], far);
/// world.connect(far, 0, &[back], near);
/// world.run_until(Time::from_secs(10));
///
/// // 822 kbit/s with their headers on a link of 400: half of them arrive one way, all the other.
/// assert!((450..550).contains(&world.endpoint::<Chatter>(far).heard));
/// assert!(world.endpoint::<Chatter>(near).heard >= 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct World {
    seed: u64,
    recorder: Option<Shared>,
    now: Time,
    hosts: Vec<Host>,
    papers: Vec<Papers>,
    links: Vec<Link>,
    ahead: Vec<Ahead>,
    sources: Vec<(Source, Way)>,
    routes: Routes,
    datagrams: Datagrams,
    agenda: Agenda,
    planned: bool,
    counters: Counters,
    turns_at_once: u32,
    out: Box<[u8; MAX_DATAGRAM]>,
}

impl World {
    /// An empty world whose random streams are all drawn from `seed`. Events go to `recorder`, if there is
    /// one.
    pub fn new(seed: u64, recorder: Option<Shared>) -> World {
        World {
            seed,
            recorder,
            now: Time::ZERO,
            hosts: Vec::new(),
            papers: Vec::new(),
            links: Vec::new(),
            ahead: Vec::new(),
            sources: Vec::new(),
            routes: Routes::default(),
            datagrams: Datagrams::default(),
            agenda: Agenda::new(0, 0),
            planned: false,
            counters: Counters::default(),
            turns_at_once: 0,
            out: Box::new([0; MAX_DATAGRAM]),
        }
    }

    /// The tap for an endpoint that is about to become the next host, whose own clock is `clock`.
    pub fn next_host_tap(&self, clock: HostClock) -> Tap {
        self.later_host_tap(0, clock)
    }

    /// The tap of the host that is added after `others` more.
    pub fn later_host_tap(&self, others: u16, clock: HostClock) -> Tap {
        self.tap(NodeId(self.hosts.len() as u16 + others), clock)
    }

    fn tap(&self, node: NodeId, clock: HostClock) -> Tap {
        self.recorder.as_ref().map_or_else(Tap::default, |shared| Tap::new(shared.clone(), node, clock))
    }

    /// Adds a host. It sends nothing before it is [connected](World::connect).
    ///
    /// # Panics
    /// Beyond [`FIRST_LINK_NODE`] hosts, whose nodes would run into those of the links.
    pub fn add_host(&mut self, config: HostConfig, endpoint: impl Endpoint + Any) -> HostId {
        assert!(
            self.hosts.len() < usize::from(FIRST_LINK_NODE),
            "a world holds at most {FIRST_LINK_NODE} hosts"
        );
        let id = HostId(self.hosts.len() as u16);
        let (host, papers) = Host::new(config, endpoint);
        self.hosts.push(host);
        self.papers.push(papers);
        self.planned = false;
        id
    }

    /// Adds a link. `name` names its random streams too, so it should be the link's own.
    pub fn add_link(&mut self, name: &str, config: LinkConfig) -> LinkId {
        assert!(self.links.len() < usize::from(u16::MAX - FIRST_LINK_NODE), "too many links");
        let id = LinkId(self.links.len() as u16);
        let tap = self.tap(id.node(), HostClock::default());
        self.links.push(Link::new(config, self.seed, name, tap));
        self.ahead.push(Ahead::default());
        self.planned = false;
        id
    }

    /// Sends what `from` transmits through `links`, in order, to `to`, as packets of `flow`.
    ///
    /// # Panics
    /// If `links` is empty or `from` is already connected.
    pub fn connect(&mut self, from: HostId, flow: u16, links: &[LinkId], to: HostId) {
        let way = self.add_route(flow, links, Some(to));
        let host = &mut self.hosts[from.index()];
        assert!(!host.way.is_known(), "host `{}` is already connected", self.papers[from.index()].name);
        host.way = way;
    }

    /// Adds a source of cross traffic whose packets, of `flow`, pass `links` and vanish behind the last.
    ///
    /// # Panics
    /// If `links` is empty.
    pub fn add_cross(&mut self, traffic: CrossTraffic, flow: u16, links: &[LinkId]) {
        let source = Drawn::new(traffic, self.seed, self.sources.len());
        self.add_source(Source::Drawn(source), flow, links);
    }

    /// Adds a source that sends a packet of `size` bytes at each of `instants`, as
    /// [`add_cross`](World::add_cross) does.
    ///
    /// # Panics
    /// If `links` is empty.
    pub fn add_listed(
        &mut self,
        instants: Arc<Instants>,
        size: u32,
        flow: u16,
        links: &[LinkId],
    ) -> SourceId {
        self.add_source(Source::Listed(Listed { instants, size, index: 0 }), flow, links);
        SourceId(self.sources.len() - 1)
    }

    fn add_source(&mut self, source: Source, flow: u16, links: &[LinkId]) {
        let way = self.add_route(flow, links, None);
        self.sources.push((source, way));
        self.planned = false;
    }

    fn add_route(&mut self, flow: u16, links: &[LinkId], to: Option<HostId>) -> Way {
        let last = links.last().expect("a route has at least one link");
        let node = to.map_or(last.node(), HostId::node);
        Way { route: self.routes.add(links, node, self.hears(node)), flow, first: links[0] }
    }

    /// Whether somebody wants to hear what comes to the end of a route, which is recorded under `node`.
    fn hears(&self, node: NodeId) -> bool {
        self.tap(node, HostClock::default()).wants(Topic::Deliveries)
    }

    /// The world's time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// What has been done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Datagrams between hosts, waiting in queues included; a copy that a link made may count, too.
    pub fn in_flight(&self) -> usize {
        self.datagrams.in_flight() + self.links.iter().map(Link::heads).sum::<usize>()
    }

    /// Packets in links: waiting, in transmission and in propagation, cross traffic's included.
    pub fn inside(&self) -> u64 {
        self.links.iter().map(Link::inside).sum()
    }

    /// A link, to look at.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// The endpoint of a host.
    ///
    /// # Panics
    /// If it is not an `E`.
    pub fn endpoint<E: Endpoint + Any>(&self, id: HostId) -> &E {
        let resident: &dyn Any = &*self.hosts[id.index()].endpoint;
        resident.downcast_ref().expect("a host's endpoint keeps its type")
    }

    /// The endpoint of a host, to take results out of.
    ///
    /// # Panics
    /// If it is not an `E`.
    pub fn endpoint_mut<E: Endpoint + Any>(&mut self, id: HostId) -> &mut E {
        let resident: &mut dyn Any = &mut *self.hosts[id.index()].endpoint;
        resident.downcast_mut().expect("a host's endpoint keeps its type")
    }

    /// Ends the world and gives a host's endpoint back.
    ///
    /// # Panics
    /// If it is not an `E`.
    pub fn into_endpoint<E: Endpoint + Any>(mut self, id: HostId) -> E {
        let resident: Box<dyn Any> = self.hosts.swap_remove(id.index()).endpoint;
        *resident.downcast().unwrap_or_else(|_| panic!("a host's endpoint keeps its type"))
    }

    /// Lets everything up to and at `until` happen. The recorder's lock is held meanwhile, where it is a
    /// [`Reentrant`](record::Reentrant).
    ///
    /// # Panics
    /// If a million things happen without time going on; the message names who did the last.
    pub fn run_until(&mut self, until: Time) {
        match self.recorder.clone() {
            Some(recorder) => recorder.during(&mut || self.go_on(until)),
            None => self.go_on(until),
        }
    }

    fn go_on(&mut self, until: Time) {
        self.plan();
        while let Some((at, component)) = self.agenda.first() {
            if unlikely(at > until) {
                break;
            }
            self.advance_to(at, component);
            self.act(component);
        }
        self.now = self.now.max(until);
        for link in 0..self.links.len() {
            self.settle(link);
        }
    }

    /// Writes every component into a new agenda, if some were added since the last one: hosts, sources,
    /// links, and links again for their recorded departures.
    fn plan(&mut self) {
        if self.planned {
            return;
        }
        self.planned = true;
        let recorded = if self.links.iter().any(Link::is_recorded) { self.links.len() } else { 0 };
        self.agenda = Agenda::new(self.hosts.len() + self.sources.len(), self.links.len() + recorded);
        for host in 0..self.hosts.len() {
            self.plan_host(host);
        }
        for (index, (source, _)) in self.sources.iter().enumerate() {
            self.agenda.set(self.hosts.len() + index, source.next());
        }
        for link in 0..self.links.len() {
            self.plan_link(link);
        }
    }

    fn advance_to(&mut self, at: Time, component: usize) {
        self.counters.events += 1;
        if likely(at > self.now) {
            self.now = at;
            self.turns_at_once = 0;
        } else {
            self.count_turns(1, component);
        }
    }

    #[inline]
    fn count_turns(&mut self, turns: u32, component: usize) {
        self.turns_at_once += turns;
        if unlikely(self.turns_at_once >= LIVELOCK) {
            self.give_up(component);
        }
    }

    #[cold]
    fn give_up(&self, component: usize) -> ! {
        let who = self.component_name(component);
        panic!("{who} acted {LIVELOCK} times without time going on, at {:?}", self.now);
    }

    fn component_name(&self, component: usize) -> String {
        let (hosts, sources) = (self.hosts.len(), self.sources.len());
        match component {
            host if host < hosts => format!("host `{}`", self.papers[host].name),
            source if source < hosts + sources => format!("cross traffic {}", source - hosts),
            link => format!("link `{}`", self.links[(link - hosts - sources) % self.links.len()].name()),
        }
    }

    #[inline(always)]
    fn act(&mut self, component: usize) {
        match component.checked_sub(self.agenda.first_busy()) {
            Some(link) if likely(link < self.links.len()) => self.deliver(link),
            Some(link) => self.settle(link - self.links.len()),
            None if likely(component < self.hosts.len()) => self.wake(component),
            None => self.emit(component - self.hosts.len()),
        }
    }

    #[inline(always)]
    fn wake(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if unlikely(!host.plain) {
            self.counters.wakes += 1;
            return self.wake_any(index);
        }
        if unlikely(self.agenda.may_be_early(index)) && self.waits_on(index) {
            return;
        }
        self.counters.wakes += 1;
        let host = &mut self.hosts[index];
        host.endpoint.wake(self.now);
        let sent =
            host.send_all::<true>(self.now, self.now, &mut self.links, &mut self.datagrams, &mut self.out);
        self.take_note::<true>(index, sent);
    }

    /// Whether a host that came up wants to act later only, which is taken note of.
    fn waits_on(&mut self, index: usize) -> bool {
        let wanted = self.hosts[index].next_wake::<true>(self.now);
        if wanted > self.now {
            self.counters.events -= 1;
            self.agenda.set(index, wanted);
        }
        wanted > self.now
    }

    /// Wakes a host that needs a closer look, perhaps for the first time.
    #[inline(never)]
    fn wake_any(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.begin();
        let local = host.clock.local(self.now);
        host.endpoint.wake(local);
        let sent =
            host.send_all::<false>(self.now, local, &mut self.links, &mut self.datagrams, &mut self.out);
        self.take_note::<false>(index, sent);
    }

    /// Plans and counts what follows from what a host sent.
    #[inline(always)]
    fn take_note<const PLAIN: bool>(&mut self, index: usize, sent: SentAll) {
        if PLAIN {
            self.agenda.put_off(index, sent.wake, self.now);
        } else {
            self.agenda.set(index, sent.wake);
        }
        if sent.packets > 0 {
            self.counters.sent += u64::from(sent.packets);
            self.count_turns(sent.packets, index);
            if unlikely(sent.replan) {
                self.plan_link(sent.through);
            }
        }
    }

    fn emit(&mut self, index: usize) {
        self.counters.cross += 1;
        let (source, way) = &mut self.sources[index];
        let packet = Packet { route: way.route, ..Packet::bare(way.flow, source.size(), self.now) };
        let first = way.first;
        source.step();
        let next = source.next();
        self.agenda.set(self.hosts.len() + index, next);
        self.offer(first, packet, Written::NOTHING);
    }

    fn offer(&mut self, link: LinkId, packet: Packet, head: Written<'_>) {
        let index = link.index();
        self.links[index].offer_with(self.now, packet, head);
        keep_books(&mut self.links[index], &mut self.datagrams);
        self.plan_link(index);
    }

    fn deliver(&mut self, index: usize) {
        if unlikely(self.is_crowded()) {
            self.look_ahead(index);
        }
        let mut next = self.deliver_next(index);
        while unlikely(next <= self.now) {
            next = self.deliver_any(index);
        }
    }

    /// The next packet comes out of a link. Plans when the one behind it does, and returns that.
    // All that most packets need, and no look twice at one thing.
    #[inline(always)]
    fn deliver_next(&mut self, index: usize) -> Time {
        let link = &mut self.links[index];
        if unlikely(!link.is_plain()) {
            return self.deliver_any(index);
        }
        let Some(Taken { slot, next, .. }) = link.take(self.now) else { return self.deliver_any(index) };
        self.agenda.set(self.agenda.first_busy() + index, next);
        let packet = slot.packet;
        let end = self.routes.end(packet.route);
        let Some(reached) = end.reached_by(&packet) else {
            self.forward(index, apart(packet));
            return self.links[index].next_due();
        };
        let host = &mut self.hosts[reached];
        if unlikely(!host.plain) {
            self.receive(reached, index, apart(packet), end);
            return self.links[index].next_due();
        }
        self.counters.delivered += 1;
        note_delivery(&self.recorder, self.now, &packet, end);
        let head = Some(&slot.head).filter(|head| likely(head.is_some()));
        hand_over(host, packet, head, &mut self.datagrams, self.now);
        let sent =
            host.send_all::<true>(self.now, self.now, &mut self.links, &mut self.datagrams, &mut self.out);
        let through = sent.through;
        self.take_note::<true>(reached, sent);
        if unlikely(through == index) { self.links[index].next_due() } else { next }
    }

    /// The same of any link.
    #[inline(never)]
    fn deliver_any(&mut self, index: usize) -> Time {
        let link = &mut self.links[index];
        let packet = link.deliver(self.now);
        keep_books(link, &mut self.datagrams);
        if let Some(packet) = packet {
            self.forward(index, packet);
        }
        self.plan_link(index);
        self.links[index].next_due()
    }

    /// A packet that just came `out` of a link.
    #[inline(never)]
    fn forward(&mut self, out: usize, packet: Packet) {
        let end = self.routes.end(packet.route);
        if packet.hop != end.last {
            return self.pass_on(out, packet);
        }
        match end.host() {
            Some(host) => self.receive(host, out, packet, end),
            None => note_delivery(&self.recorder, self.now, &packet, end),
        }
    }

    /// A packet enters the next link of its route.
    fn pass_on(&mut self, out: usize, mut packet: Packet) {
        packet.hop += 1;
        let link = self.routes.link(&packet);
        let keeps = self.links[link.index()].keeps_heads();
        match self.links[out].head().copied() {
            Some(head) if likely(keeps) => self.offer(link, packet, Written::from(&head)),
            Some(head) => {
                let id = insert_head(&mut self.datagrams, &head, &packet);
                self.offer(link, Packet { id, ..packet }, Written::NOTHING);
            }
            None => self.offer(link, packet, Written::NOTHING),
        }
    }

    /// A packet that just came `out` of a link reaches the host at its route's `end`.
    #[inline(never)]
    fn receive(&mut self, index: usize, out: usize, packet: Packet, end: End) {
        let host = &mut self.hosts[index];
        if unlikely(!host.is_up(self.now)) {
            self.counters.ignored += 1;
            return self.datagrams.release(packet.id);
        }
        self.counters.delivered += 1;
        note_delivery(&self.recorder, self.now, &packet, end);
        let local = host.clock.local(self.now);
        hand_over(host, packet, self.links[out].head(), &mut self.datagrams, local);
        let sent =
            host.send_all::<false>(self.now, local, &mut self.links, &mut self.datagrams, &mut self.out);
        self.take_note::<false>(index, sent);
    }

    fn settle(&mut self, link: usize) {
        self.links[link].settle(self.now);
        keep_books(&mut self.links[link], &mut self.datagrams);
        self.plan_link(link);
    }

    #[inline(always)]
    fn plan_host(&mut self, index: usize) {
        let wanted = self.hosts[index].next_wake::<false>(self.now);
        self.agenda.set(index, wanted);
    }

    #[inline(always)]
    fn plan_link(&mut self, index: usize) {
        let link = &self.links[index];
        let component = self.agenda.first_busy() + index;
        self.agenda.set(component, link.next_due());
        if link.is_recorded() {
            self.agenda.set(component + self.links.len(), link.next_departure());
        }
    }
}
