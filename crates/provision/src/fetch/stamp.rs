//! Stamps: `models/<id>/.verified.json` says what each file hashed to and what its size and time
//! were then, so that gigabytes aren't hashed at every start.
//!
//! The file is a cache: delete it and everything is hashed again. It doesn't protect against
//! someone who forges times, which a full verification does.
//!
//! This module also computes the sha256 of a file, in chunks, with progress.

use super::progress::Progress;
use anyhow::{Context, Result};
use base::files::write_json;
use schema::hash::Hasher;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The state of a file when it was hashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub size_bytes: u64,
    /// The file's modification time since the epoch (ns).
    pub mtime_ns: i128,
    /// The file's sha256, lower-case hex.
    pub sha256: String,
    /// The source that the file came from, by which a changed revision in `models.toml` is noticed.
    pub source: String,
}

/// The stamps of one model's directory.
#[derive(Debug)]
pub(crate) struct Stamps {
    path: PathBuf,
    stamps: BTreeMap<String, Stamp>,
}

impl Stamps {
    /// Load the stamps of a model's directory. Stamps that can't be read count as absent.
    pub fn load(dir: &Path) -> Self {
        let path = dir.join(".verified.json");
        let stamps = std::fs::read(&path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        Self { path, stamps }
    }

    /// The stamp of a file, whether or not the file still looks like it.
    pub fn get(&self, name: &str) -> Option<&Stamp> {
        self.stamps.get(name)
    }

    /// The stamp of a file whose size and modification time are still the same; otherwise `None`.
    pub fn current(&self, name: &str, file: &Path) -> Option<&Stamp> {
        let stamp = self.stamps.get(name)?;
        let (size_bytes, mtime_ns) = look(file).ok()?;
        (stamp.size_bytes == size_bytes && stamp.mtime_ns == mtime_ns).then_some(stamp)
    }

    /// Set the stamp of a file that has this sha256, and write all stamps.
    pub fn set(&mut self, name: &str, file: &Path, sha256: &str, source: &str) -> Result<()> {
        let what = || format!("can't write {}", self.path.display());
        let (size_bytes, mtime_ns) = look(file).with_context(what)?;
        let stamp = Stamp {
            size_bytes,
            mtime_ns,
            sha256: sha256.to_owned(),
            source: source.to_owned(),
        };
        if self.stamps.get(name) == Some(&stamp) {
            return Ok(());
        }
        self.stamps.insert(name.to_owned(), stamp);
        write_json(&self.path, &self.stamps)
    }
}

fn look(file: &Path) -> std::io::Result<(u64, i128)> {
    let metadata = std::fs::metadata(file)?;
    let mtime_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    Ok((metadata.len(), mtime_ns))
}

/// Size of a file (bytes) from which on hashing it shows a bar; below, a bar would only flicker.
const WORTH_A_BAR_BYTES: u64 = 64 << 20;

/// Compute the sha256 of a file, in lower-case hex.
pub fn sha256_of_file(path: &Path, progress: &mut Progress) -> Result<String> {
    let what = || format!("can't read {}", path.display());
    let mut file = std::fs::File::open(path).with_context(what)?;
    let size = file.metadata().with_context(what)?.len();
    if size >= WORTH_A_BAR_BYTES {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        progress.begin(&format!("verifying {name}"), size);
    }
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let read = file.read(&mut buffer).with_context(what)?;
        if read == 0 {
            break;
        }
        base::interrupt::check().inspect_err(|_| progress.end())?;
        hasher.update(&buffer[..read]);
        done += read as u64;
        progress.at(done);
    }
    progress.end();
    Ok(hasher.hex())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_stamp_holds_until_size_or_time_change() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, "one").unwrap();
        Stamps::load(dir.path())
            .set("f", &file, "ab", "seed")
            .unwrap();
        let stamps = Stamps::load(dir.path());
        assert_eq!(stamps.current("f", &file).unwrap().sha256, "ab");

        let handle = std::fs::File::options().write(true).open(&file).unwrap();
        handle
            .set_modified(SystemTime::now() + Duration::from_secs(5))
            .unwrap();
        assert!(stamps.current("f", &file).is_none());
        assert!(stamps.get("f").is_some());
    }

    #[test]
    fn unreadable_stamps_are_none() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".verified.json"), "{").unwrap();
        assert!(Stamps::load(dir.path()).get("f").is_none());
    }

    #[test]
    fn hash_of_abc_is_the_published_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(
            sha256_of_file(&path, &mut Progress::silent()).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
