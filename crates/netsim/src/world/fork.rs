//! Copies of a world that go on by themselves: runs that begin alike need their beginning only once.

use std::any::Any;
use std::sync::Arc;

use record::{NodeId, Shared, Tap};
use units::{HostClock, Time};
use wire::Endpoint;

use super::World;
use crate::cross::Source;
use crate::instants::Instants;
use crate::place::{HostConfig, HostId, LinkId, Resident, SourceId};

impl World {
    /// Adds a host as [`add_host`](World::add_host) does, with an endpoint of which `fork` makes a copy that
    /// records with another tap, or none. A world all of whose hosts were added so can be
    /// [forked](World::fork).
    ///
    /// # Panics
    /// As [`add_host`](World::add_host).
    pub fn add_forkable_host<E: Endpoint + Any>(
        &mut self,
        config: HostConfig,
        endpoint: E,
        fork: fn(&E, Tap) -> Option<E>,
    ) -> HostId {
        let id = self.add_host(config, endpoint);
        self.papers[id.index()].fork = Some(Arc::new(move |resident, tap| {
            let resident: &dyn Any = resident;
            let endpoint = resident.downcast_ref().expect("a host's endpoint keeps its type");
            fork(endpoint, tap).map(|copy| -> Box<dyn Resident> { Box::new(copy) })
        }));
        id
    }

    /// A copy that goes on by itself from here, as this one would, with what is in flight; its events go to
    /// `recorder`. None if a host was not [added as forkable](World::add_forkable_host) or gives no copy, or
    /// if a queue gives none.
    ///
    /// ```
    /// use framewire_netsim::{HostConfig, LinkConfig, World};
    /// use units::{Span, Time};
    /// use wire::{Endpoint, RxMeta, TxMeta};
    ///
    /// /// Sends a datagram every 10 ms to itself.
    /// #[derive(Clone, Default)]
    /// struct Ticker {
    ///     due: Time,
    ///     heard: u32,
    /// }
    ///
    /// impl Endpoint for Ticker {
    ///     fn receive(&mut self, _: Time, _: &[u8], _: RxMeta) {
    ///         self.heard += 1;
    ///     }
    ///     fn wake(&mut self, _: Time) {}
    ///     fn next_wake(&self) -> Option<Time> {
    ///         Some(self.due)
    ///     }
    ///     fn transmit(&mut self, now: Time, _: &mut [u8]) -> Option<TxMeta> {
    ///         let due = self.due <= now;
    ///         due.then(|| {
    ///             self.due = now + Span::from_millis(10);
    ///             TxMeta { length: 1000, ..TxMeta::default() }
    ///         })
    ///     }
    /// }
    ///
    /// let mut world = World::new(1, None);
    /// let copied = |ticker: &Ticker, _| Some(ticker.clone());
    /// let host = world.add_forkable_host(HostConfig::new("ticker"), Ticker::default(), copied);
    /// let link = world.add_link("around", LinkConfig::delay(Span::from_millis(25)));
    /// world.connect(host, 0, &[link], host);
    /// world.run_until(Time::from_secs(1));
    /// let mut later = world.fork(None).expect("its only host can be copied");
    /// later.run_until(Time::from_secs(2));
    /// let heard = |world: &World| world.endpoint::<Ticker>(host).heard;
    /// assert_eq!((heard(&world), heard(&later)), (98, 198));
    /// world.run_until(Time::from_secs(2));
    /// assert_eq!(heard(&world), 198);
    /// ```
    pub fn fork(&self, recorder: Option<Shared>) -> Option<World> {
        let mut world = World::new(self.seed, recorder);
        for (node, (host, papers)) in (0..).map(NodeId).zip(self.hosts.iter().zip(&self.papers)) {
            world.hosts.push(host.fork(papers, world.tap(node, host.clock))?);
        }
        world.papers.clone_from(&self.papers);
        for (index, link) in (0..).zip(&self.links) {
            world.links.push(link.fork(world.tap(LinkId(index).node(), HostClock::default()))?);
        }
        world.ahead.clone_from(&self.ahead);
        world.routes = self.routes.heard_by(|node| world.hears(node));
        let World { now, planned, counters, turns_at_once, .. } = *self;
        let (sources, datagrams, agenda) =
            (self.sources.clone(), self.datagrams.clone(), self.agenda.clone());
        Some(World { now, sources, datagrams, agenda, planned, counters, turns_at_once, ..world })
    }

    /// From here on a source sends at `instants`: those behind as many of them as it has sent packets.
    ///
    /// # Panics
    /// If it sends as a pattern says.
    pub fn replace_listed(&mut self, source: SourceId, instants: Arc<Instants>) {
        let Source::Listed(listed) = &mut self.sources[source.0].0 else {
            panic!("cross traffic {} has no list", source.0)
        };
        listed.instants = instants;
        if self.planned {
            self.agenda.set(self.hosts.len() + source.0, self.sources[source.0].0.next());
        }
    }

    /// From here on `link` loses what arrives within `blackouts`, instead of those that it had.
    pub fn replace_blackouts(&mut self, link: LinkId, blackouts: Vec<(Time, Time)>) {
        self.links[link.index()].replace_blackouts(blackouts, self.seed);
    }
}
