//! A reliable byte stream's segments and their acknowledgements: TCP's, in datagrams.
//!
//! A [`Segment`]'s header and a pure [`SegmentAck`] take 24 bytes, so that with 28 bytes of IPv4 and UDP a
//! datagram is as large as TCP's IP packet with the timestamp option (20 + 20 + 12 bytes, RFC 9293 and RFC
//! 7323). Other than TCP's header, a segment carries the number of its transmission, and an acknowledgement
//! names the transmissions that brought it about and when they arrived: a sender may use that (as QUIC does)
//! or look away (as TCP must).
//!
//! ```text
//! segment:  head 6 | sequence 6 | packet 6 | sent 6 | payload ...
//! ack:      head 6 | ack 6 | newest: packet varint, at 6 | earlier arrivals ... | SACK blocks ...
//! ```

use units::{RemoteTime, Span};

use crate::codec::{
    Kind, MASK_48, Reader, WireError, Writer, first_byte, micros, out_of_range, truncated, unzigzag, zigzag,
};

/// A segment's header; its payload is the rest of the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The connection's number, which both sides agree on.
    pub session: u32,
    /// Place of the first payload byte in the stream; below 2^48.
    pub sequence: u64,
    /// Number of this transmission, unique and increasing; below 2^48.
    pub packet: u64,
    /// When it was handed to the network, on the sender's clock, to 1 us, modulo 2^48 us (8.9 years).
    pub sent: RemoteTime,
    /// The stream ends with this segment.
    pub last: bool,
}

/// A segment's arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentArrival {
    /// Number of the transmission, below 2^48.
    pub packet: u64,
    /// When it arrived, on the receiver's clock, to 1 us, modulo 2^48 us.
    pub at: RemoteTime,
}

/// What a stream's receiver has.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentAck {
    /// The connection's number, which both sides agree on.
    pub session: u32,
    /// Everything below has arrived; below 2^48.
    pub ack: u64,
    /// The newest arrival was congestion-marked. Marked segments are acknowledged at once, so no earlier one
    /// was.
    pub ce: bool,
    arrival_count: u8,
    block_count: u8,
    /// One more than the highest number among the arrivals; 0 without any.
    beyond: u64,
    /// Those beyond `arrival_count` mean nothing, ...
    arrivals: [SegmentArrival; SegmentAck::MAX_ARRIVALS],
    /// ... and those beyond `block_count`.
    blocks: [(u64, u64); SegmentAck::MAX_BLOCKS],
}

impl Segment {
    /// Bytes of the header.
    pub const LEN: usize = 24;

    /// Writes the header to the front of `out` and returns its length. The time is rounded down to its
    /// resolution.
    ///
    /// # Panics
    /// If `out` is shorter than [`Segment::LEN`].
    #[inline]
    pub fn encode(&self, out: &mut [u8]) -> usize {
        debug_assert!(self.sequence <= MASK_48 && self.packet <= MASK_48);
        let (sequence, packet) = (self.sequence & MASK_48, self.packet & MASK_48);
        let sent = micros(self.sent.as_nanos()) as u64 & MASK_48;
        let head = u64::from(first_byte(Kind::Segment)) << 56 | u64::from(self.last) << 48;
        let words = [
            head | u64::from(self.session) << 16 | sequence >> 32,
            sequence << 32 | packet >> 16,
            packet << 48 | sent,
        ];
        for (place, word) in out[..Segment::LEN].as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        Segment::LEN
    }

    /// Reads a header from the front of `datagram`.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no segment of this version.
    #[inline]
    pub fn decode(datagram: &[u8]) -> Result<Segment, WireError> {
        let (_, flags, session) = Reader::open(datagram, Kind::Segment)?;
        if flags > 1 {
            return Err(out_of_range("flags"));
        }
        let whole: &[u8; Segment::LEN] = datagram.first_chunk().ok_or_else(truncated)?;
        let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| whole[at + byte]));
        let (sequence, packet) = (word(4) & MASK_48, word(10) & MASK_48);
        let sent = RemoteTime::from_nanos((word(16) & MASK_48) as i64 * 1_000);
        Ok(Segment { session, sequence, packet, sent, last: flags == 1 })
    }
}

/// Where the number of arrivals and the congestion mark stand in an acknowledgement's flags; the low four
/// bits count blocks.
const ARRIVALS: u8 = 4;
const CE: u8 = 0x80;

impl SegmentAck {
    /// Most SACK blocks in one acknowledgement. TCP with timestamps has room for three (RFC 2018 section 3).
    pub const MAX_BLOCKS: usize = 8;
    /// Most arrivals named in one acknowledgement.
    pub const MAX_ARRIVALS: usize = 7;
    /// Room that any acknowledgement fits in.
    pub const MAX_LEN: usize =
        6 + 6 + 8 + 6 + 16 * (SegmentAck::MAX_ARRIVALS - 1) + 16 * SegmentAck::MAX_BLOCKS;

    /// An acknowledgement of everything below `ack`. `arrivals` are those since the one before, oldest first;
    /// of more than [`MAX_ARRIVALS`](SegmentAck::MAX_ARRIVALS) the oldest are left out. `blocks` are SACK
    /// blocks, from (included) to (excluded), in the order of RFC 2018 section 4; those beyond
    /// [`MAX_BLOCKS`](SegmentAck::MAX_BLOCKS) are left out.
    pub fn new(
        session: u32,
        ack: u64,
        ce: bool,
        arrivals: &[SegmentArrival],
        blocks: &[(u64, u64)],
    ) -> SegmentAck {
        let (arrivals, blocks) = most_of(arrivals, blocks);
        let (arrival_count, block_count) = (arrivals.len() as u8, blocks.len() as u8);
        let mut made = SegmentAck { session, ack, ce, arrival_count, block_count, ..SegmentAck::default() };
        made.beyond = arrivals.iter().map(|arrival| arrival.packet + 1).max().unwrap_or(0);
        made.arrivals[..arrivals.len()].copy_from_slice(arrivals);
        made.blocks[..blocks.len()].copy_from_slice(blocks);
        made
    }

    /// The arrivals since the acknowledgement before, oldest first.
    #[inline]
    pub fn arrivals(&self) -> &[SegmentArrival] {
        &self.arrivals[..usize::from(self.arrival_count)]
    }

    /// One more than the highest number among the [`arrivals`](SegmentAck::arrivals), 0 without any: a sender
    /// of fewer transmissions knows that one of them is a lie.
    #[inline]
    pub fn beyond_arrivals(&self) -> u64 {
        self.beyond
    }

    /// SACK blocks, from (included) to (excluded), the most recent first. One below `ack`, or within the
    /// block after it, reports a duplicate (RFC 2883).
    #[inline]
    pub fn blocks(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.block_count)]
    }

    /// Writes the acknowledgement to the front of `out` and returns its length. Times are rounded down.
    ///
    /// # Panics
    /// If `out` is shorter than [`SegmentAck::MAX_LEN`].
    #[inline]
    pub fn encode(&self, out: &mut [u8]) -> usize {
        SegmentAck::write(self.session, self.ack, self.ce, self.arrivals(), self.blocks(), out)
    }

    /// Writes what [`new`](SegmentAck::new) would make of the same to the front of `out`, as
    /// [`encode`](SegmentAck::encode) does, without putting its 264 bytes together, and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`SegmentAck::MAX_LEN`].
    #[inline]
    pub fn write(
        session: u32,
        ack: u64,
        ce: bool,
        arrivals: &[SegmentArrival],
        blocks: &[(u64, u64)],
        out: &mut [u8],
    ) -> usize {
        let (arrivals, blocks) = most_of(arrivals, blocks);
        let flags = blocks.len() as u8 | (arrivals.len() as u8) << ARRIVALS | u8::from(ce) << 7;
        let mut w = Writer::open(out, Kind::SegmentAck, flags, session);
        w.u48(ack);
        let at = |arrival: &SegmentArrival| micros(arrival.at.as_nanos());
        let mut later: Option<&SegmentArrival> = None;
        for arrival in arrivals.iter().rev() {
            match later {
                None => {
                    w.varint(arrival.packet);
                    w.u48(at(arrival) as u64);
                }
                Some(later) => {
                    // Arrivals come in order of time, and mostly in order of number too.
                    let gap = later.packet.wrapping_sub(arrival.packet).wrapping_sub(1) as i64;
                    let since = (at(later) - at(arrival)).max(0) as u64 & MASK_48;
                    w.varint(since << 1 | u64::from(gap != 0));
                    if gap != 0 {
                        w.varint(zigzag(gap));
                    }
                }
            }
            later = Some(arrival);
        }
        for &(from, to) in blocks {
            w.varint(zigzag(from.wrapping_sub(ack) as i64));
            w.varint(to - from);
        }
        w.len()
    }

    /// Reads an acknowledgement. Bytes beyond its fields are padding and ignored.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no acknowledgement of this version.
    #[inline]
    pub fn decode(datagram: &[u8]) -> Result<SegmentAck, WireError> {
        let mut made = SegmentAck::default();
        made.read(datagram)?;
        Ok(made)
    }

    /// Reads an acknowledgement in the place of this one, as [`decode`](SegmentAck::decode) does: whoever
    /// reads one after the other need not move them.
    ///
    /// # Errors
    /// [`WireError`] where the bytes are no acknowledgement of this version; then this one says part of what
    /// they say and part of what it said before, and is to be read into again.
    #[inline]
    pub fn read(&mut self, datagram: &[u8]) -> Result<(), WireError> {
        let (mut r, flags, session) = Reader::open(datagram, Kind::SegmentAck)?;
        (self.block_count, self.arrival_count) = (flags & 15, flags >> ARRIVALS & 7);
        if usize::from(self.block_count) > SegmentAck::MAX_BLOCKS {
            self.block_count = 0;
            return Err(out_of_range("blocks"));
        }
        (self.session, self.ack, self.ce) = (session, r.u48()?, flags & CE != 0);
        self.read_arrivals(&mut r)?;
        for block in &mut self.blocks[..usize::from(self.block_count)] {
            let from = self.ack.wrapping_add_signed(unzigzag(r.varint()?));
            let to = from.saturating_add(r.varint()?);
            if from >= to || to > MASK_48 {
                return Err(out_of_range("block"));
            }
            *block = (from, to);
        }
        Ok(())
    }

    #[inline(always)]
    fn read_arrivals(&mut self, r: &mut Reader<'_>) -> Result<(), WireError> {
        let count = usize::from(self.arrival_count);
        let mut later: Option<SegmentArrival> = None;
        self.beyond = 0;
        for arrival in self.arrivals[..count].iter_mut().rev() {
            let (packet, at) = match later {
                None => (r.varint()?, RemoteTime::from_nanos(r.u48()? as i64 * 1_000)),
                Some(later) => {
                    let word = r.varint()?;
                    let gap = if word & 1 == 1 { unzigzag(r.varint()?) } else { 0 };
                    let packet = later.packet.wrapping_sub(1).wrapping_add_signed(gap.wrapping_neg());
                    let since = (word >> 1).min(MASK_48);
                    (packet, later.at + Span::from_micros(-(since as i64)))
                }
            };
            if packet > MASK_48 || at.as_nanos() < 0 {
                return Err(out_of_range("arrival"));
            }
            *arrival = SegmentArrival { packet, at };
            self.beyond = self.beyond.max(packet + 1);
            later = Some(*arrival);
        }
        Ok(())
    }
}

impl PartialEq for SegmentAck {
    fn eq(&self, other: &SegmentAck) -> bool {
        let said = |ack: &SegmentAck| (ack.session, ack.ack, ack.ce);
        said(self) == said(other) && self.arrivals() == other.arrivals() && self.blocks() == other.blocks()
    }
}

impl Eq for SegmentAck {}

/// What of arrivals and SACK blocks an acknowledgement has room for: the newest, and the first.
#[inline]
fn most_of<'a>(
    arrivals: &'a [SegmentArrival],
    blocks: &'a [(u64, u64)],
) -> (&'a [SegmentArrival], &'a [(u64, u64)]) {
    let from = arrivals.len().saturating_sub(SegmentAck::MAX_ARRIVALS);
    (&arrivals[from..], &blocks[..blocks.len().min(SegmentAck::MAX_BLOCKS)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn ack()(
            session: u32, ack in 0..=MASK_48, ce: bool,
            newest_us in 1i64 << 20..1 << 47,
            arrivals in prop::collection::vec((0..=MASK_48, 0i64..1 << 17), 0..8),
            blocks in prop::collection::vec((0..MASK_48, 1u64..1 << 30), 0..9),
        ) -> SegmentAck {
            let mut at = newest_us - (1 << 19);
            let arrivals: Vec<_> = arrivals
                .into_iter()
                .map(|(packet, later)| {
                    at += later;
                    SegmentArrival { packet, at: RemoteTime::from_nanos(at * 1_000) }
                })
                .collect();
            let blocks: Vec<_> = blocks.iter().map(|(from, size)| (*from, (from + size).min(MASK_48))).collect();
            SegmentAck::new(session, ack, ce, &arrivals, &blocks)
        }
    }

    proptest! {
        #[test]
        fn a_segment_round_trips(
            session: u32, sequence in 0..=MASK_48, packet in 0..=MASK_48, sent_ns in 0i64..1 << 57, last: bool,
            rest in 0usize..40
        ) {
            let segment = Segment { session, sequence, packet, sent: RemoteTime::from_nanos(sent_ns), last };
            let mut out = [0xaa; 64];
            prop_assert_eq!(segment.encode(&mut out), Segment::LEN);
            let mut fields = [0; Segment::LEN];
            let mut w = Writer::open(&mut fields, Kind::Segment, u8::from(last), session);
            [sequence, packet, micros(sent_ns) as u64].into_iter().for_each(|field| w.u48(field));
            prop_assert_eq!(&out[..Segment::LEN], fields);
            let rounded = Segment { sent: RemoteTime::from_nanos(micros(sent_ns) * 1_000), ..segment };
            prop_assert_eq!(Segment::decode(&out[..Segment::LEN + rest]), Ok(rounded));
            for length in 0..Segment::LEN {
                prop_assert_eq!(Segment::decode(&out[..length]), Err(WireError::Truncated));
            }
        }

        #[test]
        fn an_acknowledgement_round_trips(ack in ack(), rest in 0usize..8) {
            let mut out = [0xaa; SegmentAck::MAX_LEN + 8];
            let length = ack.encode(&mut out);
            prop_assert_eq!(SegmentAck::decode(&out[..length + rest]), Ok(ack));
            for short in 0..length {
                prop_assert_eq!(SegmentAck::decode(&out[..short]), Err(WireError::Truncated));
            }
        }

        #[test]
        fn one_read_in_the_place_of_another_is_the_same(before in ack(), after in ack()) {
            let mut out = [0; SegmentAck::MAX_LEN];
            let mut place = before;
            let length = after.encode(&mut out);
            prop_assert_eq!(place.read(&out[..length]), Ok(()));
            prop_assert_eq!(place, after);
            prop_assert_eq!(place == before, after == before);
        }

        #[test]
        fn any_bytes_are_no_panic(flags: u8, bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            for kind in [Kind::Segment, Kind::SegmentAck] {
                let mut all = vec![crate::codec::first_byte(kind), flags];
                all.extend(&bytes);
                crate::oracle::segment(&all);
                crate::oracle::segment_ack(&all);
            }
        }
    }

    fn arrival(packet: u64, us: i64) -> SegmentArrival {
        SegmentArrival { packet, at: RemoteTime::from_nanos(us * 1_000) }
    }

    #[test]
    fn sizes_are_tcps() {
        let mut out = [0; SegmentAck::MAX_LEN];
        // Two full segments a millisecond apart: no more than TCP's 52 bytes less IPv4 and UDP.
        let pair = [arrival(900_000, 5_000_000), arrival(900_001, 5_001_000)];
        assert_eq!(SegmentAck::new(1, 1 << 40, false, &pair, &[]).encode(&mut out), 24);
        // Three SACK blocks take TCP 28 bytes more; the first two are near.
        let ack = 1 << 40;
        let blocks =
            [(ack + 1448, ack + 2896), (ack + 200_000, ack + 400_000), (ack + 500_000, ack + 501_448)];
        assert_eq!(SegmentAck::new(1, ack, false, &pair[1..], &blocks).encode(&mut out), 22 + 4 + 8 + 6);
    }

    #[test]
    fn what_leaves_its_range_is_refused() {
        let encode = |write: &dyn Fn(&mut Writer<'_>), flags| {
            let mut out = [0; 100];
            let mut w = Writer::open(&mut out, Kind::SegmentAck, flags, 7);
            w.u48(1000);
            write(&mut w);
            let length = w.len();
            SegmentAck::decode(&out[..length]).unwrap_err()
        };
        assert_eq!(encode(&|_| (), 9), WireError::Field("blocks"));
        assert_eq!(encode(&|_| (), 1), WireError::Truncated);
        // Blocks that are empty, or begin below zero or end beyond 48 bits.
        let block = |from: i64, size: u64| {
            encode(
                &|w| {
                    w.varint(zigzag(from));
                    w.varint(size);
                },
                1,
            )
        };
        assert_eq!(block(0, 0), WireError::Field("block"));
        assert_eq!(block(-1001, 5), WireError::Field("block"));
        assert_eq!(block(0, MASK_48), WireError::Field("block"));
        // An arrival before the clock's origin, or numbered below zero.
        let earlier = |since: u64| {
            encode(
                &|w| {
                    w.varint(0);
                    w.u48(5);
                    w.varint(since << 1);
                },
                2 << ARRIVALS,
            )
        };
        assert_eq!((earlier(6), earlier(2)), (WireError::Field("arrival"), WireError::Field("arrival")));
    }
}
