//! What arrived, and when.
//!
//! A feedback packet has two independent parts:
//!
//! * **arrivals**: for packets newly arrived (and, for safety, those of the report before), each packet's number, receive
//!   time and ECN mark, in order of number;
//! * **ranges**: which numbers arrived at all, from the largest down, without times, as far back as the sender has not yet
//!   confirmed hearing. A packet whose timed report was lost is still known to have arrived.
//!
//! Both are idempotent: hearing the same twice changes nothing.

use units::{Ecn, RemoteTime, Span, Time};

use crate::codec::{Kind, Reader, WireError, Writer};

/// One packet's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The packet's number.
    pub packet: u64,
    /// When it arrived, on the receiver's clock, to 1 us.
    pub at: RemoteTime,
    /// How it was marked on arrival.
    pub ecn: Ecn,
}

/// A decoded feedback packet; its lists are read from the datagram as they are iterated.
#[derive(Clone, Copy, Debug)]
pub struct Feedback<'a> {
    /// The session.
    pub session: u32,
    /// Counts feedback packets from 1.
    pub sequence: u32,
    /// When it was sent, on the receiver's clock, to 1 us.
    pub sent: RemoteTime,
    /// Packets dropped by the receiver as malformed, foreign or implausible so far.
    pub refused: u32,
    /// What the controller's receiver half wants its sender half to know.
    pub blob: &'a [u8],
    arrivals: &'a [u8],
    arrival_count: u64,
    first: u64,
    ranges: &'a [u8],
    largest: u64,
}

/// Iterates over arrivals in order of packet number.
#[derive(Clone, Debug)]
pub struct Arrivals<'a> {
    reader: ReaderState<'a>,
    left: u64,
    packet: u64,
    at: RemoteTime,
}

/// Iterates over ranges `(low, high)` of arrived numbers, both inclusive, from the largest down.
#[derive(Clone, Debug)]
pub struct Ranges<'a> {
    reader: ReaderState<'a>,
    next_high: Option<u64>,
}

#[derive(Clone, Debug)]
struct ReaderState<'a>(&'a [u8]);

impl ReaderState<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut reader = Reader(self.0);
        let value = reader.varint().ok()?;
        self.0 = reader.0;
        Some(value)
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl<'a> Feedback<'a> {
    /// Most bytes of [`blob`](Feedback::blob).
    pub const MAX_BLOB: usize = 255;

    /// Reads a feedback packet; every list is checked here, so that iterating can't fail.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no feedback packet of this version.
    pub fn decode(datagram: &'a [u8]) -> Result<Feedback<'a>, WireError> {
        let (mut r, _, session) = Reader::open(datagram, Kind::Feedback)?;
        let sequence = r.u32()?;
        let sent = RemoteTime::from_nanos(r.u48()? as i64 * 1_000);
        let refused = r.u32()?;
        let blob_length = usize::from(r.u8()?);
        let blob = r.take(blob_length)?;
        let (arrival_count, first) = (r.varint()?, r.varint()?);
        let arrivals_start = r.0;
        // Two varints of at least a byte each per arrival: a count the bytes cannot hold is refused before looping.
        if arrival_count > r.0.len() as u64 / 2 {
            return Err(WireError::Truncated);
        }
        let mut packet = first;
        for index in 0..arrival_count {
            let gap = r.varint()?;
            if index > 0 {
                packet = packet.checked_add(gap + 1).ok_or(WireError::Field("arrival"))?;
            }
            r.varint()?;
        }
        if packet >= 1 << 48 {
            return Err(WireError::Field("arrival"));
        }
        let arrivals = &arrivals_start[..arrivals_start.len() - r.0.len()];
        let range_count = r.varint()?;
        let largest = r.varint()?;
        let ranges = r.0;
        if largest >= 1 << 48 || range_count > ranges.len() as u64 {
            return Err(WireError::Field("range"));
        }
        let mut low_bound = largest + 2;
        for index in 0..range_count {
            let gap = if index == 0 { 0 } else { r.varint()? };
            let high = low_bound.checked_sub(gap + 2).ok_or(WireError::Field("range"))?;
            low_bound = high.checked_sub(r.varint()?).ok_or(WireError::Field("range"))?;
        }
        let ranges = if range_count == 0 { &ranges[..0] } else { &ranges[..ranges.len() - r.0.len()] };
        Ok(Feedback { session, sequence, sent, refused, blob, arrivals, arrival_count, first, ranges, largest })
    }

    /// The timed arrivals.
    pub fn arrivals(&self) -> Arrivals<'a> {
        Arrivals {
            reader: ReaderState(self.arrivals),
            left: self.arrival_count,
            packet: self.first,
            at: self.sent,
        }
    }

    /// The ranges of numbers that arrived.
    pub fn ranges(&self) -> Ranges<'a> {
        Ranges { reader: ReaderState(self.ranges), next_high: Some(self.largest) }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        self.left = self.left.checked_sub(1)?;
        let gap = self.reader.varint()?;
        let timing = self.reader.varint()?;
        let this = self.packet + gap;
        // The next packet's gap counts from the number after this one.
        self.packet = this + 1;
        self.at = self.at + Span::from_micros(unzigzag(timing >> 2));
        Some(Arrival { packet: this, at: self.at, ecn: Ecn::from_bits(timing as u8) })
    }
}

impl Iterator for Ranges<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.reader.0.is_empty() {
            return None;
        }
        let high = self.next_high?;
        let low = high - self.reader.varint()?;
        self.next_high = self.reader.varint().map(|gap| low.wrapping_sub(gap + 2));
        Some((low, high))
    }
}

/// Builds one feedback packet into a caller's buffer: arrivals in order of number, then ranges from the largest down.
pub struct FeedbackWriter;

impl FeedbackWriter {
    /// Writes a feedback packet to `out` and returns its length. Arrivals must be in strictly increasing order of number;
    /// `ranges` are `(low, high)`, both inclusive, strictly decreasing and not adjacent. What no longer fits in `out` is
    /// left off: the oldest arrivals' neighbours keep their place in `ranges`, and the lowest ranges go first.
    ///
    /// Returns the length and how many arrivals were written.
    pub fn write<'r>(
        out: &mut [u8],
        session: u32,
        sequence: u32,
        sent: Time,
        refused: u32,
        blob: &[u8],
        arrivals: &[Arrival],
        ranges: impl Iterator<Item = &'r (u64, u64)> + Clone,
    ) -> (usize, usize) {
        // Room kept for the ranges: their count, the largest, and at least eight of them.
        const RANGES_RESERVE: usize = 16 + 8 * 16;
        // A gap and a time of the largest size each.
        const ARRIVAL_MAX: usize = 16;
        let mut w = Writer::open(out, Kind::Feedback, 0, session);
        w.u32(sequence);
        let sent = sent.on_wire();
        w.u48((sent.as_nanos() / 1_000) as u64);
        w.u32(refused);
        let blob = &blob[..blob.len().min(Feedback::MAX_BLOB)];
        w.u8(blob.len() as u8);
        w.bytes(blob);
        let fits = w.room().saturating_sub(RANGES_RESERVE + 16) / ARRIVAL_MAX;
        let arrivals = &arrivals[..arrivals.len().min(fits)];
        w.varint(arrivals.len() as u64);
        w.varint(arrivals.first().map_or(0, |a| a.packet));
        // Differences are taken between truncated times, so that rounding does not add up.
        let mut previous_us = sent.as_nanos() / 1_000;
        let mut next = arrivals.first().map_or(0, |a| a.packet);
        for arrival in arrivals {
            w.varint(arrival.packet - next);
            next = arrival.packet + 1;
            let us = arrival.at.as_nanos() / 1_000;
            w.varint((zigzag(us - previous_us) << 2 | arrival.ecn as u64) & ((1 << 62) - 1));
            previous_us = us;
        }
        let room = w.room().saturating_sub(16) / 16;
        let count = ranges.clone().take(room).count();
        w.varint(count as u64);
        w.varint(ranges.clone().next().map_or(0, |r| r.1));
        let mut last_low = None;
        for &(low, high) in ranges.take(count) {
            if let Some(last_low) = last_low {
                w.varint(last_low - high - 2);
            }
            w.varint(high - low);
            last_low = Some(low);
        }
        (w.len(), arrivals.len())
    }
}
