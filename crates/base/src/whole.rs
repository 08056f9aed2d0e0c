//! Files that are written at once are there whole or not at all, whatever happens to the disk
//! or the power meanwhile: nobody who reads one later meets half of it.
//!
//! Files that grow line by line are `appender`'s.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Write a value as JSON; see [`write_whole`].
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    write_whole(path, serde_json::to_string_pretty(value)? + "\n")
}

/// Write a file, or replace one. Where that fails the old one stays, or none.
pub fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            // As any file's: less what the user's umask takes.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(dir)?;
        file.write_all(content.as_ref())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)
    };
    write()
        .map(drop)
        .with_context(|| format!("{} can't be written", path.display()))
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
        // It can't be replaced by a file, which is found out last of all.
        let path = dir.path().join("a.json");
        std::fs::create_dir(&path).unwrap();
        let error = format!("{:#}", write_json(&path, &[1]).unwrap_err());
        assert!(error.contains("a.json can't be written: "), "{error}");
        assert!(path.is_dir());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
