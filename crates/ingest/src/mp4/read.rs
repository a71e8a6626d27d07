//! Our own segments read back, to go on with a stream whose endpoint was killed.

use bytes::Bytes;
use mp4_atom::{Decode, Header, Moof};

use super::{Description, Mp4Error, Sample};

/// `sample_is_non_sync_sample` (ISO/IEC 14496-12 section 8.8.3.1).
const NOT_KEY: u32 = 1 << 16;

/// The samples of a file that [`segment`](super::segment) made. Memory taken is in proportion to `file`.
///
/// # Errors
/// [`Mp4Error::Segment`] if it is another file, or damaged.
///
/// ```
/// use framewire_ingest::mp4::{AccessUnit, samples, segment};
///
/// let frame = AccessUnit::read(&[0, 0, 1, 0x65, 0x88, 0x84])?.lasting(3_000);
/// let file = segment(12, 12 * 180_000, &[frame.clone()]).into();
/// assert_eq!(samples(&file)?, [frame]);
/// assert!(samples(&file.slice(..60)).is_err());
/// # Ok::<(), framewire_ingest::mp4::Mp4Error>(())
/// ```
pub fn samples(file: &Bytes) -> Result<Vec<Sample>, Mp4Error> {
    let (mut moof, mut at) = (None, 0);
    while at < file.len() {
        let (header, body) = head(file, at)?;
        let end = header.size.and_then(|size| body.checked_add(size)).filter(|end| *end <= file.len());
        let end = end.ok_or(Mp4Error::Segment("a box is cut short"))?;
        match &<[u8; 4]>::from(header.kind) {
            b"moof" => moof = Some(described(&file[at..end])?),
            b"mdat" => {
                let moof = moof.ok_or(Mp4Error::Segment("its data come before their description"))?;
                return cut(&moof, &file.slice(body..end));
            }
            _ => {}
        }
        at = end;
    }
    Err(Mp4Error::Segment("it holds no data"))
}

/// A box's head, and where its body begins.
fn head(file: &[u8], at: usize) -> Result<(Header, usize), Mp4Error> {
    let mut rest = &file[at..];
    let header = Header::decode(&mut rest).map_err(|_| Mp4Error::Segment("a box is cut short"))?;
    Ok((header, file.len() - rest.len()))
}

fn described(mut bytes: &[u8]) -> Result<Moof, Mp4Error> {
    Moof::decode(&mut bytes).map_err(|_| Mp4Error::Segment("its moof can't be read"))
}

/// The data cut into samples, one run that fills them.
fn cut(moof: &Moof, data: &Bytes) -> Result<Vec<Sample>, Mp4Error> {
    let runs: Vec<_> = moof.traf.iter().flat_map(|traf| &traf.trun).collect();
    let [run] = runs[..] else { return Err(Mp4Error::Segment("it has not one run of samples")) };
    let (mut samples, mut at) = (Vec::new(), 0);
    for entry in run.samples.iter() {
        let (Some(duration), Some(size)) = (entry.duration.filter(|ticks| *ticks > 0), entry.size) else {
            return Err(Mp4Error::Segment("a sample has no duration or no size"));
        };
        let end = (size as usize).checked_add(at).filter(|end| *end <= data.len() && size > 0);
        let end = end.ok_or(Mp4Error::Segment("a sample lies outside the data"))?;
        let key = entry.flags.is_some_and(|flags| flags & NOT_KEY == 0);
        samples.push(Sample { bytes: data.slice(at..end), duration, key });
        at = end;
    }
    if at != data.len() || !samples.first().is_some_and(|first| first.key) {
        return Err(Mp4Error::Segment("its samples don't fill the data from a key frame on"));
    }
    Ok(samples)
}

impl Sample {
    /// It as decoders take it: behind start codes, a key frame behind its parameter sets. `None` if the
    /// lengths in it are damaged.
    pub fn to_annex_b(&self, of: &Description) -> Option<Bytes> {
        const START: [u8; 4] = [0, 0, 0, 1];
        let sets = [&of.sps, &of.pps];
        let mut out: Vec<u8> = Vec::with_capacity(self.bytes.len() + 64);
        for set in sets.iter().filter(|_| self.key) {
            out.extend_from_slice(&START);
            out.extend_from_slice(set);
        }
        let mut rest = &self.bytes[..];
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let (unit, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            out.extend_from_slice(&START);
            out.extend_from_slice(unit);
            rest = behind;
        }
        rest.is_empty().then(|| out.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::segments;
    use super::super::{AccessUnit, segment};
    use super::*;

    fn file() -> (Description, Vec<Sample>, Vec<u8>) {
        let (description, mut segments) = segments(1, |number| number == 5);
        let samples = segments.remove(0);
        let file = segment(7, 7 * 90_000, &samples);
        (description, samples, file)
    }

    #[test]
    fn a_segment_of_ours_is_read_as_it_was_written() {
        let (description, written, file) = file();
        let read = samples(&file.into()).unwrap();
        assert_eq!(read, written);
        for sample in &read {
            let again = AccessUnit::read(&sample.to_annex_b(&description).unwrap()).unwrap();
            assert_eq!((again.bytes, again.key), (sample.bytes.clone(), sample.key));
        }
    }

    proptest! {
        #[test]
        fn damage_is_an_error_or_other_samples_and_never_more(
            cut in 0usize..10_000,
            damage in prop::collection::vec((0usize..2_000, any::<u8>()), 0..8),
        ) {
            let (description, _, mut file) = file();
            file.truncate(cut.max(8));
            for (at, byte) in damage {
                if let Some(place) = file.get_mut(at) {
                    *place = byte;
                }
            }
            let length = file.len();
            if let Ok(read) = samples(&file.into()) {
                prop_assert!(read.iter().map(|sample| sample.bytes.len()).sum::<usize>() <= length);
                for sample in &read {
                    let coded = sample.to_annex_b(&description);
                    prop_assert!(coded.is_none_or(|coded| coded.len() <= sample.bytes.len() + 4_096));
                }
            }
        }
    }
}
