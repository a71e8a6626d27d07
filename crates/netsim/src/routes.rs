//! The links that packets pass, and where each such route ends.

use record::NodeId;

use crate::Packet;
use crate::place::{FIRST_LINK_NODE, LinkId};

/// Where a route ends. Every delivery asks, and most routes have one link: apart from the links they are few
/// bytes, which stay in a processor's first cache where many flows share a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// How many links lie behind a packet that is in the last one.
    pub last: u16,
    /// Under which node what comes to the end is recorded: the host there, or for cross traffic, which ends
    /// nowhere, the last link.
    pub node: NodeId,
    /// Whether somebody wants to hear of it.
    pub heard: bool,
}

impl End {
    /// The host there; cross traffic has none.
    #[inline(always)]
    pub fn host(&self) -> Option<usize> {
        (self.node.0 < FIRST_LINK_NODE).then_some(usize::from(self.node.0))
    }

    /// The host that `packet` of this route reaches when it comes out of the link it is in, if there is one.
    #[inline(always)]
    pub fn reached_by(&self, packet: &Packet) -> Option<usize> {
        self.host().filter(|_| packet.hop == self.last)
    }
}

/// All routes of a world, by number.
#[derive(Clone, Default)]
pub(crate) struct Routes {
    ends: Vec<End>,
    links: Vec<Vec<LinkId>>,
}

impl Routes {
    /// Adds a route over `links`, one at least, at whose end `node` is, and returns its number; `heard`:
    /// whether somebody wants to hear of what comes there.
    ///
    /// # Panics
    /// Beyond 65,536 routes.
    pub fn add(&mut self, links: &[LinkId], node: NodeId, heard: bool) -> u16 {
        let number = u16::try_from(self.ends.len()).expect("at most 65536 routes");
        self.ends.push(End { last: (links.len() - 1) as u16, node, heard });
        self.links.push(links.to_vec());
        number
    }

    /// The same routes where others listen.
    pub fn heard_by(&self, hears: impl Fn(NodeId) -> bool) -> Routes {
        let mut routes = self.clone();
        routes.ends.iter_mut().for_each(|end| end.heard = hears(end.node));
        routes
    }

    /// Where the route of this number ends.
    #[inline(always)]
    pub fn end(&self, route: u16) -> End {
        self.ends[usize::from(route)]
    }

    /// The link that a packet is in.
    pub fn link(&self, packet: &Packet) -> LinkId {
        self.links[usize::from(packet.route)][usize::from(packet.hop)]
    }
}
