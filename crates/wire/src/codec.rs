//! The common header, and the cursors that read and write every packet kind.
//!
//! ```text
//!  0       1       2               6
//! +-------+-------+---------------+------- ...
//! |ver|kind| flags|    session    | fields of the kind
//! +-------+-------+---------------+------- ...
//! ```
//!
//! Numbers are big-endian. A variable-length integer is QUIC's (RFC 9000 section 16): the first byte's two
//! high bits say whether it takes 1, 2, 4 or 8 bytes.

use units::{likely, unlikely};

/// The wire format's version, in the high four bits of the first byte. A receiver drops every other version.
pub const VERSION: u8 = 2;

/// What a packet is, in the low four bits of the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Media or padding, sender to receiver.
    Media = 1,
    /// What arrived and when, receiver to sender.
    Feedback = 2,
    /// Packets wanted again, receiver to sender.
    Nack = 3,
    /// A key frame wanted, receiver to sender.
    KeyFrameRequest = 4,
    /// Session set-up and end, both ways.
    Control = 5,
    /// A piece of a reliable byte stream, sender to receiver.
    Segment = 6,
    /// What of the stream has arrived, receiver to sender.
    SegmentAck = 7,
    /// A packet whose arrival is to be timed, sender to receiver, in a datagram of QUIC's.
    TimingProbe = 8,
    /// When such packets arrived, receiver to sender.
    TimingEcho = 9,
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the packet says it has.
    #[error("truncated packet")]
    Truncated,
    /// Another version of the format.
    #[error("packet of version {0}, this is version {VERSION}")]
    Version(u8),
    /// A kind this version does not know, or not the kind asked for.
    #[error("unknown packet kind {0}")]
    Kind(u8),
    /// A field holds what it may not.
    #[error("field `{0}` out of range")]
    Field(&'static str),
}

/// Who refuses bytes with this seldom does: where it is called is put out of the way of what packets run.
#[cold]
pub(crate) fn truncated() -> WireError {
    WireError::Truncated
}

/// As [`truncated`], of a field that holds what it may not.
#[cold]
pub(crate) fn out_of_range(field: &'static str) -> WireError {
    WireError::Field(field)
}

/// The kind and session of a packet, before anything else is read.
///
/// # Errors
/// [`WireError`] if the first six bytes are not a header of this version.
#[inline]
pub fn peek(datagram: &[u8]) -> Result<(Kind, u32), WireError> {
    let [first, _, a, b, c, d, ..] = *datagram else { return Err(truncated()) };
    if unlikely(first >> 4 != VERSION) {
        return Err(WireError::Version(first >> 4));
    }
    let kind = match first & 15 {
        1 => Kind::Media,
        2 => Kind::Feedback,
        3 => Kind::Nack,
        4 => Kind::KeyFrameRequest,
        5 => Kind::Control,
        6 => Kind::Segment,
        7 => Kind::SegmentAck,
        8 => Kind::TimingProbe,
        9 => Kind::TimingEcho,
        other => return Err(WireError::Kind(other)),
    };
    Ok((kind, u32::from_be_bytes([a, b, c, d])))
}

/// Length of the common header: version and kind, flags, session.
pub(crate) const HEAD: usize = 6;

/// The first byte of a packet of `kind`.
pub(crate) const fn first_byte(kind: Kind) -> u8 {
    VERSION << 4 | kind as u8
}

/// Packet numbers, and times in microseconds, take 48 bits: 2^48 us are 8.9 years.
pub(crate) const MASK_48: u64 = (1 << 48) - 1;

/// Whole microseconds of a time in nanoseconds, rounded down.
#[inline]
pub(crate) fn micros(nanos: i64) -> i64 {
    // Most clocks are past their zero, where rounding down takes nothing more.
    if likely(nanos >= 0) { (nanos as u64 / 1_000) as i64 } else { nanos.div_euclid(1_000) }
}

/// Reads big-endian fields from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Checks the common header and returns its flags byte and session.
    pub fn open(datagram: &'a [u8], want: Kind) -> Result<(Reader<'a>, u8, u32), WireError> {
        let (kind, session) = peek(datagram)?;
        if unlikely(kind != want) {
            return Err(WireError::Kind(kind as u8));
        }
        Ok((Reader(&datagram[HEAD..]), datagram[1], session))
    }

    /// [`open`](Reader::open) for kinds that define no flags. Unknown flags are refused: they may change what
    /// the rest means.
    pub fn open_plain(datagram: &'a [u8], want: Kind) -> Result<(Reader<'a>, u32), WireError> {
        match Reader::open(datagram, want)? {
            (reader, 0, session) => Ok((reader, session)),
            _ => Err(out_of_range("flags")),
        }
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (front, rest) = self.0.split_at_checked(n).ok_or_else(truncated)?;
        self.0 = rest;
        Ok(front)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (front, rest) = self.0.split_first_chunk::<N>().ok_or_else(truncated)?;
        self.0 = rest;
        Ok(*front)
    }
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }
    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }
    pub fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.array()?))
    }
    pub fn u48(&mut self) -> Result<u64, WireError> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.array()?))
    }
    /// A variable-length integer, below 2^62.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, WireError> {
        // Eight bytes hold one of any length, and nothing has to be guessed; a packet's last may have fewer.
        let Some(eight) = self.0.first_chunk() else { return self.last_varint() };
        let word = u64::from_be_bytes(*eight);
        let length = 1 << (word >> 62);
        self.0 = &self.0[length..];
        Ok(word << 2 >> (66 - 8 * length))
    }
    fn last_varint(&mut self) -> Result<u64, WireError> {
        match *self.0.first().ok_or_else(truncated)? {
            // Most that stand at a packet's end: counts, which are written before they are known.
            0x40..0x80 => Ok(u64::from(self.u16()? & 0x3fff)),
            0..0x40 => Ok(u64::from(self.u8()?)),
            class if unlikely(class < 0xc0) => Ok(u64::from(self.u32()? & 0x3fff_ffff)),
            _ => Err(truncated()),
        }
    }
}

/// Writes big-endian fields to the front of a slice; panics where the slice is too short, which is the
/// caller's bug.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// A writer of fields without the common header.
    pub fn plain(out: &'a mut [u8]) -> Writer<'a> {
        Writer { out, at: 0 }
    }
    pub fn open(out: &'a mut [u8], kind: Kind, flags: u8, session: u32) -> Writer<'a> {
        let mut writer = Writer::plain(out);
        writer.u8(first_byte(kind));
        writer.u8(flags);
        writer.u32(session);
        writer
    }
    pub fn len(&self) -> usize {
        self.at
    }
    pub fn room(&self) -> usize {
        self.out.len() - self.at
    }
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
    #[inline(always)]
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }
    #[inline(always)]
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }
    #[inline(always)]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }
    /// The low 48 bits.
    #[inline(always)]
    pub fn u48(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes()[2..]);
    }
    #[inline(always)]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }
    /// A variable-length integer; `value` must be below 2^62.
    #[inline]
    pub fn varint(&mut self, value: u64) {
        // As it is read: eight bytes at once, where there is room for those that mean nothing.
        match self.out.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut::<8>()) {
            Some(eight) => {
                let class =
                    u32::from(value >= 0x40) + u32::from(value >= 0x4000) + u32::from(value >= 0x4000_0000);
                let length = 1 << class;
                *eight = (value << (64 - 8 * length) | u64::from(class) << 62).to_be_bytes();
                self.at += length;
            }
            None => self.last_varint(value),
        }
    }
    #[cold]
    fn last_varint(&mut self, value: u64) {
        match value {
            0..0x40 => self.u8(value as u8),
            0x40..0x4000 => self.u16(0x4000 | value as u16),
            0x4000..0x4000_0000 => self.u32(0x8000_0000 | value as u32),
            _ => self.u64(0xc000_0000_0000_0000 | value),
        }
    }
    /// A count that is not known yet: two bytes to be filled in by [`fill_count`](Writer::fill_count).
    pub fn reserve_count(&mut self) -> usize {
        self.u16(0x4000);
        self.at - 2
    }
    /// Writes a count of at most [`MAX_COUNT`] where [`reserve_count`](Writer::reserve_count) left room for
    /// it.
    pub fn fill_count(&mut self, at: usize, count: usize) {
        debug_assert!(count <= MAX_COUNT);
        self.out[at..at + 2].copy_from_slice(&(0x4000 | count as u16).to_be_bytes());
    }
}

/// Bytes of a variable-length integer.
#[inline(always)]
pub(crate) fn varint_length(value: u64) -> usize {
    // Not by the number's highest bit: some processors take long to find that.
    1 + usize::from(value >> 6 != 0) + 2 * usize::from(value >> 14 != 0) + 4 * usize::from(value >> 30 != 0)
}

/// Maps small numbers of either sign to small ones without: 0, -1, 1, -2 to 0, 1, 2, 3.
pub(crate) const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}
/// The inverse of [`zigzag`].
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The largest count that fits a variable-length integer of two bytes.
pub(crate) const MAX_COUNT: usize = 0x3fff;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn variable_length_integers_round_trip(value in 0u64..1 << 62, shift in 0u32..62, rest in 0usize..9) {
            let value = value >> shift;
            let mut out = [0; 8];
            let mut writer = Writer { out: &mut out, at: 0 };
            writer.varint(value);
            let length = writer.len();
            prop_assert_eq!(length, varint_length(value));
            // Room for no more than the integer makes no difference.
            let mut tight = [0; 8];
            Writer { out: &mut tight[..length], at: 0 }.varint(value);
            prop_assert_eq!(&tight[..length], &out[..length]);
            // Whatever follows, and nothing following, must not matter.
            let mut bytes = out[..length].to_vec();
            bytes.resize(length + rest, 0xff);
            let mut reader = Reader(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.0.len(), rest);
            prop_assert_eq!(Reader(&out[..length - 1]).varint(), Err(WireError::Truncated));
        }
    }

    #[test]
    fn integers_read_as_in_rfc_9000_appendix_a_1() {
        let read = |bytes: &[u8]| Reader(bytes).varint().unwrap();
        assert_eq!(read(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]), 151_288_809_941_952_652);
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), 494_878_333);
        assert_eq!(read(&[0x7b, 0xbd]), 15_293);
        assert_eq!(read(&[0x25]), 37);
        assert_eq!(read(&[0x40, 0x25]), 37);
    }

    #[test]
    fn other_versions_and_kinds_are_named() {
        assert_eq!(peek(&[0x11, 0, 0, 0, 0, 1]), Err(WireError::Version(1)));
        assert_eq!(peek(&[0x2f, 0, 0, 0, 0, 1]), Err(WireError::Kind(15)));
        assert_eq!(peek(&[0x21, 0, 0, 0, 0]), Err(WireError::Truncated));
        assert_eq!(peek(&[0x22, 0, 1, 2, 3, 4]), Ok((Kind::Feedback, 0x0102_0304)));
    }
}
