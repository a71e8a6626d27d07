//! When a dummy may leave, besides what window and pacer say.

use units::{Bytes, Time};
use wire::Media;

use crate::rate::Dummies;

/// Keeps dummies away from camera frames, and everything together below a rate.
#[derive(Clone, Copy, Debug)]
pub struct Filler {
    dummies: Dummies,
    /// When everything sent so far would have left at the highest rate.
    clear_at: Time,
    /// A camera frame holds dummies back until then.
    held_until: Time,
}

impl Filler {
    /// A filler that has held nothing back, of datagrams of `mtu` bytes at most.
    pub fn new(dummies: Dummies, mtu: usize) -> Filler {
        let size = Bytes::new(dummies.size.get().clamp(Media::LEN as u64, mtu as u64));
        Filler { dummies: Dummies { size, ..dummies }, clear_at: Time::ZERO, held_until: Time::ZERO }
    }

    /// Datagram bytes of a dummy.
    pub fn size(&self) -> usize {
        self.dummies.size.get() as usize
    }

    /// A packet of any kind left.
    pub fn sent(&mut self, now: Time, size: Bytes) {
        self.clear_at = self.clear_at.max(now) + self.dummies.most.time_to_send(size);
    }

    /// Things have changed: a frame was captured or came out of the encoder.
    pub fn look_again(&mut self) {
        self.held_until = Time::ZERO;
    }

    /// The earliest time at which a dummy may leave, as far as is known.
    pub fn next(&self) -> Time {
        self.clear_at.max(self.held_until)
    }

    /// Whether a dummy may leave now, by a stream whose next frame is captured at `next` and whose last one
    /// was at `awaited`, if it has not come out of the encoder yet. If not, [`next`](Filler::next) says when
    /// to ask again.
    pub fn may(&mut self, now: Time, next: Time, awaited: Option<Time>) -> bool {
        let Dummies { before, after, .. } = self.dummies;
        let quiet_until = awaited.map_or(Time::ZERO, |captured| captured + after);
        if now >= next.saturating_sub(before) {
            self.held_until = self.held_until.max(next + after);
        } else if now < quiet_until {
            self.held_until = self.held_until.max(quiet_until);
        }
        self.next() <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Rate, Span};

    fn filler() -> Filler {
        let guard = Span::from_millis(5);
        let most = Rate::from_mbps(12);
        Filler::new(Dummies { size: Bytes::new(200), before: guard, after: guard, most, repeat: false }, 1200)
    }

    #[test]
    fn none_around_a_camera_frame() {
        let ms = Time::from_millis;
        let asked = |now, awaited: Option<u64>| {
            let mut filler = filler();
            let may = filler.may(ms(now), ms(100), awaited.map(ms));
            (may, filler.next())
        };
        assert_eq!(asked(94, None), (true, Time::ZERO));
        assert_eq!(asked(95, None), (false, ms(105)));
        assert_eq!(asked(69, Some(67)), (false, ms(72)));
        assert_eq!(asked(72, Some(67)), (true, Time::ZERO));
    }

    #[test]
    fn none_above_the_highest_rate() {
        let (mut filler, now) = (filler(), Time::from_millis(50));
        assert!(filler.may(now, Time::MAX, None));
        // 1500 bytes take a millisecond at 12 Mbit/s.
        filler.sent(now, Bytes::new(1_500));
        assert!(!filler.may(now, Time::MAX, None));
        assert_eq!(filler.next(), now + Span::from_millis(1));
        assert!(filler.may(now + Span::from_millis(1), Time::MAX, None));
    }
}
