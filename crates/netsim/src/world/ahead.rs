//! Memory that a crowd's packets will need, fetched before it is wanted.
//!
//! ```text
//! out of the link <-- [0]  [1]             [2]        .  [4]         . . .  [12]
//!                     now  what its host   its host's    its host           the packet
//!                          refers to       endpoint      and counters       itself
//! ```
//!
//! Whom a packet reaches is looked up once, at the fourth place, and remembered until it is the first.

use units::fetch_line;

use super::World;

/// From so many hosts on, what packets will need is fetched before it is wanted. Fewer are in a cache of 1 MB
/// anyway: 200 of a session's gain nothing, 2000 are 1.3 to 1.5 times as fast.
const CROWD: usize = 256;
/// How many packets ahead of their turn: each is found through what was fetched before it. No farther than
/// memory takes to answer, for what is fetched has to stay in a first cache of 32 KiB until then, and every
/// packet touches some fifty lines.
const PACKET_AHEAD: usize = 12;
const HOST_AHEAD: usize = 4;
const ENDPOINT_AHEAD: usize = 2;
const ITS_MEMORY_AHEAD: usize = 1;
/// Hosts that are remembered: a power of two, and more than lie between the second of these and the last.
const LATEST: usize = 4;
/// In place of a host, where a packet reaches none.
const NOBODY: u16 = u16::MAX;

/// Whom the packets that come out of a link next will reach, as far as it was looked up: once for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    hosts: [u16; LATEST],
    /// Packets looked at so far, less whole rounds of the list.
    turn: usize,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead { hosts: [NOBODY; LATEST], turn: 0 }
    }
}

impl Ahead {
    /// Enters whom the packet reaches that is [`HOST_AHEAD`]. Returns those whose endpoint, and whose memory
    /// behind it, is to be fetched now.
    #[inline(always)]
    fn enter(&mut self, host: u16) -> (usize, usize) {
        self.turn = (self.turn + 1) % LATEST;
        self.hosts[self.turn] = host;
        let earlier = |turns: usize| usize::from(self.hosts[(self.turn + LATEST - turns) % LATEST]);
        (earlier(HOST_AHEAD - ENDPOINT_AHEAD), earlier(HOST_AHEAD - ITS_MEMORY_AHEAD))
    }
}

impl World {
    #[inline(always)]
    pub(super) fn is_crowded(&self) -> bool {
        self.hosts.len() >= CROWD
    }

    /// Has brought into the caches what the packets behind the one that now comes out of a link will need.
    /// With many hosts that is memory which nobody has touched for long; it comes while others act.
    #[inline(never)]
    pub(super) fn look_ahead(&mut self, index: usize) {
        let link = &self.links[index];
        let mut reached = NOBODY;
        if let Some(packet) = link.after(HOST_AHEAD, PACKET_AHEAD - HOST_AHEAD) {
            link.expect(packet.flow);
            if let Some(host) = self.routes.end(packet.route).reached_by(packet) {
                fetch_line(&self.hosts[host]);
                reached = host as u16;
            }
        }
        let (endpoint, memory) = self.ahead[index].enter(reached);
        if let Some(host) = self.hosts.get(endpoint) {
            host.endpoint.fetch();
        }
        if let Some(host) = self.hosts.get(memory) {
            host.endpoint.expect();
            self.agenda.fetch(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_remembered_for_the_turns_between() {
        let mut ahead = Ahead::default();
        let found: Vec<(usize, usize)> = (0..10).map(|host| ahead.enter(host)).collect();
        let nobody = usize::from(NOBODY);
        assert_eq!(found[..4], [(nobody, nobody), (nobody, nobody), (0, nobody), (1, 0)]);
        assert_eq!(found[9], (7, 6));
    }
}
