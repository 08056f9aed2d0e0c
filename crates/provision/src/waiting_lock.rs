//! A lock that a process waits for, so that two processes don't write the same files. It is the
//! kernel's (flock(2)) and ends with the process.
//!
//! Where a file system has no locks, it excludes nobody: working unguarded is better than refusing
//! to work.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// Hold the lock at `path`, which is made with its directory, for as long as the returned file is
/// open. `say` is called before waiting for another process.
pub(crate) fn hold(path: &Path, say: impl FnOnce()) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let file = File::create(path)?;
    if is_held(&file.try_lock()) {
        say();
        file.lock()?;
    }
    Ok(file)
}

/// Whether another process holds a lock, by what trying to take it returned.
fn is_held(tried: &Result<(), TryLockError>) -> bool {
    matches!(tried, Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_held_lock_is_waited_for() {
        let without_locks = io::Error::from(io::ErrorKind::Unsupported);
        assert!(!is_held(&Err(TryLockError::Error(without_locks))));
        assert!(is_held(&Err(TryLockError::WouldBlock)));
        assert!(!is_held(&Ok(())));
    }
}
