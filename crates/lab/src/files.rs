//! Writes files, and folders of files, whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A result that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}")]
pub struct WriteError {
    /// The file that could not be written.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

/// Writes a text, and makes its folder if needed.
///
/// # Errors
/// [`WriteError`] naming what could not be written. The file is whole or absent.
pub fn write_text(path: &Path, text: &str) -> Result<(), WriteError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|source| WriteError { path: folder.to_owned(), source })?;
    }
    write_whole(path, |file| file.write_all(text.as_bytes()))
}

/// Writes `path` through `fill`: into a temporary file beside it, which takes its place only once everything
/// is written. If anything fails, what stood at `path` before still stands there, and nothing else is left
/// behind.
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

/// Fills the folder `place` through `fill`, all of it or nothing: `fill` gets an empty folder on the same
/// disk, whose content takes its place only once everything is written. Then the files that `old` names
/// (relative to `place`) are removed, with folders that become empty; whatever else stands there stays. If
/// anything fails before that, `place` is as it was, and absent if it was absent.
///
/// # Errors
/// [`WriteError`] naming the file that could not be written, as it would have been called.
pub fn write_folder(
    place: &Path,
    old: &[PathBuf],
    fill: impl FnOnce(&Path) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let problem = |path: &Path, source| WriteError { path: path.to_owned(), source };
    let whole = std::path::absolute(place).map_err(|source| problem(place, source))?;
    let made: Vec<PathBuf> =
        whole.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect();
    let partial = whole.join(format!(".partial-{}", std::process::id()));
    let written = fs::create_dir_all(&partial)
        .map_err(|source| problem(place, source))
        .and_then(|()| fill(&partial))
        .map_err(|error| match error.path.strip_prefix(&partial) {
            Ok(name) => problem(&place.join(name), error.source),
            Err(_) => error,
        })
        .and_then(|()| replace(&whole, old, &partial).map_err(|source| problem(place, source)));
    // What is left is rubbish, also where it can't be removed; the first error is the one to report.
    let _ = fs::remove_dir_all(&partial);
    if written.is_err() {
        made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
    written
}

/// Removes the `old` files of `place` and moves in what `partial` holds.
fn replace(place: &Path, old: &[PathBuf], partial: &Path) -> io::Result<()> {
    for name in old {
        match fs::remove_file(place.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // A folder with anything else in it stays.
        for folder in name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            let _ = fs::remove_dir(place.join(folder));
        }
    }
    move_into(partial, place)
}

fn move_into(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() && place.is_dir() {
            move_into(&entry.path(), &place)?;
        } else {
            fs::rename(entry.path(), place)?;
        }
    }
    Ok(())
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

    /// The files below a folder, in order.
    fn listed(folder: &Path) -> Vec<String> {
        let mut all = Vec::new();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.path().is_dir() {
                true => all.extend(listed(&entry.path()).iter().map(|below| format!("{name}/{below}"))),
                false => all.push(name),
            }
        }
        all.sort();
        all
    }

    #[test]
    fn a_folder_is_replaced_whole_or_stays() {
        let place = std::env::temp_dir().join(format!("framewire-folder-{}/deep/x", std::process::id()));
        let top = place.parent().unwrap().parent().unwrap();
        let put = |folder: &Path, name: &str| {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            write_whole(&folder.join(name), |file| file.write_all(b"."))
        };
        let full = |folder: &Path| {
            put(folder, "a")?;
            Err(WriteError { path: folder.join("b"), source: io::Error::other("disk full") })
        };
        let error = write_folder(&place, &[], full).unwrap_err();
        assert_eq!(error.path, place.join("b"));
        assert!(!top.exists(), "what was made for it is gone");
        write_folder(&place, &[], |folder| put(folder, "a").and_then(|()| put(folder, "run/b"))).unwrap();
        put(&place, "theirs").unwrap();
        put(&place, "run/theirs").unwrap();
        let before = listed(&place);
        assert_eq!(before, ["a", "run/b", "run/theirs", "theirs"]);
        write_folder(&place, &["a".into()], full).unwrap_err();
        assert_eq!(listed(&place), before);
        let old = ["a".into(), "run/b".into(), "gone".into()];
        write_folder(&place, &old, |folder| put(folder, "run/c")).unwrap();
        assert_eq!(listed(&place), ["run/c", "run/theirs", "theirs"]);
        fs::remove_dir_all(top).unwrap();
    }
}
