//! What was coded once is not coded again: a file for each coded stream, named by what went into it. A file
//! appears whole or not at all, so that a run that was killed goes on where it was.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Quality and size of each frame of a coded stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coding {
    /// SSIM, to six decimals.
    pub ssim: Vec<f64>,
    /// Size in bytes.
    pub bytes: Vec<u32>,
}

/// A folder of coded streams.
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub(crate) fn open(folder: &Path) -> io::Result<Cache> {
        std::fs::create_dir_all(folder)?;
        Ok(Cache { folder: folder.to_owned() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// The stream of this name, if it is here with so many frames. What can't be read is coded again.
    pub(crate) fn get(&self, name: &str, frames: usize) -> Option<Coding> {
        let coding: Coding = serde_json::from_slice(&std::fs::read(self.path(name)).ok()?).ok()?;
        let sound = coding.ssim.len() == frames && coding.bytes.len() == frames;
        (sound && coding.ssim.iter().all(|ssim| (-1.0..=1.0).contains(ssim))).then_some(coding)
    }

    pub(crate) fn put(&self, name: &str, coding: &Coding) -> io::Result<()> {
        // Another process may be at the same stream: each writes a file of its own.
        let part = self.folder.join(format!("{name}.{}.part", std::process::id()));
        std::fs::write(&part, serde_json::to_vec(coding)?)?;
        std::fs::rename(&part, self.path(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_or_of_another_length_counts_as_missing() {
        let folder = std::env::temp_dir().join(format!("framewire-prism-cache-{}", std::process::id()));
        let cache = Cache::open(&folder).unwrap();
        let coding = Coding { ssim: vec![0.5, 0.25], bytes: vec![3, 4] };
        assert_eq!(cache.get("a", 2), None);
        cache.put("a", &coding).unwrap();
        assert_eq!(cache.get("a", 2), Some(coding));
        assert_eq!(cache.get("a", 3), None);
        std::fs::write(folder.join("b.json"), "{\"ssim\":[0.5],\"byt").unwrap();
        std::fs::write(folder.join("c.json"), "{\"ssim\":[7.0],\"bytes\":[1]}").unwrap();
        assert_eq!((cache.get("b", 1), cache.get("c", 1)), (None, None));
        assert!(std::fs::read_dir(&folder).unwrap().all(|entry| !entry.unwrap().path().ends_with(".part")));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
