//! `data/models.lock`: the sha256 of every model file, written when a file is
//! first fetched and compared ever after. It never changes an entry: that takes a
//! person who deletes the line or installs another model, and a review of the diff.

use anyhow::{Context, Result};
use base::whole::write_whole;
use schema::model::ModelsLock;
use std::path::{Path, PathBuf};

const HEADER: &str = "\
# sha256 of every model file, recorded by `cargo xtask fetch` when it first got it.
# A file that doesn't match is refused. If a change is wanted, delete its line.
";

/// The lock, and the file it is kept in.
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
            lock: ModelsLock::load(path)?,
        })
    }

    /// Where it is kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The recorded hash of a file.
    pub fn expected(&self, model: &str, file: &str) -> Option<&str> {
        Some(self.lock.models.get(model)?.get(file)?.as_str())
    }

    /// Forget a model's files: somebody means to ship another one under its name.
    pub fn forget(&mut self, model: &str) -> Result<()> {
        match self.lock.models.remove(model) {
            Some(_) => self.save(),
            None => Ok(()),
        }
    }

    /// Record a file not recorded yet, and write the lock: a fetch that is broken
    /// off later must not forget what it saw.
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
        let dir = self
            .path
            .parent()
            .filter(|dir| !dir.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir).with_context(what)?;
        write_whole(&self.path, format!("{HEADER}{text}"))
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
