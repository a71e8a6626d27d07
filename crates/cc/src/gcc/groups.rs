//! Packet groups and the delay variation between them (draft-ietf-rmcat-gcc-02 section 5.2).

use units::{RemoteTime, Span, Time};

/// Packets sent within this of a group's first belong to it (draft section 5.2, `burst_time`).
pub const BURST: Span = Span::from_millis(5);
/// A burst that a radio released at once is one group however it was sent, if its packets arrive this close
/// ...
const RELEASE_GAP: Span = Span::from_millis(5);
/// ... and within this in all (libwebrtc `inter_arrival_delta`).
const RELEASE: Span = Span::from_millis(100);
/// The receiver's clock may run ahead of ours by this between two groups; beyond, it was set (libwebrtc).
const CLOCK_JUMP: Span = Span::from_millis(3000);
/// Groups arriving before their predecessor until all are forgotten (libwebrtc).
const REORDERED: u32 = 3;

/// What makes packets a group.
#[derive(Clone, Copy, Debug)]
pub struct Grouping {
    /// They were sent within this.
    pub burst: Span,
    /// Or were released together, the later one waiting less by more than this: what rounding of times makes
    /// of nothing.
    pub grain: Span,
}

impl From<Span> for Grouping {
    /// Where times are exact.
    fn from(burst: Span) -> Grouping {
        Grouping { burst, grain: Span::ZERO }
    }
}

/// A packet that was sent and arrived. Send times are on one clock, arrival times on another, `heard` on
/// ours.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When it left, on the clock of its send times.
    pub sent: RemoteTime,
    /// When it arrived, on the receiver's clock.
    pub arrived: RemoteTime,
    /// When we learnt of it.
    pub heard: Time,
    /// Bytes on the wire.
    pub size: u32,
}

/// How a group compares with the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// `T_i - T_(i-1)`, by each group's last packet.
    pub departure: Span,
    /// `t_i - t_(i-1)`, likewise.
    pub arrival: Span,
    /// Bytes more than the group before.
    pub size: i64,
    /// When the later group was complete.
    pub arrived: RemoteTime,
}

impl Variation {
    /// `d = (t_i - t_(i-1)) - (T_i - T_(i-1))` in ms.
    pub fn delay_ms(&self) -> f64 {
        (self.arrival - self.departure).as_millis_f64()
    }
}

#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: RemoteTime,
    sent: RemoteTime,
    first_arrived: RemoteTime,
    arrived: RemoteTime,
    heard: Time,
    size: u64,
}

impl Group {
    fn of(packet: &Packet) -> Group {
        Group {
            first_sent: packet.sent,
            sent: packet.sent,
            first_arrived: packet.arrived,
            arrived: packet.arrived,
            heard: packet.heard,
            size: u64::from(packet.size),
        }
    }

    /// Sent in the same burst, or held back by a radio and released together: the later packet waited less.
    fn takes(&self, packet: &Packet, Grouping { burst, grain }: Grouping) -> bool {
        let (apart, gap) = (packet.sent - self.sent, packet.arrived - self.arrived);
        let released =
            gap + grain < apart && gap <= RELEASE_GAP && (packet.arrived - self.first_arrived) < RELEASE;
        packet.sent - self.first_sent <= burst || released
    }

    fn add(&mut self, packet: &Packet) {
        self.sent = self.sent.max(packet.sent);
        self.arrived = self.arrived.max(packet.arrived);
        self.heard = packet.heard;
        self.size += u64::from(packet.size);
    }
}

/// Puts packets into groups.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    grouping: Grouping,
    current: Option<Group>,
    previous: Option<Group>,
    reordered: u32,
}

impl Groups {
    /// Groups of packets by `grouping`; a time is one of packets that were sent within it.
    pub fn new(grouping: impl Into<Grouping>) -> Groups {
        Groups { grouping: grouping.into(), current: None, previous: None, reordered: 0 }
    }

    /// Takes a packet; if it opens a new group, says how the one it closes compares with the one before.
    /// Packets sent before the current group are too late to tell anything.
    pub fn push(&mut self, packet: &Packet) -> Option<Variation> {
        match &mut self.current {
            None => {
                self.current = Some(Group::of(packet));
                None
            }
            Some(current) if packet.sent < current.first_sent => None,
            Some(current) if current.takes(packet, self.grouping) => {
                current.add(packet);
                None
            }
            Some(_) => {
                let found = self.compare();
                self.previous = self.current.replace(Group::of(packet));
                found
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Groups::new(self.grouping);
    }

    fn compare(&mut self) -> Option<Variation> {
        let (current, previous) = (self.current?, self.previous?);
        let arrival = current.arrived - previous.arrived;
        let jumped = arrival - (current.heard - previous.heard) >= CLOCK_JUMP;
        self.reordered = if arrival < Span::ZERO { self.reordered + 1 } else { 0 };
        if jumped || self.reordered >= REORDERED {
            self.clear();
        }
        let departure = current.sent - previous.sent;
        let size = current.size as i64 - previous.size as i64;
        (arrival >= Span::ZERO && !jumped).then_some(Variation {
            departure,
            arrival,
            size,
            arrived: current.arrived,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets as `(sent, arrived)` in ms; the variations they give.
    fn variations(packets: &[(i64, i64)]) -> Vec<(i64, i64, i64)> {
        let mut groups = Groups::new(BURST);
        let ms = |ms: i64| RemoteTime::from_nanos(ms * 1_000_000);
        let push = |&(sent, arrived): &(i64, i64)| {
            let heard = Time::from_millis(arrived.max(0) as u64 + 20);
            groups.push(&Packet { sent: ms(sent), arrived: ms(arrived), heard, size: 1000 })
        };
        let show = |v: Variation| (v.departure.as_micros() / 1000, v.arrival.as_micros() / 1000, v.size);
        packets.iter().filter_map(push).map(show).collect()
    }

    #[test]
    fn bursts_of_5_ms_are_compared_by_their_last_packets() {
        // Groups {0, 3, 5}, {20, 22}, {40}: last packets leave at 5, 22, 40 and arrive at 30, 45, 70.
        let packets = [(0, 20), (3, 24), (5, 30), (20, 41), (22, 45), (40, 70), (60, 90)];
        assert_eq!(variations(&packets), [(17, 15, -1000), (18, 25, -1000)]);
    }

    #[test]
    fn what_a_radio_held_back_is_one_group() {
        // 20, 30 and 40 arrive within a millisecond of each other.
        let packets = [(0, 20), (20, 70), (30, 71), (40, 71), (60, 80), (90, 110)];
        assert_eq!(variations(&packets), [(40, 51, 2000), (20, 9, -2000)]);
    }

    #[test]
    fn rounding_releases_nothing() {
        // Sent 5.001 ms apart and received 5: one group where times are exact, two where they are rounded.
        let grouping = |grain| Grouping { burst: BURST, grain };
        for (grain, found) in [(Span::ZERO, 0), (Span::from_micros(500), 2)] {
            let mut groups = Groups::new(grouping(grain));
            let packet = |n: i64| {
                let (sent, arrived) =
                    (RemoteTime::from_nanos(n * 5_001_068), RemoteTime::from_nanos(n * 5_000_000));
                Packet { sent, arrived, heard: Time::from_millis(5 * n as u64), size: 1000 }
            };
            assert_eq!((0..4).filter_map(|n| groups.push(&packet(n))).count(), found);
        }
    }

    #[test]
    fn late_packets_are_passed_over_and_a_clock_that_jumps_starts_afresh() {
        let packets = [(0, 20), (20, 40), (10, 41), (40, 60), (60, 80)];
        assert_eq!(variations(&packets), [(20, 20, 0), (20, 20, 0)]);
        let mut groups = Groups::new(BURST);
        let at = |n: u64, jump: i64| Packet {
            sent: Time::from_millis(20 * n).on_wire(),
            arrived: Time::from_millis(20 * n + 30).on_wire() + Span::from_millis(jump),
            heard: Time::from_millis(20 * n + 50),
            size: 1000,
        };
        assert!((0..3).filter_map(|n| groups.push(&at(n, 0))).count() == 1);
        assert!((3..5).filter_map(|n| groups.push(&at(n, 60_000))).count() == 1);
        assert!((5..7).filter_map(|n| groups.push(&at(n, 60_000))).count() == 1);
    }
}
