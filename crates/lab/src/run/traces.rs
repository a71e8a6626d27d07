//! Traces that were unpacked lately: many runs take the same ones, and to make sense of one takes as long as
//! seconds of a run.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use netsim::{MahimahiTrace, TraceError};

/// Bytes of all files and traces that are kept, at most.
const MOST: usize = 64 << 20;

/// A trace, and the file that it was made of.
struct Read {
    path: PathBuf,
    file: Vec<u8>,
    trace: Arc<MahimahiTrace>,
}

impl Read {
    fn held(&self) -> usize {
        self.file.len() + size_of_val(self.trace.millis())
    }
}

/// The latest last.
static READ: Mutex<VecDeque<Read>> = Mutex::new(VecDeque::new());

/// The trace in a file. The file is read each time; while it is the same to the byte, so is the trace.
///
/// # Errors
/// As [`MahimahiTrace::open`].
pub(super) fn open(path: &Path) -> Result<Arc<MahimahiTrace>, TraceError> {
    let file = MahimahiTrace::read(path)?;
    let known = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(read) = known().iter().find(|read| read.path == path && read.file == file) {
        return Ok(read.trace.clone());
    }
    let trace = Arc::new(MahimahiTrace::from_bytes(&file, path)?);
    keep(&mut known(), Read { path: path.to_owned(), file, trace: trace.clone() });
    Ok(trace)
}

fn keep(known: &mut VecDeque<Read>, read: Read) {
    known.retain(|other| other.path != read.path);
    known.push_back(read);
    while known.iter().map(Read::held).sum::<usize>() > MOST {
        known.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_unpacked_once_and_again_when_it_changes() {
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
            file: vec![0; MOST / 4],
            trace: Arc::new(MahimahiTrace::from_millis(vec![1; MOST / 16]).unwrap()),
        };
        let mut known = VecDeque::new();
        (0..4).for_each(|n| keep(&mut known, read(n)));
        assert!(known.iter().map(|read| read.path.to_string_lossy()).eq(["2", "3"]));
    }
}
