//! `cargo xtask trace`: traces the kernels of a recorded run's targets again.

use crate::job::{Purpose, reopen};
use anyhow::Result;
use base::names::{self, UnknownName};
use base::repo::Repo;
use base::{exclusive, exit_code};
use harness::run::trace::{here, targets};
use schema::run::Run;
use std::path::Path;
use std::process::ExitCode;
use watch::Control;

/// Trace the targets of the named engines, or all. Exit status 3 where one could not be traced.
pub fn command(repo: &Repo, run_dir: &Path, engines: &[String]) -> Result<ExitCode> {
    // Names are checked before anything is built.
    let run = Run::load(run_dir)?;
    names::check_engines(engines, &run.header.plan.targets).map_err(UnknownName::in_that_run)?;
    let _only_one = exclusive::lock_machine()?;
    if let Err(why) = here().and_then(|()| targets(&run.header.plan, &run.verify, engines)) {
        println!("No kernels traced: {why}");
        return Ok(ExitCode::SUCCESS);
    }
    let opened = reopen(
        repo,
        &repo.registry()?,
        run_dir,
        Purpose::Start,
        Control::default(),
    )?;
    let traced = opened.trace(repo, &run, engines, true)?;
    Ok(exit_code(traced, 3))
}
