//! Prism: while a lost packet is on its way again, the rate is split between the predicted stream, which
//! keeps its quality, and key frames, which keep the picture moving (thesis chapter 4).
//!
//! ```text
//!            a packet is lost, asked for again, or suspected or foretold to be
//!   NORMAL ----------------------------------------------------------> RECOVERY, frame k = 0, 1, 2, ...
//!   predicted stream alone <------------------------------------------ predicted stream: rate - x(k)
//!            the predicted stream is whole up to a frame                key frames: x(k), each sent once
//!            coded since, and 50 ms have passed                         beyond the table: key frames alone
//! ```
//!
//! The predicted stream is sent until it arrives, so that whatever the receiver misses it gets; a false alarm
//! costs it the share of the key frames for 50 ms and nothing else. With no loss and no alarm the packets are
//! those of [`Resend`](super::Resend), byte by byte.

use std::sync::Arc;

use predict::Watch;
use prism::{Fitted, Pictures, Table, Tables};
use units::{Rate, Span, Time};
use wire::Class;

use super::alarms::{Alarms, SHORTEST, Until};
use super::{Base, News, Order, Strategy, View};
use crate::recovery::{self, Missing, Repair};
use crate::schedule::{self, Pick};

/// The capture's tracks, in this order.
const PREDICTED: usize = 0;
const KEY: usize = 1;

/// A split stream under decision tables.
pub struct Prism {
    tables: Tables,
    /// The tables for the capture's pictures, from the first look at them on.
    fitted: Option<ForPictures>,
    alarms: Alarms,
}

/// [`Tables`] for the capture's pictures.
struct ForPictures {
    lost: Fitted,
    foretold: Fitted,
}

impl Prism {
    /// Splits by `tables`, before a loss where `watch` foresees it, until the receiver's decoder, which takes
    /// `decode` for a frame if that is known, has caught up.
    pub fn new(tables: Tables, watch: Option<Watch>, decode: Option<Span>) -> Prism {
        Prism { tables, fitted: None, alarms: Alarms::new(Until::Whole { decode }, watch) }
    }
}

/// The table for pictures as the capture has them; as it is where their size is not known.
fn fit(table: &Arc<Table>, view: &View<'_>) -> Fitted {
    let pictures = match view.picture {
        (0, _) | (_, 0) => table.about().pictures,
        (width, height) => Pictures::new(u32::from(width), u32::from(height), view.interval),
    };
    table.clone().fitted(pictures)
}

/// What the plan's rate leaves beside what is sent again, which is to have left a round trip from now, or 50
/// ms: at least half, so that the picture goes on however much was lost. Key frames leave first, so that
/// without this a loss would never be repaired while they take the whole rate.
///
/// Deviation: the thesis splits the whole rate, and its simulator's repairs take none of it.
fn without_repairs(view: &View<'_>) -> Rate {
    let rate = view.plan.bitrate;
    let repairs = Rate::average(view.repairs, view.srtt.max(SHORTEST));
    Rate::from_bps(rate.as_bps() - repairs.as_bps().min(rate.as_bps() / 2))
}

impl Strategy for Prism {
    fn tracks(&self, _: u8) -> &'static [Class] {
        &[Class::Reliable, Class::OneShot]
    }

    fn hear(&mut self, now: Time, news: &News) {
        self.alarms.hear(now, news);
    }

    fn order(&mut self, view: &View<'_>, orders: &mut [Order]) {
        let Some(recovery) = self.alarms.advance(view) else {
            orders[KEY].encode = false;
            return;
        };
        let Tables { lost, foretold } = &self.tables;
        let tables = self
            .fitted
            .get_or_insert_with(|| ForPictures { lost: fit(lost, view), foretold: fit(foretold, view) });
        let table = if recovery.foretold { &tables.foretold } else { &tables.lost };
        let left = without_repairs(view);
        let split = table.split(recovery.before, left, recovery.place);
        // Key frames leave before all that waits, so that it does not matter how long that has waited.
        // Another key frame would only wait behind the one that does.
        let encode = view.tracks[KEY].waiting == 0;
        let largest_key = Some(split.key.bytes_in(view.interval));
        orders[KEY] = Order { encode, rate: split.key, base: Base::Nothing, largest_key, parity: 0.0 };
        orders[PREDICTED].encode &= !split.is_key_only();
        orders[PREDICTED].rate = split.predicted;
    }

    fn repair(&mut self, _: &recovery::View, _: &Missing) -> Repair {
        // Neither of its tracks asks: one is sent until it arrives, the other once.
        Repair::Leave
    }

    /// Key frames, then what is sent again, then the predicted stream: the thesis has no order, and a key
    /// frame that waits behind repairs comes when nobody needs it.
    fn pick(&mut self, view: &schedule::View<'_>) -> Pick {
        let key = (KEY..view.fresh.len()).step_by(self.tracks(0).len()).find(|&track| view.fresh[track] > 0);
        match key {
            Some(track) => Pick::Fresh(track),
            None => schedule::Schedule::pick(&mut schedule::Live, view),
        }
    }

    fn take_watch(&mut self) -> Option<Watch> {
        self.alarms.take_watch()
    }

    fn mode(&self) -> &'static str {
        self.alarms.mode()
    }
}

#[cfg(test)]
mod tests {
    use wire::FrameId;

    use super::*;
    use crate::rate::Plan;
    use crate::strategy::TrackView;

    /// What a frame's second track gets, and whether the first is coded.
    fn order(strategy: &mut Prism, frame: u32) -> (Rate, bool) {
        let (plan, zero) = (Plan::new(Rate::from_mbps(10), true), Span::ZERO);
        let track = |stream, class| TrackView {
            stream,
            class,
            waiting: 0,
            waiting_bytes: units::Bytes::ZERO,
            waited: zero,
            cut: false,
        };
        let view = View {
            now: Time::from_millis(16 * u64::from(frame)),
            capture: 0,
            frame,
            interval: Span::from_millis(16),
            picture: (1920, 1080),
            srtt: Span::from_millis(40),
            plan,
            repairs: units::Bytes::ZERO,
            tracks: &[track(0, Class::Reliable), track(16, Class::OneShot)],
        };
        let mut orders = [Order::whole(&plan); 2];
        strategy.order(&view, &mut orders);
        let key = if orders[KEY].encode { orders[KEY].rate } else { Rate::ZERO };
        (key, orders[PREDICTED].encode)
    }

    #[test]
    fn a_predictor_alone_costs_less_than_what_is_known_to_be_lost() {
        let tables = Tables::by_style("racing").unwrap();
        let mut foretold = Prism::new(tables.clone(), None, None);
        let mut lost = Prism::new(tables, None, None);
        for strategy in [&mut foretold, &mut lost] {
            assert_eq!(order(strategy, 0), (Rate::ZERO, true), "nothing is wrong yet");
        }
        let now = Time::from_millis(10);
        let loss = News::Lost { stream: 0, id: FrameId { frame: 0, version: 0 } };
        foretold.hear(now, &News::Foretold);
        lost.hear(now, &loss);
        let (little, much) = (order(&mut foretold, 1), order(&mut lost, 1));
        assert!(Rate::ZERO < little.0 && little.0 < much.0 && little.1 && much.1, "{little:?} {much:?}");
        // What was foretold has happened: from now on it is a loss like any other.
        foretold.hear(now, &loss);
        assert_eq!(order(&mut foretold, 2), order(&mut lost, 2));
        // And a predictor's word after it takes nothing back.
        foretold.hear(now, &News::Foretold);
        assert_eq!(order(&mut foretold, 3), order(&mut lost, 3));
    }
}
