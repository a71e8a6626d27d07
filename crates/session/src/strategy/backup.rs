//! Every frame twice: predicted and sent until it arrives, and beside that small, alone and once.
//!
//! The second track is what a viewer gets to see while a packet of the first is on its way again: a picture
//! of low quality instead of none. Nothing of it is repeated, and each of its frames decodes alone.
//! `docs/add-a-strategy.md` quotes this file.

use wire::Class;

use super::{Base, Order, Strategy, View};
use crate::recovery::{self, Missing, Repair};
use crate::schedule::{self, Pick, Schedule};

/// Share of the rate that the second track gets: our choice, not held against others.
const SHARE: f64 = 0.2;

/// A reliable track of predicted frames and a one-shot track of key frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backup;

impl Strategy for Backup {
    fn tracks(&self, _: u8) -> &'static [Class] {
        &[Class::Reliable, Class::OneShot]
    }
    fn order(&mut self, view: &View<'_>, orders: &mut [Order]) {
        let [main, backup] = orders else { return };
        main.rate = view.plan.bitrate.mul_f64(1.0 - SHARE);
        // While a backup waits to leave, another would only wait behind it.
        let behind = view.tracks.iter().any(|track| track.class == Class::OneShot && track.waiting > 0);
        let (encode, rate) = (backup.encode && !behind, view.plan.bitrate.mul_f64(SHARE));
        *backup = Order { encode, rate, base: Base::Nothing, ..*backup };
    }
    fn repair(&mut self, _: &recovery::View, _: &Missing) -> Repair {
        Repair::Leave
    }
    fn pick(&mut self, view: &schedule::View<'_>) -> Pick {
        schedule::Live.pick(view)
    }
    fn mode(&self) -> &'static str {
        "backup"
    }
}
