//! Writing files that stay valid when the process is killed.
//!
//! A file that is written in one go is complete or absent, even after a full disk or a power
//! failure: no reader ever finds half of it.
//!
//! Record files are created new, appended to, and never rewritten. Each line is written in one
//! call, so a kill costs at most the line being written, which the loader then leaves out.

use anyhow::{Context, Result};
use schema::record::RecordEvent;
use serde::Serialize;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Write a value as JSON; see [`write_whole`].
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    write_whole(path, serde_json::to_string_pretty(value)? + "\n")
}

/// Write a file, or replace one. Where that fails, an old file stays as it was and no new one
/// appears.
pub fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    write_whole_by(path, |out| Ok(out.write_all(content.as_ref())?))
}

/// The same for content that is written piece by piece.
pub fn write_whole_by(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    let write = || -> Result<File> {
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            // The permissions of any new file, which the user's umask reduces.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(dir)?;
        let mut out = BufWriter::new(&mut file);
        content(&mut out)?;
        out.flush()?;
        drop(out);
        file.as_file().sync_all()?;
        Ok(file.persist(path).map_err(|error| error.error)?)
    };
    write()
        .map(drop)
        .with_context(|| format!("{} can't be written", path.display()))
}

/// Whether a directory on `PATH` has a file of that name.
pub fn is_on_path(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(tool).is_file())
}

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

    /// Create the file of a launch under the name of `attempt`, or of the next attempt that has no
    /// file yet, and return the number of that attempt too. A kill or a full disk may have left a
    /// file without a whole first line, which no loaded record mentions.
    pub fn create_next(attempt: u32, named: impl Fn(u32) -> PathBuf) -> Result<(Self, u32)> {
        let taken = |attempt: &u32| named(*attempt).exists();
        let free = (attempt..).find(|attempt| !taken(attempt));
        let free = free.context("every attempt's file is there")?;
        Ok((Self::create(&named(free))?, free))
    }

    /// Open a log of judgements for appending, or create it. A last line that a kill cut short
    /// holds no judgement. It is removed, so that the next line isn't joined to it. (Files of
    /// samples are never opened again.)
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("{} can't be opened for appending", path.display()))?;
        let bytes =
            std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
        let end = bytes.iter().rposition(|&byte| byte == b'\n');
        file.set_len(end.map_or(0, |end| end as u64 + 1))
            .with_context(|| format!("{} can't be mended", path.display()))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Append a value as one line of JSON, and return that line.
    pub fn append<T: Serialize>(&mut self, value: &T) -> Result<Vec<u8>> {
        let mut line = serde_json::to_vec(value).context("a record can't be put in JSON")?;
        line.push(b'\n');
        self.file.write_all(&line).with_context(|| {
            format!(
                "{} can't be written; what is there is kept: make room or mend the disk, then go on with --resume",
                self.path.display()
            )
        })?;
        Ok(line)
    }

    /// Append one record event.
    pub fn event(&mut self, event: RecordEvent) -> Result<()> {
        self.append(&event).map(drop)
    }

    /// Make sure that what was appended survives a power cut.
    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .with_context(|| format!("{} can't be synced", self.path.display()))
    }
}

/// The path of a launch's file inside its run's directory.
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
    let (block, suffix) = (launch.invocation, attempt_suffix(attempt));
    let file = format!("{name}.i{block}{suffix}.jsonl");
    run_dir.join(&launch.target).join(file)
}

/// What distinguishes the files of a launch's attempts: nothing for the first, which is 0.
pub fn attempt_suffix(attempt: u32) -> String {
    match attempt {
        0 => String::new(),
        n => format!(".a{n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write_json(&path, &[1]).unwrap();
        write_whole(&path, "2\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "2\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let plain = dir.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        // A file can't replace a directory, which only the last step of writing finds out.
        let path = dir.path().join("a.json");
        std::fs::create_dir(&path).unwrap();
        let error = format!("{:#}", write_json(&path, &[1]).unwrap_err());
        assert!(error.contains("a.json can't be written: "), "{error}");
        assert!(path.is_dir());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_attempt_takes_the_next_name_where_a_cut_file_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let named = |attempt: u32| dir.path().join(format!("x.a{attempt}"));
        std::fs::write(named(0), "").unwrap();
        std::fs::write(named(1), "{\"ev\":\"lau").unwrap();
        let (mut file, attempt) = Appender::create_next(0, named).unwrap();
        file.append(&1).unwrap();
        assert_eq!(attempt, 2);
        assert_eq!(std::fs::read_to_string(named(2)).unwrap(), "1\n");
        assert_eq!(Appender::create_next(7, named).unwrap().1, 7);
    }

    #[test]
    fn a_file_of_samples_is_created_new_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.jsonl");
        Appender::create(&path).unwrap().append(&1).unwrap();
        let error = Appender::create(&path).err().expect("it is there already");
        assert!(error.to_string().contains("b.jsonl"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
    }

    #[test]
    fn a_judgement_cut_short_goes_and_the_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("verify.jsonl");
        std::fs::write(&path, "1\n2\n{\"tar").unwrap();
        Appender::open(&path).unwrap().append(&3).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n3\n");
    }

    #[test]
    fn a_full_disk_is_one_clear_error() {
        // /dev/full fails every write with ENOSPC (full(4)).
        let mut appender = Appender {
            file: OpenOptions::new().append(true).open("/dev/full").unwrap(),
            path: "results/x.jsonl".into(),
        };
        let error = format!("{:#}", appender.append(&1).unwrap_err());
        assert!(
            error.contains("results/x.jsonl") && error.contains("--resume"),
            "{error}"
        );
        assert!(error.contains("No space left"), "{error}");
    }
}
