//! Send again up to ten times, however late that is; then ask the encoder for a key frame.
//!
//! What libwebrtc does (`modules/video_coding/nack_requester.cc`: a packet is asked for ten times at most,
//! and what is then missing is answered by a key frame). Its receiver waits three seconds for a frame before
//! it asks for a key frame by itself; with a deadline of `3s` so does ours.

use super::retransmit::is_on_its_way;
use super::{Missing, Recovery, Repair, View};
use wire::Class;

/// libwebrtc's `kMaxNackRetries`.
const MOST: u8 = 10;

/// Retransmission by number of attempts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nack;

impl Recovery for Nack {
    fn repair(&mut self, view: &View, missing: &Missing) -> Repair {
        match missing.class {
            Class::Padding | Class::OneShot => Repair::Leave,
            _ if is_on_its_way(view, missing) => Repair::Leave,
            Class::Deadline if missing.repeats >= MOST => Repair::KeyFrame,
            Class::Deadline | Class::Reliable => Repair::Resend,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Span, Time};
    use wire::FrameId;

    #[test]
    fn ten_times_whatever_the_deadline() {
        let view =
            View { now: Time::from_millis(900), srtt: Span::from_millis(40), queue: Span::from_millis(5) };
        let (id, last_sent, deadline) = (FrameId::first(1), Time::from_millis(800), Time::from_millis(400));
        let missing =
            Missing { stream: 0, id, index: 0, class: Class::Deadline, last_sent, repeats: 9, deadline };
        let mut policy = Nack;
        assert_eq!(policy.repair(&view, &missing), Repair::Resend);
        assert_eq!(policy.repair(&view, &Missing { repeats: 10, ..missing }), Repair::KeyFrame);
        assert_eq!(policy.repair(&view, &Missing { last_sent: view.now, ..missing }), Repair::Leave);
    }
}
