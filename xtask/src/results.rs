//! Runs on disk: finding one by name, loading them all, and the short summary
//! that a run ends with.

use crate::repo::Repo;
use anyhow::{Result, bail};
use schema::record::Status;
use schema::run::Run;
use std::path::{Path, PathBuf};

/// The directory of a run: by id, by path, or `latest`.
pub fn find(results_dir: &Path, run: &str) -> Result<PathBuf> {
    let ids = ids(results_dir);
    let known = || match ids.as_slice() {
        [] => format!(
            "{} holds no run: make one with `cargo xtask bench-all`",
            results_dir.display()
        ),
        ids => format!("{} holds {}", results_dir.display(), ids.join(", ")),
    };
    if run == "latest" {
        let Some(id) = ids.last() else {
            bail!("there is no latest run: {}", known())
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
    bail!("no run {run:?}: {}", known())
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

/// Say what became of the cells; whether any failed by an engine's own doing.
pub fn print_summary(repo: &Repo, run: &Run) -> Result<bool> {
    let registry = repo.registry()?;
    let baseline = registry.baseline_of(&run.header.plan.targets);
    let mut cells = stats::analyse::analyse(run, &repo.scenarios()?, baseline).cells;
    let suites = stats::micro::analyse(run).into_iter();
    cells.extend(suites.flat_map(|suite| suite.cells));
    let ok = cells.iter().filter(|c| c.status == Status::Ok).count();
    println!("{ok} of {} cells measured", cells.len());
    let mut failed = false;
    let mut last = None;
    for cell in cells.iter().filter(|cell| cell.status != Status::Ok) {
        let fault = !matches!(
            cell.status,
            Status::Unavailable | Status::Unsupported | Status::OverBudget
        );
        failed |= fault;
        let key = (&cell.target, cell.status, &cell.reason);
        if last != Some(key) {
            println!(
                "  {} · {}/{}: {}: {}",
                cell.target,
                cell.scenario,
                cell.case,
                cell.status.id(),
                cell.reason
            );
        }
        last = Some(key);
    }
    Ok(failed)
}
