//! Reads from a coded frame of VP8 which references it replaces: the beginning of its first partition (RFC
//! 6386 sections 9.2 to 9.11, in order as in 19.2).
//!
//! libvpx is told by flags what to do with its references; that it did just that is read here.

/// Why a header could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header of a frame of VP8 is cut short")]
pub(super) struct CutShort;

/// What a frame does to the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub key: bool,
    /// The golden and the alternate frame become this one.
    pub replaces: [bool; 2],
    /// One of those becomes a copy of another reference.
    pub copies: bool,
    /// The probabilities of this frame are those that the next one begins with.
    pub keeps_entropy: bool,
    /// The last frame becomes this one.
    pub replaces_last: bool,
}

/// The boolean decoder (section 7.3).
struct Bools<'a> {
    bytes: &'a [u8],
    value: u32,
    range: u32,
    /// Shifts since a byte was last taken.
    shifts: u32,
}

impl<'a> Bools<'a> {
    fn new(bytes: &'a [u8]) -> Result<Bools<'a>, CutShort> {
        let (&[first, second], bytes) = bytes.split_first_chunk().ok_or(CutShort)?;
        Ok(Bools { bytes, value: u32::from(first) << 8 | u32::from(second), range: 255, shifts: 0 })
    }

    /// A bit that is as likely 0 as 1: all before the macroblocks are.
    fn bit(&mut self) -> Result<bool, CutShort> {
        let split = 1 + (((self.range - 1) * 128) >> 8);
        let bit = self.value >= split << 8;
        if bit {
            self.range -= split;
            self.value -= split << 8;
        } else {
            self.range = split;
        }
        while self.range < 128 {
            (self.value, self.range, self.shifts) = (self.value << 1, self.range << 1, self.shifts + 1);
            if self.shifts == 8 {
                let (&byte, rest) = self.bytes.split_first().ok_or(CutShort)?;
                (self.value, self.bytes, self.shifts) = (self.value | u32::from(byte), rest, 0);
            }
        }
        Ok(bit)
    }

    fn number(&mut self, bits: u32) -> Result<u32, CutShort> {
        (0..bits).try_fold(0, |number, _| Ok(number << 1 | u32::from(self.bit()?)))
    }

    /// Numbers of so many bits, each with a flag before it that says whether it is there.
    fn skip_optional(&mut self, count: u32, bits: u32) -> Result<(), CutShort> {
        (0..count).try_for_each(|_| if self.bit()? { self.number(bits).map(drop) } else { Ok(()) })
    }

    /// Section 9.3.
    fn skip_segmentation(&mut self) -> Result<(), CutShort> {
        if !self.bit()? {
            return Ok(());
        }
        let (map, features) = (self.bit()?, self.bit()?);
        if features {
            self.bit()?;
            // With their signs.
            self.skip_optional(4, 8)?;
            self.skip_optional(4, 7)?;
        }
        if map { self.skip_optional(3, 8) } else { Ok(()) }
    }

    /// Sections 9.6 (the filter), 9.5 (partitions) and 9.6 (quantisers).
    fn skip_to_references(&mut self) -> Result<(), CutShort> {
        self.number(1 + 6 + 3)?;
        if self.bit()? && self.bit()? {
            self.skip_optional(8, 7)?;
        }
        self.number(2 + 7)?;
        self.skip_optional(5, 5)
    }
}

/// Reads the header of a coded frame.
pub(super) fn read(coded: &[u8]) -> Result<Header, CutShort> {
    let key = coded.first().ok_or(CutShort)? & 1 == 0;
    // A key frame has its start code and size before the first partition.
    let mut bools = Bools::new(coded.get(if key { 10 } else { 3 }..).ok_or(CutShort)?)?;
    if key {
        bools.number(2)?;
    }
    bools.skip_segmentation()?;
    bools.skip_to_references()?;
    if key {
        let keeps_entropy = bools.bit()?;
        return Ok(Header { key, replaces: [true; 2], copies: false, keeps_entropy, replaces_last: true });
    }
    let replaces = [bools.bit()?, bools.bit()?];
    let mut copies = false;
    for replaced in replaces {
        copies |= !replaced && bools.number(2)? > 0;
    }
    // Signs of motion vectors.
    bools.number(2)?;
    let (keeps_entropy, replaces_last) = (bools.bit()?, bools.bit()?);
    Ok(Header { key, replaces, copies, keeps_entropy, replaces_last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(header) = read(&bytes) {
                prop_assert_eq!(header.key, bytes[0] & 1 == 0);
                prop_assert!(bytes.len() >= 5);
            }
        }
    }
}
