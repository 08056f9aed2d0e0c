//! Free space on a file system, and sizes in words. It only reads, and reserves nothing.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes an unprivileged process may still write on the file system that `path`
/// is, or would be, on; `None` where that can't be read.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|dir| dir.exists())?;
    let c_path = CString::new(existing.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zeroes is a valid statvfs.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `c_path` is nul-terminated and `stat` is writable.
    let failed = unsafe { libc::statvfs(c_path.as_ptr(), &mut stat) } != 0;
    (!failed).then(|| (stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64))
}

/// Where `needed` bytes don't fit into what is free at `path`: both, in words.
pub fn shortage(path: &Path, needed: u64) -> Option<(String, String)> {
    let free = free_bytes(path).filter(|free| *free < needed)?;
    Some((human_bytes(needed), human_bytes(free)))
}

/// Format bytes with one decimal in the unit that fits: `2.5 GB`.
pub fn human_bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// Format an approximate number of megabytes: `117 MB`, `3.8 GB`.
pub fn about_size(megabytes: u64) -> String {
    match megabytes {
        0..1000 => format!("{megabytes} MB"),
        _ => human_bytes(megabytes * 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_of_a_directory_not_made_yet_is_its_parents() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_bytes(&dir.path().join("not/yet/there")).unwrap() > 0);
    }

    #[test]
    fn bytes_for_people() {
        assert_eq!(human_bytes(999), "999 B");
        assert_eq!(human_bytes(2_500_000_000), "2.5 GB");
        assert_eq!([117, 3800].map(about_size), ["117 MB", "3.8 GB"]);
    }
}
