//! A model's files, and the lock that has their hashes.
//!
//! `data/models.lock` has the sha256 of every model file. It is written when a file is first
//! fetched, and every later fetch is compared with it. This code never changes an entry: that takes
//! a person who deletes the line or installs another model, and a review of the diff.
//!
//! This module also compares the files of a model's directory with the lock, and sets those aside
//! that differ. All sources of models use it; it fetches nothing itself.

use super::progress::Progress;
use super::stamp::{Stamps, sha256_of_file};
use super::{FetchedFile, How, Options};
use anyhow::{Context, Result, bail};
use base::files::write_whole;
use schema::model::ModelsLock;
use std::path::{Path, PathBuf};

const HEADER: &str = "\
# sha256 of every model file, recorded by `cargo xtask fetch` when it first got it.
# A file that doesn't match is refused. If a change is wanted, delete its line.
";

/// The lock, and the path of its file.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    lock: ModelsLock,
}

impl LockFile {
    /// Read the lock; a file that isn't there is an empty lock.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            lock: ModelsLock::load_or_empty(path)?,
        })
    }

    /// The path of the lock's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The recorded sha256 of a file; `None` where there is none.
    pub fn expected(&self, model: &str, file: &str) -> Option<&str> {
        Some(self.lock.models.get(model)?.get(file)?.as_str())
    }

    /// Remove a model's files from the lock: another model is to be shipped under its id.
    pub fn forget(&mut self, model: &str) -> Result<()> {
        match self.lock.models.remove(model) {
            Some(_) => self.save(),
            None => Ok(()),
        }
    }

    /// Record a file that isn't recorded yet, and write the lock at once, so that a fetch that is
    /// interrupted later loses nothing.
    pub fn record(&mut self, model: &str, file: &str, sha256: &str) -> Result<()> {
        let files = self.lock.models.entry(model.to_owned()).or_default();
        if files.contains_key(file) {
            return Ok(());
        }
        files.insert(file.to_owned(), sha256.to_owned());
        self.save()
    }

    fn save(&self) -> Result<()> {
        let what = || format!("can't write {}", self.path.display());
        let text = toml::to_string(&self.lock).with_context(what)?;
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir).with_context(what)?;
        }
        write_whole(&self.path, format!("{HEADER}{text}"))
    }
}

/// One model's directory, with its stamps and the lock of its files, while the model is fetched.
pub(crate) struct ModelFiles<'a> {
    pub model: &'a str,
    pub dir: &'a Path,
    pub stamps: Stamps,
    pub lock: &'a mut LockFile,
    pub options: &'a Options,
    pub progress: &'a mut Progress,
}

impl<'a> ModelFiles<'a> {
    /// Open a model's directory, which is made where needed.
    pub fn open(
        model: &'a str,
        dir: &'a Path,
        lock: &'a mut LockFile,
        options: &'a Options,
        progress: &'a mut Progress,
    ) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("can't make {}", dir.display()))?;
        Ok(Self {
            model,
            dir,
            stamps: Stamps::load(dir),
            lock,
            options,
            progress,
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The file in place, where it is what the lock says; `None` where there is none, or one from
    /// another source, or one of unknown origin that isn't in the lock. A file that was put there by
    /// hand is accepted if its hash is in the lock: that is how a machine without network gets a
    /// model. `bad` is given the message about a file that is not what the lock says.
    pub fn good(
        &mut self,
        name: &str,
        source: &str,
        bad: impl FnOnce(&mut Self, String) -> Result<()>,
    ) -> Result<Option<FetchedFile>> {
        let path = self.path(name);
        if !path.is_file() {
            return Ok(None);
        }
        let expected = self.lock.expected(self.model, name).map(str::to_owned);
        match self.stamps.get(name) {
            // Another revision is another file, even if the lock has no hash yet.
            Some(stamp) if stamp.source != source => return Ok(None),
            None if expected.is_none() => return Ok(None),
            _ => {}
        }
        let found = match self.stamps.current(name, &path) {
            Some(stamp) if !self.options.full => stamp.sha256.clone(),
            _ => sha256_of_file(&path, self.progress)?,
        };
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            let mismatch = self.mismatch(name, &expected, &found);
            return bad(self, mismatch).map(|()| None);
        }
        self.accept(name, &found, source, How::Present).map(Some)
    }

    /// The file in place, where it is good; a bad one is deleted, because it can be made again.
    pub fn good_or_deleted(&mut self, name: &str, source: &str) -> Result<Option<FetchedFile>> {
        self.good(name, source, |files, mismatch| {
            files.progress.warn(&mismatch);
            let path = files.path(name);
            std::fs::remove_file(&path).with_context(|| format!("can't delete {}", path.display()))
        })
    }

    /// Put a file into place, which `make` writes under another name. `refusal` is the message about
    /// one that is not what the lock says, from the hash there and its own.
    pub fn put(
        &mut self,
        name: &str,
        source: &str,
        how: How,
        make: impl FnOnce(&mut Self, &Path) -> Result<()>,
        refusal: impl FnOnce(&Self, &str, &str) -> String,
    ) -> Result<FetchedFile> {
        let partial = self.dir.join(format!(".{name}.partial"));
        let put = make(self, &partial).and_then(|()| {
            let found = sha256_of_file(&partial, self.progress)?;
            if let Some(expected) = self.lock.expected(self.model, name)
                && expected != found
            {
                bail!(refusal(self, expected, &found));
            }
            std::fs::rename(&partial, self.path(name))
                .with_context(|| format!("can't put {name} into {}", self.dir.display()))?;
            Ok(found)
        });
        match put {
            Ok(found) => self.accept(name, &found, source, how),
            Err(error) => {
                // Half a file is of no use, and may be what filled the disk.
                std::fs::remove_file(&partial).ok();
                Err(error)
            }
        }
    }

    /// Accept a file that is in place and matches the lock. It is recorded where the lock doesn't
    /// have it yet.
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

    /// Move a bad file away from its final name. It is kept beside it for inspection.
    pub fn reject(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        let rejected = self.dir.join(format!("{name}.rejected"));
        std::fs::rename(&path, &rejected)
            .with_context(|| format!("can't move {} out of the way", path.display()))?;
        Ok(rejected)
    }

    /// The message about a mismatch, `expected …, found …, in the lock …`, which all sources share.
    pub fn mismatch(&self, name: &str, expected: &str, found: &str) -> String {
        format!(
            "{}/{name} is not the file that was recorded\n  expected sha256 {expected} ({})\n  found    sha256 {found}",
            self.model,
            self.lock.path().display()
        )
    }

    /// Advice on what to do where the change is wanted.
    pub fn if_wanted(&self, name: &str) -> String {
        format!(
            "If the change is wanted, delete the line {name:?} under [{:?}] in {} and fetch again",
            self.model,
            self.lock.path().display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_kept_and_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data/models.lock");
        let mut lock = LockFile::open(&path).unwrap();
        lock.record("llama-3.2-1b", "tokenizer.json", "02").unwrap();
        lock.record("llama-3.2-1b", "config.json", "01").unwrap();
        lock.record("a", "model.safetensors", "03").unwrap();
        lock.record("a", "model.safetensors", "04").unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            format!(
                "{HEADER}[a]\n\"model.safetensors\" = \"03\"\n\n\
                 [\"llama-3.2-1b\"]\n\"config.json\" = \"01\"\n\"tokenizer.json\" = \"02\"\n"
            )
        );
        let again = LockFile::open(&path).unwrap();
        assert_eq!(again.expected("a", "model.safetensors"), Some("03"));
        assert_eq!(again.expected("a", "other"), None);
    }

    #[test]
    fn a_broken_lock_is_an_error_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("models.lock");
        std::fs::write(&path, "[a]\n\"config.json\" = 3\n").unwrap();
        let error = LockFile::open(&path).unwrap_err().to_string();
        assert!(error.contains("models.lock"), "{error}");
    }
}
