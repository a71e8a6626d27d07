//! The pictures of the last seconds in little memory, to be coded once more.
//!
//! ```text
//!   push(picture) -> [raw]  --waiting()/packed()-->  [packed]  --(file given)-->  file, as a ring
//!                       '------------------ picture(frame) --------------------------'
//! ```
//!
//! A picture is packed without loss: each sample is what is left of it after a prediction from its
//! neighbours, and LZ4 packs that. `docs/vantage.md` says what that takes. Whoever holds an archive packs
//! when it suits, on a thread of its own for instance.

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::RawFrame;

/// Pictures that wait to be packed at most: four seconds of 30 Hz, on cores that are busy. The oldest of more
/// are dropped.
const RAW: usize = 120;

/// A picture in little memory, without loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    width: usize,
    height: usize,
    /// The residuals of Y, U and V, one after the other, as an LZ4 block.
    bytes: Vec<u8>,
}

impl Packed {
    /// Packs a picture.
    ///
    /// ```
    /// use framewire_media as media;
    /// let grey = media::RawFrame::filled(64, 48, 126, 128, 128);
    /// let packed = media::Packed::of(&grey);
    /// assert!(packed.len() < 300 && packed.unpack() == Some(grey));
    /// ```
    pub fn of(picture: &RawFrame) -> Packed {
        let &RawFrame { width, height, ref y, ref u, ref v } = picture;
        let mut residuals = Vec::with_capacity(y.len() + u.len() + v.len());
        for (plane, stride) in [(y, width), (u, width / 2), (v, width / 2)] {
            predict(plane, stride, &mut residuals);
        }
        Packed { width, height, bytes: lz4_flex::compress(&residuals) }
    }

    /// The picture; `None` if the bytes are not those that were packed.
    pub fn unpack(&self) -> Option<RawFrame> {
        let (width, height) = (self.width, self.height);
        let (luma, chroma) = (width * height, (width / 2) * (height / 2));
        let mut samples = vec![0; luma + 2 * chroma];
        let length = lz4_flex::decompress_into(&self.bytes, &mut samples).ok()?;
        if length != samples.len() {
            return None;
        }
        let v = samples.split_off(luma + chroma);
        let u = samples.split_off(luma);
        let [y, u, v] = [(samples, width), (u, width / 2), (v, width / 2)].map(|(mut plane, stride)| {
            restore(&mut plane, stride);
            plane
        });
        Some(RawFrame { width, height, y, u, v })
    }

    /// Bytes that it takes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it takes no bytes, which no picture does.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// What a sample is taken for: the mean of those to its left and above.
fn mean(left: u8, above: u8) -> u8 {
    ((u16::from(left) + u16::from(above)) / 2) as u8
}

/// Appends what predictions leave of a plane. Beyond its left edge lies the sample above, beyond its top
/// zero.
fn predict(plane: &[u8], stride: usize, out: &mut Vec<u8>) {
    let zeros = vec![0; stride];
    let mut above: &[u8] = &zeros;
    for row in plane.chunks_exact(stride) {
        out.push(row[0].wrapping_sub(above[0]));
        // All neighbours are known beforehand: a compiler makes vectors of this.
        let rest = row[1..].iter().zip(&row[..stride - 1]).zip(&above[1..]);
        out.extend(rest.map(|((&sample, &left), &above)| sample.wrapping_sub(mean(left, above))));
        above = row;
    }
}

/// The other way.
fn restore(plane: &mut [u8], stride: usize) {
    let mut above = vec![0; stride];
    for row in plane.chunks_exact_mut(stride) {
        let mut left = above[0];
        for (sample, above) in row.iter_mut().zip(&mut above) {
            *sample = sample.wrapping_add(mean(left, *above));
            (left, *above) = (*sample, *sample);
        }
    }
}

/// Why an archive can't use its file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}; the archive needs a file that it can write", .path.display())]
pub struct ArchiveError {
    path: PathBuf,
    source: std::io::Error,
}

/// Where a picture is.
#[derive(Debug)]
enum Place {
    /// Not packed yet.
    Raw(Arc<RawFrame>),
    Memory(Packed),
    /// In the file.
    File {
        size: (usize, usize),
        stored: Stored,
    },
    /// It found no room, or the file failed.
    Gone,
}

impl Place {
    fn bytes(&self) -> usize {
        match self {
            Place::Memory(packed) => packed.len(),
            Place::File { stored, .. } => stored.length,
            Place::Raw(_) | Place::Gone => 0,
        }
    }
}

/// Where a packed picture lies in an archive's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its first byte.
    pub at: u64,
    /// How many bytes it takes.
    pub length: usize,
    /// What [`sum`] makes of them: the file is written round and round.
    pub sum: u64,
}

/// A sum over bytes that tells those which were overwritten or torn, and no more than that: FNV-1a over words
/// of eight bytes, which costs less than packing them.
pub fn sum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64, mix)
}

/// The newest pictures of a capture, within a bound of bytes: in memory, or in a file. The oldest make way.
#[derive(Debug)]
pub struct Archive {
    first: u32,
    places: VecDeque<Place>,
    /// Bytes of what is packed, and how many there may be.
    held: usize,
    most: usize,
    /// Pictures before this one are packed, or gone.
    packed_to: u32,
    file: Option<Ring>,
}

/// A file that is written round and round.
#[derive(Debug)]
struct Ring {
    file: File,
    next: u64,
}

/// Opens an archive's file for this process alone.
fn open(path: &Path) -> Result<File, ArchiveError> {
    let wrong = |source| ArchiveError { path: path.to_owned(), source };
    let options = File::options().read(true).write(true).create(true).truncate(false).open(path);
    let file = options.map_err(wrong)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(wrong(std::io::Error::other("another process uses it"))),
        // Some file systems have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

impl Archive {
    /// An archive in memory of at most `most` bytes, besides 120 pictures that are not packed yet.
    pub fn in_memory(most: usize) -> Archive {
        Archive { first: 0, places: VecDeque::new(), held: 0, most, packed_to: 0, file: None }
    }

    /// An archive in a file of at most `most` bytes, which is made anew, and which no other process may use
    /// meanwhile.
    ///
    /// # Errors
    /// [`ArchiveError`] if the file can't be made, or another process uses it.
    pub fn in_file(path: &Path, most: usize) -> Result<Archive, ArchiveError> {
        let file = open(path)?;
        file.set_len(0).map_err(|source| ArchiveError { path: path.to_owned(), source })?;
        Ok(Archive { file: Some(Ring { file, next: 0 }), ..Archive::in_memory(most) })
    }

    /// The archive in a file that a process before this one was killed over. Its pictures were of `size`;
    /// they lie where `stored` says, the one of number `first` and those after it. What is not there any
    /// more, or was overwritten, is noticed when it is asked for.
    ///
    /// # Errors
    /// [`ArchiveError`] if the file can't be used, or another process uses it.
    pub fn of_file(
        path: &Path,
        most: usize,
        size: (usize, usize),
        first: u32,
        stored: impl IntoIterator<Item = Option<Stored>>,
    ) -> Result<Archive, ArchiveError> {
        let file = open(path)?;
        let length = file.metadata().map_or(0, |file| file.len());
        let mut archive = Archive { first, ..Archive::in_memory(most) };
        let mut next = 0;
        for stored in stored {
            let ends = |stored: &Stored| stored.at.checked_add(stored.length as u64);
            let there = stored.filter(|stored| ends(stored).is_some_and(|end| end <= length));
            next = there.as_ref().and_then(ends).unwrap_or(next);
            let place = there.map_or(Place::Gone, |stored| Place::File { size, stored });
            archive.held += place.bytes();
            archive.places.push_back(place);
        }
        for place in &mut archive.places {
            if archive.held > most {
                archive.held -= std::mem::replace(place, Place::Gone).bytes();
            }
        }
        archive.packed_to = first + archive.places.len() as u32;
        archive.file = Some(Ring { file, next });
        Ok(archive)
    }

    /// The next picture is there; returns its number, from 0.
    pub fn push(&mut self, picture: Arc<RawFrame>) -> u32 {
        let frame = self.first + self.places.len() as u32;
        self.places.push_back(Place::Raw(picture));
        let late = (frame + 1).saturating_sub(RAW as u32);
        for behind in self.packed_to.max(self.first)..late {
            // Whoever packs is too slow.
            self.places[(behind - self.first) as usize] = Place::Gone;
            self.packed_to = behind + 1;
        }
        frame
    }

    /// The oldest picture that is not packed yet, with its number: to be given back by
    /// [`packed`](Archive::packed).
    pub fn waiting(&mut self) -> Option<(u32, Arc<RawFrame>)> {
        self.packed_to = self.packed_to.max(self.first);
        let Some(Place::Raw(picture)) = self.places.get((self.packed_to - self.first) as usize) else {
            return None;
        };
        let frame = self.packed_to;
        self.packed_to += 1;
        Some((frame, picture.clone()))
    }

    /// A picture was packed.
    pub fn packed(&mut self, frame: u32, packed: Packed) {
        let Some(at) = frame.checked_sub(self.first).map(|at| at as usize) else { return };
        if at >= self.places.len() {
            return;
        }
        while self.held + packed.len() > self.most && self.first < frame {
            self.drop_oldest();
        }
        let at = (frame - self.first) as usize;
        let fits = self.held + packed.len() <= self.most;
        self.places[at] = if fits { self.store(packed) } else { Place::Gone };
        self.held += self.places[at].bytes();
    }

    /// Packs all that waits, here and now.
    pub fn pack(&mut self) {
        while let Some((frame, picture)) = self.waiting() {
            self.packed(frame, Packed::of(&picture));
        }
    }

    /// The picture of this number, if it is still here.
    pub fn picture(&mut self, frame: u32) -> Option<Arc<RawFrame>> {
        let at = frame.checked_sub(self.first)? as usize;
        match self.places.get(at)? {
            Place::Raw(picture) => Some(picture.clone()),
            Place::Memory(packed) => packed.unpack().map(Arc::new),
            &Place::File { size, stored } => {
                let packed = self.file.as_mut()?.read(size, stored)?;
                packed.unpack().map(Arc::new)
            }
            Place::Gone => None,
        }
    }

    /// Where the picture of this number lies in the file, if it does.
    pub fn stored(&self, frame: u32) -> Option<Stored> {
        match self.places.get(frame.checked_sub(self.first)? as usize)? {
            Place::File { stored, .. } => Some(*stored),
            _ => None,
        }
    }

    /// Drops the pictures before this one.
    pub fn forget(&mut self, before: u32) {
        while self.first < before && !self.places.is_empty() {
            self.drop_oldest();
        }
    }

    /// Bytes of what is packed.
    pub fn held(&self) -> usize {
        self.held
    }

    fn drop_oldest(&mut self) {
        let oldest = self.places.pop_front();
        self.held -= oldest.map_or(0, |place| place.bytes());
        self.first += 1;
    }

    fn store(&mut self, packed: Packed) -> Place {
        let Some(ring) = &mut self.file else { return Place::Memory(packed) };
        let size = (packed.width, packed.height);
        let sum = sum(&packed.bytes);
        // The end of a round may be cut short, so that each picture lies in one piece: what was there belongs
        // to pictures that are older than those within the bound, or soon will.
        if ring.next + packed.len() as u64 > 2 * self.most as u64 {
            ring.next = 0;
        }
        let at = ring.next;
        match ring.write(&packed) {
            Ok(()) => Place::File { size, stored: Stored { at, length: packed.len(), sum } },
            // A disk that is full has no room for pictures; the upload goes on without them.
            Err(_) => Place::Gone,
        }
    }
}

impl Ring {
    fn write(&mut self, packed: &Packed) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(self.next))?;
        self.file.write_all(&packed.bytes)?;
        self.next += packed.len() as u64;
        Ok(())
    }

    fn read(&mut self, (width, height): (usize, usize), stored: Stored) -> Option<Packed> {
        self.file.seek(SeekFrom::Start(stored.at)).ok()?;
        let mut bytes = vec![0; stored.length];
        self.file.read_exact(&mut bytes).ok()?;
        (sum(&bytes) == stored.sum).then_some(Packed { width, height, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, SyntheticConfig, SyntheticGame};

    fn game() -> SyntheticGame {
        SyntheticGame::new(SyntheticConfig::new(320, 180))
    }

    #[test]
    fn a_packed_picture_is_the_picture() {
        let picture = game().next_picture().unwrap();
        let packed = Packed::of(&picture);
        // The game has noise, which can't be packed: it saves a sixth.
        let raw = 320 * 180 * 3 / 2;
        assert!(packed.len() < raw * 9 / 10, "{} bytes of {raw}", packed.len());
        assert_eq!(packed.unpack().as_ref(), Some(&*picture));
        let torn = Packed { bytes: packed.bytes[..packed.len() / 2].to_vec(), ..packed.clone() };
        assert_eq!(torn.unpack(), None);
        let larger = Packed { height: 200, ..packed };
        assert_eq!(larger.unpack(), None);
    }

    fn fill(mut archive: Archive, pictures: usize) -> (Archive, Vec<Arc<RawFrame>>) {
        let mut game = game();
        let pictures: Vec<_> = std::iter::from_fn(|| game.next_picture()).take(pictures).collect();
        for picture in &pictures {
            archive.push(picture.clone());
            archive.pack();
        }
        (archive, pictures)
    }

    #[test]
    fn the_oldest_make_way_in_memory_and_in_a_file() {
        let one = Packed::of(&game().next_picture().unwrap()).len();
        let path = std::env::temp_dir().join(format!("framewire-archive-{}", std::process::id()));
        for archive in [Archive::in_memory(10 * one), Archive::in_file(&path, 10 * one).unwrap()] {
            let (mut archive, pictures) = fill(archive, 50);
            assert!(archive.held() <= 10 * one && archive.held() > 5 * one, "{} of {one}", archive.held());
            assert!(archive.picture(20).is_none() && archive.picture(50).is_none());
            for frame in 46..50 {
                let back = archive.picture(frame).unwrap();
                assert!(pictures[frame as usize] == back, "frame {frame}");
            }
            archive.forget(48);
            assert!(archive.picture(47).is_none() && archive.picture(48).is_some());
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= 20 * one as u64 + 2 * one as u64);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_is_gone_on_with_and_what_was_overwritten_is_noticed() {
        let one = Packed::of(&game().next_picture().unwrap()).len();
        let path = std::env::temp_dir().join(format!("framewire-archive-again-{}", std::process::id()));
        let (archive, pictures) = fill(Archive::in_file(&path, 10 * one).unwrap(), 12);
        let busy = Archive::in_file(&path, one).unwrap_err().to_string();
        assert!(busy.contains("another process uses it"), "{busy}");
        let mut stored: Vec<Option<Stored>> = (4..12).map(|frame| archive.stored(frame)).collect();
        assert!(stored.iter().all(Option::is_some));
        drop(archive);
        stored[3].as_mut().unwrap().sum ^= 1;
        stored[4].as_mut().unwrap().at = u64::MAX - 5;
        let mut archive = Archive::of_file(&path, 10 * one, (320, 180), 4, stored).unwrap();
        let there: Vec<u32> = (0..14).filter(|&frame| archive.picture(frame).is_some()).collect();
        assert_eq!(there, [4, 5, 6, 9, 10, 11]);
        assert_eq!(archive.push(pictures[0].clone()), 12);
        archive.pack();
        assert!(
            *archive.picture(12).unwrap() == *pictures[0] && *archive.picture(11).unwrap() == *pictures[11]
        );
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn pictures_that_nobody_packs_do_not_pile_up() {
        let mut archive = Archive::in_memory(1 << 20);
        let picture = game().next_picture().unwrap();
        for _ in 0..1_000 {
            archive.push(picture.clone());
        }
        assert_eq!((archive.picture(879).is_some(), archive.picture(880).is_some()), (false, true));
        assert_eq!(archive.waiting().map(|(frame, _)| frame), Some(880));
    }

    #[test]
    fn a_file_that_can_not_be_made_is_told() {
        let error = Archive::in_file(Path::new("/nowhere/archive"), 1).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/archive: ") && error.ends_with("it can write"), "{error}");
    }
}
