//! CoDel (RFC 8289): drops at the head once packets have waited longer than a target for a whole interval,
//! and then ever more often until they no longer do.
//!
//! ```text
//! sojourn >= target for an interval --> drop, next drop in interval / sqrt(count), count + 1 ...
//! sojourn <  target                 --> stop; if it starts again soon, go on near the old count
//! ```

mod control;
mod mahimahi;

use record::Dropped;
use units::{Span, Time};

use super::droptail::LIMIT_OPTION;
use super::fifo::Fifo;
use super::options::Options;
use super::registry::Built;
use super::{Backlog, Drops, Entry, Limit, Queue, Setup};
use crate::Packet;
use crate::text::TextError;

pub(super) use control::{Control, Parameters};

/// The registry's row.
pub(super) const ENTRY: Entry = Entry {
    name: "codel",
    syntax: "codel, codel:target=13ms,ecn, codel:100p,mahimahi",
    summary: "CoDel (RFC 8289): drops at the head while packets have waited too long",
    options: &[
        LIMIT_OPTION,
        ("target", "sojourn that is acceptable; default 5ms"),
        ("interval", "how long it may be exceeded: a round trip; default 100ms"),
        ("mtu", "no drop while no more bytes than this wait; default 1500B"),
        ("ecn", "marks ECN-capable packets instead of dropping them; default off"),
        (
            "linux",
            "a drop needs more than an interval above target, as in Linux, not just an interval; default off",
        ),
        (
            "mahimahi",
            "loses the packet after the one that CoDel drops, in whole milliseconds, as Mahimahi does",
        ),
    ],
    build,
};

/// Linux's default (`sch_codel.c`); RFC 8289 leaves the limit open.
const LIMIT: u32 = 1_000;

/// What `mahimahi` can't be combined with.
const PLAIN: &str = "mahimahi without ecn, linux and mtu";

fn build(options: &Options<'_>, setup: &Setup) -> Built {
    let limit = options.limit(setup.reference, Limit::packets(LIMIT))?;
    let parameters = read(options, Parameters::default())?;
    if options.switch("mahimahi", false)? {
        let Parameters { target, interval, .. } = parameters;
        if parameters != (Parameters { target, interval, ..Parameters::default() }) {
            return Err(TextError::new("mahimahi", "to be combined with other behaviour", PLAIN));
        }
        return Ok(Box::new(mahimahi::Codel::new(limit, target, interval)));
    }
    Ok(Box::new(Codel::new(limit, parameters)))
}

/// The options of the control law.
pub(super) fn read(options: &Options<'_>, default: Parameters) -> Result<Parameters, TextError> {
    Ok(Parameters {
        target: options.time("target", default.target)?,
        interval: options.time("interval", default.interval)?,
        mtu: options.size("mtu", default.mtu)?,
        ecn: options.switch("ecn", default.ecn)?,
        strict: options.switch("linux", default.strict)?,
    })
}

/// One queue under CoDel's control.
#[derive(Clone, Debug)]
pub struct Codel {
    packets: Fifo,
    limit: Limit,
    parameters: Parameters,
    control: Control,
}

impl Codel {
    /// An empty queue.
    pub fn new(limit: Limit, parameters: Parameters) -> Codel {
        Codel { packets: Fifo::default(), limit, parameters, control: Control::default() }
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, _now: Time, packet: Packet, _drops: &mut Drops) -> Result<(), Dropped> {
        if !self.limit.admits(self.packets.backlog(), packet.size) {
            return Err(Dropped::QueueFull);
        }
        self.packets.push(packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        let packets = &mut self.packets;
        let pop = || packets.pop().map(|packet| (packet, packets.bytes()));
        self.control.dequeue(&self.parameters, now, pop, drops)
    }

    fn backlog(&self) -> Backlog {
        self.packets.backlog()
    }

    fn fork(&self) -> Option<Box<dyn Queue>> {
        Some(Box::new(self.clone()))
    }
}

/// RFC 8289 sections 4 and 5: 5 ms and 100 ms.
const TARGET: Span = Span::from_millis(5);
/// See [`TARGET`].
const INTERVAL: Span = Span::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::{every_millisecond, serve};
    use units::Ecn;

    const SERVICE: Span = Span::from_micros(1_250);

    #[test]
    fn c7_a_queue_under_overload() {
        let mut queue = Codel::new(Limit::packets(10_000), Parameters::default());
        let outcome = serve(&mut queue, every_millisecond(3_000), SERVICE);
        assert_eq!((outcome.drops.len(), outcome.out.len()), (290, 2_710));
        let first: Vec<_> = outcome.drops.iter().take(12).map(|&(at, id)| (at.as_millis_f64(), id)).collect();
        let expected = [
            (125.0, 100),
            (225.0, 181),
            (296.25, 239),
            (353.75, 286),
            (403.75, 327),
            (448.75, 364),
            (490.0, 398),
            (527.5, 429),
            (562.5, 458),
            (596.25, 486),
            (627.5, 512),
            (657.5, 537),
        ];
        assert_eq!(first, expected);
        assert_eq!(outcome.drops[289], (Time::from_micros(3_382_500), 2_995));
        assert_eq!(outcome.most_waited, Span::from_micros(387_250));
    }

    #[test]
    fn capable_packets_are_marked_where_others_are_dropped() {
        let parameters = Parameters { ecn: true, ..Parameters::default() };
        let mut queue = Codel::new(Limit::NONE, parameters);
        let capable = |packet: Packet| Packet { ecn: Ecn::Ect0, ..packet };
        let outcome = serve(&mut queue, every_millisecond(1_000).map(capable), SERVICE);
        let out = outcome.out.iter().map(|(_, packet)| packet);
        let marked: Vec<_> = out.filter(|packet| packet.ecn == Ecn::Ce).collect();
        assert!(outcome.drops.is_empty());
        // Marking takes no packet away: it starts at the same time and comes at least as often.
        assert_eq!(marked[0].id, 100);
        assert!(marked.len() >= 12, "{}", marked.len());
    }
}
