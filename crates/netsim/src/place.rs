//! Hosts, links and the routes between them, by name.

use std::any::Any;
use std::sync::Arc;

use record::{NodeId, Tap};
use units::{HostClock, Time, likely, unlikely};
use wire::Endpoint;

/// Names a host of a world; it is also the host's [`NodeId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) u16);

/// Names a link of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u16);

/// Names a source of cross traffic at listed instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceId(pub(crate) usize);

/// The [`NodeId`] of the first link; hosts are numbered from 0. Each kind has half of all numbers.
pub const FIRST_LINK_NODE: u16 = 1 << 15;

impl HostId {
    /// Under which node the host's events are recorded.
    pub fn node(self) -> NodeId {
        NodeId(self.0)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}
impl LinkId {
    /// Under which node the link's events are recorded: [`FIRST_LINK_NODE`] and the link's number.
    pub fn node(self) -> NodeId {
        NodeId(FIRST_LINK_NODE + self.0)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A host's place in the world.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// What people call it.
    pub name: String,
    /// Its own clock.
    pub clock: HostClock,
    /// World time of its first wake; packets that arrive earlier are ignored.
    pub start: Time,
    /// World time from which it is neither woken nor handed packets.
    pub stop: Time,
}

impl HostConfig {
    /// A host that lives for the whole run and whose clock is the world's.
    pub fn new(name: &str) -> HostConfig {
        HostConfig { name: name.to_owned(), clock: HostClock::default(), start: Time::ZERO, stop: Time::MAX }
    }
}

/// An endpoint whose results can be taken out again by its type.
pub(crate) trait Resident: Endpoint + Any {}
impl<E: Endpoint + Any> Resident for E {}

/// Makes a copy of an endpoint that records with another tap, if there can be one.
pub(crate) type Fork = Arc<dyn Fn(&dyn Resident, Tap) -> Option<Box<dyn Resident>> + Send + Sync>;

/// A host in the world, in one line of the caches: each packet touches one, and among many it is a cold one.
#[repr(align(64))]
pub(crate) struct Host {
    pub endpoint: Box<dyn Resident>,
    pub clock: HostClock,
    /// World time of its first wake, and from which it is neither woken nor handed packets.
    start: Time,
    stop: Time,
    /// Where its datagrams go; [`Way::NOWHERE`] before it is connected.
    pub way: Way,
    /// Whether it has been woken for the first time.
    started: bool,
    /// Whether it is as most are: started, connected, never to stop, and with the world's clock for its own.
    /// One look for each packet instead of four.
    pub plain: bool,
}

/// What of a host is seldom asked for.
#[derive(Clone)]
pub(crate) struct Papers {
    pub name: String,
    /// None where the endpoint can't be copied.
    pub fork: Option<Fork>,
}

impl Host {
    /// A host that has not been connected or woken, and its papers.
    pub fn new(config: HostConfig, endpoint: impl Endpoint + Any) -> (Host, Papers) {
        let HostConfig { name, clock, start, stop } = config;
        let (endpoint, way) = (Box::new(endpoint), Way::NOWHERE);
        let host = Host { endpoint, clock, start, stop, way, started: false, plain: false };
        (host, Papers { name, fork: None })
    }

    /// It is woken, perhaps for the first time.
    pub fn begin(&mut self) {
        self.started = true;
        self.plain = self.way.is_known() && self.stop == Time::MAX && self.clock == HostClock::default();
    }

    /// A copy that goes on by itself and records with `tap`, if there can be one.
    pub fn fork(&self, papers: &Papers, tap: Tap) -> Option<Host> {
        let endpoint = papers.fork.as_ref()?(&*self.endpoint, tap)?;
        let Host { endpoint: _, clock, start, stop, way, started, plain } = *self;
        Some(Host { endpoint, clock, start, stop, way, started, plain })
    }

    /// Whether it may be handed packets at `now`.
    pub fn is_up(&self, now: Time) -> bool {
        now >= self.start && now < self.stop
    }

    /// World time at which it is to be woken next, not before `now`; [`Time::MAX`] for never. `PLAIN`: the
    /// host [is](Host::plain).
    #[inline(always)]
    pub fn next_wake<const PLAIN: bool>(&self, now: Time) -> Time {
        if PLAIN {
            return self.endpoint.next_wake().map_or(Time::MAX, |at| at.max(now));
        }
        let wanted = if likely(self.started) {
            self.endpoint.next_wake().map_or(Time::MAX, |local| self.clock.world(local).max(now))
        } else {
            self.start.max(now)
        };
        // Few hosts ever stop.
        if unlikely(self.stop < Time::MAX) && wanted >= self.stop { Time::MAX } else { wanted }
    }
}

/// Where a source's packets go and under which number.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub route: u16,
    pub flow: u16,
    pub first: LinkId,
}

impl Way {
    /// That of who is not connected.
    pub const NOWHERE: Way = Way { route: 0, flow: 0, first: LinkId(u16::MAX) };

    /// Whether it leads anywhere.
    pub fn is_known(self) -> bool {
        self.first != Way::NOWHERE.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_line() {
        assert_eq!(size_of::<Host>(), 64);
    }
}
