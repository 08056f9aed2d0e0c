//! Writing record files: created new, appended to, never rewritten. Each line is
//! written whole in one call, so a kill costs at most the line being written,
//! which the loader leaves out.

use anyhow::{Context, Result};
use schema::record::RecordEvent;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// An append-only JSON Lines file.
pub struct Appender {
    file: File,
    path: PathBuf,
}

impl Appender {
    /// Create a file that must not exist yet.
    pub fn create(path: &Path) -> Result<Self> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("{} can't be made", dir.display()))?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)
            .with_context(|| format!("{} can't be created as a new file", path.display()))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Append to a file, made if it isn't there. A last line that a kill cut
    /// short is ended first, so that it can't run into the next.
    pub fn open(path: &Path) -> Result<Self> {
        let exists = std::fs::read(path).ok().filter(|bytes| !bytes.is_empty());
        if exists
            .as_ref()
            .is_some_and(|bytes| bytes.last() != Some(&b'\n'))
        {
            anyhow::bail!(
                "{}: its last line was cut short, and going on would hide that; remove that line by hand",
                path.display()
            );
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("{} can't be opened for appending", path.display()))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Append one line.
    pub fn append<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let mut line = serde_json::to_vec(value).context("a record can't be put in JSON")?;
        line.push(b'\n');
        self.file.write_all(&line).with_context(|| {
            format!(
                "{} can't be written; what is there is kept: make room or mend the disk, then go on with --resume",
                self.path.display()
            )
        })
    }

    /// Append one record event.
    pub fn event(&mut self, event: RecordEvent) -> Result<()> {
        self.append(&event)
    }

    /// Make sure that what was appended survives a power cut.
    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .with_context(|| format!("{} can't be synced", self.path.display()))
    }
}

/// The file of a launch inside its run's directory.
pub fn launch_file(
    run_dir: &Path,
    launch: &schema::plan::Launch,
    per_case: bool,
    attempt: u32,
) -> PathBuf {
    let mut name = launch.scenario.clone();
    // Where a scenario gets a launch per case, the case tells the files apart.
    if per_case {
        name.push('.');
        name.push_str(&launch.cases[0]);
    }
    name.push_str(&format!(".i{}", launch.invocation));
    if attempt > 0 {
        name.push_str(&format!(".a{attempt}"));
    }
    run_dir.join(&launch.target).join(format!("{name}.jsonl"))
}
