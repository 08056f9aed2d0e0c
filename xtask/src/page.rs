//! `cargo xtask site`: records → `target/site`. The pages themselves are the
//! `site` crate's; here is only which runs go in.

use crate::repo::Repo;
use crate::results;
use anyhow::{Result, bail};
use schema::run::Run;
use schema::simulation::Simulation;
use std::path::{Path, PathBuf};

/// Render the site of the runs in `results_dir`, the chosen one first: `run`, or
/// else the newest that may be published, or else the newest.
pub fn site(repo: &Repo, results_dir: &Path, run: Option<&str>) -> Result<PathBuf> {
    let first = match run {
        Some(run) => Run::load(&results::find(results_dir, run)?)?,
        None => {
            let runs = load_all(results_dir, None);
            let publishable = runs
                .iter()
                .position(|run| run.header.plan.publishable)
                .unwrap_or(0);
            match runs.into_iter().nth(publishable) {
                Some(run) => run,
                None => bail!(
                    "{} holds no run to show: make one with `cargo xtask bench-all`",
                    results_dir.display()
                ),
            }
        }
    };
    render_with(repo, results_dir, first)
}

/// Render with `first` shown; the path of the index page.
pub fn render_with(repo: &Repo, results_dir: &Path, first: Run) -> Result<PathBuf> {
    let others = load_all(results_dir, Some(&first.header.id));
    let runs: Vec<Run> = std::iter::once(first).chain(others).collect();
    let (scenarios, registry, models) = (repo.scenarios()?, repo.registry()?, repo.models()?);
    let suites = repo.suites()?;
    let (profiles, parity) = (repo.profiles()?, repo.parity_limits()?);
    let path = repo.simulation_path();
    let simulation = path.exists().then(|| Simulation::load(&path)).transpose()?;
    let input = site::Input {
        runs: &runs,
        scenarios: &scenarios,
        suites: &suites,
        registry: &registry,
        models: &models,
        profiles: &profiles,
        parity: Some(&parity),
        simulation: simulation.as_ref(),
    };
    let dir = repo.site_dir();
    site::write(&site::render(&input)?, &dir)?;
    Ok(dir.join("index.html"))
}

/// All runs that can be loaded, newest first, but `except`. One that can't is
/// named and left out: an old record must not keep a new one from being shown.
fn load_all(results_dir: &Path, except: Option<&str>) -> Vec<Run> {
    let mut runs = Vec::new();
    for id in results::ids(results_dir)
        .into_iter()
        .rev()
        .filter(|id| except != Some(id))
    {
        match Run::load(&results_dir.join(&id)) {
            Ok(run) if run.header.origin.shard.is_some() => {
                eprintln!("left out of the report: {id} is a shard; merge it with the others");
            }
            Ok(run) => runs.push(run),
            Err(error) => eprintln!("left out of the report: {error}"),
        }
    }
    runs
}
