//! Opens an earlier run again, to finish it or to start its programs.

use super::opening::title;
use super::{Opened, building, until};
use anyhow::{Result, bail};
use base::exclusive;
use base::repo::Repo;
use harness::devices::Named;
use harness::micro;
use harness::programs::Programs;
use harness::prompts::Prompts;
use harness::run::pending;
use harness::verify::goldens;
use provision::provenance::binaries;
use runs::shard;
use schema::registry::Registry;
use schema::run::{Run, RunHeader};
use schema::run_files::RunFiles;
use std::path::Path;
use watch::Control;
use watch::event::Event;
use watch::log::Beside;

/// Tell whether nothing of a run is left to measure, so that another build of a program changes
/// none of its times.
fn is_measured(run: &Run) -> bool {
    let plan = &run.header.plan;
    let logs = [&run.launches[..], &run.twins[..]].concat();
    let ours = |block| run.header.origin.has(block);
    let adds_blocks = until::allowed(&run.header).is_some();
    pending::of_run(run, &logs).is_empty()
        && !adds_blocks
        && micro::expected_s(plan, &run.micro, ours) == 0.0
}

/// Refuse to continue a run with programs other than those that it was begun with.
fn refuse_other_programs(header: &RunHeader, programs: &Programs) -> Result<()> {
    let then = &header.provenance.binaries;
    for (target, sha256) in binaries(&header.plan, programs)? {
        if then.get(&target).is_some_and(|then| *then != sha256) {
            let revision = header.provenance.git_revision.as_deref();
            bail!(
                "{target}: its program is not the one that run {} began with; go back to revision {} to resume it, or start a new run",
                header.id,
                revision.unwrap_or("(unknown)")
            );
        }
    }
    Ok(())
}

/// The purpose for which an earlier run is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Finish what is left of it.
    Finish,
    /// Only start its programs, even if something is left to measure.
    Start,
}

/// Open an earlier run. Fail where continuing it would mix other programs, prompts or files into
/// it.
pub(crate) fn reopen(
    repo: &Repo,
    registry: &Registry,
    run_dir: &Path,
    purpose: Purpose,
    control: Control,
) -> Result<Opened> {
    let files = RunFiles::open(run_dir)?;
    if files.is_packed() {
        let dir = run_dir.display();
        bail!("{dir} is published, and a published run never changes: start a new one");
    }
    let held = exclusive::lock_run(run_dir)?;
    let log = Beside::new(run_dir);
    let run = Run::read(&files)?;
    let is_only_judged = purpose == Purpose::Finish && is_measured(&run);
    let header = run.header;
    shard::refuse_merged(&header)?;
    let named = Named::new(&header.argv);
    watch::emit(Event::Title(title(&header.plan)));
    let programs = building::programs(repo, registry, &header.plan, None, &named)?;
    if !is_only_judged {
        refuse_other_programs(&header, &programs)?;
    }
    let seed = header.plan.seed_of_prompts();
    let prompts = Prompts::new(&repo.model_dir(&header.plan.model), seed)?;
    if header
        .provenance
        .facts
        .get("prompts_sha256")
        .is_some_and(|then| *then != prompts.sha256())
    {
        bail!(
            "run {} had other prompts: the tokenizer or the text changed; start a new run",
            header.id
        );
    }
    goldens::ensure_as_recorded(repo, registry, &programs, &header)?;
    Ok(Opened {
        run_dir: run_dir.to_owned(),
        header,
        programs,
        prompts,
        control,
        _held: held,
        _log: log,
    })
}
