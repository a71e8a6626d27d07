//! Round trips of single packets.

use units::Span;

use crate::{Acked, Report};

/// Each packet of a report, by number, with its round trip as if it had been acknowledged the moment it
/// arrived: what passed between its arrival and the newest packet's was the receiver's waiting, not the
/// path's. Packets without an arrival time say nothing. Clock offset cancels.
pub fn packet_rtts<'a>(report: &Report<'a>) -> impl Iterator<Item = (&'a Acked, Span)> + use<'a> {
    let timed = |acked: &Acked| Some(acked.arrived_at?.delay_since(acked.sent_at));
    let newest = report.acked.iter().rev().find_map(timed);
    let (acked, (latest, newest)) = match report.latest_rtt.zip(newest) {
        Some(known) => (report.acked, known),
        None => Default::default(),
    };
    acked.iter().filter_map(move |acked| Some((acked, latest + (timed(acked)? - newest))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{acked, report};
    use units::Time;

    #[test]
    fn waiting_at_the_receiver_is_left_out() {
        // Sent at 1, 2 and 3 ms, they arrive after 20, 24 and 28 ms; the report is read 40 ms after the last
        // was sent.
        let arrive = |packet: u64, after: i64| Acked {
            arrived_at: Some((Time::from_millis(packet) + Span::from_millis(after)).on_wire()),
            ..acked(packet, 1000)
        };
        let mut acks = [arrive(1, 20), arrive(2, 24), arrive(3, 28)];
        let rtts: Vec<_> = packet_rtts(&report(&acks, &[])).map(|(_, rtt)| rtt).collect();
        assert_eq!(rtts, [32, 36, 40].map(Span::from_millis));
        acks[1].arrived_at = None;
        assert_eq!(packet_rtts(&report(&acks, &[])).count(), 2);
        assert_eq!(packet_rtts(&crate::Report { latest_rtt: None, ..report(&acks, &[]) }).count(), 0);
    }
}
