//! What is asked of a cell: rules that say from the network alone, before anything is run, that an invariant
//! can't hold there or has nothing to say. `docs/grid.md` lists them with their reasons.
//!
//! None of them looks at what a controller makes of the cell. A cell that fails stays a failed cell.

use units::{Bytes, Rate, Span};
use wire::Media;

use super::invariants::{ENOUGH, GRACE, Invariant};
use super::terms::Terms;

/// Headers of an IP packet that carries media.
const HEADERS: u64 = Media::LEN as u64 + netsim::IP_UDP_OVERHEAD as u64;
/// From capture to coded frame, as the encoder model has it unless a scenario says otherwise.
const ENCODING: Span = Span::from_millis(4);
/// From an arrival that shows a gap until the request for what is missing leaves: 5 ms of patience with
/// reordering, and a few for timers.
const NOTICING: Span = Span::from_millis(10);
/// What is expected less than once in twenty runs is in reach.
const EXPECTED: f64 = 0.05;
/// From here on packets lost at random can't be told from congestion by a controller that must yield: GCC's
/// loss-based half lowers its rate above 10 % (draft-ietf-rmcat-gcc-02 section 6).
const CONGESTION: f64 = 0.1;
/// The largest key frame a sender is asked to make: what its least rate carries in 200 ms, the time in which
/// SQP drains a queue (arXiv 2207.11857 section 7).
const KEY_FRAME: Span = Span::from_millis(200);

/// A rule: who is spared, and why.
pub struct Rule {
    /// Its name in tables and in `docs/grid.md`.
    pub name: &'static str,
    /// The invariants it spares.
    pub spares: &'static [Invariant],
    /// The reason, for people.
    pub reason: &'static str,
    /// Whether it applies.
    pub applies: fn(&Terms) -> bool,
}

use Invariant::{Picture, Queue, Recovery, Use, Whole};

/// All rules; the first that applies to an invariant names its reason.
pub const RULES: &[Rule] = &[
    Rule {
        name: "rate",
        spares: &Invariant::ALL,
        reason: "the link, less cross traffic and shared fairly, carries less than twice the flow's least rate",
        applies: |terms| terms.available().as_f64() < terms.least.as_f64() * ENOUGH,
    },
    Rule {
        name: "deadline",
        spares: &Invariant::ALL,
        reason: "the deadline is shorter than encoding, one packet's transmission and a one-way trip",
        applies: |terms| spare(terms) < Span::ZERO,
    },
    Rule {
        name: "one-packet queue",
        spares: &Invariant::ALL,
        reason: "the queue holds less than two packets: nothing may ever leave back to back",
        applies: |terms| terms.room.is_some_and(|room| room < 2 * packet(terms)),
    },
    Rule {
        name: "key frame",
        spares: &[Picture, Recovery],
        reason: "so few tries fit into the deadline that of the key frames of two seconds and four round trips, each of the least size, none may arrive",
        applies: |terms| {
            let packets = terms.least.bytes_in(KEY_FRAME).get().div_ceil(payload(terms)).max(1);
            let arrives = (1.0 - never(terms)).powi(packets as i32);
            // Asked for, coded, sent: one a round trip, and no faster than frames are taken.
            let cycle = (terms.rtt + NOTICING).max(terms.interval);
            let cycles = (Span::from_secs(2) + terms.rtt * 4).as_secs_f64() / cycle.as_secs_f64();
            let stretches = life(terms) / 2.0;
            (1.0 - arrives).powf(cycles.floor().max(1.0)) * stretches > EXPECTED
        },
    },
    Rule {
        name: "repair",
        spares: &[Whole],
        reason: "so few tries fit into the deadline that some frame is expected to lack a packet for good",
        applies: |terms| frames(terms) * packets_of_half(terms) * never(terms) > EXPECTED,
    },
    Rule {
        name: "headers",
        spares: &[Whole],
        reason: "the headers of so many frames a second, with the least rate twice over, do not fit the link: the sender must leave frames out",
        applies: |terms| {
            let headers = Rate::average(Bytes::new(HEADERS), terms.interval);
            terms.available().as_f64() < (terms.least.as_f64() + headers.as_f64()) * ENOUGH
        },
    },
    Rule {
        name: "short queue",
        spares: &[Use, Whole],
        reason: "the queue holds less than one frame at half the link's rate",
        applies: |terms| {
            let frame = usable(terms).mul_f64(0.5).bytes_in(terms.interval).get();
            terms.room.is_some_and(|room| room < frame.max(2 * packet(terms)))
        },
    },
    Rule {
        name: "unsteady",
        spares: &[Use, Whole],
        reason: "asked of links that neither change nor go dark",
        applies: |terms| !terms.steady,
    },
    Rule {
        name: "contested",
        spares: &[Use, Whole],
        reason: "asked of flows that have the link to themselves",
        applies: |terms| !terms.is_alone(),
    },
    Rule {
        name: "loss as congestion",
        spares: &[Use],
        reason: "a tenth of the packets or more are lost: who goes on at half the link's rate would not yield to congestion either",
        applies: |terms| terms.loss >= CONGESTION,
    },
    Rule {
        name: "TCP fills it",
        spares: &[Queue],
        reason: "the other flow is made to fill the queue",
        applies: Terms::is_beside_tcp,
    },
    Rule {
        name: "no limit",
        spares: &[Queue],
        reason: "how much the queue holds is not known",
        applies: |terms| terms.room.is_none(),
    },
    Rule {
        name: "no fault",
        spares: &[Recovery],
        reason: "nothing happens that ends early enough to be recovered from",
        applies: |terms| terms.recoverable().next().is_none(),
    },
    Rule {
        name: "too short",
        spares: &[Picture, Use, Whole, Queue],
        reason: "the flow is on for less than three times the five seconds it has to find its feet",
        applies: |terms| life(terms) < 2.0 * GRACE.as_secs_f64(),
    },
];

/// The rule that spares these terms an invariant, if one does.
pub fn excluded(invariant: Invariant, terms: &Terms) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.spares.contains(&invariant) && (rule.applies)(terms))
}

/// Whether anything at all is asked.
pub fn is_in_reach(terms: &Terms) -> bool {
    // Everything else may be spared for not applying; a picture may be asked of any network that can bear
    // one.
    excluded(Picture, terms).is_none()
}

/// Wire bytes of a full packet.
fn packet(terms: &Terms) -> u64 {
    u64::from(terms.mtu) + netsim::IP_UDP_OVERHEAD as u64
}

/// Payload of a full packet.
fn payload(terms: &Terms) -> u64 {
    u64::from(terms.mtu).saturating_sub(Media::LEN as u64).max(1)
}

/// What is left of the deadline when a packet sent at once has arrived.
fn spare(terms: &Terms) -> Span {
    let sending = terms.rate.time_to_send(Bytes::new(HEADERS));
    terms.deadline - ENCODING - sending - terms.rtt / 2
}

/// The probability that a packet and all repeats of it that fit into the deadline are lost.
fn never(terms: &Terms) -> f64 {
    if terms.loss == 0.0 {
        return 0.0;
    }
    let again = spare(terms).as_nanos() / (terms.rtt + NOTICING).as_nanos().max(1);
    terms.loss.powi(i32::try_from(again + 1).unwrap_or(i32::MAX))
}

/// The rate that can be used.
fn usable(terms: &Terms) -> Rate {
    terms.available().min(terms.most)
}

/// Packets of a frame at half the rate that can be used.
fn packets_of_half(terms: &Terms) -> f64 {
    let frame = usable(terms).mul_f64(0.5).bytes_in(terms.interval).get();
    frame.div_ceil(payload(terms)).max(1) as f64
}

/// Seconds the flow is on, the first five left out.
fn life(terms: &Terms) -> f64 {
    ((terms.end - terms.start) - GRACE).as_secs_f64()
}

/// Frames captured in that time.
fn frames(terms: &Terms) -> f64 {
    life(terms) / terms.interval.as_secs_f64()
}
