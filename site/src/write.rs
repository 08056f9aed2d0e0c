//! Writes the pages to a directory: the last step, and the only one that touches the disk.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Replace the directory `dir` by exactly these pages.
///
/// The pages are first written beside it and then swapped in as a whole, so that a reader never
/// sees half a site and no page of an earlier site stays behind. `dir` must not exist, be empty, or
/// hold a site: a directory with other contents is an error and stays unchanged.
pub fn write(pages: &BTreeMap<String, Vec<u8>>, dir: &Path) -> Result<()> {
    for path in pages.keys() {
        check_inside(path)?;
    }
    if dir.exists() && !replaceable(dir)? {
        bail!(
            "{} has no index.html and is not empty, so it is no site of ours: name another directory or empty it",
            dir.display()
        );
    }
    let fresh = beside(dir, "new")?;
    let old = beside(dir, "old")?;
    remove(&fresh)?;
    remove(&old)?;
    for (path, bytes) in pages {
        let path = fresh.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        }
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    if dir.exists() {
        fs::rename(dir, &old).with_context(|| format!("moving {} aside", dir.display()))?;
    }
    fs::rename(&fresh, dir).with_context(|| format!("moving the site to {}", dir.display()))?;
    remove(&old)
}

/// Remove a directory if it exists.
fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    Ok(())
}

/// Refuse a path that would leave the directory.
fn check_inside(path: &str) -> Result<()> {
    let inside = !path.is_empty()
        && !path.contains('\\')
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
    if !inside {
        bail!("page path {path:?} would leave the site's directory");
    }
    Ok(())
}

fn replaceable(dir: &Path) -> Result<bool> {
    let mut entries = fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))?;
    Ok(entries.next().is_none() || dir.join("index.html").is_file())
}

/// The path of a hidden sibling of `dir`, on the same file system.
fn beside(dir: &Path, suffix: &str) -> Result<PathBuf> {
    let name = dir
        .file_name()
        .with_context(|| format!("{} is no directory to write to", dir.display()))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    hidden.push(suffix);
    Ok(dir.with_file_name(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(names: &[&str]) -> BTreeMap<String, Vec<u8>> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), name.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn a_second_write_leaves_nothing_of_the_first() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/site");
        write(&pages(&["index.html", "run/old.html"]), &dir).unwrap();
        assert_eq!(fs::read(dir.join("run/old.html")).unwrap(), b"run/old.html");
        write(&pages(&["index.html", "run/new.html"]), &dir).unwrap();
        assert!(dir.join("run/new.html").is_file() && !dir.join("run/old.html").exists());
        let beside = fs::read_dir(root.path().join("a")).unwrap().count();
        assert_eq!(beside, 1, "no temporary directory stays");
    }

    #[test]
    fn paths_that_leave_the_directory_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("site");
        for path in ["../x", "/etc/x", "a/../../x", "", "a\\..\\x"] {
            assert!(write(&pages(&[path]), &dir).is_err(), "{path}");
        }
        assert!(!dir.exists());
    }

    #[test]
    fn a_directory_that_is_no_site_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("thesis.txt"), "mine").unwrap();
        assert!(write(&pages(&["index.html"]), root.path()).is_err());
        assert!(root.path().join("thesis.txt").is_file());
    }
}
