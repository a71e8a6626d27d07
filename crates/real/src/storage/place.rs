//! Where files go: a folder, or a bucket of an object store that speaks S3.

use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig};

use super::StorageError;
use super::client::Dialler;
use super::error::one_line;

/// An opened place.
pub(super) struct Place {
    pub store: Arc<dyn ObjectStore>,
    /// What every path begins with, in an object store.
    pub prefix: Path,
    /// Whether types of files and how long they may be kept are stored with them.
    pub attributes: bool,
}

pub(super) fn open(place: &str) -> Result<Place, StorageError> {
    let wrong = |why: &str| StorageError::Place { place: place.to_owned(), why: why.to_owned() };
    match place.split_once("://") {
        None if place.is_empty() => Err(wrong("it is empty")),
        None => folder(place),
        Some(("file", path)) => {
            let path = path.strip_prefix("localhost").unwrap_or(path);
            match path.starts_with('/') && !path.contains('%') {
                true => folder(path),
                false => Err(wrong("file:// takes an absolute path, without any escapes")),
            }
        }
        Some(("s3", rest)) => bucket(place, rest),
        Some((scheme, _)) => Err(wrong(&format!("{scheme}:// is not spoken here"))),
    }
}

/// Missing folders are made. What is stored there survives a loss of power: every file and every folder's
/// entry is synchronised before the next one is written.
fn folder(path: &str) -> Result<Place, StorageError> {
    let wrong = |source| StorageError::Folder { place: path.to_owned(), source };
    std::fs::create_dir_all(path).map_err(wrong)?;
    let store =
        LocalFileSystem::new_with_prefix(path).map_err(|error| wrong(std::io::Error::other(error)))?;
    Ok(Place { store: Arc::new(store.with_fsync(true)), prefix: Path::default(), attributes: false })
}

fn bucket(place: &str, rest: &str) -> Result<Place, StorageError> {
    let wrong = |why| StorageError::Place { place: place.to_owned(), why };
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(wrong("it names no bucket".to_owned()));
    }
    let prefix = Path::parse(prefix).map_err(|error| wrong(one_line(&error)))?;
    // Failures are retried here, where they are counted and told.
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let store = AmazonS3Builder::from_env()
        .with_bucket_name(name)
        .with_retry(retry)
        .with_http_connector(Dialler)
        .build()
        .map_err(|error| wrong(one_line(&error)))?;
    Ok(Place { store: Arc::new(store), prefix, attributes: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_none_says_what_is_wrong_with_it() {
        for (place, why) in [
            ("", "empty"),
            ("ftp://x/y", "ftp:// is not spoken"),
            ("file://host/x", "absolute path"),
            ("file:///a%20b", "escapes"),
            ("s3://", "no bucket"),
            ("s3://b/a//b", "a//b"),
        ] {
            let error = open(place).err().unwrap().to_string();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
        assert!(open("Cargo.toml").err().unwrap().to_string().starts_with("Cargo.toml: "));
    }
}
