//! Writes files whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A result that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}")]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Writes `path` through `fill`: into a temporary file beside it, which takes its place only once everything is written.
/// If anything fails, what stood at `path` before still stands there, and nothing else is left behind.
///
/// # Errors
/// [`WriteError`] naming the file.
pub fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), WriteError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let result = File::create(&partial).and_then(|file| {
        let mut file = BufWriter::new(file);
        fill(&mut file)?;
        file.flush()
    });
    let result = result.and_then(|()| fs::rename(&partial, path));
    result.map_err(|source| {
        // If even this fails there is nothing more to try; the first error is the one to report.
        let _ = fs::remove_file(&partial);
        WriteError { path: path.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("framewire-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.txt");
        write_whole(&path, |file| file.write_all(b"old")).unwrap();
        let error = write_whole(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        let message = error.unwrap_err().to_string();
        assert!(message.ends_with("a.txt: disk full"), "{message}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_impossible_path_is_named() {
        let error = write_whole(Path::new("/no/such/folder/a"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /no/such/folder/a: "));
    }
}
