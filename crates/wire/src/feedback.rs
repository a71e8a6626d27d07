//! What arrived, and when.
//!
//! A feedback packet has two independent parts:
//!
//! * **arrivals**: for packets newly arrived (and, for safety, those of the report before), each packet's
//!   number, receive time and ECN mark, in order of number;
//! * **ranges**: which numbers arrived at all, from the largest down, without times, as far back as the
//!   sender has not yet confirmed hearing. A packet whose timed report was lost is still known to have
//!   arrived.
//!
//! Both are idempotent: hearing the same twice changes nothing. Neither names more than
//! [`Feedback::MAX_ITEMS`], so that what a packet can make a sender do is bounded by its length.
//!
//! ```text
//! arrivals:   ... 17   18   19  [20 21 missing]  22 ...      one variable-length integer each, two if numbers are missing
//!                 |--dt--|--dt--|-------dt-------|           dt in us from the arrival before, the first from `sent`
//! ```

use units::{Ecn, RemoteTime, likely, unlikely};

use crate::codec::{
    Kind, MASK_48, MAX_COUNT, Reader, WireError, Writer, micros, out_of_range, truncated, unzigzag, zigzag,
};
use crate::{Draft, plain};

/// One packet's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The packet's number, below 2^48.
    pub packet: u64,
    /// When it arrived, on the receiver's clock, to 1 us.
    pub at: RemoteTime,
    /// How it was marked on arrival.
    pub ecn: Ecn,
}

/// A decoded feedback packet; its lists are read from the datagram as they are iterated.
#[derive(Clone, Debug)]
pub struct Feedback<'a> {
    /// The session's number, which both sides agree on.
    pub session: u32,
    /// Counts feedback packets from 1.
    pub sequence: u32,
    /// When it was sent, on the receiver's clock, to 1 us, modulo 2^48 us (8.9 years).
    pub sent: RemoteTime,
    /// Packets dropped by the receiver as malformed, foreign or implausible so far.
    pub refused: u32,
    /// What the controller's receiver half wants its sender half to know.
    pub blob: &'a [u8],
    arrivals: Arrivals<'a>,
    ranges: Ranges<'a>,
    newest: Option<u64>,
}

/// Iterates over arrivals in order of packet number.
#[derive(Clone, Debug)]
pub struct Arrivals<'a> {
    words: Words<'a, { plain::ARRIVAL }>,
    left: u64,
    next: u64,
    at_us: i64,
}

/// The same of a report that was [put down plainly](crate::Spoken::Plain): [`Arrivals`] asks for each of them
/// how it is written.
#[derive(Clone, Debug)]
pub struct PlainArrivals<'a> {
    words: std::slice::Iter<'a, [u8; plain::ARRIVAL]>,
    next: u64,
    at_us: i64,
}

/// Iterates over ranges `(low, high)` of arrived numbers, both inclusive, from the largest down.
#[derive(Clone, Debug)]
pub struct Ranges<'a> {
    words: Words<'a, { plain::RANGE }>,
    left: u64,
    // The next range's highest number is this less its gap; the first one's gap is not written.
    below: u64,
    first: bool,
}

/// Where a list's numbers are read from.
#[derive(Clone, Copy, Debug)]
enum Words<'a, const N: usize> {
    /// Variable-length integers, as they travel.
    Varints(Reader<'a>),
    /// Items of `N` bytes ([`plain`]).
    Plain(&'a [[u8; N]]),
}

/// A report as [`plain`] has it.
pub(crate) struct Plain<'a> {
    pub session: u32,
    pub sequence: u32,
    pub refused: u32,
    pub sent_us: i64,
    /// The first arrival's number, which the first range is counted from.
    pub first: u64,
    pub blob: &'a [u8],
    pub arrivals: &'a [[u8; plain::ARRIVAL]],
    pub ranges: &'a [[u8; plain::RANGE]],
}

impl<'a> Plain<'a> {
    /// What it says of packets that arrived, and when.
    #[inline(always)]
    pub fn arrivals(&self) -> PlainArrivals<'a> {
        PlainArrivals { words: self.arrivals.iter(), next: self.first, at_us: self.sent_us }
    }
}

/// Set in an arrival's word if numbers are missing before it.
const GAP: u64 = 4;

impl<'a> Feedback<'a> {
    /// Most bytes of [`blob`](Feedback::blob).
    pub const MAX_BLOB: usize = 255;
    /// Most arrivals, and most ranges, in one packet.
    pub const MAX_ITEMS: usize = MAX_COUNT;

    /// Reads a feedback packet; every list is walked here, so that iterating can't fail. Bytes beyond the
    /// last range are ignored.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no feedback packet of this version.
    #[inline(always)]
    pub fn decode(datagram: &'a [u8]) -> Result<Feedback<'a>, WireError> {
        let (mut r, session) = Reader::open_plain(datagram, Kind::Feedback)?;
        let sequence = r.u32()?;
        let sent_us = r.u48()? as i64;
        let refused = r.u32()?;
        let blob_length = usize::from(r.u8()?);
        let blob = r.take(blob_length)?;
        let (left, first) = (count(&mut r)?, r.varint()?);
        // With what follows the list: an integer is read sooner where eight bytes are left.
        let arrivals = Arrivals { words: Words::Varints(r), left, next: first, at_us: sent_us };
        let mut walked = arrivals.clone();
        for _ in 0..left {
            walked.step()?;
        }
        let newest_arrival = (left > 0).then(|| walked.next - 1);
        let mut r = walked.words.rest();
        let (left, largest) = (count(&mut r)?, r.varint()?);
        if largest > MASK_48 {
            return Err(out_of_range("largest"));
        }
        let ranges = Ranges { words: Words::Varints(r), left, below: largest, first: true };
        let mut walked = ranges.clone();
        for _ in 0..left {
            walked.step()?;
        }
        let newest = newest_arrival.max((left > 0).then_some(largest));
        let sent = RemoteTime::from_nanos(sent_us * 1_000);
        Ok(Feedback { session, sequence, sent, refused, blob, arrivals, ranges, newest })
    }

    /// A report whose writer shares this process: nothing in it has to be looked for or refused.
    #[inline(always)]
    pub(crate) fn plain(plain: &Plain<'a>) -> Feedback<'a> {
        let &Plain { session, sequence, refused, sent_us, first, blob, arrivals, ranges } = plain;
        let (timed, untimed) = (arrivals.len() as u64, ranges.len() as u64);
        // One beyond the largest number of either list, zero of an empty one: without a branch.
        let end = |&range| first.wrapping_add(u64::from_ne_bytes(range) & LOW).saturating_add(1);
        let ends = [if timed > 0 { first.saturating_add(timed) } else { 0 }, ranges.first().map_or(0, end)];
        Feedback {
            session,
            sequence,
            sent: RemoteTime::from_nanos(sent_us * 1_000),
            refused,
            blob,
            arrivals: Arrivals { words: Words::Plain(arrivals), left: timed, next: first, at_us: sent_us },
            ranges: Ranges { words: Words::Plain(ranges), left: untimed, below: first, first: true },
            newest: ends[0].max(ends[1]).checked_sub(1),
        }
    }

    /// The largest packet number named anywhere.
    pub fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// The timed arrivals.
    pub fn arrivals(&self) -> Arrivals<'a> {
        self.arrivals.clone()
    }

    /// The ranges of numbers that arrived.
    pub fn ranges(&self) -> Ranges<'a> {
        self.ranges.clone()
    }
}

/// The low half of a plain range: how far its end lies below the one before.
const LOW: u64 = u32::MAX as u64;

impl<'a, const N: usize> Words<'a, N> {
    /// What follows the list, once all of it has been read.
    #[inline(always)]
    fn rest(self) -> Reader<'a> {
        match self {
            Words::Varints(reader) => reader,
            Words::Plain(_) => Reader(&[]),
        }
    }

    /// The next of a list of plain items.
    #[inline(always)]
    fn item(list: &mut &'a [[u8; N]]) -> Result<[u8; N], WireError> {
        let (&item, rest) = list.split_first().ok_or_else(truncated)?;
        *list = rest;
        Ok(item)
    }
}

/// A count of items of at least a byte each: one the bytes cannot hold is refused before anything loops.
#[inline(always)]
fn count(r: &mut Reader<'_>) -> Result<u64, WireError> {
    let count = r.varint()?;
    if count > Feedback::MAX_ITEMS as u64 {
        return Err(out_of_range("count"));
    }
    if count > r.0.len() as u64 { Err(truncated()) } else { Ok(count) }
}

impl Arrivals<'_> {
    /// Reads one arrival: `zigzag(dt) << 3 | gap? << 2 | ecn`, and the gap if there is one.
    #[inline(always)]
    fn step(&mut self) -> Result<Arrival, WireError> {
        let word = match &mut self.words {
            Words::Plain(list) => u64::from(u32::from_ne_bytes(Words::item(list)?)),
            Words::Varints(reader) => {
                let word = reader.varint()?;
                if unlikely(word & GAP != 0) {
                    // Both are below 2^62: the sum can't overflow.
                    self.next += reader.varint()?;
                }
                word
            }
        };
        arrival(&mut self.next, &mut self.at_us, word)
    }
}

/// The arrival whose number is `next`, after one at `at_us`.
#[inline(always)]
fn arrival(next: &mut u64, at_us: &mut i64, word: u64) -> Result<Arrival, WireError> {
    let packet = *next;
    *at_us += unzigzag(word >> 3);
    if packet > MASK_48 || *at_us as u64 > MASK_48 {
        return Err(out_of_range("arrival"));
    }
    *next += 1;
    Ok(Arrival { packet, at: RemoteTime::from_nanos(*at_us * 1_000), ecn: Ecn::from_bits(word as u8) })
}

impl Iterator for PlainArrivals<'_> {
    type Item = Arrival;

    #[inline(always)]
    fn next(&mut self) -> Option<Arrival> {
        let word = self.words.next()?;
        arrival(&mut self.next, &mut self.at_us, u64::from(u32::from_ne_bytes(*word))).ok()
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Arrival;

    #[inline(always)]
    fn next(&mut self) -> Option<Arrival> {
        self.left = self.left.checked_sub(1)?;
        self.step().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}
impl ExactSizeIterator for Arrivals<'_> {}

impl Ranges<'_> {
    /// Reads one range: the numbers missing above it less one (not for the first), and its length less one.
    #[inline(always)]
    fn step(&mut self) -> Result<(u64, u64), WireError> {
        // Ranges that touch would be one: at least one number is missing between two, so the lowest number of
        // the one above, less two, is the highest this one can reach.
        let (high, long) = match &mut self.words {
            Words::Varints(reader) => {
                let down = if self.first { 0 } else { reader.varint()? + 2 };
                (self.below.checked_sub(down), reader.varint()?)
            }
            Words::Plain(list) => {
                let word = u64::from_ne_bytes(Words::item(list)?);
                let (apart, long) = (word & LOW, word >> 32);
                let high = match self.first {
                    true => self.below.checked_add(apart),
                    false => self.below.checked_sub(apart + 2),
                };
                (high, long)
            }
        };
        let high = high.ok_or_else(|| out_of_range("range"))?;
        let low = high.checked_sub(long).ok_or_else(|| out_of_range("range"))?;
        (self.below, self.first) = (low, false);
        Ok((low, high))
    }
}

impl Iterator for Ranges<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        self.left = self.left.checked_sub(1)?;
        self.step().ok()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}
impl ExactSizeIterator for Ranges<'_> {}

/// Builds one feedback packet into a caller's buffer: arrivals in order of number, then ranges from the
/// largest down.
pub struct FeedbackWriter;

/// Most bytes of one arrival or range: two variable-length integers.
pub(crate) const ITEM_MAX: usize = 16;
/// Bytes kept free for the ranges: their count, the largest, and at least eight of them.
pub(crate) const RANGES_RESERVE: usize = 2 + 8 + 8 * ITEM_MAX;

impl FeedbackWriter {
    /// Bytes before the blob.
    pub(crate) const FIXED: usize = 21;
    /// Bytes with which [`write`](FeedbackWriter::write) always succeeds: the longest fixed part, one
    /// arrival, eight ranges.
    pub const MIN_ROOM: usize = FeedbackWriter::FIXED + Feedback::MAX_BLOB + 10 + ITEM_MAX + RANGES_RESERVE;

    /// Writes a feedback packet to `out`. Arrivals must be in strictly increasing order of number; `ranges`
    /// are `(low, high)`, both inclusive, strictly decreasing and not adjacent. Of a blob, the first
    /// [`Feedback::MAX_BLOB`] bytes are sent.
    ///
    /// Where `out` is too short for everything, the arrivals of the lowest numbers are written and their
    /// count is returned, so that the caller sends the others in a packet of their own; of the ranges the
    /// largest are written, at least eight, and the lowest left off (the oldest news, which earlier packets
    /// carried too).
    ///
    /// Returns the packet's length and how many arrivals were written.
    ///
    /// # Panics
    /// If `out` is shorter than the fixed part; [`FeedbackWriter::MIN_ROOM`] is always enough.
    pub fn write(
        out: &mut [u8],
        draft: &Draft<'_>,
        ranges: impl Iterator<Item = (u64, u64)>,
    ) -> (usize, usize) {
        let &Draft { session, sequence, sent, refused, blob, arrivals } = draft;
        let mut w = Writer::open(out, Kind::Feedback, 0, session);
        let sent_us = micros(sent.on_wire().as_nanos()) as u64 & MASK_48;
        let blob = &blob[..blob.len().min(Feedback::MAX_BLOB)];
        w.u32(sequence);
        w.u48(sent_us);
        w.u32(refused);
        w.u8(blob.len() as u8);
        // Most have none, and to copy nothing is a call as well.
        if unlikely(!blob.is_empty()) {
            w.bytes(blob);
        }
        let written = write_arrivals(&mut w, sent_us as i64, arrivals);
        write_ranges(&mut w, ranges);
        (w.len(), written)
    }
}

fn write_arrivals(w: &mut Writer<'_>, sent_us: i64, arrivals: &[Arrival]) -> usize {
    let count_at = w.reserve_count();
    let mut next = arrivals.first().map_or(0, |a| a.packet);
    w.varint(next);
    // Differences are taken between rounded times, so that rounding does not add up.
    let mut previous_us = sent_us;
    let mut written = 0;
    for arrival in &arrivals[..arrivals.len().min(Feedback::MAX_ITEMS)] {
        if w.room() < ITEM_MAX + RANGES_RESERVE {
            break;
        }
        debug_assert!(arrival.packet >= next && arrival.packet <= MASK_48, "arrivals in order of number");
        let us = micros(arrival.at.as_nanos()) & MASK_48 as i64;
        let word = zigzag(us - previous_us) << 3 | arrival.ecn as u64;
        if likely(arrival.packet == next) {
            w.varint(word);
        } else {
            w.varint(word | GAP);
            w.varint(arrival.packet - next);
        }
        (next, previous_us, written) = (arrival.packet + 1, us, written + 1);
    }
    w.fill_count(count_at, written);
    written
}

fn write_ranges(w: &mut Writer<'_>, ranges: impl Iterator<Item = (u64, u64)>) {
    let count_at = w.reserve_count();
    let mut written = 0;
    let mut above = None;
    for (low, high) in ranges.take(Feedback::MAX_ITEMS) {
        // The first also writes the largest number.
        if w.room() < ITEM_MAX + 8 {
            break;
        }
        debug_assert!(
            low <= high && above.is_none_or(|above| high + 1 < above),
            "ranges decrease and do not touch"
        );
        match above {
            None => w.varint(high),
            Some(above) => w.varint(above - high - 2),
        }
        w.varint(high - low);
        (above, written) = (Some(low), written + 1);
    }
    if written == 0 {
        w.varint(0);
    }
    w.fill_count(count_at, written);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use units::Time;

    /// Arrivals of increasing numbers at times that jump about: `(gap, ns since the one before, ecn)` each.
    pub(crate) fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
        let item = (prop_oneof![4 => Just(0u64), 1 => 1u64..1 << 40], -3_000_000i64..40_000_000, 0u8..4);
        (0u64..1 << 46, 1i64 << 40..1 << 56, vec(item, 0..200)).prop_map(|(first, start, items)| {
            let (mut next, mut at) = (first, start);
            let mut arrival = |(gap, dt, ecn): (u64, i64, u8)| {
                let packet = next + gap;
                (next, at) = (packet + 1, at + dt);
                Arrival { packet, at: RemoteTime::from_nanos(at), ecn: Ecn::from_bits(ecn) }
            };
            items.into_iter().map(&mut arrival).filter(|a| a.packet <= MASK_48).collect()
        })
    }

    /// Decreasing ranges that do not touch.
    pub(crate) fn ranges() -> impl Strategy<Value = Vec<(u64, u64)>> {
        (0..=MASK_48, vec((0u64..1 << 20, 0u64..1 << 34), 0..60)).prop_map(|(largest, items)| {
            let mut high = Some(largest);
            let mut range = |(gap, length): (u64, u64)| {
                let top = high?;
                let low = top.saturating_sub(length);
                high = low.checked_sub(gap + 2);
                Some((low, top))
            };
            items.into_iter().map_while(&mut range).collect()
        })
    }

    fn rounded(arrival: &Arrival) -> Arrival {
        Arrival { at: RemoteTime::from_nanos(micros(arrival.at.as_nanos()) * 1_000), ..*arrival }
    }

    proptest! {
        #[test]
        fn round_trips_at_its_resolution(
            session: u32, sequence: u32, sent_us in 0u64..=MASK_48, refused: u32,
            blob in vec(any::<u8>(), 0..300), arrivals in arrivals(), ranges in ranges()
        ) {
            let mut out = vec![0; 8_000];
            let sent = Time::from_nanos(sent_us * 1_000 + 999);
            let (length, written) =
                FeedbackWriter::write(&mut out, &Draft { session, sequence, sent, refused, blob: &blob, arrivals: &arrivals }, ranges.iter().copied());
            prop_assert_eq!(written, arrivals.len());
            let feedback = Feedback::decode(&out[..length]).unwrap();
            prop_assert_eq!((feedback.session, feedback.sequence, feedback.refused), (session, sequence, refused));
            prop_assert_eq!(feedback.sent, Time::from_micros(sent_us).on_wire());
            prop_assert_eq!(feedback.blob, &blob[..blob.len().min(255)]);
            prop_assert_eq!(feedback.arrivals().len(), arrivals.len());
            prop_assert!(feedback.arrivals().eq(arrivals.iter().map(rounded)));
            prop_assert!(feedback.ranges().eq(ranges.iter().copied()));
        }

        #[test]
        fn every_truncation_is_an_error(arrivals in arrivals(), ranges in ranges()) {
            let mut out = vec![0; 8_000];
            let (length, _) =
                FeedbackWriter::write(&mut out, &Draft { session: 1, sequence: 2, sent: Time::ZERO, refused: 3, blob: b"blob", arrivals: &arrivals }, ranges.iter().copied());
            for cut in 0..length {
                prop_assert!(Feedback::decode(&out[..cut]).is_err(), "{} of {} bytes decode", cut, length);
            }
        }

        #[test]
        fn short_of_room_the_lowest_arrivals_and_the_largest_ranges_are_kept(
            arrivals in arrivals(), ranges in ranges(), room in FeedbackWriter::MIN_ROOM..1_300,
            blob in vec(any::<u8>(), 0..300)
        ) {
            let mut out = vec![0; room];
            let (length, written) =
                FeedbackWriter::write(&mut out, &Draft { session: 1, sequence: 2, sent: Time::ZERO, refused: 3, blob: &blob, arrivals: &arrivals }, ranges.iter().copied());
            let feedback = Feedback::decode(&out[..length]).unwrap();
            prop_assert!(written >= arrivals.len().min(1));
            prop_assert!(feedback.arrivals().eq(arrivals[..written].iter().map(rounded)));
            let kept = feedback.ranges().len();
            prop_assert!(kept >= ranges.len().min(8));
            prop_assert!(feedback.ranges().eq(ranges[..kept].iter().copied()));
        }
    }

    #[test]
    fn arrivals_a_millisecond_apart_take_two_bytes_each() {
        let arrival = |k: u64| Arrival {
            packet: 1_000 + k,
            at: Time::from_micros(5_000 + 600 * k).on_wire(),
            ecn: Ecn::Ect1,
        };
        let arrivals: Vec<Arrival> = (0..64).map(arrival).collect();
        let mut out = [0; 1200];
        let write = |out: &mut [u8], n: usize| {
            FeedbackWriter::write(
                out,
                &Draft {
                    session: 1,
                    sequence: 1,
                    sent: Time::from_millis(50),
                    refused: 0,
                    blob: &[],
                    arrivals: &arrivals[..n],
                },
                [(0, 1063)].into_iter(),
            )
            .0
        };
        // 21 bytes of head, 2 + 2 for count and first number, 4 for the first arrival, 2 + 2 + 2 for one
        // range.
        assert_eq!(write(&mut out, 1), 35);
        assert_eq!(write(&mut out, 64), 35 + 63 * 2);
    }

    /// A packet of nothing but its lists.
    fn with_lists(lists: &[u64]) -> Vec<u8> {
        let mut out = vec![0; 400];
        let mut w = Writer::open(&mut out, Kind::Feedback, 0, 7);
        w.u32(1);
        w.u48(1_000);
        w.u32(0);
        w.u8(0);
        lists.iter().for_each(|&value| w.varint(value));
        let length = w.len();
        out.truncate(length);
        out
    }

    #[test]
    fn the_first_arrivals_gap_counts() {
        let bytes = with_lists(&[1, 40, zigzag(-5) << 3 | GAP, 2, 0, 0]);
        let first = Feedback::decode(&bytes).unwrap().arrivals().next().unwrap();
        assert_eq!((first.packet, first.at), (42, RemoteTime::from_nanos(995_000)));
    }

    #[test]
    fn lists_that_leave_their_range_are_refused() {
        let error = |lists: &[u64]| Feedback::decode(&with_lists(lists)).unwrap_err();
        let big = (1 << 62) - 1;
        // More items than bytes, and more than any packet may have.
        assert_eq!(error(&[9, 0, 0, 0, 0]), WireError::Truncated);
        assert_eq!(error(&[1 << 20, 0, 0, 0]), WireError::Field("count"));
        assert_eq!(error(&[0, 0, 9, 0]), WireError::Truncated);
        // Packet numbers and times beyond 48 bits, and times before the clock's origin.
        assert_eq!(error(&[1, MASK_48 + 1, 0, 0, 0]), WireError::Field("arrival"));
        assert_eq!(error(&[2, 1, GAP, big, GAP, big, 0, 0]), WireError::Field("arrival"));
        assert_eq!(error(&[1, 0, big, 0, 0]), WireError::Field("arrival"));
        assert_eq!(error(&[1, 0, zigzag(-1_001) << 3, 0, 0]), WireError::Field("arrival"));
        // Ranges that reach below zero, or start beyond 48 bits.
        assert_eq!(error(&[0, 0, 1, 5, 6]), WireError::Field("range"));
        assert_eq!(error(&[0, 0, 2, 5, 0, 4, 0]), WireError::Field("range"));
        assert_eq!(error(&[0, 0, 2, 5, 0, big, 0]), WireError::Field("range"));
        assert_eq!(error(&[0, 0, 1, MASK_48 + 1, 0]), WireError::Field("largest"));
    }

    #[test]
    fn no_ranges_are_no_ranges_whatever_the_largest() {
        let bytes = with_lists(&[0, 0, 0, 77]);
        let feedback = Feedback::decode(&bytes).unwrap();
        assert_eq!((feedback.arrivals().count(), feedback.ranges().count()), (0, 0));
    }

    #[test]
    fn a_range_may_end_at_zero() {
        let bytes = with_lists(&[0, 0, 2, 5, 1, 2, 0]);
        let ranges: Vec<_> = Feedback::decode(&bytes).unwrap().ranges().collect();
        assert_eq!(ranges, [(4, 5), (0, 0)]);
    }
}
