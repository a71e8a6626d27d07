//! Send again while it can still help; else ask the encoder for a key frame.

use units::Span;
use wire::Class;

use super::{Missing, Recovery, Repair, View};

/// A packet sent this much less than a round trip ago is still on its way: hearing of its loss twice (from
/// the ledger and from a NACK) sends it once.
const ON_ITS_WAY: f64 = 0.9;

/// Whether the packet left so lately that it can't have been heard of.
pub(super) fn is_on_its_way(view: &View, missing: &Missing) -> bool {
    view.now - missing.last_sent < view.srtt.mul_f64(ON_ITS_WAY).max(Span::from_millis(1))
}

/// Retransmission under a deadline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retransmit;

impl Recovery for Retransmit {
    fn repair(&mut self, view: &View, missing: &Missing) -> Repair {
        let due = view.now + view.queue + view.srtt / 2;
        match missing.class {
            Class::Padding | Class::OneShot => Repair::Leave,
            _ if is_on_its_way(view, missing) => Repair::Leave,
            Class::Deadline if due > missing.deadline => Repair::KeyFrame,
            Class::Deadline | Class::Reliable => Repair::Resend,
        }
    }
}

/// No repair at all: for measuring what a path does to a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRepair;

impl Recovery for NoRepair {
    fn repair(&mut self, _: &View, _: &Missing) -> Repair {
        Repair::Leave
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Time;

    fn missing(class: Class, last_sent: u64, deadline: u64) -> Missing {
        let (last_sent, deadline) = (Time::from_millis(last_sent), Time::from_millis(deadline));
        let id = wire::FrameId::first(1);
        Missing { stream: 0, id, index: 0, class, last_sent, repeats: 0, deadline }
    }

    #[test]
    fn worth_it_or_not() {
        let view =
            View { now: Time::from_millis(100), srtt: Span::from_millis(40), queue: Span::from_millis(5) };
        let mut policy = Retransmit;
        assert_eq!(policy.repair(&view, &missing(Class::Deadline, 50, 125)), Repair::Resend);
        assert_eq!(policy.repair(&view, &missing(Class::Deadline, 50, 124)), Repair::KeyFrame);
        assert_eq!(policy.repair(&view, &missing(Class::Deadline, 70, 400)), Repair::Leave);
        assert_eq!(policy.repair(&view, &missing(Class::Reliable, 50, 0)), Repair::Resend);
        assert_eq!(policy.repair(&view, &missing(Class::OneShot, 50, 400)), Repair::Leave);
    }
}
