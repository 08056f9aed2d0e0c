//! What a model's directory already holds, and what becomes of a file that isn't
//! what the lock says. Shared by both sources; fetches nothing itself.

use super::lock::LockFile;
use super::progress::Progress;
use super::stamp::Stamps;
use super::{FetchedFile, How, Verify, hash::sha256_of_file};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// One model's directory, with its stamps and its part of the lock.
pub(crate) struct ModelFiles<'a> {
    pub model: &'a str,
    pub dir: &'a Path,
    pub stamps: Stamps,
    pub lock: &'a mut LockFile,
    pub verify: Verify,
}

/// What is known of a file in place.
pub(crate) enum Found {
    /// Not there, or from another source, or of unknown origin and not in the lock.
    Nothing,
    /// What the lock says.
    Good(FetchedFile),
    /// Not what the lock says.
    Bad { expected: String, found: String },
}

impl<'a> ModelFiles<'a> {
    /// Open the directory, making it where needed.
    pub fn open(
        model: &'a str,
        dir: &'a Path,
        lock: &'a mut LockFile,
        verify: Verify,
    ) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("can't make {}", dir.display()))?;
        Ok(Self {
            model,
            dir,
            stamps: Stamps::load(dir),
            lock,
            verify,
        })
    }

    /// The file's final place.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Judge the file in place. A file put there by hand counts if the lock
    /// vouches for it: that is how a machine without network gets a model.
    pub fn look(&mut self, name: &str, source: &str, progress: &mut dyn Progress) -> Result<Found> {
        let path = self.path(name);
        if !path.is_file() {
            return Ok(Found::Nothing);
        }
        let expected = self.lock.expected(self.model, name).map(str::to_owned);
        match self.stamps.get(name) {
            // Another revision is another file, though the lock may not know yet.
            Some(stamp) if stamp.source != source => return Ok(Found::Nothing),
            None if expected.is_none() => return Ok(Found::Nothing),
            _ => {}
        }
        let stamped = match self.verify {
            Verify::Stamp => self.stamps.current(name, &path).map(|s| s.sha256.clone()),
            Verify::Full => None,
        };
        let found = match stamped {
            Some(sha256) => sha256,
            None => sha256_of_file(&path, progress)?,
        };
        match expected {
            Some(expected) if expected != found => Ok(Found::Bad { expected, found }),
            _ => Ok(Found::Good(self.accept(
                name,
                &found,
                source,
                How::Present,
            )?)),
        }
    }

    /// Record a file that is in place and matches the lock, if the lock has it.
    pub fn accept(
        &mut self,
        name: &str,
        sha256: &str,
        source: &str,
        how: How,
    ) -> Result<FetchedFile> {
        let path = self.path(name);
        self.lock.record(self.model, name, sha256)?;
        self.stamps.set(name, &path, sha256, source)?;
        let size_bytes = std::fs::metadata(&path)
            .with_context(|| format!("can't read {}", path.display()))?
            .len();
        Ok(FetchedFile {
            model: self.model.to_owned(),
            name: name.to_owned(),
            sha256: sha256.to_owned(),
            size_bytes,
            how,
        })
    }

    /// Take a bad file away from its final name; the evidence is kept beside it.
    pub fn reject(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        let rejected = self.dir.join(format!("{name}.rejected"));
        std::fs::rename(&path, &rejected)
            .with_context(|| format!("can't move {} out of the way", path.display()))?;
        Ok(rejected)
    }

    /// `expected …, found …, in the lock …`, the part all mismatches share.
    pub fn mismatch(&self, name: &str, expected: &str, found: &str) -> String {
        format!(
            "{}/{name} is not the file that was recorded\n  expected sha256 {expected} ({})\n  found    sha256 {found}",
            self.model,
            self.lock.path().display()
        )
    }

    /// How to say that the change is wanted.
    pub fn if_wanted(&self, name: &str) -> String {
        format!(
            "If the change is wanted, delete the line {name:?} under [{:?}] in {} and fetch again",
            self.model,
            self.lock.path().display()
        )
    }
}
