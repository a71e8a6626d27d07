//! What an upload that was killed leaves to the process after it: of each frame when it was captured, where
//! its packed picture lies, and how well it arrived.
//!
//! ```text
//!   head: whose it is    | slot | slot | slot | ...     frame n in slot n modulo their number, written anew
//!                                                       whenever something of it changes
//! ```
//!
//! Every slot has a sum of its own: one that is torn, or overwritten by a later frame, is a frame less. The
//! times in it are the machine's monotonic clock's, which processes agree on until the machine starts anew.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use media::{Stored, sum};
use units::{Span, Time};

/// The first bytes of a journal, with the number of its layout.
const MAGIC: [u8; 8] = *b"FWUPLD\0\x01";
/// Bytes of the head and of a slot, the last eight of each a sum.
const HEAD: usize = 256;
const SLOT: usize = 64;
/// Longest name of a stream, and of a boot.
const LONGEST: usize = 64;
/// Slots at most: ten minutes of 240 Hz, and a half more.
const MOST: u32 = 216_000;
/// Slots beside those of the longest delay.
const SPARE: f64 = 64.0;
/// Frames are numbered below this, so that those that follow have numbers.
const MOST_FRAMES: u32 = 1 << 31;
/// A packed picture is shorter.
const MOST_BYTES: u32 = 1 << 28;

/// Whose journal it is. A process that differs in any of it has no use for the frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What the system says of its start, at most 64 bytes; times of another mean nothing.
    pub boot: String,
    /// The stream's name, at most 64 bytes.
    pub name: String,
    /// Columns and rows of the pictures.
    pub size: (usize, usize),
}

/// A frame of before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Its number in the upload.
    pub number: u32,
    /// When it was captured.
    pub captured: Time,
    /// Where its picture lies in the archive's file; `None` if it was not packed yet.
    pub stored: Option<Stored>,
    /// SSIM of the best version that the endpoint has, and of the best that was sent again; 0 without one.
    pub quality: f64,
    /// See [`quality`](Frame::quality).
    pub again: f64,
}

/// Why frames are not gone on with. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It is no journal of ours, or its head is torn.
    #[error("it is no journal of an upload, or its head is damaged")]
    Head,
    /// It is of another upload: the machine was started since, or name or size are others.
    #[error("it is of another upload: {0}")]
    Other(&'static str),
    /// Nothing in it is young enough.
    #[error("its frames are older than the longest delay, {0}")]
    Old(Span),
    /// The file can't be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The journal's, or where it was to be.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// A journal that is written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    slots: u32,
}

impl Journal {
    /// Makes a journal for the frames of the last `longest`, captured `interval` apart. What the file held is
    /// gone.
    ///
    /// # Errors
    /// [`JournalError::Io`] if the file can't be written.
    pub fn create(
        path: &Path,
        owner: &Owner,
        longest: Span,
        interval: Span,
    ) -> Result<Journal, JournalError> {
        let frames = longest.as_secs_f64() / interval.as_secs_f64().max(1e-3);
        let slots = ((frames * 1.25 + SPARE) as u32).min(MOST);
        let wrong = |source| JournalError::Io { path: path.to_owned(), source };
        let mut file = File::create(path).map_err(wrong)?;
        file.write_all(&head(owner, slots)).map_err(wrong)?;
        Ok(Journal { file, slots })
    }

    /// Writes down frames, over what was written of them before. A disk that fails costs the frames, and no
    /// more.
    pub fn write(&mut self, frames: &[Frame]) {
        for frame in frames {
            let at = HEAD as u64 + u64::from(frame.number % self.slots) * SLOT as u64;
            let _ = self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.write_all(&slot(frame)));
        }
    }

    /// The frames of the journal in a file, as [`frames`] has them; none if there is no file.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn read(path: &Path, owner: &Owner, now: Time, longest: Span) -> Result<Vec<Frame>, JournalError> {
        let most = HEAD as u64 + u64::from(MOST) * SLOT as u64;
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(JournalError::Io { path: path.to_owned(), source }),
            Ok(_) => frames(&bytes, owner, now, longest),
        }
    }
}

/// The frames of a journal that are younger than `longest` at `now`, one after the other: one that is torn
/// has no picture, and the time of the one before it. `bytes` may be anything.
///
/// # Errors
/// [`JournalError`] if there are none to go on with.
pub fn frames(bytes: &[u8], owner: &Owner, now: Time, longest: Span) -> Result<Vec<Frame>, JournalError> {
    let slots = judged(bytes, owner)?;
    let mut found: BTreeMap<u32, Frame> = BTreeMap::new();
    for (at, bytes) in (0..slots).zip(bytes[HEAD..].chunks_exact(SLOT)) {
        let young = |frame: &Frame| frame.captured <= now && now - frame.captured <= longest;
        if let Some(frame) = frame(bytes).filter(|frame| frame.number % slots == at && young(frame)) {
            found.insert(frame.number, frame);
        }
    }
    let last = *found.last_key_value().ok_or(JournalError::Old(longest))?.0;
    // One round of slots, whatever a damaged number says.
    found = found.split_off(&last.saturating_sub(slots - 1));
    Ok(filled(found))
}

/// The frames without gaps, whose times never go back.
fn filled(found: BTreeMap<u32, Frame>) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for (number, frame) in found {
        while let Some(before) = frames.last().copied().filter(|before| before.number + 1 < number) {
            frames.push(Frame {
                number: before.number + 1,
                stored: None,
                quality: 0.0,
                again: 0.0,
                ..before
            });
        }
        let least = frames.last().map_or(frame.captured, |before| before.captured);
        frames.push(Frame { captured: frame.captured.max(least), ..frame });
    }
    frames
}

/// The number of slots of a journal of this owner.
fn judged(bytes: &[u8], owner: &Owner) -> Result<u32, JournalError> {
    let found = bytes.get(..HEAD).filter(|found| found[..8] == MAGIC).ok_or(JournalError::Head)?;
    let (body, check) = found.split_at(HEAD - 8);
    let slots = u32::from_le_bytes([body[8], body[9], body[10], body[11]]);
    if check != sum(body).to_le_bytes() || !(1..=MOST).contains(&slots) {
        return Err(JournalError::Head);
    }
    let ours = head(owner, slots);
    let part = |range: std::ops::Range<usize>| body[range.clone()] != ours[range];
    match () {
        () if part(20..20 + LONGEST) => Err(JournalError::Other("the machine was started since")),
        () if part(20 + LONGEST..20 + 2 * LONGEST) => Err(JournalError::Other("its name is another")),
        () if part(12..20) => Err(JournalError::Other("its pictures have another size")),
        () => Ok(slots),
    }
}

fn head(owner: &Owner, slots: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&slots.to_le_bytes());
    let (width, height) = owner.size;
    head[12..16].copy_from_slice(&(width as u32).to_le_bytes());
    head[16..20].copy_from_slice(&(height as u32).to_le_bytes());
    for (at, text) in [(20, &owner.boot), (20 + LONGEST, &owner.name)] {
        let text = &text.as_bytes()[..text.len().min(LONGEST)];
        head[at..at + text.len()].copy_from_slice(text);
    }
    let check = sum(&head[..HEAD - 8]).to_le_bytes();
    head[HEAD - 8..].copy_from_slice(&check);
    head
}

fn slot(frame: &Frame) -> [u8; SLOT] {
    let &Frame { number, captured, stored, quality, again } = frame;
    let Stored { at, length, sum: of_picture } = stored.unwrap_or(Stored { at: 0, length: 0, sum: 0 });
    let mut slot = [0; SLOT];
    slot[..4].copy_from_slice(&number.to_le_bytes());
    slot[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    slot[8..16].copy_from_slice(&captured.as_nanos().to_le_bytes());
    slot[16..24].copy_from_slice(&at.to_le_bytes());
    slot[24..32].copy_from_slice(&of_picture.to_le_bytes());
    slot[32..40].copy_from_slice(&quality.to_le_bytes());
    slot[40..48].copy_from_slice(&again.to_le_bytes());
    let check = sum(&slot[..SLOT - 8]).to_le_bytes();
    slot[SLOT - 8..].copy_from_slice(&check);
    slot
}

/// The frame in a slot of [`SLOT`] bytes, if it is whole and says what can be.
fn frame(slot: &[u8]) -> Option<Frame> {
    let word = |at: usize| slot.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    if word(SLOT - 8)? != sum(&slot[..SLOT - 8]) {
        return None;
    }
    let first = word(0)?;
    let (number, length) = (first as u32, (first >> 32) as u32);
    let ssim = |at: usize| word(at).map(f64::from_bits).filter(|ssim| (-1.0..=1.0).contains(ssim));
    let (quality, again) = (ssim(32)?, ssim(40)?);
    if number >= MOST_FRAMES || length >= MOST_BYTES {
        return None;
    }
    let (captured, at, of_picture) = (Time::from_nanos(word(8)?), word(16)?, word(24)?);
    let stored = (length > 0).then_some(Stored { at, length: length as usize, sum: of_picture });
    Some(Frame { number, captured, stored, quality, again })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONGEST_DELAY: Span = Span::from_secs(10);
    const INTERVAL: Span = Span::from_millis(40);

    fn owner() -> Owner {
        Owner { boot: "b7f1".to_owned(), name: "stage".to_owned(), size: (160, 96) }
    }

    fn captured(number: u32) -> Time {
        Time::from_secs(5_000) + INTERVAL * i64::from(number)
    }

    fn written(number: u32) -> Frame {
        let stored = Stored { at: u64::from(number) * 100, length: 100, sum: 7 };
        let quality = f64::from(number % 3) / 4.0;
        Frame { number, captured: captured(number), stored: Some(stored), quality, again: 0.0 }
    }

    /// A journal of frames `0..count`, as a file has it.
    fn journal(count: u32, test: &str) -> Vec<u8> {
        let path = std::env::temp_dir().join(format!("framewire-journal-{test}-{}", std::process::id()));
        let mut journal = Journal::create(&path, &owner(), LONGEST_DELAY, INTERVAL).unwrap();
        (0..count).for_each(|number| journal.write(&[Frame { stored: None, ..written(number) }]));
        (0..count).for_each(|number| journal.write(&[written(number)]));
        let read = Journal::read(&path, &owner(), captured(count), LONGEST_DELAY).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(read, frames(&bytes, &owner(), captured(count), LONGEST_DELAY).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(Journal::read(&path, &owner(), captured(count), LONGEST_DELAY).unwrap().is_empty());
        bytes
    }

    #[test]
    fn the_frames_of_the_longest_delay_are_there_and_the_file_does_not_grow() {
        let (short, long) = (journal(100, "short"), journal(3_000, "long"));
        assert!(long.len() <= HEAD + SLOT * (250 * 5 / 4 + 64), "{} bytes", long.len());
        let read = frames(&long, &owner(), captured(3_000), LONGEST_DELAY).unwrap();
        assert_eq!(read, (2_750..3_000).map(written).collect::<Vec<_>>());
        assert_eq!(frames(&short, &owner(), captured(100), LONGEST_DELAY).unwrap().len(), 100);
    }

    #[test]
    fn a_journal_of_another_upload_is_told() {
        let bytes = journal(100, "other");
        let error = |owner: &Owner, at: u32| {
            frames(&bytes, owner, captured(at), LONGEST_DELAY).unwrap_err().to_string()
        };
        let boot = Owner { boot: "c".to_owned(), ..owner() };
        assert_eq!(error(&boot, 100), "it is of another upload: the machine was started since");
        assert!(error(&Owner { name: "x".to_owned(), ..owner() }, 100).ends_with("its name is another"));
        assert!(error(&Owner { size: (96, 160), ..owner() }, 100).ends_with("have another size"));
        assert!(error(&owner(), 400).starts_with("its frames are older"));
        assert!(frames(b"FWUPLD", &owner(), captured(1), LONGEST_DELAY).is_err());
    }

    proptest! {
        #[test]
        fn damage_costs_frames_and_no_more(
            count in 1u32..700,
            cut in any::<prop::sample::Index>(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
            summed in any::<bool>(),
        ) {
            let mut bytes = journal(count, "damage");
            for (at, byte) in damage {
                *at.get_mut(&mut bytes) = byte;
            }
            if summed {
                // Even where somebody took the trouble to make the sums right.
                for slot in bytes[HEAD..].chunks_exact_mut(SLOT) {
                    let check = sum(&slot[..SLOT - 8]).to_le_bytes();
                    slot[SLOT - 8..].copy_from_slice(&check);
                }
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            if let Ok(read) = frames(&bytes, &owner(), captured(count), LONGEST_DELAY) {
                prop_assert!(!read.is_empty() && read.len() * SLOT <= 700 * SLOT);
                prop_assert!(read.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
                prop_assert!(read.windows(2).all(|pair| pair[0].captured <= pair[1].captured));
                let whole = |frame: &&Frame| frame.stored.is_some();
                prop_assert!(summed || read.iter().filter(whole).all(|frame| *frame == written(frame.number)));
            }
        }

        #[test]
        fn no_bytes_are_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..2_000), ours in any::<bool>()) {
            if ours && bytes.len() >= HEAD {
                bytes[..HEAD].copy_from_slice(&head(&owner(), 20));
            }
            let _ = frames(&bytes, &owner(), captured(9), LONGEST_DELAY);
        }
    }
}
