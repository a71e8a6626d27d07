//! Reads what a coded picture says of its references: the beginning of its first slice's header (ITU-T H.264
//! section 7.3.3), with the parameter sets before it.
//!
//! OpenH264 wants `idr_pic_id` and `frame_num` in what it is told of its long-term references, and tells
//! neither; which picture it predicted from and which it keeps is written in the same header.

/// Operations on references in one header at most: as many as there can be references (16, twice for fields),
/// and what ends them.
const OPERATIONS: usize = 34;

/// Why a header could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// The bytes end too early, or hold a number that the standard rules out.
    #[error("the header is cut short or damaged")]
    Malformed,
    /// Fields, B slices, weighted prediction, slice groups: nothing that a live encoder of the constrained
    /// baseline profile writes.
    #[error("the header uses {0}, which is not read here")]
    Unsupported(&'static str),
    /// No parameter set, or no slice at all.
    #[error("{0} is missing")]
    Missing(&'static str),
}

/// Bits of a network abstraction layer unit, without the bytes that keep start codes out of it (section
/// 7.4.1.1).
struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits of the first byte that are used up.
    used: u32,
    /// Zero bytes just before the first byte.
    zeros: u32,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Bits<'a> {
        Bits { bytes, used: 0, zeros: 0 }
    }

    fn bit(&mut self) -> Result<u32, SliceError> {
        if self.used == 0 && self.zeros >= 2 && self.bytes.first() == Some(&3) {
            (self.bytes, self.zeros) = (&self.bytes[1..], 0);
        }
        let &byte = self.bytes.first().ok_or(SliceError::Malformed)?;
        let bit = u32::from(byte >> (7 - self.used) & 1);
        self.used += 1;
        if self.used == 8 {
            self.zeros = if byte == 0 { self.zeros + 1 } else { 0 };
            (self.bytes, self.used) = (&self.bytes[1..], 0);
        }
        Ok(bit)
    }

    fn flag(&mut self) -> Result<bool, SliceError> {
        Ok(self.bit()? == 1)
    }

    /// `u(n)`, of at most 32 bits.
    fn number(&mut self, bits: u32) -> Result<u32, SliceError> {
        (0..bits).try_fold(0, |number, _| Ok(number << 1 | self.bit()?))
    }

    /// `ue(v)` (section 9.1), below 2^32 - 1.
    fn unsigned(&mut self) -> Result<u32, SliceError> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return Err(SliceError::Malformed);
            }
        }
        Ok((1 << zeros) - 1 + self.number(zeros)?)
    }

    /// `se(v)`, whose value nobody needs: it is as long as `ue(v)`.
    fn skip_signed(&mut self) -> Result<(), SliceError> {
        self.unsigned().map(|_| ())
    }
}

/// What a sequence parameter set says that slices' headers depend on (section 7.3.2.1.1).
#[derive(Clone, Copy, Debug)]
struct Sequence {
    /// Bits of `frame_num`, 4 to 16.
    frame_num: u32,
    /// Bits of `pic_order_cnt_lsb`, 4 to 16; none where the header has no such number.
    order: Option<u32>,
}

/// Profiles whose sets say more before these fields (section 7.3.2.1.1).
const HIGH: [u32; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

fn sequence(bits: &mut Bits<'_>) -> Result<Sequence, SliceError> {
    let profile = bits.number(8)?;
    if HIGH.contains(&profile) {
        return Err(SliceError::Unsupported("a high profile"));
    }
    // Constraints, the level, and the set's number.
    bits.number(16)?;
    bits.unsigned()?;
    let width = |less: u32| if less > 12 { Err(SliceError::Malformed) } else { Ok(less + 4) };
    let frame_num = width(bits.unsigned()?)?;
    let order = match bits.unsigned()? {
        0 => Some(width(bits.unsigned()?)?),
        2 => None,
        _ => return Err(SliceError::Unsupported("picture order by cycles")),
    };
    // References, whether there may be gaps between them, and the picture's size.
    bits.unsigned()?;
    bits.flag()?;
    bits.unsigned()?;
    bits.unsigned()?;
    if !bits.flag()? {
        return Err(SliceError::Unsupported("fields"));
    }
    Ok(Sequence { frame_num, order })
}

/// What a picture parameter set says that slices' headers depend on (section 7.3.2.2).
#[derive(Clone, Copy, Debug)]
struct Picture {
    /// References of a slice that does not say how many it has.
    references: u32,
    redundant: bool,
}

fn picture(bits: &mut Bits<'_>) -> Result<Picture, SliceError> {
    // Its number, its sequence's, and how coefficients are coded.
    bits.unsigned()?;
    bits.unsigned()?;
    bits.flag()?;
    if bits.flag()? {
        return Err(SliceError::Unsupported("fields"));
    }
    if bits.unsigned()? > 0 {
        return Err(SliceError::Unsupported("slice groups"));
    }
    let references = bits.unsigned()?.checked_add(1).ok_or(SliceError::Malformed)?;
    bits.unsigned()?;
    if bits.number(3)? != 0 {
        return Err(SliceError::Unsupported("weighted prediction"));
    }
    (0..3).try_for_each(|_| bits.skip_signed())?;
    // Deblocking control and constrained intra prediction.
    bits.number(2)?;
    Ok(Picture { references, redundant: bits.flag()? })
}

/// A picture that another is predicted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// One of the last ones, by its `frame_num`.
    Short(u32),
    /// One that is kept, by its `LongTermPicNum`.
    Long(u32),
}

/// What a picture does to those that are kept (section 7.4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// 1: the picture with this `frame_num` is no longer needed.
    Unused(u32),
    /// 2: nor the long-term one of this number.
    LongUnused(u32),
    /// 3: the picture with this `frame_num` is kept under this index.
    Keep(u32, u32),
    /// 4: indices from this one on are no longer in use.
    Limit(u32),
    /// 5: no picture before this one is needed any more.
    Reset,
    /// 6: this picture is kept under this index.
    KeepThis(u32),
}

/// What a picture's first slice says of references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceHeader {
    /// `idr_pic_id`, of a key picture (0 to 65,535).
    pub idr: Option<u32>,
    /// `frame_num`, below [`modulus`](SliceHeader::modulus).
    pub frame_num: u32,
    /// `MaxFrameNum`, 16 to 65,536.
    pub modulus: u32,
    /// What it is predicted from first; none if it is of intra slices.
    pub reference: Option<Reference>,
    /// What becomes of pictures that are kept, in order.
    pub marking: Vec<Marking>,
}

/// Reads pictures' headers, one stream after its parameter sets.
#[derive(Debug, Default)]
pub struct SliceReader {
    sequence: Option<Sequence>,
    picture: Option<Picture>,
}

impl SliceReader {
    /// Reads the header of the first slice of an access unit in Annex B form.
    ///
    /// # Errors
    /// [`SliceError`] if there is none that can be read.
    ///
    /// ```
    /// use framewire_media::{SliceError, SliceReader};
    ///
    /// let nothing = SliceReader::default().read(&[0, 0, 1, 0x41, 0xe0]);
    /// assert_eq!(nothing, Err(SliceError::Missing("a sequence parameter set")));
    /// ```
    pub fn read(&mut self, coded: &[u8]) -> Result<SliceHeader, SliceError> {
        let mut rest = coded;
        while let Some(at) = rest.windows(3).position(|window| window == [0, 0, 1]) {
            rest = &rest[at + 3..];
            let Some((&head, body)) = rest.split_first() else { break };
            // Table 7-1.
            match head & 0x1f {
                1 | 5 => return self.slice(head, &mut Bits::new(body)),
                7 => self.sequence = Some(sequence(&mut Bits::new(body))?),
                8 => self.picture = Some(picture(&mut Bits::new(body))?),
                _ => {}
            }
        }
        Err(SliceError::Missing("a slice"))
    }

    fn slice(&self, head: u8, bits: &mut Bits<'_>) -> Result<SliceHeader, SliceError> {
        let sequence = self.sequence.ok_or(SliceError::Missing("a sequence parameter set"))?;
        let picture = self.picture.ok_or(SliceError::Missing("a picture parameter set"))?;
        let is_idr = head & 0x1f == 5;
        bits.unsigned()?;
        // Table 7-6: five types, and the same again where all slices of the picture are of it.
        let predicted = match bits.unsigned()? {
            0 | 5 => true,
            2 | 7 => false,
            _ => return Err(SliceError::Unsupported("slices other than I and P")),
        };
        bits.unsigned()?;
        let frame_num = bits.number(sequence.frame_num)?;
        let modulus = 1 << sequence.frame_num;
        let idr = if is_idr { Some(bits.unsigned()?) } else { None };
        if let Some(order) = sequence.order {
            bits.number(order)?;
        }
        if picture.redundant {
            bits.unsigned()?;
        }
        let reference = if predicted { Some(reference(bits, picture, frame_num, modulus)?) } else { None };
        let marking =
            if head >> 5 & 3 == 0 { Vec::new() } else { marking(bits, is_idr, frame_num, modulus)? };
        Ok(SliceHeader { idr, frame_num, modulus, reference, marking })
    }
}

/// `back` pictures before `frame_num` (section 8.2.4.1: for frames `PicNum` is that number, modulo
/// `modulus`).
fn before(frame_num: u32, back: u32, modulus: u32) -> Result<u32, SliceError> {
    if back >= modulus { Err(SliceError::Malformed) } else { Ok((frame_num + modulus - back) % modulus) }
}

/// The first reference of a P slice (section 7.3.3.1).
fn reference(
    bits: &mut Bits<'_>,
    picture: Picture,
    frame_num: u32,
    modulus: u32,
) -> Result<Reference, SliceError> {
    let count = if bits.flag()? { bits.unsigned()?.saturating_add(1) } else { picture.references };
    if count > 32 {
        return Err(SliceError::Malformed);
    }
    let mut first = None;
    if bits.flag()? {
        for operation in 0.. {
            let found = match bits.unsigned()? {
                0 => Reference::Short(before(frame_num, bits.unsigned()?.saturating_add(1), modulus)?),
                1 => {
                    let ahead = bits.unsigned()?.saturating_add(1);
                    Reference::Short(before(frame_num, modulus - ahead.min(modulus - 1), modulus)?)
                }
                2 => Reference::Long(bits.unsigned()?),
                3 => break,
                _ => return Err(SliceError::Malformed),
            };
            first.get_or_insert(found);
            if operation == OPERATIONS {
                return Err(SliceError::Malformed);
            }
        }
    }
    // Without a word about it the list begins with the picture before this one (section 8.2.4.2.1).
    first.map_or_else(|| before(frame_num, 1, modulus).map(Reference::Short), Ok)
}

/// Section 7.3.3.3.
fn marking(
    bits: &mut Bits<'_>,
    is_idr: bool,
    frame_num: u32,
    modulus: u32,
) -> Result<Vec<Marking>, SliceError> {
    let mut all = Vec::new();
    if is_idr {
        bits.flag()?;
        all.extend(bits.flag()?.then_some(Marking::KeepThis(0)));
        return Ok(all);
    }
    if !bits.flag()? {
        return Ok(all);
    }
    loop {
        let back = |bits: &mut Bits<'_>| before(frame_num, bits.unsigned()?.saturating_add(1), modulus);
        all.push(match bits.unsigned()? {
            0 => return Ok(all),
            1 => Marking::Unused(back(bits)?),
            2 => Marking::LongUnused(bits.unsigned()?),
            3 => Marking::Keep(back(bits)?, bits.unsigned()?),
            4 => Marking::Limit(bits.unsigned()?),
            5 => Marking::Reset,
            6 => Marking::KeepThis(bits.unsigned()?),
            _ => return Err(SliceError::Malformed),
        });
        if all.len() == OPERATIONS {
            return Err(SliceError::Malformed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_over_bytes_that_keep_start_codes_out() {
        // 0 0 3 1: the 3 is no part of it.
        let mut bits = Bits::new(&[0, 0, 3, 1, 0x80]);
        assert_eq!(bits.number(24), Ok(1));
        assert_eq!(bits.unsigned(), Ok(0));
        assert_eq!(Bits::new(&[0b0010_1000]).unsigned(), Ok(4));
        assert_eq!(Bits::new(&[0; 8]).unsigned(), Err(SliceError::Malformed));
        assert_eq!(Bits::new(&[]).bit(), Err(SliceError::Malformed));
    }

    #[test]
    fn what_lies_back_wraps_around() {
        assert_eq!(before(0, 1, 16), Ok(15));
        assert_eq!(before(5, 5, 16), Ok(0));
        assert_eq!(before(5, 16, 16), Err(SliceError::Malformed));
    }

    proptest! {
        /// Whatever a header says stays within what the standard allows.
        #[test]
        fn arbitrary_bytes_never_panic(units in prop::collection::vec((0u8..10, prop::collection::vec(any::<u8>(), 0..60)), 1..6)) {
            let mut reader = SliceReader::default();
            let mut coded = vec![];
            for (kind, body) in units {
                let head = [0x67, 0x68, 0x65, 0x61, 0x41, 0x01, 0x67, 0x68, 0x65, 0x06][usize::from(kind)];
                coded.extend([0, 0, 0, 1, head]);
                // Half of the sets say that they are of the baseline profile, which is read further.
                coded.extend((head == 0x67 && body.len() % 2 == 0).then_some(66));
                coded.extend(body);
                if let Ok(header) = reader.read(&coded) {
                    prop_assert!(header.frame_num < header.modulus && header.marking.len() <= OPERATIONS);
                }
            }
        }
    }
}
