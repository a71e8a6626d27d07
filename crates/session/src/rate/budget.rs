//! The live policy with an account: what the encoder codes beyond its rate is paid back, by smaller frames
//! first, then by frames left out, then by pictures with fewer rows.
//!
//! ```text
//!  controller's rate -> Live (hysteresis, less what waits) -> nominal rate
//!  debt += what a frame took at the rate it was planned with;  debt -= time
//!                                 -> rate of the next frame: nominal x (1 - debt / 500 ms)
//!                                 -> debt above 250 ms: the frame is left out
//!  for 1 s the rate below what the rows need, or debt above 100 ms      -> fewer rows
//!  for 4 s the rate above twice what the next rung needs, and above twice that of the last step down -> one rung up
//! ```
//!
//! Controllers whose bursts leave faster than their rate (SQP's at twice of it) empty the sender's own queue
//! whatever the encoder codes; what is too much stands in the network's queue, where [`Live`] does not see
//! it. The account sees it. It is kept in time, not in bytes: what was sent at a high rate is no debt at a
//! low one. What is not in flight any more is none either.

use std::collections::VecDeque;

use units::{Bytes, Rate, Span, Time};

use super::{Departed, Entry, Ladder, Live, Manner, Plan, RateControl, View};

/// The registry's row.
pub const ENTRY: Entry = Entry {
    name: "budget",
    summary: "live, with an account of what was coded: excess is paid back by smaller frames, frames left out, fewer rows",
    options: &[],
    build: |_| Ok(Box::new(Budget::default())),
};

/// Debt is worked off over this long: slower than what waits at the sender (200 ms), since encoders pay back
/// by themselves as well.
const PAY_OVER: Span = Span::from_millis(500);
/// With more debt than this, frames are left out.
const MOST_DEBT: Span = Span::from_millis(250);
/// What begins a scene, a key frame too, takes at most so long at the nominal rate, and what is left up to
/// [`MOST_DEBT`]. It costs no frame even where the rate is half as high again as the link's.
const MOST_KEY: Span = Span::from_millis(150);
/// Packets that waited longer at the sender cost frames ([`Live`]): a key frame does not, nor does the second
/// of two packets at a low rate.
const PATIENCE: Span = Span::from_millis(200);
/// A key frame may take so much even where nearly as much is owed: with less there is no picture worth the
/// name.
const LEAST_ROOM: Span = Span::from_millis(100);
/// Frame intervals that may be saved up: encoders vary from frame to frame.
const CREDIT: f64 = 2.0;
/// At the lowest rates a single packet takes longer than [`MOST_DEBT`]: so many bytes may always be owed, and
/// wait, two of them.
const LEAST_DEBT: Bytes = Bytes::new(2_400);
/// Frames between encoder and network whose rates are remembered: more than any encoder keeps.
const PLANNED: usize = 64;

/// Coded bits that each element of a picture needs even where little moves: OpenH264 holds 180 kbit/s with a
/// talking head of 720 rows and 30 frames/s, and no less (docs/encoders.md). What moves more shows as debt.
const LEAST_BITS: f64 = 0.0065;
/// An encoder that owes so much all the time can't code so little: a tenth of a second is more than it owes
/// between key frames.
const STRAINED: f64 = 0.1;
/// A larger picture is taken where its rate is exceeded this many times: the way back down would cost two key
/// frames.
const ROOM_TO_GROW: f64 = 2.0;
/// How long the rate must be too low for the rows, ...
const SHRINK_AFTER: Span = Span::from_secs(1);
/// ... or high enough for more.
const GROW_AFTER: Span = Span::from_secs(4);

/// `live` with an account of what the encoder codes beyond its rate.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    live: Live,
    /// Seconds that the frames sent take beyond the time that has passed; negative: less, down to [`CREDIT`].
    debt: f64,
    settled_at: Option<Time>,
    /// Frames planned of late, and their nominal rates.
    planned: VecDeque<(u32, Rate)>,
    rows: Rows,
}

impl Budget {
    /// Brings the account up to `view`'s time.
    fn settle(&mut self, view: &View<'_>, nominal: Rate) {
        let elapsed = self.settled_at.replace(view.now).map_or(Span::ZERO, |then| view.now - then);
        let took = |frame: &Departed| {
            let planned = self.planned.iter().find(|(number, _)| *number == frame.frame);
            planned.map_or(Span::ZERO, |(_, nominal)| nominal.time_to_send(frame.sent))
        };
        let spent = view.departed.iter().map(took).fold(Span::ZERO, |sum, span| sum + span);
        let credit = -CREDIT * view.interval.as_secs_f64();
        // What stands in the network's queue is part of what is in flight.
        let standing = nominal.time_to_send(view.in_flight).as_secs_f64();
        self.debt = (self.debt + (spent - elapsed).as_secs_f64()).min(standing).max(credit);
    }

    fn remember(&mut self, frame: u32, nominal: Rate) {
        if self.planned.len() == PLANNED {
            self.planned.pop_front();
        }
        self.planned.push_back((frame, nominal));
    }
}

impl RateControl for Budget {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        let packets = view.cc_rate.map_or(Span::ZERO, |rate| rate.time_to_send(LEAST_DEBT));
        let patience = view.patience.max(PATIENCE).max(packets);
        let plan = self.live.plan(&View { patience, ..*view });
        let nominal = plan.bitrate;
        self.settle(view, nominal);
        let owed = self.debt.max(0.0);
        let share = (1.0 - owed / PAY_OVER.as_secs_f64()).max(0.0);
        let bitrate = nominal.mul_f64(share).max(view.limits.0);
        let most = MOST_DEBT.max(nominal.time_to_send(LEAST_DEBT));
        let encode = plan.encode && owed <= most.as_secs_f64();
        if encode {
            self.remember(view.frame, nominal);
        }
        let room = (most - Span::from_secs_f64(owed)).clamp(LEAST_ROOM, MOST_KEY);
        let largest_key = plan.largest_key.map(|largest| largest.min(nominal.bytes_in(room)));
        Plan {
            bitrate,
            encode,
            largest_key,
            height: self.rows.choose(view, nominal, owed > STRAINED),
            ..plan
        }
    }

    fn manner(&self) -> Manner {
        self.live.manner()
    }

    fn observe(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("debt", self.debt);
        if let Some(height) = self.rows.height {
            sink("height", f64::from(height));
        }
    }
}

/// The rows that pictures are coded with.
#[derive(Clone, Debug, Default)]
struct Rows {
    height: Option<u16>,
    /// The rate at the last step down.
    left_at: Rate,
    /// Since when the rate has been too low.
    low_since: Option<Time>,
    /// Since when it would have done for more.
    high_since: Option<Time>,
}

impl Rows {
    /// The rows of the next frame, by an encoder that is `strained` if it can't code so little; none where
    /// the source can't be scaled.
    fn choose(&mut self, view: &View<'_>, rate: Rate, strained: bool) -> Option<u16> {
        if view.height == 0 {
            return None;
        }
        let height = self.height.unwrap_or(view.height).min(view.height);
        let ladder = Ladder::CALLS;
        let least = |rows: u16| least(rows, view.interval);
        let low = rate < least(height) || strained;
        let above = ladder.above(height, view.height);
        let high = above.is_some_and(|rows| rate > least(rows).max(self.left_at).mul_f64(ROOM_TO_GROW));
        let lasted = |since: &mut Option<Time>, is: bool, long: Span| {
            *since = since.or(Some(view.now)).filter(|_| is);
            since.is_some_and(|since| view.now - since >= long)
        };
        let shrink = lasted(&mut self.low_since, low, SHRINK_AFTER) || low && self.height.is_none();
        if shrink {
            self.left_at = rate;
        }
        let grow = lasted(&mut self.high_since, high, GROW_AFTER);
        let next = match (shrink, grow) {
            (true, _) => ladder
                .heights()
                .iter()
                .copied()
                .find(|&rows| rows < height && rate >= least(rows))
                .or(ladder.below(height)),
            (_, true) => above,
            _ => None,
        };
        if next.is_some() {
            (self.low_since, self.high_since) = (None, None);
        }
        self.height = Some(next.unwrap_or(height));
        self.height
    }
}

/// The rate below which a picture of so many rows, 16:9, can't be coded at one frame an `interval`.
fn least(rows: u16, interval: Span) -> Rate {
    let elements = f64::from(rows) * f64::from(rows) * 16.0 / 9.0;
    Rate::from_f64(elements * LEAST_BITS / interval.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Span = Span::from_millis(20);

    fn view(tick: u64, rate: Rate, height: u16, departed: &[Departed]) -> View<'_> {
        View {
            now: Time::from_millis(20 * tick),
            stream: 0,
            frame: tick as u32,
            interval: INTERVAL,
            cc_rate: Some(rate),
            queued: Bytes::ZERO,
            in_flight: Bytes::new(1 << 40),
            waited: Span::ZERO,
            cut: false,
            open: true,
            patience: Span::from_millis(100),
            limits: (Rate::from_kbps(50), Rate::from_mbps(100)),
            height,
            departed,
        }
    }

    /// What a rate carries in a time, in bytes.
    fn bytes(rate: Rate, time: Span) -> f64 {
        rate.as_f64() * time.as_secs_f64() / 8.0
    }

    fn departed(frame: u64, size: u64) -> Departed {
        Departed {
            frame: frame as u32,
            at: Time::ZERO,
            queued: Span::ZERO,
            served: Span::ZERO,
            size: Bytes::new(size),
            sent: Bytes::new(size),
            target: Rate::ZERO,
            quantiser: None,
        }
    }

    /// Runs the policy over an encoder that codes `size(asked)` bytes; returns bytes sent and frames left
    /// out.
    fn run(ticks: u64, rate: Rate, size: impl Fn(u64, f64) -> u64) -> (u64, u64) {
        let mut policy = Budget::default();
        let (mut sent, mut skipped, mut last) = (0, 0, Vec::new());
        for tick in 0..ticks {
            let plan = policy.plan(&view(tick, rate, 0, &last));
            last.clear();
            if plan.encode {
                let coded = size(tick, bytes(plan.bitrate, INTERVAL));
                sent += coded;
                last.push(departed(tick, coded));
            }
            skipped += u64::from(!plan.encode);
        }
        (sent, skipped)
    }

    #[test]
    fn an_encoder_that_obeys_loses_nothing() {
        let rate = Rate::from_mbps(4);
        let (sent, skipped) = run(500, rate, |_, asked| asked as u64);
        assert_eq!(skipped, 0);
        assert!((sent as f64 / bytes(rate, INTERVAL * 500) - 1.0).abs() < 0.01, "{sent}");
    }

    #[test]
    fn a_key_frame_is_paid_back_and_costs_no_frame() {
        let rate = Rate::from_mbps(4);
        let key = bytes(rate, Span::from_millis(200)) as u64;
        let (sent, skipped) = run(100, rate, |tick, asked| if tick == 10 { key } else { asked as u64 });
        assert_eq!(skipped, 0);
        assert!((sent as f64 / bytes(rate, INTERVAL * 100) - 1.0).abs() < 0.02, "{sent}");
    }

    #[test]
    fn what_has_arrived_is_no_debt() {
        // A cut takes a second of the rate; half a second later nothing is in flight.
        let rate = Rate::from_kbps(500);
        let left_out = |in_flight: fn(u64) -> u64| {
            let (mut policy, mut last, mut skipped) = (Budget::default(), Vec::new(), 0);
            for tick in 0..100 {
                let in_flight = Bytes::new(in_flight(tick));
                let plan = policy.plan(&View { in_flight, ..view(tick, rate, 0, &last) });
                let cut = tick == 10;
                let coded = bytes(
                    if cut { rate } else { plan.bitrate },
                    if cut { Span::from_secs(1) } else { INTERVAL },
                );
                last = if plan.encode { vec![departed(tick, coded as u64)] } else { Vec::new() };
                skipped += u64::from(!plan.encode);
            }
            skipped
        };
        assert!((35..45).contains(&left_out(|_| 1 << 40)), "{}", left_out(|_| 1 << 40));
        assert!((20..30).contains(&left_out(|tick| if tick < 35 { 1 << 40 } else { 0 })));
    }

    #[test]
    fn a_key_frame_that_waits_for_the_window_costs_no_frame() {
        let plan = |waited: i64, rate: u64| {
            let waited = Span::from_millis(waited);
            Budget::default().plan(&View { waited, ..view(0, Rate::from_kbps(rate), 0, &[]) })
        };
        let largest = plan(0, 4_000).largest_key.unwrap();
        assert_eq!(largest, Rate::from_mbps(4).bytes_in(MOST_KEY));
        assert!(plan(190, 4_000).encode && !plan(210, 4_000).encode);
        // Two packets of 1200 bytes take 192 ms of 100 kbit/s, and 320 of 60.
        assert!(plan(310, 60).encode && !plan(330, 60).encode);
    }

    #[test]
    fn an_encoder_that_cannot_code_so_little_leaves_frames_out() {
        let rate = Rate::from_kbps(100);
        let (sent, skipped) = run(500, rate, |_, asked| (asked as u64).max(1_000));
        let share = sent as f64 / bytes(rate, INTERVAL * 500);
        assert!((0.9..1.3).contains(&share), "{share}");
        assert!(skipped > 300, "{skipped}");
    }

    #[test]
    fn a_fall_of_the_rate_makes_no_debt_of_what_was_sent_before() {
        let mut policy = Budget::default();
        let mut last = Vec::new();
        for tick in 0..100 {
            let rate = Rate::from_kbps(if tick < 50 { 8_000 } else { 100 });
            let plan = policy.plan(&view(tick, rate, 0, &last));
            assert!(plan.encode, "frame {tick}");
            last = vec![departed(tick, bytes(plan.bitrate, INTERVAL) as u64)];
        }
    }

    #[test]
    fn rows_follow_the_rate_down_and_later_up() {
        let mut policy = Budget::default();
        let mut rows = |from: u64, ticks: u64, rate: Rate| {
            (from..from + ticks)
                .map(|tick| policy.plan(&view(tick, rate, 720, &[])).height.unwrap())
                .last()
                .unwrap()
        };
        assert_eq!(rows(0, 10, Rate::from_mbps(4)), 720);
        assert_eq!(rows(10, 20, Rate::from_kbps(200)), 720, "a dip changes nothing");
        let small = rows(30, 100, Rate::from_kbps(200));
        assert!(small < 720 && least(small, INTERVAL) <= Rate::from_kbps(200), "{small}");
        assert_eq!(rows(130, 50, Rate::from_mbps(4)), small, "not at once");
        assert_eq!(rows(180, 2_000, Rate::from_mbps(4)), 720);
    }

    #[test]
    fn an_encoder_that_owes_all_the_time_loses_rows() {
        let mut policy = Budget::default();
        let (mut last, mut height) = (Vec::new(), 720);
        for tick in 0..500 {
            let plan = policy.plan(&view(tick, Rate::from_kbps(800), 720, &last));
            height = plan.height.unwrap();
            // Twice the rate at 720 rows, whatever is asked; in proportion to the elements with fewer.
            let coded = 4_000 * u64::from(height).pow(2) / 720u64.pow(2);
            last = if plan.encode { vec![departed(tick, coded)] } else { Vec::new() };
        }
        assert_eq!(height, 360, "with 540 it codes 900 kbit/s");
    }
}
