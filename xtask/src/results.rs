//! Runs on disk: finding one by name.

use crate::names::{Kind, UnknownName};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// The directory of a run: by id, by path, or `latest`.
pub fn find(results_dir: &Path, run: &str) -> Result<PathBuf> {
    let ids = ids(results_dir);
    if run == "latest" {
        let Some(id) = ids.last() else {
            bail!(
                "there is no latest run: {} holds no run: make one with `cargo xtask bench-all`",
                results_dir.display()
            )
        };
        return Ok(results_dir.join(id));
    }
    if ids.iter().any(|id| id == run) {
        return Ok(results_dir.join(run));
    }
    let path = Path::new(run);
    if path.join("run.json").is_file() {
        return Ok(path.to_owned());
    }
    // The newest first: where none is near, they are the ones that are said.
    let known = ids.into_iter().rev().collect();
    let list = format!("cargo xtask list runs --out {}", results_dir.display());
    Err(UnknownName::new(Kind::Run, run, known)
        .listed_by(list)
        .into())
}

/// Ids of all runs, oldest first (an id begins with its time).
pub fn ids(results_dir: &Path) -> Vec<String> {
    let mut ids: Vec<String> = std::fs::read_dir(results_dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.path().join("run.json").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    ids.sort();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_run_is_no_first_look() {
        let dir = tempfile::tempdir().unwrap();
        let look = format!(
            "{}/20990101-000000-first-look-1a2b",
            crate::bench::FIRST_LOOK_DIR
        );
        for id in [
            "20260101-000000-cpu-1a2b",
            "20260102-000000-cpu-1a2b",
            &look,
        ] {
            std::fs::create_dir_all(dir.path().join(id)).unwrap();
            std::fs::write(dir.path().join(id).join("run.json"), "{}").unwrap();
        }
        assert_eq!(ids(dir.path()).len(), 2);
        let latest = find(dir.path(), "latest").unwrap();
        assert!(latest.ends_with("20260102-000000-cpu-1a2b"));
        // It is found by its path.
        let path = dir.path().join(&look);
        assert_eq!(find(dir.path(), path.to_str().unwrap()).unwrap(), path);
    }
}
