//! The whole upload as one plain file that any player opens: data first, tables last.

use std::io::{Seek, SeekFrom, Write};

use mp4_atom::{Co64, FourCC, Ftyp, Stbl, Stsc, StscEntry, Stss, Stsz, StszSamples, Stts, SttsEntry};

use super::boxes::{encoded, moov};
use super::{Description, Mp4Error, Sample};

/// The most samples of one [`Movie`]: 24 h of 60 frames a second. Tables take 4 bytes a sample, 8 more where
/// its duration differs from the one before, and 24 more a segment. With segments of 2 s that is 63 MB at the
/// most, and as much again while they are written.
pub const MOST_SAMPLES: usize = 24 * 3_600 * 60;

/// Writes one file from segments as they come: `ftyp`, `mdat`, and at the end `moov`. Without
/// [`Movie::finish`] the file has no tables and does not play.
///
/// Memory grows with samples, not with their bytes: see [`MOST_SAMPLES`].
///
/// ```
/// use std::io::Cursor;
/// use framewire_ingest::mp4::{AccessUnit, Description, Movie};
///
/// let sps = [0x67, 0x42, 0xc0, 0x0a, 0xda, 0x0a, 0x36, 0x40];
/// let description = Description::new(&sps, &[0x68, 0xce, 0x3c, 0x80])?;
/// let frame = AccessUnit::read(&[0, 0, 1, 0x65, 0x88, 0x84])?.lasting(3_000);
/// let mut movie = Movie::new(Cursor::new(Vec::new()), &description)?;
/// movie.add(&[frame])?;
/// let file = movie.finish()?.into_inner();
/// assert_eq!(&file[4..8], b"ftyp");
/// # Ok::<(), framewire_ingest::mp4::Mp4Error>(())
/// ```
pub struct Movie<W> {
    to: W,
    description: Description,
    /// Where `mdat` begins.
    data: u64,
    /// Where the next byte goes.
    at: u64,
    duration: u64,
    sizes: Vec<u32>,
    durations: Vec<SttsEntry>,
    /// Numbers of key frames, from 1.
    keys: Vec<u32>,
    /// One chunk a segment.
    chunks: Vec<u64>,
    lengths: Vec<StscEntry>,
}

impl<W: Write + Seek> Movie<W> {
    /// Begins a file at the beginning of `to`, which is empty.
    ///
    /// # Errors
    /// [`Mp4Error::Io`] if it can't be written.
    pub fn new(mut to: W, of: &Description) -> Result<Movie<W>, Mp4Error> {
        let brands = [b"isom", b"iso2", b"avc1", b"mp41"].map(FourCC::new);
        let ftyp = Ftyp { major_brand: brands[0], minor_version: 0x200, compatible_brands: brands.into() };
        let ftyp = encoded(&ftyp);
        to.write_all(&ftyp)?;
        to.write_all(&data_header(0))?;
        let data = ftyp.len() as u64;
        Ok(Movie {
            to,
            description: of.clone(),
            data,
            at: data + DATA_HEADER,
            duration: 0,
            sizes: Vec::new(),
            durations: Vec::new(),
            keys: Vec::new(),
            chunks: Vec::new(),
            lengths: Vec::new(),
        })
    }

    /// Appends a segment's samples, the first of them a key frame. No samples are no segment.
    ///
    /// # Errors
    /// [`Mp4Error::NoKey`], [`Mp4Error::NoDuration`] and [`Mp4Error::Full`] leave the file as it was;
    /// [`Mp4Error::Io`] leaves it without use.
    pub fn add(&mut self, samples: &[Sample]) -> Result<(), Mp4Error> {
        self.check(samples)?;
        if samples.is_empty() {
            return Ok(());
        }
        let begins = self.at;
        for sample in samples {
            self.to.write_all(&sample.bytes)?;
            self.at += sample.bytes.len() as u64;
        }
        samples.iter().for_each(|sample| self.note(sample));
        self.chunk(begins, samples.len() as u32);
        Ok(())
    }

    /// How long the movie is by now, in ticks.
    pub fn duration(&self) -> u64 {
        self.duration
    }

    /// Writes the tables and the length of the data.
    ///
    /// # Errors
    /// [`Mp4Error::Empty`] without any sample, [`Mp4Error::Io`] if it can't be written.
    pub fn finish(mut self) -> Result<W, Mp4Error> {
        if self.sizes.is_empty() {
            return Err(Mp4Error::Empty);
        }
        let length = self.at - self.data;
        let tables = Stbl {
            stts: Stts { entries: self.durations },
            stss: Some(Stss { entries: self.keys }),
            stsc: Stsc { entries: self.lengths },
            stsz: Stsz { samples: StszSamples::Different { sizes: self.sizes } },
            co64: Some(Co64 { entries: self.chunks }),
            ..Stbl::default()
        };
        self.to.write_all(&encoded(&moov(&self.description, self.duration, tables)))?;
        self.to.seek(SeekFrom::Start(self.data))?;
        self.to.write_all(&data_header(length))?;
        self.to.seek(SeekFrom::End(0))?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn check(&self, samples: &[Sample]) -> Result<(), Mp4Error> {
        let first = self.sizes.len() as u64;
        if samples.first().is_some_and(|sample| !sample.key) {
            return Err(Mp4Error::NoKey(first));
        }
        if let Some(at) = samples.iter().position(|sample| sample.duration == 0) {
            return Err(Mp4Error::NoDuration(first + at as u64));
        }
        if samples.len() > MOST_SAMPLES - self.sizes.len() {
            return Err(Mp4Error::Full);
        }
        Ok(())
    }

    /// A sample goes into the tables.
    fn note(&mut self, sample: &Sample) {
        self.sizes.push(sample.bytes.len() as u32);
        self.duration += u64::from(sample.duration);
        if sample.key {
            self.keys.push(self.sizes.len() as u32);
        }
        match self.durations.last_mut().filter(|last| last.sample_delta == sample.duration) {
            Some(last) => last.sample_count += 1,
            None => self.durations.push(SttsEntry { sample_count: 1, sample_delta: sample.duration }),
        }
    }

    /// A segment of `count` samples goes into the tables.
    fn chunk(&mut self, begins: u64, samples_per_chunk: u32) {
        self.chunks.push(begins);
        if self.lengths.last().is_none_or(|last| last.samples_per_chunk != samples_per_chunk) {
            let first_chunk = self.chunks.len() as u32;
            self.lengths.push(StscEntry { first_chunk, samples_per_chunk, sample_description_index: 1 });
        }
    }
}

/// Bytes of [`data_header`].
const DATA_HEADER: u64 = 16;

/// The head of `mdat`, of `length` bytes with itself: a day's data is above 4 GiB, so that it takes the long
/// form (ISO/IEC 14496-12 section 4.2.2).
fn data_header(length: u64) -> [u8; DATA_HEADER as usize] {
    let mut bytes = *b"\0\0\0\x01mdat\0\0\0\0\0\0\0\0";
    bytes[8..].copy_from_slice(&length.max(DATA_HEADER).to_be_bytes());
    bytes
}
