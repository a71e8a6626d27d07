//! The strategy: frames of now strictly before those of before.

use session::recovery::{self, Missing, Recovery, Repair, Retransmit};
use session::schedule::{self, Pick};
use session::strategy::{News, Order, View};
use session::{Strategy, capture_of};
use units::Time;
use wire::Class;

use crate::{AGAIN, LIVE, Upload};

/// Tells the upload what happens, and does as it says.
pub struct Vantage {
    pub upload: Upload,
}

impl Strategy for Vantage {
    fn tracks(&self, capture: u8) -> &'static [Class] {
        if capture == AGAIN { &[Class::Reliable] } else { &[Class::Deadline] }
    }

    fn hear(&mut self, now: Time, news: &News) {
        let mut state = self.upload.lock();
        if let News::Coded { stream, id, ssim: Some(ssim), .. } = *news {
            state.measured(stream, id.frame, ssim);
        }
        match *news {
            News::Captured { capture: LIVE, frame } => state.captured(now, frame),
            News::Coded { stream, id, size, key, ssim } if capture_of(stream) == LIVE => {
                state.coded(now, id.frame, size, key, ssim);
            }
            News::Coded { id, size, ssim, .. } => state.coded_again(now, id.frame, size, ssim),
            News::Acked { stream, id, complete: true } if capture_of(stream) == LIVE => {
                state.arrived(id.frame);
            }
            News::Acked { id, complete: true, .. } => state.arrived_again(id.frame),
            News::Stuck { stream, after } if capture_of(stream) == LIVE => state.stuck(after),
            _ => {}
        }
    }

    fn order(&mut self, view: &View<'_>, orders: &mut [Order]) {
        let mut state = self.upload.lock();
        let [order] = orders else { return };
        *order =
            if view.capture == LIVE { state.order(view, *order) } else { state.order_again(view, *order) };
    }

    fn repair(&mut self, view: &recovery::View, missing: &Missing) -> Repair {
        Retransmit.repair(view, missing)
    }

    fn pick(&mut self, view: &schedule::View<'_>) -> Pick {
        let live = view.fresh.first().copied().unwrap_or(0);
        let again = view.fresh.get(1).copied().unwrap_or(0);
        let pick = match view.repair_of {
            Some(LIVE) => Pick::Repair,
            _ if live > 0 => Pick::Fresh(0),
            Some(_) => Pick::Repair,
            None if again > 0 => Pick::Fresh(1),
            None if view.padding > 0 => Pick::Padding,
            None => Pick::Nothing,
        };
        self.upload.lock().waits_again(again - usize::from(pick == Pick::Fresh(1)));
        pick
    }

    fn mode(&self) -> &'static str {
        if self.upload.lock().is_repairing() { "repair" } else { "live" }
    }
}
