//! Frames as encoders write them, behind start codes, turned into what MP4 stores (ITU-T H.264 annex B,
//! ISO/IEC 14496-15 section 5.3).

use bytes::Bytes;

use super::{Mp4Error, Sample};

/// Kinds of NAL units (ITU-T H.264 table 7-1).
const KEY_SLICE: u8 = 5;
const SPS: u8 = 7;
const PPS: u8 = 8;
/// Access unit delimiter, end of sequence, end of stream, filler: MP4 says these by other means.
const DELIMITERS: std::ops::RangeInclusive<u8> = 9..=12;

/// What a stream's samples are decoded with: goes into [`header`](super::header) once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Shown pixels in a line.
    pub width: u16,
    /// Shown lines.
    pub height: u16,
    /// The sequence parameter set, a NAL unit without start code.
    pub sps: Bytes,
    /// The picture parameter set, a NAL unit without start code.
    pub pps: Bytes,
}

impl Description {
    /// Reads the picture's size out of `sps`; both sets without start codes.
    ///
    /// # Errors
    /// [`Mp4Error::ParameterSet`] if a set is damaged, too long, or says a size of more than 65535.
    ///
    /// ```
    /// use framewire_ingest::mp4::Description;
    ///
    /// let sps = [0x67, 0x42, 0xc0, 0x0a, 0xda, 0x0a, 0x36, 0x40];
    /// let description = Description::new(&sps, &[0x68, 0xce, 0x3c, 0x80])?;
    /// assert_eq!((description.width, description.height), (160, 96));
    /// assert_eq!(description.codec(), "avc1.42C00A");
    /// # Ok::<(), framewire_ingest::mp4::Mp4Error>(())
    /// ```
    pub fn new(sps: &[u8], pps: &[u8]) -> Result<Description, Mp4Error> {
        let fits = |set: &[u8]| u16::try_from(set.len()).is_ok();
        let sequence = Sequence::read(sps).filter(|_| fits(sps));
        let sequence = sequence.ok_or(Mp4Error::ParameterSet("sequence"))?;
        if pps.len() < 2 || !fits(pps) {
            return Err(Mp4Error::ParameterSet("picture"));
        }
        let (sps, pps) = (Bytes::copy_from_slice(sps), Bytes::copy_from_slice(pps));
        Ok(Description { width: sequence.width, height: sequence.height, sps, pps })
    }

    /// The codec as browsers and playlists name it: `avc1.` and profile, constraints and level in hexadecimal
    /// (RFC 6381 section 3.3).
    pub fn codec(&self) -> String {
        let [profile, constraints, level] = self.profile();
        format!("avc1.{profile:02X}{constraints:02X}{level:02X}")
    }

    /// Profile, constraints and level, the three bytes behind the set's kind.
    pub(super) fn profile(&self) -> [u8; 3] {
        let byte = |at: usize| self.sps.get(at).copied().unwrap_or_default();
        [byte(1), byte(2), byte(3)]
    }

    /// Chroma format, luma and chroma depth in bits where the profile's sets say these.
    pub(super) fn high(&self) -> Option<[u8; 3]> {
        Sequence::read(&self.sps)?.high
    }
}

/// One coded picture, without duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessUnit {
    /// See [`Sample::bytes`].
    pub bytes: Bytes,
    /// Whether it holds a slice of an IDR picture.
    pub key: bool,
    /// The parameter sets it brought, taken out of its bytes.
    pub description: Option<Description>,
}

impl AccessUnit {
    /// Reads one access unit behind start codes of three or four bytes. Memory taken is at most 4/3 of
    /// `annex_b` and two parameter sets.
    ///
    /// # Errors
    /// [`Mp4Error`] if it is no picture, is damaged, or has more than one parameter set of a kind.
    ///
    /// ```
    /// use framewire_ingest::mp4::AccessUnit;
    ///
    /// let slice = [0, 0, 0, 1, 0x41, 0x9a, 0x02];
    /// let unit = AccessUnit::read(&slice)?;
    /// assert_eq!(&unit.bytes[..], [0, 0, 0, 3, 0x41, 0x9a, 0x02]);
    /// assert!(!unit.key && unit.description.is_none());
    /// assert!(AccessUnit::read(b"no picture").is_err());
    /// # Ok::<(), framewire_ingest::mp4::Mp4Error>(())
    /// ```
    pub fn read(annex_b: &[u8]) -> Result<AccessUnit, Mp4Error> {
        let (mut bytes, mut key, mut slices) = (Vec::with_capacity(annex_b.len() + 16), false, 0);
        let (mut sps, mut pps): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        for unit in units(annex_b)? {
            if unit[0] & 0x80 != 0 {
                return Err(Mp4Error::Damaged(unit[0]));
            }
            match unit[0] & 0x1f {
                SPS => remember(&mut sps, unit, "sequence")?,
                PPS => remember(&mut pps, unit, "picture")?,
                kind if DELIMITERS.contains(&kind) => {}
                kind => {
                    key |= kind == KEY_SLICE;
                    slices += usize::from((1..=KEY_SLICE).contains(&kind));
                    let length = u32::try_from(unit.len()).map_err(|_| Mp4Error::Damaged(unit[0]))?;
                    bytes.extend_from_slice(&length.to_be_bytes());
                    bytes.extend_from_slice(unit);
                }
            }
        }
        if slices == 0 {
            return Err(Mp4Error::NoPicture(annex_b.len()));
        }
        let description = match (&sps[..], &pps[..]) {
            ([], []) => None,
            ([sps], [pps]) => Some(Description::new(sps, pps)?),
            ([], _) => return Err(Mp4Error::Sets { kind: "sequence", found: 0 }),
            _ => return Err(Mp4Error::Sets { kind: "picture", found: 0 }),
        };
        Ok(AccessUnit { bytes: bytes.into(), key, description })
    }

    /// It as a sample of `duration` ticks.
    pub fn lasting(self, duration: u32) -> Sample {
        Sample { bytes: self.bytes, duration, key: self.key }
    }
}

/// Keeps a set, of which a frame may bring copies but no second one.
fn remember<'a>(sets: &mut Vec<&'a [u8]>, set: &'a [u8], kind: &'static str) -> Result<(), Mp4Error> {
    match sets.first() {
        None => sets.push(set),
        Some(first) if *first == set => {}
        Some(_) => return Err(Mp4Error::Sets { kind, found: 2 }),
    }
    Ok(())
}

/// The NAL units between start codes, none of them empty.
fn units(annex_b: &[u8]) -> Result<impl Iterator<Item = &[u8]>, Mp4Error> {
    let first = start_code(annex_b).filter(|at| annex_b[..*at].iter().all(|byte| *byte == 0));
    let mut rest = Some(&annex_b[first.ok_or(Mp4Error::NotAnnexB)? + 3..]);
    let each = std::iter::from_fn(move || {
        let bytes = rest?;
        let end = start_code(bytes);
        rest = end.map(|end| &bytes[end + 3..]);
        Some(trimmed(&bytes[..end.unwrap_or(bytes.len())]))
    });
    Ok(each.filter(|unit| !unit.is_empty()))
}

fn start_code(bytes: &[u8]) -> Option<usize> {
    bytes.windows(3).position(|window| window == [0, 0, 1])
}

/// A unit's last byte is never zero: zeros behind it belong to the next start code or fill up (section B.1).
fn trimmed(unit: &[u8]) -> &[u8] {
    let end = unit.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &unit[..end]
}

/// What a sequence parameter set says of pictures (ITU-T H.264 section 7.3.2.1.1).
struct Sequence {
    width: u16,
    height: u16,
    /// Chroma format, luma and chroma depth.
    high: Option<[u8; 3]>,
}

/// Profiles whose sets say more before the size.
const HIGH: [u8; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

impl Sequence {
    fn read(sps: &[u8]) -> Option<Sequence> {
        let (&kind, rest) = sps.split_first()?;
        let profile = *rest.first()?;
        if kind & 0x1f != SPS || rest.len() < 4 {
            return None;
        }
        let mut bits = Bits { bytes: unescaped(&rest[3..]), at: 0 };
        bits.unsigned()?;
        let high = if HIGH.contains(&profile) { Some(bits.high()?) } else { None };
        bits.unsigned()?;
        bits.skip_order()?;
        // References, and whether there may be gaps between them.
        bits.unsigned()?;
        bits.bit()?;
        let (columns, rows) = (bits.unsigned()? + 1, bits.unsigned()? + 1);
        let frames = bits.bit()?;
        // Fields are half as high, and say whether they are mixed with frames.
        let rows = if frames == 1 { rows } else { rows * 2 };
        bits.number(if frames == 1 { 1 } else { 2 })?;
        let crops = if bits.bit()? == 1 { [(); 4].map(|()| bits.unsigned()) } else { [Some(0); 4] };
        let [left, right, top, bottom] = crops;
        let (wide, tall) = crop_unit(high.map_or(1, |[chroma, ..]| chroma), frames);
        let side = |blocks: u64, cut: u64| u16::try_from((blocks * 16).checked_sub(cut)?).ok();
        let width = side(columns, wide * (left? + right?)).filter(|width| *width > 0)?;
        let height = side(rows, tall * (top? + bottom?)).filter(|height| *height > 0)?;
        Some(Sequence { width, height, high })
    }
}

/// Pixels and lines that one step of cropping cuts off (equations 7-19 to 7-22).
fn crop_unit(chroma: u8, frames: u64) -> (u64, u64) {
    let (wide, tall) = match chroma {
        1 => (2, 2),
        2 => (2, 1),
        _ => (1, 1),
    };
    (wide, tall * (2 - frames))
}

/// Without the bytes that keep start codes out of a unit (section 7.4.1.1).
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut zeros = 0;
    let kept = bytes.iter().filter(|byte| {
        let escape = zeros >= 2 && **byte == 3;
        zeros = if **byte == 0 { zeros + 1 } else { 0 };
        !escape
    });
    kept.copied().collect()
}

/// Bits of a parameter set, most significant first.
struct Bits {
    bytes: Vec<u8>,
    at: usize,
}

impl Bits {
    fn bit(&mut self) -> Option<u64> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(u64::from(bit))
    }

    /// `u(n)`, of at most 32 bits.
    fn number(&mut self, bits: u32) -> Option<u64> {
        (0..bits).try_fold(0, |number, _| Some(number << 1 | self.bit()?))
    }

    /// `ue(v)` (section 9.1), below 2^32.
    fn unsigned(&mut self) -> Option<u64> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        Some((1 << zeros) - 1 + self.number(zeros)?)
    }

    /// `se(v)` (section 9.1.1).
    fn signed(&mut self) -> Option<i64> {
        let code = self.unsigned()? as i64;
        Some(if code % 2 == 1 { (code + 1) / 2 } else { -(code / 2) })
    }

    /// What the high profiles say before the size: chroma format, luma and chroma depth are kept.
    fn high(&mut self) -> Option<[u8; 3]> {
        let chroma = self.unsigned().filter(|format| *format <= 3)? as u8;
        let separate = chroma == 3 && self.bit()? == 1;
        let depth = |above: u64| (above <= 6).then_some(above as u8 + 8);
        let depths = [depth(self.unsigned()?)?, depth(self.unsigned()?)?];
        self.bit()?;
        if self.bit()? == 1 {
            let lists = if chroma == 3 { 12 } else { 8 };
            (0..lists).try_for_each(|list| self.skip_scaling(if list < 6 { 16 } else { 64 }))?;
        }
        // Planes coded apart are cropped as if there were one (table 6-1 and section 7.4.2.1.1).
        Some([if separate { 0 } else { chroma }, depths[0], depths[1]])
    }

    /// One scaling list of `size` numbers, if it is there (section 7.3.2.1.1.1).
    fn skip_scaling(&mut self, size: usize) -> Option<()> {
        if self.bit()? == 0 {
            return Some(());
        }
        let mut scale: i64 = 8;
        for _ in 0..size {
            scale = (scale + self.signed()?).rem_euclid(256);
            if scale == 0 {
                break;
            }
        }
        Some(())
    }

    /// How the order of pictures is told.
    fn skip_order(&mut self) -> Option<()> {
        match self.unsigned()? {
            0 => self.unsigned().map(|_| ()),
            1 => {
                self.bit()?;
                self.signed()?;
                self.signed()?;
                let cycle = self.unsigned().filter(|cycle| *cycle <= 255)?;
                (0..cycle).try_for_each(|_| self.signed().map(|_| ()))
            }
            2 => Some(()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Annex B of a sample, to compare with what it was made of.
    fn back(mut sample: &[u8]) -> Vec<u8> {
        let mut annex_b = Vec::new();
        while let Some((length, rest)) = sample.split_first_chunk::<4>() {
            let (unit, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
            annex_b.extend_from_slice(&[0, 0, 0, 1]);
            annex_b.extend_from_slice(unit);
            sample = rest;
        }
        annex_b
    }

    #[test]
    fn sets_of_high_profiles_are_read() {
        // 1080 lines are coded as 1088: the set says what is cropped.
        let sps = [
            0x27, 0x64, 0x00, 0x2a, 0xac, 0x24, 0x8c, 0x07, 0x80, 0x22, 0x7e, 0x5c, 0x04, 0x40, 0x00, 0x00,
            0x03, 0x00, 0x40, 0x00, 0x00, 0x1e, 0x38, 0xa0, 0x00, 0x0b, 0x71, 0xb0, 0x00, 0x16, 0xe3, 0x7b,
            0xde, 0xe0, 0x3e, 0x11, 0x08, 0xa7,
        ];
        let description = Description::new(&sps, &[0x28, 0xde, 0xbc, 0xb0]).unwrap();
        assert_eq!((description.width, description.height), (1920, 1080));
        assert_eq!((description.codec().as_str(), description.high()), ("avc1.64002A", Some([1, 8, 8])));
        for end in 0..9 {
            assert!(Description::new(&sps[..end], &[0x28, 0xde]).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn what_is_no_picture_is_refused_by_name() {
        let said = |bytes: &[u8]| AccessUnit::read(bytes).unwrap_err().to_string();
        assert!(said(&[]).contains("start code"));
        assert!(said(&[7, 0, 0, 1, 0x41, 1]).contains("start code"));
        assert!(said(&[0, 0, 1, 0x09, 0x10]).contains("no slice"));
        assert!(said(&[0, 0, 1, 0xe5, 1]).contains("0xe5"));
        assert!(said(&[0, 0, 1, 0x67, 1, 0, 0, 1, 0x67, 2]).contains("2 sequence"));
        assert!(said(&[0, 0, 1, 0x68, 1, 2, 0, 0, 1, 0x65, 1]).contains("0 sequence"));
        assert!(said(&[0, 0, 1, 0x67, 1, 2, 0, 0, 1, 0x65, 1]).contains("0 picture"));
    }

    #[test]
    fn delimiters_and_filling_zeros_are_left_out() {
        let bytes = [0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 6, 5, 1, 0, 0, 0, 0, 0, 1, 0x65, 8, 0, 0, 1, 0x65, 9, 0];
        let unit = AccessUnit::read(&bytes).unwrap();
        assert_eq!(&unit.bytes[..], [0, 0, 0, 3, 6, 5, 1, 0, 0, 0, 2, 0x65, 8, 0, 0, 0, 2, 0x65, 9]);
        assert!(unit.key);
    }

    /// A NAL unit's body: no three bytes in it look like a start code, and the last is not zero.
    fn body() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(1u8..=255, 1..40)
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(unit) = AccessUnit::read(&bytes) {
                prop_assert!(unit.bytes.len() <= bytes.len() / 3 * 4 + 4);
            }
            let behind_code = [&[0, 0, 1], &bytes[..]].concat();
            let _ = AccessUnit::read(&behind_code);
            let high = [&[0x67, 100, 0, 30], &bytes[..]].concat();
            let _ = Description::new(&high, &bytes);
        }

        #[test]
        fn bytes_of_few_kinds_never_panic(
            // Zeros and ones make start codes and short numbers, which even chances seldom do.
            bytes in proptest::collection::vec(
                prop_oneof![Just(0u8), Just(1), Just(3), Just(0x67), any::<u8>()],
                0..200,
            )
        ) {
            let _ = AccessUnit::read(&bytes);
            let _ = Description::new(&[&[0x67, 66], &bytes[..]].concat(), &[0x68, 1]);
        }

        #[test]
        fn slices_come_back_as_they_were(bodies in proptest::collection::vec((0u8..=1, body()), 1..9)) {
            let unit = |(key, body): &(u8, Vec<u8>)| {
                [&[0, 0, 0, 1, if *key == 1 { 0x65 } else { 0x41 }], &body[..]].concat()
            };
            let bytes = bodies.iter().map(unit).collect::<Vec<_>>().concat();
            let read = AccessUnit::read(&bytes).unwrap();
            prop_assert_eq!(back(&read.bytes), bytes);
            prop_assert_eq!(read.key, bodies.iter().any(|(key, _)| *key == 1));
        }
    }
}
