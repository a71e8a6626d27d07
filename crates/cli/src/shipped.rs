//! What comes along inside the command, so that it needs no checkout: experiments, findings, scenarios,
//! traces and the page of `framewire serve`. Whatever stands in the current folder goes before it, so that
//! edits count.

use std::io::Write;
use std::path::{Path, PathBuf};

use experiments::Fingerprint;
use lab::files::write_whole;

use crate::failure::Failure;

mod packed {
    include!(concat!(env!("OUT_DIR"), "/shipped.rs"));
}

/// The files of the page by their paths; none where it was not built when the command was (`make web`).
pub use packed::PAGE;

/// A file that comes along, by its path in the repository.
pub fn file(path: &str) -> Option<&'static [u8]> {
    packed::DATA.iter().find(|(name, _)| *name == path).map(|(_, bytes)| *bytes)
}

/// `path` if there is such a file or folder. Else, where one of that name comes along, that one: everything
/// that comes along is laid into a folder of this user's cache first, for files name each other. Else `path`,
/// for an error that names it.
///
/// # Errors
/// [`Failure::Work`] if the cache can't be written.
pub fn or_shipped(path: &Path) -> Result<PathBuf, Failure> {
    let name = path.to_str().unwrap_or_default().trim_end_matches('/');
    let below =
        |file: &str| file.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let known = !name.is_empty() && packed::DATA.iter().any(|(file, _)| below(file));
    if path.exists() || !known {
        return Ok(path.to_owned());
    }
    Ok(unpacked(&cache())?.join(name))
}

/// The folder of the cache for exactly these files.
fn cache() -> PathBuf {
    let mut print = Fingerprint::default();
    for (name, bytes) in packed::DATA {
        print.add(name);
        print.add_bytes(bytes);
    }
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    home.unwrap_or_else(std::env::temp_dir).join(format!("framewire/{print}"))
}

/// Lays everything into `folder`, unless it is there already. What stands there is compared and not believed:
/// a disk may have been full half-way.
fn unpacked(folder: &Path) -> Result<PathBuf, Failure> {
    for (name, bytes) in packed::DATA {
        let path = folder.join(name);
        if std::fs::read(&path).is_ok_and(|there| there == *bytes) {
            continue;
        }
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| {
            Failure::Work(format!("{}: {error}; XDG_CACHE_HOME names another place", parent.display()))
        })?;
        write_whole(&path, |file| file.write_all(bytes)).map_err(Failure::work)?;
    }
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_along_and_is_laid_out_as_in_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for name in
            ["experiments/rate-drop.toml", "findings/bbr-stall/finding.json", "traces/lte-drive.trace"]
        {
            assert_eq!(file(name).unwrap_or_default(), std::fs::read(root.join(name)).unwrap(), "{name}");
        }
        let folder = std::env::temp_dir().join(format!("framewire-shipped-{}", std::process::id()));
        unpacked(&folder).unwrap_or_else(|failure| panic!("{}", failure.text()));
        let damaged = folder.join("scenarios/lte-drive.toml");
        std::fs::write(&damaged, "half").unwrap();
        unpacked(&folder).unwrap_or_else(|failure| panic!("{}", failure.text()));
        assert!(lab::scenario::Scenario::load(&damaged).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_there_goes_before_what_comes_along() {
        let here =
            |path: &str| or_shipped(Path::new(path)).unwrap_or_else(|failure| panic!("{}", failure.text()));
        // Tests run in the crate's folder, which has sources and no experiments.
        assert_eq!(here("src"), Path::new("src"));
        assert_eq!(here("no/such"), Path::new("no/such"));
        assert_eq!(here("experiment"), Path::new("experiment"));
    }
}
