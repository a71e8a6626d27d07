//! The page itself: a handful of files held in memory, looked up by their paths.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use bytes::Bytes;

use crate::http::{File, Site};

/// The largest page, all files together: ours has half a megabyte.
const MOST: u64 = 32 << 20;

/// Why there is no page. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// There is no page at all.
    #[error("{}: no page there; `make web` builds it, --web names its folder", .0.display())]
    Missing(PathBuf),
    /// It can't be read.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder is another one.
    #[error("{}: more than 32 MB of files; --web names a folder that `make web` has built", .0.display())]
    Large(PathBuf),
}

/// The files of a page, by their paths.
#[derive(Debug, Default)]
pub struct Pages {
    files: RwLock<BTreeMap<String, File>>,
}

impl Pages {
    /// Reads a folder that has an `index.html`.
    ///
    /// # Errors
    /// [`PageError`] if there is none, or it can't be read.
    pub fn read(folder: &Path) -> Result<Pages, PageError> {
        if !folder.join("index.html").is_file() {
            return Err(PageError::Missing(folder.to_owned()));
        }
        let mut files = BTreeMap::new();
        read_folder(&mut files, folder, "/", &mut 0)?;
        if let Some(index) = files.remove("/index.html") {
            files.insert("/".to_owned(), index);
        }
        Ok(Pages { files: RwLock::new(files) })
    }

    /// The page of these files, by their paths below its folder.
    pub fn of(files: &[(&str, &[u8])]) -> Pages {
        let of = |(name, bytes): &(&str, &[u8])| {
            let path = if *name == "index.html" { "/".to_owned() } else { format!("/{name}") };
            (path, file(name, bytes.to_vec()))
        };
        Pages { files: RwLock::new(files.iter().map(of).collect()) }
    }

    /// Adds a file, or replaces it; its type is that of its name. Whoever asks from now on gets this one.
    pub fn put(&self, path: &str, bytes: Vec<u8>) {
        let mut files = self.files.write().expect("nothing panics while it holds this");
        files.insert(path.to_owned(), file(path, bytes));
    }
}

impl Site for Pages {
    fn file(&self, path: &str) -> Option<File> {
        self.files.read().expect("nothing panics while it holds this").get(path).cloned()
    }
    fn directions(&self) -> &'static str {
        "there is no such page; / is the one"
    }
}

fn read_folder(
    files: &mut BTreeMap<String, File>,
    folder: &Path,
    prefix: &str,
    total: &mut u64,
) -> Result<(), PageError> {
    let wrong = |source| PageError::File { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let (path, name) = (entry.path(), entry.file_name());
        let (kind, Some(name)) = (entry.file_type().map_err(wrong)?, name.to_str()) else { continue };
        if kind.is_dir() {
            read_folder(files, &path, &format!("{prefix}{name}/"), total)?;
        } else if kind.is_file() {
            *total += entry.metadata().map_err(wrong)?.len();
            if *total > MOST {
                return Err(PageError::Large(folder.to_owned()));
            }
            let bytes =
                std::fs::read(&path).map_err(|source| PageError::File { path: path.clone(), source })?;
            let path = format!("{prefix}{name}");
            files.insert(path.clone(), file(&path, bytes));
        }
    }
    Ok(())
}

fn file(path: &str, bytes: Vec<u8>) -> File {
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    };
    File::page(kind, Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Body;

    #[test]
    fn a_folder_without_a_page_says_what_to_do() {
        let error = Pages::read(Path::new("no-such-folder")).unwrap_err().to_string();
        assert!(error.contains("make web"), "{error}");
    }

    #[test]
    fn files_at_hand_are_a_page_like_a_folder() {
        let pages = Pages::of(&[("index.html", b"<p>".as_slice()), ("deep/a.wasm", b"w")]);
        let kind = |path: &str| pages.file(path).map(|file| file.kind);
        assert_eq!(kind("/"), Some("text/html; charset=utf-8"));
        assert_eq!((kind("/deep/a.wasm"), kind("/index.html")), (Some("application/wasm"), None));
    }

    #[test]
    fn a_file_has_its_names_type_and_can_be_replaced() {
        let pages = Pages::default();
        pages.put("/server.json", b"1".to_vec());
        pages.put("/server.json", b"2".to_vec());
        let file = pages.file("/server.json").unwrap();
        assert!(matches!(&file.body, Body::Whole(bytes) if &bytes[..] == b"2"));
        assert_eq!((file.kind, pages.file("/").is_none()), ("application/json", true));
    }
}
