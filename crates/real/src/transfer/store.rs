//! Where files that come are kept: under another name until they are whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use ring::digest::{Context, SHA256};
use wire::Refusal;

/// A file that is not whole is called `.NAME` and this.
const SUFFIX: &str = ".framewire-part";
/// Bytes written at once.
const BUFFER: usize = 1 << 20;

/// SHA-256 of the first bytes of a file, by which both ends know that they speak of the same.
pub(super) type Digest = [u8; 32];

/// A place for files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    folder: Option<PathBuf>,
}

/// Why a file is not taken: for the sender as a number and in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denied {
    pub why: Refusal,
    pub text: String,
}

impl Denied {
    fn new(why: Refusal, text: String) -> Denied {
        Denied { why, text }
    }
}

impl From<io::Error> for Denied {
    fn from(error: io::Error) -> Denied {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let (why, what) = match error.kind() {
            StorageFull | QuotaExceeded => (Refusal::NoSpace, "the receiver has no space left"),
            FileTooLarge => (Refusal::TooLong, "the receiver's file system takes no file this large"),
            _ => (Refusal::Other, "the receiver can't write the file"),
        };
        Denied::new(why, format!("{what} ({error})"))
    }
}

impl Store {
    /// Files are counted and thrown away.
    pub fn nowhere() -> Store {
        Store { folder: None }
    }

    /// Files go into `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// Where it can't be made, or is no folder.
    pub fn folder(folder: &Path) -> io::Result<Store> {
        fs::create_dir_all(folder)?;
        Ok(Store { folder: Some(folder.to_owned()) })
    }

    /// A place for a file that somebody else has named: within the folder, and never over another file.
    pub(super) fn open(&self, name: &str) -> Result<Partial, Denied> {
        let Some(folder) = &self.folder else { return Ok(Partial(None)) };
        let last = match Path::new(name).components().next_back() {
            Some(Component::Normal(last)) => last.to_string_lossy().into_owned(),
            _ => return Err(Denied::new(Refusal::Other, format!("`{name}` is no name for a file"))),
        };
        if last.ends_with(SUFFIX) {
            let text = format!("names that end in {SUFFIX} are for files that are not whole yet");
            return Err(Denied::new(Refusal::Other, text));
        }
        let (whole, part) = (folder.join(&last), folder.join(format!(".{last}{SUFFIX}")));
        let exists = || {
            let text = format!("`{last}` is there already and is kept; send the file under another name");
            Denied::new(Refusal::Exists, text)
        };
        if whole.exists() {
            return Err(exists());
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let text = format!("`{last}` is being received from another sender; try again later");
                return Err(Denied::new(Refusal::Busy, text));
            }
            // A file system without locks: two senders of one name would then write into one file.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // Whoever held the lock until now may have made the file whole.
        if whole.exists() {
            return Err(exists());
        }
        Ok(Partial(Some(Open { file: BufWriter::with_capacity(BUFFER, file), part, whole })))
    }
}

/// A file that is not whole yet. One that is dropped stays for the next attempt, unless nothing of it has
/// come.
pub(super) struct Partial(Option<Open>);

struct Open {
    file: BufWriter<File>,
    part: PathBuf,
    whole: PathBuf,
}

impl Partial {
    /// What there is of the file from an earlier attempt.
    pub fn have(&mut self) -> io::Result<(u64, Digest)> {
        let Some(open) = &mut self.0 else { return Ok((0, digest_of(&mut io::empty())?.1)) };
        let file = open.file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        digest_of(file)
    }

    /// What comes next belongs at `offset`; what there is beyond is not the sender's.
    pub fn begin(&mut self, offset: u64) -> io::Result<()> {
        let Some(open) = &mut self.0 else { return Ok(()) };
        let file = open.file.get_mut();
        file.set_len(offset)?;
        file.seek(SeekFrom::Start(offset)).map(drop)
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), |open| open.file.write_all(bytes))
    }

    /// All has come: on the disk, and under its own name.
    pub fn finish(mut self) -> Result<(), Denied> {
        let Some(open) = &mut self.0 else { return Ok(()) };
        open.file.flush()?;
        open.file.get_ref().sync_all()?;
        if open.whole.exists() {
            let text = "a file of that name has appeared meanwhile, and is kept".to_owned();
            return Err(Denied::new(Refusal::Exists, text));
        }
        fs::rename(&open.part, &open.whole)?;
        self.0 = None;
        Ok(())
    }

    /// Nothing of it is of use.
    pub fn discard(mut self) {
        if let Some(open) = self.0.take() {
            let _ = fs::remove_file(&open.part);
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let Some(open) = &mut self.0 else { return };
        // What can't be written now is sent again.
        let _ = open.file.flush();
        if open.file.get_ref().metadata().is_ok_and(|file| file.len() == 0) {
            let _ = fs::remove_file(&open.part);
        }
    }
}

/// The number of bytes that `from` has, and their digest.
pub(super) fn digest_of(from: &mut dyn Read) -> io::Result<(u64, Digest)> {
    let (mut context, mut bytes) = (Context::new(&SHA256), 0);
    let mut from = BufReader::with_capacity(BUFFER, from);
    let mut chunk = vec![0; BUFFER];
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        context.update(&chunk[..read]);
        bytes += read as u64;
    }
    let mut digest = Digest::default();
    digest.copy_from_slice(context.finish().as_ref());
    Ok((bytes, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this test's own, gone when the test is over.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            Scratch(std::env::temp_dir().join(format!("framewire-store-{name}-{}", std::process::id())))
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_name_never_leads_out_of_the_folder_nor_over_a_file() {
        let scratch = Scratch::new("names");
        // Missing folders are made, as everywhere.
        let store = Store::folder(&scratch.0.join("made")).unwrap();
        for bad in ["", "..", "/", "a/..", ".a.framewire-part"] {
            assert_eq!(store.open(bad).err().unwrap().why, Refusal::Other, "{bad:?}");
        }
        let mut partial = store.open("../../up/there.bin").unwrap();
        partial.begin(0).unwrap();
        partial.write(b"x").unwrap();
        partial.finish().unwrap();
        assert_eq!(fs::read(scratch.0.join("made/there.bin")).unwrap(), b"x");
        assert_eq!(store.open("there.bin").err().unwrap().why, Refusal::Exists, "an existing file is kept");
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_what_came_is_kept_until_then() {
        let scratch = Scratch::new("parts");
        let store = Store::folder(&scratch.0).unwrap();
        drop(store.open("a").unwrap());
        assert!(scratch.names().is_empty(), "of nothing nothing is kept");
        let mut partial = store.open("a").unwrap();
        assert_eq!(store.open("a").err().unwrap().why, Refusal::Busy, "one sender of a name at a time");
        partial.begin(0).unwrap();
        partial.write(b"half").unwrap();
        drop(partial);
        assert_eq!(scratch.names(), [".a.framewire-part"]);
        let mut partial = store.open("a").unwrap();
        assert_eq!(partial.have().unwrap(), digest_of(&mut &b"half"[..]).unwrap());
        // The sender's file begins otherwise, or the same.
        partial.begin(0).unwrap();
        partial.write(b"wh").unwrap();
        drop(partial);
        let mut partial = store.open("a").unwrap();
        assert_eq!(partial.have().unwrap().0, 2);
        partial.begin(2).unwrap();
        partial.write(b"ole").unwrap();
        partial.finish().unwrap();
        assert_eq!(
            (scratch.names(), fs::read(scratch.0.join("a")).unwrap()),
            (vec!["a".to_owned()], b"whole".to_vec())
        );
        store.open("b").unwrap().discard();
        assert_eq!(scratch.names(), ["a"]);
    }

    #[test]
    fn the_sender_is_told_what_the_disk_says() {
        let why = |kind: io::ErrorKind| Denied::from(io::Error::from(kind)).why;
        assert_eq!(why(io::ErrorKind::StorageFull), Refusal::NoSpace);
        assert_eq!(why(io::ErrorKind::QuotaExceeded), Refusal::NoSpace);
        assert_eq!(why(io::ErrorKind::PermissionDenied), Refusal::Other);
        let denied = Denied::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(denied.text.starts_with("the receiver has no space left"), "{}", denied.text);
    }
}
