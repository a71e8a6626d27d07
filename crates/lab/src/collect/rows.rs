//! Which rows of a run are kept.

use record::{Topic, Topics};

/// Which rows of a flow are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowRows {
    /// Packets and frames.
    pub packets: bool,
    /// What the sender learnt of packets: acknowledged, lost, not lost after all. It stands in the packets'
    /// rows, and nowhere without them.
    pub fates: bool,
    /// Round-trip samples.
    pub rtt: bool,
    /// The controller's decisions.
    pub decisions: bool,
    /// The controller's inner quantities.
    pub observed: bool,
}

impl FlowRows {
    /// What they are made of at a sender.
    pub(super) fn at_sender(&self) -> Topics {
        self.at_receiver()
            | Topics::only_if(self.fates, Topic::Fates)
            | Topics::only_if(self.rtt, Topic::RoundTrips)
            | Topics::only_if(self.decisions, Topic::Decisions)
            | Topics::only_if(self.observed, Topic::Observations)
    }

    /// What they are made of at a receiver.
    pub(super) fn at_receiver(&self) -> Topics {
        Topics::only_if(self.packets, Topic::Packets) | Topics::only_if(self.packets, Topic::Frames)
    }
}

/// Which rows of the shared links are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkRows {
    /// Packets that the queue took, with what stood in it.
    pub arrivals: bool,
    /// Packets that left the server, with how long they were in the link.
    pub departures: bool,
    /// Packets that were dropped, with the cause.
    pub drops: bool,
}

impl LinkRows {
    /// What they are made of.
    pub(super) fn topics(&self) -> Topics {
        Topics::only_if(self.arrivals, Topic::Arrivals)
            | Topics::only_if(self.departures, Topic::Departures)
            | Topics::only_if(self.drops, Topic::Drops)
    }
}

/// Which rows of a run are kept: most of a run's memory, and a tenth of its time.
///
/// ```
/// use framewire_lab::collect::Rows;
///
/// let mut rows = Rows::none(2);
/// rows.flows[1].rtt = true;
/// assert!(Rows::all(2).cover(&rows) && !rows.cover(&Rows::all(2)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Of each flow, in the scenario's order.
    pub flows: Vec<FlowRows>,
    /// Of the shared links.
    pub links: LinkRows,
}

impl Rows {
    /// Every row of a run of so many flows.
    pub fn all(flows: usize) -> Rows {
        let flow = FlowRows { packets: true, fates: true, rtt: true, decisions: true, observed: true };
        Rows { flows: vec![flow; flows], links: LinkRows { arrivals: true, departures: true, drops: true } }
    }

    /// No rows of a run of so many flows.
    pub fn none(flows: usize) -> Rows {
        Rows { flows: vec![FlowRows::default(); flows], links: LinkRows::default() }
    }

    /// Those of `other`, a run of the same flows, too.
    pub fn add(&mut self, other: &Rows) {
        for (mine, other) in self.flows.iter_mut().zip(&other.flows) {
            mine.packets |= other.packets;
            mine.fates |= other.fates;
            mine.rtt |= other.rtt;
            mine.decisions |= other.decisions;
            mine.observed |= other.observed;
        }
        self.links.arrivals |= other.links.arrivals;
        self.links.departures |= other.links.departures;
        self.links.drops |= other.links.drops;
    }

    /// Whether all of `other`, a run of the same flows, are among these.
    pub fn cover(&self, other: &Rows) -> bool {
        let mut both = self.clone();
        both.add(other);
        both == *self
    }
}
