//! Removes libraries that CMake made with another compiler, with other flags or for another CPU.
//! Cargo checks none of these, so a library would stay as it was after Clang has been installed, or
//! on a machine with a new processor.

use base::files::write_whole;
use std::io;
use std::path::Path;

/// Remove what CMake left in `release`, in a target directory, unless it was `made_by` the same.
/// Cargo then makes it again. The new `made_by` is noted in a file.
///
/// # Errors
/// Where something can't be removed or written.
pub fn remove(release: &Path, made_by: &str) -> io::Result<()> {
    let note = release.join(".made-by");
    if std::fs::read_to_string(&note).is_ok_and(|before| before == made_by) {
        return Ok(());
    }
    let packages = release.join("build");
    std::fs::create_dir_all(&packages)?;
    for package in std::fs::read_dir(packages)? {
        let package = package?;
        if package.path().join("out/build/CMakeCache.txt").exists() {
            std::fs::remove_dir_all(package.path())?;
            let fingerprint = release.join(".fingerprint").join(package.file_name());
            if fingerprint.exists() {
                std::fs::remove_dir_all(fingerprint)?;
            }
        }
    }
    write_whole(&note, made_by).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cmake_made_goes_when_the_compiler_changes() {
        let dir = tempfile::tempdir().unwrap();
        let release = dir.path();
        let make = || {
            for path in [
                "build/with-1/out/build",
                "build/without-2/out",
                ".fingerprint/with-1",
            ] {
                std::fs::create_dir_all(release.join(path)).unwrap();
            }
            std::fs::write(release.join("build/with-1/out/build/CMakeCache.txt"), "").unwrap();
        };
        let has = |path: &str| release.join(path).exists();
        make();
        remove(release, "one").unwrap();
        assert!(!has("build/with-1"), "it isn't known what made it");
        make();
        remove(release, "one").unwrap();
        assert!(has("build/with-1") && has(".fingerprint/with-1"));
        remove(release, "two").unwrap();
        assert!(!has("build/with-1") && !has(".fingerprint/with-1"));
        assert!(has("build/without-2/out"), "CMake had no part in it");
    }
}
