//! Locks: one measurement at a time on a machine, because two at once would measure each other, and
//! one process at a time in a run's directory.
//!
//! Both locks are the kernel's (flock(2)). They end with their process, however it ends, so no lock
//! is ever stale. They don't exclude processes on other machines, nor in containers that share
//! neither /tmp nor the run's directory.

use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The directory and name of the machine's lock: one for all users and checkouts. TMPDIR, which
/// often differs by user, is used only where there is no such directory.
const DIR: &str = "/tmp";
const NAME: &str = "llm-engine-bench.lock";
/// Environment variable that names another lock file. It is for tests, which measure side by side.
const MACHINE_ENV: &str = "BENCH_LOCK";

/// Lock the machine for as long as the returned file is open. An error where another run has the
/// lock.
pub fn lock_machine() -> Result<File> {
    let path = match std::env::var_os(MACHINE_ENV).filter(|path| !path.is_empty()) {
        Some(path) => named_file(path.into())?,
        None if Path::new(DIR).is_dir() => Path::new(DIR).join(NAME),
        None => std::env::temp_dir().join(NAME),
    };
    machine_at(&path)
}

/// Refuse a directory, which the user may not want to remove.
fn named_file(path: PathBuf) -> Result<PathBuf> {
    if path.is_dir() {
        let path = path.display();
        bail!("{MACHINE_ENV}={path} is a directory: set it to the path of a file");
    }
    Ok(path)
}

fn machine_at(path: &Path) -> Result<File> {
    let file = open(path).with_context(|| {
        format!(
            "{} can't be opened: it is the lock that lets one run measure at a time; remove it if no run is using it",
            path.display()
        )
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "another run is measuring on this machine ({}): two at once would disturb each other's times; wait until it ends",
            holder(&file, path)
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} can't be locked", path.display()))
        }
    }
}

/// Lock a run's directory for as long as the returned file is open. An error where another process
/// writes into it.
pub fn lock_run(dir: &Path) -> Result<File> {
    let file = File::open(dir).with_context(|| format!("{} can't be opened", dir.display()))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => bail!(
            "another process is writing this run ({}): wait for it, or end it",
            holder(&file, dir)
        ),
        // Some network file systems have no locks; the machine's lock remains.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Open a file that may belong to another user, in a directory where everybody may write: symbolic
/// links are not followed, nothing is written, and a new file is made readable for all users.
fn open(path: &Path) -> Result<File> {
    // No O_CREAT: the kernel refuses it for another user's file in a sticky directory
    // (fs.protected_regular). O_NONBLOCK: opening a pipe must not wait for a writer.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let there = || OpenOptions::new().read(true).custom_flags(flags).open(path);
    let made = || -> std::io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).open(path)?;
        file.set_permissions(PermissionsExt::from_mode(0o644))?;
        Ok(file)
    };
    let file = match there() {
        Err(error) if error.kind() == ErrorKind::NotFound => match made() {
            // Another process created it in the meantime.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => there()?,
            made => made?,
        },
        there => there?,
    };
    if !file.metadata()?.is_file() {
        bail!("it is no plain file");
    }
    Ok(file)
}

/// Describe who holds a lock: the process, where the kernel tells its id.
fn holder(file: &File, path: &Path) -> String {
    let path = path.display();
    let pid = file.metadata().ok().and_then(|data| {
        let id = (libc::major(data.dev()), libc::minor(data.dev()), data.ino());
        pid_of(&std::fs::read_to_string("/proc/locks").ok()?, id)
    });
    match pid {
        Some(pid) => format!("process {pid} holds {path}"),
        None => format!("{path} is locked"),
    }
}

/// Find in /proc/locks the process that holds the flock on a file, which is given by its device's
/// major and minor number and its inode. A line reads
/// `1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF`.
fn pid_of(locks: &str, (major, minor, inode): (u32, u32, u64)) -> Option<u32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let mut holders = locks.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, of, ..] = words[..] else {
            return None;
        };
        // An id of 0 or less is a process of another container.
        (of == file).then(|| pid.parse().ok().filter(|&pid| pid > 0))?
    });
    holders.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message with which a second lock was refused, which must be one line.
    fn refused(held: Result<File>) -> String {
        let why = held.expect_err("it is held").to_string();
        assert!(!why.contains('\n'), "{why}");
        why
    }

    #[test]
    fn a_machine_is_held_once_and_then_free_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = machine_at(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "every user may open it");
        let why = refused(machine_at(&path));
        assert!(why.contains("another run is measuring"), "{why}");
        drop(first);
        drop(machine_at(&path).unwrap());
        // A file of another user can't be written, and needn't be.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
        machine_at(&path).unwrap();
    }

    #[test]
    fn what_somebody_planted_is_no_lock_and_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (link, victim) = (dir.path().join("link"), dir.path().join("victim"));
        std::fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let dangling = dir.path().join("dangling");
        std::os::unix::fs::symlink(dir.path().join("new"), &dangling).unwrap();
        for planted in [&link, &dangling, &dir.path().to_owned()] {
            let why = format!("{:#}", machine_at(planted).unwrap_err());
            assert!(why.contains("can't be opened"), "{why}");
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn a_directory_is_not_to_be_removed_for_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let why = named_file(dir.path().into()).unwrap_err().to_string();
        assert!(why.contains("is a directory: set it to"), "{why}");
        let file = dir.path().join("lock");
        assert_eq!(named_file(file.clone()).unwrap(), file);
    }

    #[test]
    fn a_run_is_written_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock_run(dir.path()).unwrap();
        let why = refused(lock_run(dir.path()));
        assert!(why.contains("another process is writing this run"), "{why}");
        drop(first);
        lock_run(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_kernel_says_who_holds_it() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:12 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 708 08:01:12 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 9 08:01:13 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 0 fd:1a:13 0 EOF\n";
        assert_eq!(pid_of(locks, (8, 1, 12)), Some(708));
        assert_eq!(pid_of(locks, (8, 1, 13)), None, "it only waits");
        assert_eq!(pid_of(locks, (0xfd, 0x1a, 13)), None, "of elsewhere");
    }
}
