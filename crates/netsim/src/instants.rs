//! Lists of instants: when each packet of a source is sent, one a line, in microseconds since the start of
//! the run.
//!
//! ```text
//! 1000250    a packet 1.00025 s after the start
//! 1000250    another at the same moment
//! ```
//!
//! An empty list is a source that is silent.

use std::io::Read;
use std::path::Path;

use units::Time;

use crate::trace::{MAX_BYTES, TraceError, rising};

/// When packets are sent: microseconds that never decrease, up to 71 minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instants {
    micros: Vec<u32>,
}

impl Instants {
    /// The instants `micros`, or `None` if they decrease anywhere.
    pub fn from_micros(micros: Vec<u32>) -> Option<Instants> {
        micros.is_sorted().then_some(Instants { micros })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`TraceError`] naming the file, and the line and value where one is to blame.
    pub fn open(path: &Path) -> Result<Instants, TraceError> {
        let unreadable = |source| TraceError::Unreadable { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        Instants::from_bytes(&bytes, path)
    }

    /// Reads the bytes of a file. `path` is only for the errors.
    ///
    /// # Errors
    /// As [`Instants::open`].
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Instants, TraceError> {
        let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if body.is_empty() {
            return Ok(Instants::default());
        }
        let accepted = "a whole number of microseconds from 0 to 4294967295";
        rising(body, path, accepted).map(|micros| Instants { micros })
    }

    /// The instants in microseconds since the start of the run.
    pub fn micros(&self) -> &[u32] {
        &self.micros
    }

    /// The list as a file holds it.
    pub fn to_text(&self) -> String {
        self.micros.iter().map(|at| format!("{at}\n")).collect()
    }

    /// Instant number `index`; [`Time::MAX`] behind the last.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> Time {
        self.micros.get(index).map_or(Time::MAX, |&at| Time::from_micros(u64::from(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &[u8]) -> Result<Instants, String> {
        Instants::from_bytes(text, Path::new("x.instants")).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_a_list_too_and_errors_say_where() {
        assert_eq!(read(b"").unwrap().micros(), []);
        assert_eq!(read(b"0\n7\n7\n").unwrap().micros(), [0, 7, 7]);
        let number = "is not a whole number of microseconds from 0 to 4294967295";
        assert_eq!(read(b"1\n1.5\n").unwrap_err(), format!("trace x.instants, line 2: `1.5` {number}"));
        assert!(read(b"5\n3\n").unwrap_err().contains("line 2: `3` is not at or after"));
        assert!(Instants::from_micros(vec![2, 1]).is_none());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(mut micros in prop::collection::vec(any::<u32>(), 0..300)) {
            micros.sort_unstable();
            let instants = Instants::from_micros(micros).unwrap();
            prop_assert_eq!(read(instants.to_text().as_bytes()).unwrap(), instants);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(instants) = read(&bytes) {
                prop_assert!(instants.micros().is_sorted());
            }
        }
    }
}
