//! Traces that were read lately: many runs take the same ones, and to read one takes as long as seconds of a
//! run.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use netsim::{MahimahiTrace, TraceError};

/// Opportunities of all traces that are kept, at most: 64 MB.
const MOST: usize = 16 << 20;

/// A trace, and what its file was when it was read.
struct Read {
    path: PathBuf,
    file: (u64, SystemTime),
    trace: Arc<MahimahiTrace>,
}

/// The latest last.
static READ: Mutex<VecDeque<Read>> = Mutex::new(VecDeque::new());

/// The trace in a file, which is not read again while its length and time of change are the same.
///
/// # Errors
/// As [`MahimahiTrace::open`].
pub(super) fn open(path: &Path) -> Result<Arc<MahimahiTrace>, TraceError> {
    let file = std::fs::metadata(path).and_then(|file| Ok((file.len(), file.modified()?))).ok();
    let known = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(read) = known().iter().find(|read| read.path == path && Some(read.file) == file) {
        return Ok(read.trace.clone());
    }
    let trace = Arc::new(MahimahiTrace::open(path)?);
    if let Some(file) = file {
        keep(&mut known(), Read { path: path.to_owned(), file, trace: trace.clone() });
    }
    Ok(trace)
}

fn keep(known: &mut VecDeque<Read>, read: Read) {
    known.retain(|other| other.path != read.path);
    known.push_back(read);
    let held = |known: &VecDeque<Read>| known.iter().map(|read| read.trace.millis().len()).sum::<usize>();
    while held(known) > MOST {
        known.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_and_again_when_it_changes() {
        let path = std::env::temp_dir().join(format!("framewire-read-{}.trace", std::process::id()));
        std::fs::write(&path, "1\n2\n").unwrap();
        let first = open(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &open(&path).unwrap()));
        std::fs::write(&path, "1\n2\n3\n").unwrap();
        assert_eq!((first.millis(), open(&path).unwrap().millis()), (&[1, 2][..], &[1, 2, 3][..]));
        std::fs::remove_file(&path).unwrap();
        assert!(open(&path).is_err());
    }

    #[test]
    fn what_is_kept_has_bounds() {
        let read = |n: usize| Read {
            path: PathBuf::from(n.to_string()),
            file: (0, SystemTime::UNIX_EPOCH),
            trace: Arc::new(MahimahiTrace::from_millis(vec![1; MOST / 2 - 1]).unwrap()),
        };
        let mut known = VecDeque::new();
        (0..4).for_each(|n| keep(&mut known, read(n)));
        assert!(known.iter().map(|read| read.path.to_string_lossy()).eq(["2", "3"]));
    }
}
