//! What a predictor sees: the last 200 ms as 16 overlapping windows of 50 ms, 10 ms apart (thesis section
//! 4.5.4, Fig. 4.12).
//!
//! ```text
//! bins of 10 ms   |0|1|2|3|4|5|6| ... |18|19|
//! windows         |----0----|
//!                   |----1----|
//!                                 ...  |---15---|   now
//! ```
//!
//! A packet changes the sums of one bin. When a bin ends, the newest five become a row; no row changes
//! afterwards, so that what a predictor sees is the last 16 rows as they are.

use units::{RemoteTime, Span, Time};

/// Windows of an input.
pub const WINDOWS: usize = 16;
/// Figures of a window.
pub const FEATURES: usize = 8;
/// Length of a window.
pub const WINDOW: Span = Span::from_millis(50);
/// Distance between the starts of two windows.
pub const STRIDE: Span = Span::from_millis(10);
/// How far a prediction looks ahead: to packets sent within this time.
pub const HORIZON: Span = Span::from_millis(50);

/// Bins of a window.
const BINS: usize = 5;
/// Strides after which nothing of what was before is left in any window.
const FORGOTTEN: u64 = (WINDOWS + BINS) as u64;
/// Round trips count as this at most, so that no sum can overflow: beyond it nothing is interactive.
const LONGEST: Span = Span::from_secs(10);
/// A connection's least round trip counts as this at least: RTTs are divided by it.
const SHORTEST: Span = Span::from_micros(100);

/// The figures of one window:
///
/// | place | figure |
/// |---|---|
/// | 0, 1, 2 | least, largest and mean round trip, in least round trips of the connection |
/// | 3 | variance of the round trips, in squares of those |
/// | 4 | growth of the round trip over the window by a linear fit, in those |
/// | 5, 6 | packets sent, packets given up as lost |
/// | 7 | 1 if no round trip was heard of (0 to 4 are 0 then), else 0 |
///
/// Each event counts in the window in which the sender learns of it.
///
/// Deviation: without data the thesis zeroes all figures; packets sent and lost are known without any answer,
/// and say most when none comes.
pub type Row = [f32; FEATURES];

/// What a predictor sees: windows, oldest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input(pub [Row; WINDOWS]);

impl Default for Input {
    /// Nothing has happened.
    fn default() -> Input {
        Input([Bin::default().row(SHORTEST); WINDOWS])
    }
}

/// When a packet was sent by the sender's clock, and when it arrived by the receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When it left.
    pub sent_at: Time,
    /// When it arrived.
    pub arrived_at: RemoteTime,
}

/// The round trip of a packet, had it been reported at once: that of the report's newest packet, and how much
/// longer this one was on its way. Without this, a round trip would hold the wait for the report.
pub fn round_trip(newest: Span, of: Passage, this: Passage) -> Span {
    newest + (this.arrived_at - of.arrived_at) - (this.sent_at - of.sent_at)
}

/// Sums over 10 ms, or over a window. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    sent: u32,
    lost: u32,
    count: u64,
    least: u64,
    most: u64,
    /// Of round trips, and their squares.
    sum: u64,
    squares: u128,
    /// Of times since the bin began, their squares, and their products with round trips.
    times: u64,
    time_squares: u64,
    products: u128,
}

impl Bin {
    fn hear(&mut self, since: u64, round_trip: u64) {
        (self.least, self.most) = match self.count {
            0 => (round_trip, round_trip),
            _ => (self.least.min(round_trip), self.most.max(round_trip)),
        };
        self.count += 1;
        self.sum += round_trip;
        self.squares += u128::from(round_trip) * u128::from(round_trip);
        self.times += since;
        self.time_squares += since * since;
        self.products += u128::from(since) * u128::from(round_trip);
    }

    /// Adds a bin that began `later` microseconds after this one.
    fn add(&mut self, bin: &Bin, later: u64) {
        self.sent = self.sent.saturating_add(bin.sent);
        self.lost = self.lost.saturating_add(bin.lost);
        if bin.count == 0 {
            return;
        }
        (self.least, self.most) = match self.count {
            0 => (bin.least, bin.most),
            _ => (self.least.min(bin.least), self.most.max(bin.most)),
        };
        self.count += bin.count;
        self.sum += bin.sum;
        self.squares += bin.squares;
        self.times += bin.times + later * bin.count;
        self.time_squares += bin.time_squares + 2 * later * bin.times + later * later * bin.count;
        self.products += bin.products + u128::from(later) * u128::from(bin.sum);
    }

    fn row(&self, least: Span) -> Row {
        let (sent, lost) = (self.sent as f32, self.lost as f32);
        if self.count == 0 {
            return [0.0, 0.0, 0.0, 0.0, 0.0, sent, lost, 1.0];
        }
        let unit = micros(least) as f64;
        let count = u128::from(self.count);
        let sum = u128::from(self.sum);
        let times = u128::from(self.times);
        let square = (count * count) as f64;
        let variance = (count * self.squares - sum * sum) as f64 / square;
        let spread = (count * u128::from(self.time_squares) - times * times) as f64;
        let together = (count * self.products) as f64 - (times * sum) as f64;
        let slope = if spread > 0.0 { together / spread } else { 0.0 };
        let growth = slope * micros(WINDOW) as f64 / unit;
        let of = |round_trip: u64| (round_trip as f64 / unit) as f32;
        let mean = (self.sum as f64 / self.count as f64 / unit) as f32;
        let variance = (variance / (unit * unit)) as f32;
        [of(self.least), of(self.most), mean, variance, growth as f32, sent, lost, 0.0]
    }
}

fn micros(span: Span) -> u64 {
    span.as_nanos().max(0) as u64 / 1_000
}

/// Turns what happens to packets into inputs. Memory is bounded, a packet costs a few additions, and nothing
/// is ever allocated.
///
/// Times are the sender's, and never go back; those that do count as now.
#[derive(Clone, Debug)]
pub struct Features {
    /// Begin of the newest bin, a multiple of [`STRIDE`].
    begin: Time,
    /// The newest bin last.
    bins: [Bin; BINS],
    least: Option<Span>,
    rows: Input,
    finished: u64,
}

impl Default for Features {
    fn default() -> Features {
        Features {
            begin: Time::ZERO,
            bins: [Bin::default(); BINS],
            least: None,
            rows: Input::default(),
            finished: 0,
        }
    }
}

impl Features {
    /// A packet left.
    #[inline]
    pub fn sent(&mut self, at: Time) {
        self.advance(at);
        let bin = &mut self.bins[BINS - 1];
        bin.sent = bin.sent.saturating_add(1);
    }

    /// A packet was given up.
    #[inline]
    pub fn lost(&mut self, at: Time) {
        self.advance(at);
        let bin = &mut self.bins[BINS - 1];
        bin.lost = bin.lost.saturating_add(1);
    }

    /// A packet was acknowledged after `round_trip`, less the wait for the report ([`round_trip`]).
    #[inline]
    pub fn acked(&mut self, at: Time, round_trip: Span) {
        self.advance(at);
        let round_trip = round_trip.max(SHORTEST).min(LONGEST);
        self.least = Some(self.least.map_or(round_trip, |least| least.min(round_trip)));
        let since = micros(at.max(self.begin) - self.begin);
        self.bins[BINS - 1].hear(since, micros(round_trip));
    }

    /// A report was heard: `newest` is the round trip of the last of `passages`, the packets it acknowledges.
    pub fn heard(
        &mut self,
        at: Time,
        newest: Span,
        passages: impl DoubleEndedIterator<Item = Passage> + Clone,
    ) {
        let Some(last) = passages.clone().next_back() else { return };
        passages.for_each(|passage| self.acked(at, round_trip(newest, last, passage)));
    }

    /// Windows that have ended so far.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// The windows that have ended by `now`: the newest ended less than 10 ms ago.
    #[inline]
    pub fn input(&mut self, now: Time) -> &Input {
        self.advance(now);
        &self.rows
    }

    /// Ends the bins that are over.
    #[inline]
    fn advance(&mut self, now: Time) {
        if now >= self.begin + STRIDE {
            self.end_bins(now);
        }
    }

    fn end_bins(&mut self, now: Time) {
        let stride = STRIDE.as_nanos() as u64;
        let over = (now - self.begin).as_nanos() as u64 / stride;
        let unseen = over.saturating_sub(FORGOTTEN);
        for _ in unseen..over {
            let mut window = Bin::default();
            for (index, bin) in self.bins.iter().enumerate() {
                window.add(bin, index as u64 * micros(STRIDE));
            }
            self.rows.0.copy_within(1.., 0);
            self.rows.0[WINDOWS - 1] = window.row(self.least.unwrap_or(SHORTEST));
            self.bins.copy_within(1.., 0);
            self.bins[BINS - 1] = Bin::default();
        }
        self.finished += over;
        self.begin += Span::from_nanos((over * stride) as i64);
    }
}

#[cfg(test)]
mod tests;
